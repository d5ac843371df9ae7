"""Find the atoms of an action: texts and names in a model's calls that it must have read somewhere.

An *atom* is one of

    edit         the old text of an edit, or the context and removed lines of a patch's hunk, of 8 characters or more
    path         a file's path, in an argument named for it, in a patch's header, or as a word of a shell command
    identifier   a name in a shell command, or in a search pattern
    code         a name in text that the call writes
    error        an error message that the model quotes in its answer
    shell edit   the old text of an edit by a shell command, or else the name of the file (see `shell_edits`)
    fact, quote, row   what the model states, and the keys that it uses (see `statements`)

A *name* is a word of at least 7 characters with an underscore or a capital letter inside.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoprune.apps.replay.shell_edits import shell_edits
from autoprune.conversation.transcript import ToolCall
from autoprune.facts.calls import arguments, command, identifiers, paths

LEAST_EDIT = 8  # characters, without whitespace; shorter texts match by chance
LEAST_PATH = 6  # characters
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
QUOTED = re.compile(r"`([^`\n]{24,})`|\"([^\"\n]{24,})\"|“([^”\n]{24,2000}+)”")
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
    if len("".join(text.split())) >= LEAST_EDIT:
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
    for match in QUOTED.finditer(words):
        span = next(group for group in match.groups() if group)
        if " " in span and ERROR_WORDS.search(span):
            yield span
