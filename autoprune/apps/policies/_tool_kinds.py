"""Kinds of tools by their names, so that a policy that lists the tools of its agent applies to other agents too."""

KINDS = {
    "read": ("read", "read_file", "readfile", "view", "view_file", "open_file", "fs_read"),
    "shell": (
        *("bash", "shell", "shell_command", "local_shell", "run_shell_command", "exec_command", "exec", "execute_bash"),
        *("execute_command", "run_command", "run_terminal_cmd", "terminal", "container.exec", "powershell"),
    ),
    "grep": ("grep", "grep_search", "search_file_content", "search_files", "ripgrep", "rg", "codesearch"),
    "glob": ("glob", "glob_search", "find_files", "file_search"),
    "edit": ("edit", "multiedit", "replace", "str_replace", "str_replace_editor", "edit_file", "apply_patch"),
    "write": ("write", "write_file", "create_file", "write_to_file"),
    "web_fetch": ("webfetch", "web_fetch"),
    "web_search": ("websearch", "web_search", "google_web_search"),
    "skill": ("skill", "activate_skill"),
    "question": ("question", "ask_user", "askuserquestion", "ask_user_question", "request_user_input"),
    "plan_mode": ("enterplanmode", "exitplanmode", "enter_plan_mode", "exit_plan_mode"),
}
_BY_NAME = {name: kind for kind, names in KINDS.items() for name in names}


def tool_kind(tool: str) -> str:
    """Return the kind of a tool; "" if its name is unknown."""
    return _BY_NAME.get(tool.lower(), "")
