"""Find the atoms of an action: texts, names and values in a model's answer that it must have read somewhere.

An *atom* is one of

    edit         the old text of an edit, or the context and removed lines of a patch's hunk, of 8 characters or more
    path         a file's path, in an argument named for it, in a patch's header, or as a word of a shell command
    identifier   a name of code in a shell command, or in a search pattern
    code         a name of code in text that the call writes
    error        an error message that the model quotes in its answer
    shell edit   the old text of an edit by a shell command, or else the name of the file (see `shell_edits`)
    fact         a value that the model states (see `stated_values`), a name (two capitalized words or more in a row:
                 "Ilse Weber"), or a run of 6 characters in a script without spaces (8 with Japanese syllables, 16 in
                 Thai, Lao, Khmer and Burmese)
    quote        a quoted span or a quoted line of Markdown of three words and 16 letters or more, or of 6 characters of
                 a script without spaces; an error message is an atom of another kind
    row          a value in any other argument of a call: the key of a row that an earlier result listed

A *name of code* is a word of at least 7 characters with an underscore or a capital letter inside. Facts and quotes are
in *statements*: the text of an answer, and each text that its calls carry. Such texts are the content of a file that is
written whole, a here-document that no interpreter runs, a patch's new file, and any other argument of five words or
more that is not a command, search or edit. Facts, quotes and rows count only if they are scarce: see `evidence`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoprune.apps.replay.shell_edits import LEAST_PATH, is_long, parse_script, shell_edits
from autoprune.apps.replay.stated_values import KANA, LEAST_RUN, THAI, UNSPACED, normalize, squeeze, values_in
from autoprune.conversation.transcript import ToolCall
from autoprune.facts.calls import COMMAND_ID_NAMES, COMMAND_NAMES, IDENTIFIER, arguments, command, identifiers, paths

DEEPEST = 6  # levels of nested lists and objects in arguments that are searched

# Argument names of agents' edit tools: the text that an edit replaces, and the text that it writes.
OLD_TEXTS = frozenset(("old_string", "old_str", "oldText", "old_text", "oldString"))
NEW_TEXTS = frozenset(
    (
        *("new_string", "new_str", "newText", "new_text", "newString", "content", "file_text", "new_source"),
        *("insert_text", "replace", "code", "contents", "insert_line_text"),
    )
)
SEARCHED = frozenset(("pattern", "query", "regex"))  # arguments of search tools
NOTHING: Mapping[object, object] = {}
PATCHES = frozenset(("input", "patch", "patchText", "patch_text", "diff"))  # arguments that may hold a patch

PATH_WORD = re.compile(r"(?<![\w.:/@~+${}-])[\w.~@+-]*(?:/[\w.@+-]+)+(?![\w/])")
HUNK = re.compile(r"^@@.*$|^\*\*\* .*$|^(?:---|\+\+\+) .*$|^diff --git .*$|^index [0-9a-f]+\.\..*$", re.MULTILINE)
BLOCK = re.compile(  # lines up to the mark that ends them; possessive, so that a missing mark costs no backtracking
    r"^[-<]{5,} ?SEARCH>?\n((?:(?!={5,}$|[-<]{5,} ?SEARCH).*\n)*+)={5,}\n"
    r"((?:(?![+>]{5,} ?REPLACE|[-<]{5,} ?SEARCH).*\n)*+)[+>]{5,} ?REPLACE",
    re.MULTILINE,
)
LONG_QUOTED = re.compile(r"`([^`\n]{24,})`|\"([^\"\n]{24,})\"|“([^”\n]{24,2000}+)”")
ERROR_WORDS = re.compile(
    r"error|exception|fail|cannot|can't|could not|couldn't|unable|undefined|unexpected|invalid|not found|no such|denied"
    r"|missing|panic|traceback|refused|timed? ?out|expected|fatal",
    re.IGNORECASE,
)


class Kind(StrEnum):
    """Kinds of atoms."""

    EDIT = "edit"
    PATH = "path"
    IDENTIFIER = "identifier"
    CODE = "code"
    ERROR = "error"
    SHELL_EDIT = "shell edit"
    FACT = "fact"
    QUOTE = "quote"
    ROW = "row"


class AtomGroup(StrEnum):
    """Kinds of atoms that are counted together."""

    CODE = "code"
    EDITS = "edits"
    SHELL_EDITS = "shell edits"
    FACTS = "facts"


PATHS = "paths"  # a group of its own, by which no strategy is judged: agents know the paths that they work with
GROUPS: Mapping[AtomGroup, frozenset[Kind]] = {
    AtomGroup.CODE: frozenset((Kind.EDIT, Kind.IDENTIFIER, Kind.CODE, Kind.ERROR)),
    AtomGroup.EDITS: frozenset((Kind.EDIT,)),
    AtomGroup.SHELL_EDITS: frozenset((Kind.SHELL_EDIT,)),
    AtomGroup.FACTS: frozenset((Kind.FACT, Kind.QUOTE, Kind.ROW)),
}


# Kinds of statements, which count only if they are scarce.
STATED = GROUPS[AtomGroup.FACTS]
# Kinds for which an agent would fetch a result again. It can repeat what a document says without a literal quote, and
# in no recorded session was a cleared path fetched again.
FETCHED = frozenset(Kind) - {Kind.QUOTE, Kind.PATH}


@dataclass(frozen=True, slots=True)
class Atom:
    """A text that a model must have read, since it cannot have invented it."""

    kind: Kind
    text: str


def atoms(calls: Sequence[ToolCall], words: str = "") -> tuple[Atom, ...]:
    """Find the distinct atoms of an action: those of its calls, and errors that its `words` quote."""
    collected = [atom for call in calls for atom in _call_atoms(call)]
    collected += (Atom(Kind.ERROR, quote) for quote in quoted_errors(words))
    return tuple(dict.fromkeys(collected))


def _call_atoms(call: ToolCall) -> Iterator[Atom]:
    call_arguments: object = arguments(call)
    if not call_arguments and isinstance(call.arguments, str):
        call_arguments = {"input": call.arguments}  # a tool that takes free text, such as a patch
    yield from (Atom(Kind.PATH, path) for path in paths(call) if len(path) >= LEAST_PATH)
    for name, text, beside in leaves(call_arguments):
        if isinstance(text, str):
            yield from _text_atoms(name, text, beside)
    script = command(call)
    if script and not is_patch(script):
        yield from (Atom(Kind.PATH, word) for word in path_words(script))
        yield from (Atom(Kind.IDENTIFIER, name) for name in identifiers(script))
        yield from (Atom(Kind.SHELL_EDIT, text) for text in shell_edits(script))


def leaves(
    value: object, depth: int = 0, name: str = "", beside: Mapping[object, object] = NOTHING
) -> Iterator[tuple[str, object, Mapping[object, object]]]:
    """Yield the single values in the arguments of a call, each with its name and the object that holds it."""
    if isinstance(value, Mapping) and depth <= DEEPEST:
        for field, item in value.items():
            yield from leaves(item, depth + 1, str(field), value)
    elif isinstance(value, list | tuple) and depth <= DEEPEST:
        for item in value:
            yield from leaves(item, depth + 1, name, beside)
    else:
        yield name, value, beside


def _text_atoms(name: str, text: str, beside: Mapping[object, object]) -> Iterator[Atom]:
    if name in OLD_TEXTS or (name == "search" and "replace" in beside):
        yield from _edit_atom(text)
    elif is_patch(text) and (name in PATCHES or name in ("command", "cmd")):
        for before, after in hunks(text):
            yield from _edit_atom(before)
            yield from (Atom(Kind.CODE, each) for each in identifiers(after))
    elif name in NEW_TEXTS:
        yield from (Atom(Kind.CODE, each) for each in identifiers(text))
    elif name in SEARCHED:
        yield from (Atom(Kind.IDENTIFIER, each) for each in identifiers(text))


def _edit_atom(text: str) -> Iterator[Atom]:
    if is_long(text):
        yield Atom(Kind.EDIT, text)


def path_words(script: str) -> list[str]:
    """List the words of a shell command that look like paths, without duplicates."""
    return [word for word in dict.fromkeys(PATH_WORD.findall(script)) if len(word) >= LEAST_PATH]


def is_patch(text: str) -> bool:
    """Return whether a text is a patch, in one of the formats that `hunks` reads."""
    return "*** Begin Patch" in text or "\n@@ " in text or BLOCK.search(text) is not None


def hunks(patch: str) -> Iterator[tuple[str, str]]:
    """Yield the text before and after each hunk of a patch: context with removed lines, and context with added lines.

    The formats are those of apply_patch, unified diffs, and blocks of SEARCH and REPLACE.
    """
    if blocks := BLOCK.findall(patch):
        yield from ((before.removesuffix("\n"), after.removesuffix("\n")) for before, after in blocks)
        return
    for hunk in HUNK.split(patch):
        lines = hunk.strip("\n").split("\n")
        before = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        after = "\n".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        if before or after:
            yield before, after


def quoted_errors(words: str) -> Iterator[str]:
    """Yield the quoted spans of 24 characters or more in a text that look like an error message."""
    for match in LONG_QUOTED.finditer(words):
        span = next(group for group in match.groups() if group)
        if " " in span and ERROR_WORDS.search(span):
            yield span


# Statements

LEAST_WORDS = 5  # of an argument that is a text
LEAST_LONG_QUOTED = 3  # shorter quotes match by chance
LEAST_QUOTED = 16  # letters and digits
LEAST_KEY = 5  # digits of a bare number in a command: shorter ones are lines, times and sizes
LONGEST = 200_000  # characters of a statement that are searched
WHOLE_TEXTS = frozenset(("content", "contents", "file_text", "new_source"))  # among the new texts of edits
RUN_BY = re.compile(r"(?:.*/)?(?:python[\d.]*|node|deno|bun|ruby|perl|php|bash|sh|zsh|ed|psql|sqlite3|mysql|duckdb)")
# Arguments for positions and amounts, which identify no row.
MEASURES = re.compile(
    r"(?:^|_)(?:offset|limit|lines?|timeout|max|min|start|end|count|size|page|range|ms|secs?|seconds|tokens|width|height"
    r"|depth|x|y|port|head|tail|before|after|context|length|chars|num|number_of|interval|delay|wait|budget)(?:_|$)"
)
INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

RUNS = ((re.compile(f"[{THAI}]"), 16), (re.compile(f"[{KANA}]"), 8))  # characters, of other scripts than Chinese

WORDS = re.compile(r"[^\W_]+")
TOKEN = re.compile(r"[^\W\d_](?:[^\W\d_]|-(?=[^\W\d_])|[’'](?!s(?!\w))(?=[^\W\d_]))*")
PARTICLES = frozenset(("van", "von", "der", "den", "de", "da", "di", "du", "del", "la", "le", "bin", "al", "af", "of"))
# Capitalized words at the start of a sentence or heading, which are not part of a name.
BEGINNINGS = frozenset(
    (
        *("The", "A", "An", "This", "That", "These", "Those", "In", "On", "At", "For", "By", "To", "From", "With"),
        *("And", "But", "Or", "If", "When", "As", "So", "Then", "Now", "No", "Not", "All", "Each", "My", "Our", "Your"),
        *("Add", "Fix", "Update", "Use", "Run", "Let", "See", "Der", "Die", "Das", "Le", "Les", "El", "В", "На", "По"),
    )
)
LONGEST_QUOTE = 600  # characters
# For each kind of quotation marks: the start of a span, the characters that it excludes, and its end.
MARKS = (
    *(("`", r"`\n", "`"), ('"', r'"\n', '"'), ("“", "“”", "”"), ("„", "„“”", "[“”]"), ("«", "«»", "»")),
    *(("‹", "‹›", "›"), ("「", "「」", "」"), ("『", "『』", "』"), ("《", "《》", "》")),
    *((r"(?<!\w)[‘']", r"‘’'\n", r"[’'](?!\w)"), (r"^>[ \t]?", r"\n", "$")),  # the last is a quoted line of Markdown
)
SPAN = f"{{6,{LONGEST_QUOTE}}}+"
QUOTED = re.compile("|".join(f"{begin}([^{without}]{SPAN}){end}" for begin, without, end in MARKS), re.MULTILINE)
ELLIPSIS = re.compile(r"…|\.{3}|\[…\]")
IsShown = Callable[[Atom], bool]


def stated_atoms(calls: Sequence[ToolCall], words: str, is_shown: IsShown) -> tuple[Atom, ...]:
    """Find the distinct facts, quotes and rows of an answer.

    `is_shown` tells whether an earlier result shows an atom. The reading of a statement that a result shows is
    selected: where a name begins, which number 12.345 is, and which characters of a run were copied.
    """
    rows = {atom.text: atom for call in calls for atom in _rows(call, is_shown)}
    stated = [*rows.values()]
    for text in statements(calls, words):
        stated += (atom for atom in _statement_atoms(normalize(text[:LONGEST]), is_shown) if atom.text not in rows)
    return tuple(dict.fromkeys(stated))


def statements(calls: Sequence[ToolCall], words: str) -> Iterator[str]:
    """Yield the texts in which an agent states something in an answer."""
    if words:
        yield words
    for call in calls:
        for name, value, _ in leaves(arguments(call) or {"input": call.arguments}):
            if isinstance(value, str) and is_patch(value):
                yield from (after for before, after in hunks(value) if not before)
            elif isinstance(value, str) and is_text(name, value):
                yield value
        script = command(call)
        if script and not is_patch(script):
            yield from _texts_in_script(script)


def is_text(name: str, value: str) -> bool:
    """Return whether an argument is a text that the agent writes rather than a command, search or edit."""
    if name in WHOLE_TEXTS:
        return True
    if name in NEW_TEXTS or name in OLD_TEXTS or name in SEARCHED or name in COMMAND_NAMES:
        return False
    return len(value.split()) >= LEAST_WORDS or any(len(run) >= 2 * LEAST_RUN for run in UNSPACED.findall(value))


def _texts_in_script(script: str) -> Iterator[str]:
    """Yield the here-documents of a script that no interpreter runs, and the script's long quoted words."""
    commands, heredocs = parse_script(script)
    for heredoc in heredocs:
        if not RUN_BY.fullmatch(heredoc.words[0]):
            yield heredoc.body
    for words in commands:
        if not RUN_BY.fullmatch(words[0]) and words[0] not in ("sed", "awk", "jq", "grep", "rg"):
            yield from (word for word in words if len(word.split()) >= LEAST_WORDS)


# Facts and quotes


def _statement_atoms(text: str, is_shown: IsShown) -> Iterator[Atom]:
    errors = set(quoted_errors(text))
    quotes: list[Atom] = []

    def take_quotes(match: re.Match[str]) -> str:
        """Collect the quotes of a span. Remove the span if results show them, or if it is another kind of atom."""
        span = next(filter(None, match.groups()))
        found = [] if span in errors else list(_quotes(span, is_shown))
        quotes.extend(found)
        return "\n" if span in errors or any(map(is_shown, found)) else match[0]

    text = QUOTED.sub(take_quotes, text)
    yield from quotes
    for readings in values_in(text):
        yield _likeliest(Kind.FACT, readings, is_shown)
    for name in names_in(text):
        yield _likeliest(Kind.FACT, _readings(name), is_shown)
    for run in UNSPACED.findall(text):
        yield from _run_atoms(squeeze(run), is_shown)


def _likeliest(kind: Kind, readings: Sequence[str], is_shown: IsShown) -> Atom:
    """Return the first reading that a result shows, or the first reading if no result shows any."""
    atoms = [Atom(kind, reading) for reading in readings]
    return next(filter(is_shown, atoms), atoms[0])


def _quotes(span: str, is_shown: IsShown) -> Iterator[Atom]:
    """Yield the parts of a quoted span between ellipses that are too long to match by chance."""
    for part in ELLIPSIS.split(span):
        letters = squeeze(part)
        enough = len(letters) >= LEAST_QUOTED and len(part.split()) >= LEAST_LONG_QUOTED
        if enough or sum(map(len, UNSPACED.findall(letters))) >= LEAST_RUN:
            words = " ".join(WORDS.findall(part))
            other = words[0].swapcase() + words[1:]  # quoted within another sentence
            yield _likeliest(Kind.QUOTE, (words, other), is_shown)


def names_in(text: str) -> Iterator[list[str]]:
    """Yield runs of two or more capitalized words, with particles between them: Ludwig van Beethoven."""
    name: list[str] = []
    end = -1
    for match in TOKEN.finditer(text):
        word = match[0]
        gap = text[end : match.start()]
        if name and (gap not in (" ", "\u00a0", "\n", ". ") or (gap == ". " and len(name[-1]) > 1)):
            yield from _complete_name(name)
            name = []
        if (_is_capitalized(word) and (name or word not in BEGINNINGS)) or (name and word in PARTICLES):
            name.append(word)
        elif name:
            yield from _complete_name(name)
            name = []
        end = match.end()
    yield from _complete_name(name)


def _complete_name(name: list[str]) -> Iterator[list[str]]:
    while name and name[-1] in PARTICLES:
        name = name[:-1]
    if sum(len(word) > 1 and word not in PARTICLES for word in name) >= 2:
        yield name


def _is_capitalized(word: str) -> bool:
    """Return whether a word is capitalized or an initial."""
    return word[0].isupper() and (len(word) == 1 or word[1].islower() or word[1] in "’'")


def _readings(name: Sequence[str]) -> list[str]:
    """List a name, and the name without its first or last words, which may belong to the sentence."""
    shorter = [name[1:], name[:-1], name[2:]] if len(name) > 2 else []
    return [" ".join(each) for each in (name, *shorter) if len(each) >= 2]


def _run_atoms(run: str, is_shown: IsShown) -> Iterator[Atom]:
    """Yield the pieces of a run that results show, from left to right, or the first piece if they show none."""
    size = next((size for script, size in RUNS if script.search(run)), LEAST_RUN)
    pieces = [Atom(Kind.FACT, run[at : at + size]) for at in range(len(run) - size + 1)]
    at, any_copied = 0, False
    while at < len(pieces):
        is_copied = is_shown(pieces[at])
        if is_copied:
            yield pieces[at]
        any_copied |= is_copied
        at += size if is_copied else 1
    yield from pieces[:1] if not any_copied else ()


# Rows


def _rows(call: ToolCall, is_shown: IsShown) -> Iterator[Atom]:
    """Yield the keys in the arguments of a call, except in paths, texts, edits and patches."""
    for text in _possible_keys(call):
        for readings in values_in(normalize(text)):
            yield _likeliest(Kind.ROW, readings, is_shown)
    script = command(call)
    if script and not is_patch(script):
        bare = PATH_WORD.sub(" ", script.partition("<<")[0])
        for name in identifiers(bare):
            bare = bare.replace(name, " ")
        for readings in values_in(normalize(bare)):
            if not (readings[0].isdecimal() and len(readings[0]) < LEAST_KEY):
                yield _likeliest(Kind.ROW, readings, is_shown)


def _possible_keys(call: ToolCall) -> Iterator[str]:
    known = paths(call)
    for name, value, _ in leaves(arguments(call)):
        text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        if text and _may_be_key(name, text) and text.replace("\\", "/") not in known:
            if name in SEARCHED:  # without names of code, which are atoms of another kind
                text = IDENTIFIER.sub(lambda match: "" if identifiers(match[0]) else match[0], text)
            yield text


def _may_be_key(name: str, text: str) -> bool:
    if name in NEW_TEXTS or name in OLD_TEXTS or name in COMMAND_NAMES or name in COMMAND_ID_NAMES:
        return False
    if is_patch(text) or is_text(name, text):
        return False
    return not MEASURES.search(INNER_CAPITAL.sub("_", name).lower().replace("-", "_"))
