r"""Find the old text of an edit by a shell command: the literal text that it searches for. Runs nothing.

    sed -i 's/total(1)/total(2)/' app.py             total(1)
    perl -0pi -e 's/def firstOf\(.*?\n\n//s' app.py  def firstOf(
    python - <<'EOF'                                 x = firstOf(rows)
    text = open("app.py").read().replace("x = firstOf(rows)", "x = rows[0]")
    open("app.py", "w").write(text)
    EOF
    cat > src/settings.py <<'EOF'                    settings.py

Of a regular expression, the longest piece without special characters counts. A command that does not contain 8
characters of old text counts with the name of the file that it changes: its base name, or the path if that is short.
"""

import ast
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoprune.facts.shell import HEREDOC_PLACE, edits_in_place, split_heredocs

LEAST_TEXT = 8  # characters, without whitespace; shorter texts match by chance
LEAST_PATH = 6  # characters
LEAST_NAME = 7  # characters; shorter base names match by chance, so the path is used
LONGEST = 100_000  # characters of a command that are parsed

EDITS = re.compile(r"\bg?sed\b|\bperl\b|\bruby\b|\bed\b|\bpython[\d.]*\b|<<|\btee\b")  # programs that may edit a file
ENDS = frozenset(";&|\n()")
PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
SCRIPT_NAMES = re.compile(r".*\.py")
UNKNOWN = re.compile(r"[$*?{}`]")  # a path with these is expanded by the shell
# In basic expressions these are literal, and special behind a backslash.
SWAPPED = re.compile(r"\\(?P<special>[(){}|+?])|(?P<literal>[(){}|+?])|\\.", re.DOTALL)
PATTERN_SIGN = re.compile(
    r"\[(?P<one>[^\^])\]|(?P<special>\[\^?.?[^]]*\]?|\\[^\W_]|\\[<>`'_]|^\^|\$\Z|[(){}|+?*])|\\.|.", re.DOTALL
)
CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}
# Methods of str, functions of re, and methods of Path in a Python script.
SEARCHING = frozenset(("replace", "find", "rfind", "index", "rindex", "split", "partition", "startswith"))
MATCHING = frozenset(("sub", "subn", "search", "match", "findall", "finditer", "compile"))
WRITING = frozenset(("write_text", "write_bytes"))
WRITE_MODE = re.compile(r"[wax]\+?[bt]?|r\+[bt]?")


@dataclass(frozen=True)
class Heredoc:
    """The body of a here-document, and the words of the command that reads it."""

    words: tuple[str, ...]
    body: str


def shell_edits(script: str) -> list[str]:
    """Find the distinct old texts of the edits in a shell script, or the names of the files if there are none."""
    if not EDITS.search(script):
        return []
    commands, heredocs = parse_script(script)
    runs_python = any(PYTHON.fullmatch(words[0]) for words in commands)
    texts: list[str] = []
    for words in commands:
        texts += _command_edits(words)
    for heredoc in heredocs:
        texts += _heredoc_edits(heredoc, runs_python=runs_python)
    return list(dict.fromkeys(texts))


# Commands and here-documents


def parse_script(script: str) -> tuple[list[tuple[str, ...]], list[Heredoc]]:
    """Parse a script into its commands, as words without quotes, and its here-documents.

    Parsing stops at an unclosed quote. Expansions are kept unexpanded.
    """
    script, bodies = split_heredocs(script[:LONGEST].replace("\\\n", " "))
    commands = list(_commands(script))
    # The words of a command have the numbers of its here-documents, including those in "$(cat <<EOF …)".
    places = ((words, int(at)) for words in commands for word in words for at in HEREDOC_PLACE.findall(word))
    return commands, [Heredoc(words, bodies[at]) for words, at in places if at < len(bodies)]


def _commands(script: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|\n()")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    try:
        for token in lexer:
            if token and not ENDS.issuperset(token):
                words.append(token)
            elif words and token:
                yield tuple(words)
                words = []
    except ValueError:  # unclosed quote
        return
    if words:
        yield tuple(words)


def _command_edits(words: Sequence[str]) -> Iterator[str]:
    program = words[0].rpartition("/")[2]
    rest = words[1:]
    if program in ("sudo", "time", "env", "command"):
        yield from _command_edits(rest) if rest else ()
    elif program in ("sed", "gsed", "perl", "ruby") and edits_in_place([program, *rest]):
        scripts, files, extended = _options(rest)
        yield from _texts_or_names(_patterns(scripts, extended=extended or program in ("perl", "ruby")), files)
    elif PYTHON.fullmatch(program) and "-c" in rest[:-1]:
        yield from _python_edits(rest[rest.index("-c") + 1], must_change=True)


def _heredoc_edits(heredoc: Heredoc, *, runs_python: bool) -> Iterator[str]:
    program = heredoc.words[0].rpartition("/")[2]
    into = _output_files(heredoc.words)
    if program == "ed":
        files = [word for word in heredoc.words[1:] if word[0] not in "-<"]
        yield from _texts_or_names(_patterns(heredoc.body.split("\n"), extended=False), files)
    elif PYTHON.fullmatch(program):
        yield from _python_edits(heredoc.body, must_change=True)
    elif into:
        if runs_python or any(map(SCRIPT_NAMES.fullmatch, into)):
            yield from _python_edits(heredoc.body, must_change=False)
        yield from _names(into)


def _output_files(words: Sequence[str]) -> list[str]:
    files = [word for word in words[1:] if words[0] == "tee" and word[:1] not in "-<>"]
    for at, word in enumerate(words):
        if target := re.fullmatch(r"1?>{1,2}([^&>].*)?", word):
            files += [target[1]] if target[1] else words[at + 1 : at + 2]
    return [each for each in files if not each.startswith("/dev/")]


def _options(words: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Split the arguments of sed or perl into scripts and files, and tell whether sed's option -E or -r is given."""
    scripts = [words[at + 1] for at, word in enumerate(words[:-1]) if re.fullmatch(r"-\w*e|--expression", word)]
    rest = [
        word
        for before, word in zip(("", *words), words, strict=False)
        if word[:1] not in ("", "-", "<", ">") and not re.fullmatch(r"-\w*e|--expression|[<>]", before)
    ]
    is_extended = any(re.fullmatch(r"-[a-zA-Z]*[Er][a-zA-Z]*", word) for word in words)
    return scripts or rest[:1], rest if scripts else rest[1:], is_extended


def _texts_or_names(texts: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    yield from list(filter(is_long, texts)) or _names(files)


def is_long(text: str) -> bool:
    """Return whether the old text of an edit is too long to match by chance."""
    return len("".join(text.split())) >= LEAST_TEXT


def _names(paths: Iterable[str]) -> Iterator[str]:
    return (telling_name(path) for path in paths if len(path) >= LEAST_PATH and not UNKNOWN.search(path))


def telling_name(path: str) -> str:
    """Return the base name of a file, or its path if the base name is short."""
    name = path.rstrip("/").rpartition("/")[2]
    return name if len(name) >= LEAST_NAME else path


# Regular expressions


def _patterns(scripts: Sequence[str], *, extended: bool) -> list[str]:
    """Find the longest literal piece of each pattern in the scripts of sed, ed or perl."""
    return [literal(pattern, extended=extended) for script in scripts for pattern in _search_patterns(script)]


def _search_patterns(script: str) -> Iterator[str]:
    """Yield the patterns of a script: /this/d, s/this/that/."""
    at = 0
    while at < len(script):
        sign = script[at]
        if sign in "sy" and at + 1 < len(script) and not (script[at + 1].isalnum() or script[at + 1] in " \n;}"):
            pattern, at = _read_delimited(script, at + 1)
            if at > len(script):
                return  # no closing delimiter
            _, at = _read_delimited(script, at if script[at : at + 1] in CLOSING else at - 1)
            yield pattern if sign == "s" else ""
            while at < len(script) and script[at].isalnum():
                at += 1
        elif sign == "/":
            pattern, at = _read_delimited(script, at)
            yield pattern
        elif sign in "aic" and script[at + 1 : at + 2] in ("\\", " "):
            at = (script.find("\n", at) + 1) or len(script)
        else:
            at += 1


def _read_delimited(script: str, at: int) -> tuple[str, int]:
    """Read the text between the delimiter at an offset and the next delimiter, and the offset after that."""
    opening = script[at]
    closing = CLOSING.get(opening, opening)
    start = at = at + 1
    depth = 1
    while at < len(script):
        if script[at] == "\\":
            at += 1
        elif script[at] == closing:
            depth -= 1
            if not depth:
                break
        elif script[at] == opening:
            depth += 1
        at += 1
    return script[start:at].replace(f"\\{closing}", closing), at + 1


def literal(pattern: str, *, extended: bool) -> str:
    r"""Find the longest literal piece of a regular expression.

    In basic expressions `(`, `+`, `|` and `{` are literal, in extended ones `\(` and so on. A dot without a quantifier
    counts as a literal dot, since `os.path` seldom means anything else.
    """
    if not extended:
        pattern = SWAPPED.sub(lambda each: each["special"] or "\\" * bool(each["literal"]) + each[0], pattern)
    pieces: list[str] = [""]
    for match in PATTERN_SIGN.finditer(pattern):
        sign = match[0]
        if sign in ("\\n", "\\t") or match["one"]:
            pieces[-1] += {"\\n": "\n", "\\t": "\t"}.get(sign, match["one"])
        elif match["special"]:
            # The quantified character may be absent, and a repeated dot stands for anything.
            is_loose = sign in ("*", "?", "{") or (sign == "+" and pieces[-1].endswith("."))
            pieces[-1:] = [pieces[-1][:-1] if is_loose else pieces[-1], ""]
        else:
            pieces[-1] += sign[-1]
    return max(pieces, key=lambda piece: len("".join(piece.split())))


# Python


def _python_edits(source: str, *, must_change: bool) -> Iterator[str]:
    """Yield the texts that a Python script searches for if it writes files, else the files that it `must_change`."""
    tree = _tree(source)
    if tree is None:
        return
    constants = _constants(tree)
    written = [file for node in ast.walk(tree) if (file := _written_file(node))]
    if written:
        texts = [text for node in ast.walk(tree) for text in _search_texts(node, constants)]
        files = [name for file in written for name in _strings(file, constants)]
        yield from _texts_or_names(texts, files if must_change else ())


def _tree(source: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the script
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _constants(tree: ast.AST) -> Mapping[str, list[str]]:
    """Collect the strings that are assigned to names, including those assigned by loops over lists of strings."""
    constants: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            _name_strings(node.targets[0], node.value, constants)
        elif isinstance(node, ast.For):
            for item in getattr(node.iter, "elts", ()):
                _name_strings(node.target, item, constants)
    return constants


def _name_strings(target: ast.AST, value: ast.AST, found: dict[str, list[str]]) -> None:
    if isinstance(target, ast.Name):
        found.setdefault(target.id, []).extend(_strings(value, {}))
    elif isinstance(target, ast.Tuple):
        for name, item in zip(target.elts, getattr(value, "elts", ()), strict=False):
            _name_strings(name, item, found)


def _strings(node: ast.AST, known: Mapping[str, list[str]]) -> list[str]:
    """Return the possible strings of an expression: a constant, the name of a constant, or a path of either."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name):
            return known.get(name, [])
        case ast.Call(func=ast.Name(id="Path") | ast.Attribute(attr="Path"), args=[path]):
            return _strings(path, known)
    return []


def _search_texts(node: ast.AST, known: Mapping[str, list[str]]) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in SEARCHING:
            return _strings(first, known)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[first, *_]) if name in MATCHING:
            return [literal(pattern, extended=True) for pattern in _strings(first, known)]
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
            return _strings(left, known)
    return []


def _written_file(node: ast.AST) -> ast.expr | None:
    """Return the file that an expression writes to, as it stands in the script; None if it writes to none."""
    match node:
        case ast.Call(func=ast.Attribute(value=file, attr=name)) if name in WRITING:
            return file
        case (
            ast.Call(func=ast.Attribute(value=file, attr="open"), args=[*_, ast.Constant(value=str(mode))])
            | ast.Call(func=ast.Name(id="open"), args=[file, *_, ast.Constant(value=str(mode))])
        ) if WRITE_MODE.fullmatch(mode):
            return file
    return None
