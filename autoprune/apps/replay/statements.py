"""Find what an agent states: in its answer, in texts that it writes, and as keys in its calls.

A *statement* is the text of an answer, and each text that a call of the answer carries: the content of a file that is
written whole, a here-document that no interpreter runs, a patch's new file, and any other argument of five words or
more that is not a command, search or edit. From the statements and calls come atoms of three kinds:

    fact     a value (see `stated_values`), a name (two capitalized words or more in a row: "Ilse Weber"), or a run of
             6 characters in a script without spaces (8 with Japanese syllables, 16 in Thai, Lao, Khmer and Burmese)
    quote    a quoted span or a quoted line of Markdown of three words and 16 letters or more, or of 6 characters of a
             script without spaces; an error message is an atom of another kind
    row      a value in any other argument of a call: the key of a row that an earlier result listed

They count only if they are scarce: see `evidence`.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from autoprune.apps.replay.atoms import (
    NEW_TEXTS,
    OLD_TEXTS,
    PATH_WORD,
    SEARCHED,
    Atom,
    Kind,
    hunks,
    is_patch,
    leaves,
    quoted_errors,
)
from autoprune.apps.replay.shell_edits import parse_script
from autoprune.apps.replay.stated_values import KANA, LEAST_RUN, THAI, UNSPACED, normalize, squeeze, values_in
from autoprune.conversation.transcript import ToolCall
from autoprune.facts.calls import COMMAND_ID_NAMES, COMMAND_NAMES, arguments, command, paths
from autoprune.facts.calls import IDENTIFIER as CODE_NAME
from autoprune.facts.calls import identifiers as code_names

LEAST_WORDS = 5  # of an argument that is a text
LEAST_QUOTED_WORDS = 3  # shorter quotes match by chance
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
        stated += (atom for atom in _text_atoms(normalize(text[:LONGEST]), is_shown) if atom.text not in rows)
    return tuple(dict.fromkeys(stated))


# Statements


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


def _text_atoms(text: str, is_shown: IsShown) -> Iterator[Atom]:
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
        enough = len(letters) >= LEAST_QUOTED and len(part.split()) >= LEAST_QUOTED_WORDS
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
        for name in code_names(bare):
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
                text = CODE_NAME.sub(lambda match: "" if code_names(match[0]) else match[0], text)
            yield text


def _may_be_key(name: str, text: str) -> bool:
    if name in NEW_TEXTS or name in OLD_TEXTS or name in COMMAND_NAMES or name in COMMAND_ID_NAMES:
        return False
    if is_patch(text) or is_text(name, text):
        return False
    return not MEASURES.search(INNER_CAPITAL.sub("_", name).lower().replace("-", "_"))
