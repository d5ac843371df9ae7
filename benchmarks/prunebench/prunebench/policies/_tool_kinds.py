"""Kinds of tools by their names, so that a policy that lists the tools of its agent applies to other agents too."""

from collections.abc import Mapping

KINDS = {
    "read": ("read", "read_file", "readfile", "view", "view_file", "open_file", "fs_read"),
    "shell": (
        *("bash", "shell", "shell_command", "local_shell", "run_shell_command", "exec_command", "exec", "execute_bash"),
        *("execute_command", "run_command", "run_terminal_cmd", "terminal", "container.exec", "powershell"),
    ),
    "grep": ("grep", "grep_search", "search_file_content", "search_files", "ripgrep", "rg", "codesearch"),
    "glob": ("glob", "glob_search", "find_files", "file_search"),
    "edit": (
        *("edit", "multiedit", "replace", "str_replace", "edit_file", "apply_patch"),
        *("str_replace_editor", "str_replace_based_edit_tool"),
    ),
    "write": ("write", "write_file", "create_file", "write_to_file"),
    "web_fetch": ("webfetch", "web_fetch"),
    "web_search": ("websearch", "web_search", "google_web_search"),
    "skill": ("skill", "activate_skill"),
    "question": ("question", "ask_user", "askuserquestion", "ask_user_question", "request_user_input"),
    "plan_mode": ("enterplanmode", "exitplanmode", "enter_plan_mode", "exit_plan_mode"),
}
_BY_NAME = {name: kind for kind, names in KINDS.items() for name in names}


# What editors do that also read and create files, by their argument "command".
_EDITORS = frozenset({"str_replace_editor", "str_replace_based_edit_tool"})
_COMMANDS = {"view": "read", "create": "write"}


def tool_kind(tool: str) -> str:
    """Return the kind of a tool; "" if its name is unknown."""
    return _BY_NAME.get(tool.lower(), "")


def call_kind(tool: str, arguments: object) -> str:
    """Return the kind of a call, which is the tool's, except that some editors also read and create files."""
    command = arguments.get("command") if tool.lower() in _EDITORS and isinstance(arguments, Mapping) else None
    return _COMMANDS.get(command, tool_kind(tool)) if isinstance(command, str) else tool_kind(tool)
