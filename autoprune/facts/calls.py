"""Find what a call touches: its path, command, pattern or address. Reads arguments, runs nothing."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from autoprune.conversation.transcript import ToolCall

# Names that agents' tools give to what they touch, most telling first.
NAMES = (
    *("path", "file_path", "filepath", "filename", "file", "target_file", "absolute_path", "notebook_path", "paths"),
    *("command", "commands", "cmd", "script", "pattern", "query", "regex", "url"),
    *("directory", "dir", "input", "description"),
)
# Names of arguments that hold paths, in lower case without "_" and "-": file_path, filePath and FilePath are one.
PATH_NAMES = frozenset(
    (
        *("path", "paths", "file", "files", "filename", "filenames", "filepath", "filepaths"),  # most agents
        *("notebookpath", "planfilepath"),  # Claude Code
        *("targetfile", "relativeworkspacepath", "targetnotebook", "targetdirectories"),  # Cursor
        *("absolutepath", "directorypath", "searchpath", "searchdirectory"),  # Windsurf, Gemini CLI
        *("dirpath", "directory", "dir"),  # Gemini CLI, file tools of frameworks
        *("relativepath", "fullpath", "sourcepath", "destinationpath", "oldpath", "newpath"),  # MCP servers
        *("inputfile", "outputfile", "inputpath", "outputpath"),
    )
)
# Names of arguments that may hold a patch, written the same way.
PATCH_NAMES = frozenset(("input", "patch", "patchtext", "diff", "command", "cmd", "script"))
PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): ([^\r\n]+)", re.MULTILINE)
DIFFED = re.compile(r"^--- (?:a/)?([^\t\r\n]+)[^\n]*\n\+\+\+ (?:b/)?([^\t\r\n]+)", re.MULTILINE)
WILDCARDS = re.compile(r"(\*\*/|\*\*|\*|\?|\[[!^]?[^\]/]+\]|\{[^{}]*,[^{}]*\})")
DEEPEST = 6  # levels of lists and objects in arguments that are looked into
LONGEST_PATH = 4_096  # characters, Linux's PATH_MAX

# Files that a person wrote for agents, by what reads them; lower case, matched like the globs of `matches`.
INSTRUCTION_FILES = (
    *("agents.md", "agents.override.md", "agent.md"),  # the common standard: Codex, Copilot, Cursor, Amp and others
    *("claude.md", "claude.local.md", ".claude/rules/**/*.md"),  # Claude Code
    *("gemini.md", ".gemini/system.md"),  # Gemini CLI
    *(".cursorrules", ".cursor/rules/**"),  # Cursor
    *(".windsurfrules", ".windsurf/rules/**"),  # Windsurf
    *(".clinerules", ".clinerules/**"),  # Cline
    *(".roorules*", ".roo/rules*/**"),  # Roo Code
    *(".kilocode/rules*/**", ".kilocoderules"),  # Kilo Code
    *(".github/copilot-instructions.md", "*.instructions.md"),  # GitHub Copilot
    *("skill.md",),  # Agent Skills
    *("conventions.md",),  # aider
    *(".goosehints",),  # Goose
    *("qwen.md", "crush.md", "warp.md", "replit.md", "iflow.md"),  # Qwen Code, Crush, Warp, Replit, iFlow
    *(".junie/guidelines.md", ".aiassistant/rules/**"),  # JetBrains Junie, JetBrains AI Assistant
    *(".openhands/microagents/**", ".openhands_instructions"),  # OpenHands
    *(".trae/rules/**",),  # Trae
    *(".amazonq/rules/**", ".kiro/steering/**"),  # Amazon Q, Kiro
    *(".augment-guidelines", ".augment/rules/**"),  # Augment
    *(".continuerules", ".continue/rules/**"),  # Continue
    *(".rules",),  # Zed
    *(".idx/airules.md", ".agent/rules/**", ".agents/rules/**"),  # Firebase Studio, Antigravity
)


def arguments(call: ToolCall) -> Mapping[str, object]:
    """Return the arguments of a call as a mapping; {} where they are no JSON object."""
    known = _decoded(call.arguments) if isinstance(call.arguments, str) else call.arguments
    return known if isinstance(known, Mapping) else {}


@lru_cache(maxsize=256)
def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def target(call: ToolCall | None) -> str:
    """Return the first argument that says what a call touches, on one line; "" where none does."""
    if call is None:
        return ""
    known = arguments(call)
    for name in NAMES:
        if value := known.get(name):
            words = value if isinstance(value, list) else [value]
            return " ".join(" ".join(map(str, words)).split())
    return " ".join(call.arguments.split())[:200] if isinstance(call.arguments, str) and not known else ""


def paths(call: ToolCall) -> tuple[str, ...]:
    """Return every path in the arguments of a call, each once, in order; backslashes become slashes.

    Paths are the values of arguments that are named for them, at any level, and the files that a patch names. Words of
    a shell command are none.
    """
    if isinstance(call.arguments, str):
        return _paths_in_text(call.arguments)
    return _slashed(_inside(call.arguments, 0))


@lru_cache(maxsize=1_024)
def _paths_in_text(text: str) -> tuple[str, ...]:
    known = _decoded(text)
    return _slashed(_patched(text) if known is None else _inside(known, 0))  # some tools take a patch, and not JSON


def _slashed(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path.replace("\\", "/") for path in found))


def _inside(value: object, depth: int) -> Iterator[str]:
    """Yield the paths in an object of arguments, or in a list of them."""
    if isinstance(value, Mapping) and depth <= DEEPEST:
        for name, item in value.items():
            plain = name.replace("_", "").replace("-", "").lower() if isinstance(name, str) else ""
            if plain in PATH_NAMES or plain in PATCH_NAMES:
                yield from _named(item, _path if plain in PATH_NAMES else _patched)
            yield from _inside(item, depth + 1)
    elif isinstance(value, list | tuple) and depth <= DEEPEST:
        for item in value:
            yield from _inside(item, depth + 1)


def _named(value: object, read: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield what is read from a string, or from each string of a list."""
    for item in value if isinstance(value, list | tuple) else (value,):
        if isinstance(item, str):
            yield from read(item)


def _path(text: str) -> tuple[str, ...]:
    is_path = bool(text.strip()) and len(text) <= LONGEST_PATH and "\n" not in text
    return (text,) if is_path else ()


def _patched(text: str) -> Iterator[str]:
    """Yield the files that a patch names, in the format of apply_patch or as a unified diff."""
    start = text.find("*** Begin Patch")
    if start >= 0:
        yield from (path.rstrip() for path in PATCHED.findall(text, start))
        return
    for before, after in DIFFED.findall(text):
        yield from (path for path in (before, after) if path != "/dev/null")


def matches(path: str, globs: Iterable[str]) -> bool:
    """Return whether a path matches one of some globs. Upper and lower case differ, slashes and backslashes do not.

    `*`, `?` and `[abc]` stay within a name, `**` crosses folders, `{a,b}` is either. A glob without "/" matches the
    base name; a relative one matches the whole path or its end, so that it holds for absolute paths; one that ends in
    "/" matches all that the folder holds; an absolute one matches absolute paths.
    """
    whole = path.replace("\\", "/")
    return any(_matches(whole, glob) for glob in ((globs,) if isinstance(globs, str) else globs))


def _matches(path: str, glob: str) -> bool:
    pattern = glob.replace("\\", "/").removeprefix("./")
    # A path that is written out is itself, whatever it holds: app/[id]/page.tsx.
    if path == pattern or (pattern and path.endswith("/" + pattern)):
        return True
    return bool(pattern) and bool(_compiled(pattern).fullmatch(path))


@lru_cache(maxsize=4_096)
def is_instruction_file(path: str) -> bool:
    """Return whether a path is that of a file that tells agents how to work, such as AGENTS.md or .cursorrules."""
    return matches(path.lower(), INSTRUCTION_FILES)


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> re.Pattern[str]:
    """Return a glob as a regular expression for whole paths; one that makes no sense stands for itself."""
    whole = glob + "**" if glob.endswith("/") else glob
    try:
        return re.compile("(?:.*/)?" + _translated(whole), re.DOTALL)
    except re.error:  # a range that runs backwards: [z-a]
        return re.compile("(?:.*/)?" + re.escape(glob), re.DOTALL)


def _translated(glob: str) -> str:
    """Return the pattern of a glob; what stands between its wildcards stands for itself."""
    return "".join(map(_translated_wildcard, WILDCARDS.split(glob)))


def _translated_wildcard(word: str) -> str:
    """Return the pattern of a wildcard, or of the text between two."""
    match word:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if not WILDCARDS.fullmatch(word):
        return re.escape(word)
    if word[0] == "{":
        return f"(?:{'|'.join(map(_translated, word[1:-1].split(',')))})"
    is_negated = word[1] in "!^" and len(word) > 3
    members = re.sub(r"([\[&~|^])", r"\\\1", word[1 + is_negated : -1])
    members = members.replace("--", r"-\-")  # Python may read "--" as a set difference some day
    return f"[^/{members}]" if is_negated else f"[{members}]"
