"""Read a tool call: its arguments, paths, command, target and the identifiers in it. Runs nothing."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain

from autoprune.conversation.edits import ID, TOOL
from autoprune.conversation.transcript import ToolCall

# Arguments that say what a call touches, most telling first.
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
RECALL = re.compile(r"\bautoprune\s+recall\s+(?:\d|-)")  # with an id or an option: not a mention in a search
COMMAND_NAMES = ("command", "cmd", "commands", "script")  # arguments that hold a shell command
# Words in the names of tools whose command is a script of another kind: of a page, of an application, of a database.
NO_SHELL = frozenset(("javascript", "js", "evaluate", "applescript", "browser", "page", "puppeteer", "sql"))
SHELLS = frozenset(("bash", "shell", "powershell", "terminal"))  # outweigh them: mcp__js-sandbox__bash
# Words in front of the script if the command is a list, as Codex sends it: ["bash", "-lc", "ls"].
SHELL = re.compile(r"(?i:(?:\S*[\\/])?(?:bash|sh|zsh|pwsh|powershell)(?:\.exe)?|-command|-nologo|-noprofile)|-l?c|-l")
# Arguments with the id of a command that runs in the background: Codex, Claude Code, Copilot CLI.
COMMAND_ID_NAMES = ("session_id", "bash_id", "shell_id", "task_id", "shellId")
# Words in the names of tools that take one. Others with such arguments are about a browser's session or a task.
POLLS = SHELLS | {"stdin", "exec", "output", "process", "kill", "stop", "wait", "await", "command"}
# Arguments that may hold a patch, spelled the same way.
PATCH_NAMES = frozenset(("input", "patch", "patchtext", "diff", "command", "cmd", "script"))
PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): ([^\r\n]+)", re.MULTILINE)
DIFFED = re.compile(r"^--- (?:a/)?([^\t\r\n]+)[^\n]*\n\+\+\+ (?:b/)?([^\t\r\n]+)", re.MULTILINE)
# Words in the names of tools that plan: those that give all of a list, and others.
TODO = frozenset(("todo", "todos", "todowrite", "todoread"))
PLAN_LISTS = TODO | {"plan", "checklist"}
THINKING = frozenset(("think", "thinking", "sequentialthinking"))
TASKS = frozenset(("create", "update", "list", "get", "add", "set"))  # beside "task" in such a name
# All words in other such names: change_plan and asana_update_task are about the plans and tasks of others.
OWN = PLAN_LISTS | TASKS | {"task", "tasks", "write", "read", "exit", "enter", "mode", "respond", "manage"}
WILDCARDS = re.compile(r"(\*\*/|\*\*|\*|\?|\[[!^]?[^\]/]+\]|\{[^{}]*,[^{}]*\})")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
WORDS = re.compile(r"[a-z]+")
LEAST_IDENTIFIER = 7  # characters; shorter words are too often plain English
# ASCII only, so that an identifier is found between words of a script without spaces: 使用load_settings函数.
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w{6,}", re.ASCII)
# The letter of an escape is no part of the name after it, as in "\nOverall". In a text with Windows paths or patterns,
# where other letters follow backslashes too, nothing is an escape.
ESCAPE = re.compile(r"(?<!\\)\\++(?:u[0-9a-fA-F]{4}|[bfnrt])")
NO_ESCAPE = re.compile(r"(?<!\\)\\++[ac-eg-mo-qsv-zA-Z]")
# Access tokens of GitHub, GitLab, OpenAI, Anthropic, Slack and AWS.
SECRET = re.compile(r"\b(?:gh[oprsu]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA)[\w-]{16,}", re.ASCII)
INNER = re.compile(r".+(?:_.|[A-Z]).*")
DEEPEST = 6  # levels of lists and objects in arguments that are searched
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
    """Return the arguments of a call as a mapping; {} if they are not a JSON object."""
    decoded = _decode(call.arguments) if isinstance(call.arguments, str) else call.arguments
    return decoded if isinstance(decoded, Mapping) else {}


@lru_cache(maxsize=256)
def _decode(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def tool_words(tool: str) -> list[str]:
    """Return the words of a tool's name in lower case: `TodoWrite` and `todo_write` have the same two words."""
    return WORDS.findall(CAMEL.sub("_", tool).lower())


def target(call: ToolCall | None) -> str:
    """Return the first argument that says what a call touches, on one line; "" if no argument does."""
    if call is None:
        return ""
    values = arguments(call)
    for name in NAMES:
        if value := values.get(name):
            words = value if isinstance(value, list) else [value]
            return " ".join(" ".join(map(str, words)).split())
    return " ".join(call.arguments.split())[:200] if isinstance(call.arguments, str) and not values else ""


def paths(call: ToolCall) -> tuple[str, ...]:
    """Return the paths in the arguments of a call, each once, in order; backslashes become slashes.

    Paths are the values of arguments with a path's name, at any level, and the files that a patch names. The words of
    a shell command do not count (see `actions.shell_files`).
    """
    if isinstance(call.arguments, str):
        return _paths_in_text(call.arguments)
    return _with_slashes(_argument_paths(call.arguments, 0))


@lru_cache(maxsize=1_024)
def _paths_in_text(text: str) -> tuple[str, ...]:
    decoded = _decode(text)
    # Codex's apply_patch takes the patch itself, without JSON.
    return _with_slashes(_patch_paths(text) if decoded is None else _argument_paths(decoded, 0))


def _with_slashes(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path.replace("\\", "/") for path in found))


def _argument_paths(value: object, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            plain = name.replace("_", "").replace("-", "").lower() if isinstance(name, str) else ""
            texts = [text for text in (item if isinstance(item, list | tuple) else [item]) if isinstance(text, str)]
            if plain in PATH_NAMES:
                yield from filter(_is_path, texts)
            elif plain in PATCH_NAMES:
                yield from chain.from_iterable(map(_patch_paths, texts))
            yield from _argument_paths(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _argument_paths(item, depth + 1)


def _is_path(text: str) -> bool:
    return bool(text.strip()) and len(text) <= LONGEST_PATH and "\n" not in text


def _patch_paths(text: str) -> Iterator[str]:
    """Yield the files that a patch names, in apply_patch's format or as a unified diff."""
    start = text.find("*** Begin Patch")
    if start >= 0:
        yield from (path.rstrip() for path in PATCHED.findall(text, start))
        return
    for before, after in DIFFED.findall(text):
        yield from (path for path in (before, after) if path != "/dev/null")


def command(call: ToolCall | None) -> str:
    """Return the shell command that a call runs; "" for other calls."""
    values = arguments(call) if call else {}
    # Anthropic's text editor has an argument `command` too, such as "view", beside a path. Its shell runs no command if
    # it is to be restarted.
    if any(name in values for name in ("path", "file_path", "file_text")) or values.get("restart") is True:
        return ""
    words = tool_words(call.name) if call and values else ()
    if not NO_SHELL.isdisjoint(words) and SHELLS.isdisjoint(words):
        return ""
    script = next((value for name in COMMAND_NAMES if (value := values.get(name))), "")
    if isinstance(script, list | tuple):
        script = "\n".join(word for word in script if isinstance(word, str) and not SHELL.fullmatch(word))
    return script if isinstance(script, str) else ""


def is_recall(call: ToolCall | None) -> bool:
    """Return whether a call returns a result that was cleared: by `autoprune recall`, or by a tool named `recall`."""
    if call is None:
        return False
    if tool_words(call.name)[-1:] == [TOOL]:  # also mcp__autoprune__recall
        id = arguments(call).get("id")
        if isinstance(id, str) and ID.fullmatch(id):
            return True
    return RECALL.search(command(call)) is not None


def is_plan(call: ToolCall) -> bool:
    """Return whether a call only plans: a todo list, a task list, `update_plan`, a tool to think."""
    words = set(tool_words(call.name))
    is_list = not PLAN_LISTS.isdisjoint(words) or bool(words & {"task", "tasks"} and words & TASKS)
    return not (TODO | THINKING).isdisjoint(words) or (words <= OWN and is_list)


def argument_texts(call: ToolCall) -> str:
    """Return all texts in the arguments of a call, one after the other."""
    found: list[str] = []
    values: list[object] = [arguments(call) or call.arguments]
    while values:
        value = values.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
    return "\n".join(found)


def identifiers(text: str) -> list[str]:
    """Find identifiers (snake_case, camelCase) of 7 characters or more in a text, each once, in order.

    Access tokens are left out.
    """
    if "\\" in text and not NO_ESCAPE.search(text):
        text = ESCAPE.sub(" ", text)
    return [word for word in dict.fromkeys(IDENTIFIER.findall(SECRET.sub(" ", text))) if INNER.fullmatch(word)]


def polled_command(call: ToolCall | None) -> str:
    """Return the id of the background command that a call polls; "" for other calls."""
    values = arguments(call) if call and not POLLS.isdisjoint(tool_words(call.name)) else {}
    command_id = next((value for name in COMMAND_ID_NAMES if (value := values.get(name)) is not None), "")
    return str(command_id) if isinstance(command_id, str | int) else ""


def matches(path: str, globs: Iterable[str]) -> bool:
    """Return whether a path matches one of the globs. Case matters; slashes and backslashes are the same.

    `*`, `?` and `[abc]` stay within a name, `**` crosses folders, `{a,b}` is either. A glob without "/" matches the
    base name. A relative glob matches the whole path or its end, so it applies to absolute paths too. An absolute glob
    matches absolute paths. A glob that ends in "/" matches everything in the folder.
    """
    whole = path.replace("\\", "/")
    return any(_matches_glob(whole, glob) for glob in ((globs,) if isinstance(globs, str) else globs))


def _matches_glob(path: str, glob: str) -> bool:
    pattern = glob.replace("\\", "/").removeprefix("./")
    # A path that is written out matches itself, even with wildcards in it: app/[id]/page.tsx (Next.js).
    if path == pattern or (pattern and path.endswith("/" + pattern)):
        return True
    return bool(pattern) and bool(_compile_glob(pattern).fullmatch(path))


@lru_cache(maxsize=4_096)
def is_instruction_file(path: str) -> bool:
    """Return whether a file instructs agents, such as AGENTS.md or .cursorrules."""
    return matches(path.lower(), INSTRUCTION_FILES)


@lru_cache(maxsize=1_024)
def _compile_glob(glob: str) -> re.Pattern[str]:
    """Compile a glob to a regular expression for whole paths; an invalid glob matches itself."""
    whole = glob + "**" if glob.endswith("/") else glob
    try:
        return re.compile("(?:.*/)?" + _translate_glob(whole), re.DOTALL)
    except re.error:  # a range that runs backwards: [z-a]
        return re.compile("(?:.*/)?" + re.escape(glob), re.DOTALL)


def _translate_glob(glob: str) -> str:
    """Translate a glob to a pattern; text between wildcards is escaped."""
    return "".join(map(_translate_wildcard, WILDCARDS.split(glob)))


def _translate_wildcard(word: str) -> str:
    """Translate a wildcard, or escape the text between two wildcards."""
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
        return f"(?:{'|'.join(map(_translate_glob, word[1:-1].split(',')))})"
    is_negated = word[1] in "!^" and len(word) > 3
    members = re.sub(r"([\[&~|^])", r"\\\1", word[1 + is_negated : -1])
    members = members.replace("--", r"-\-")  # Python may read "--" as a set difference some day
    return f"[^/{members}]" if is_negated else f"[{members}]"
