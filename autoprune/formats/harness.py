"""The user's own words in a message, without what the program of an agent put around them. Changes nothing else."""

import re

# Elements that programs add, on lines of their own: the state of the machine, reminders, what a command printed.
ADDED = (
    *("environment_context", "environment_details", "user_instructions", "permissions instructions", "INSTRUCTIONS"),
    *(
        "system-reminder",
        "system_reminder",
        "system_notification",
        "local-command-caveat",
        "local-command-stdout",
        "local-command-stderr",
    ),
    *("command-message", "task-notification", "user-prompt-submit-hook", "turn_aborted", "skills_instructions"),
    *("ide_opened_file", "ide_selection", "current_datetime", "collaboration_mode", "plugins_instructions"),
)
ATTACHED = ("file_content", "folder_content", "url_content")  # what Cline puts in place of what the user mentioned
# Tags around what the user wrote, or did; and lines that say what has happened.
WRAPPED = re.compile(r"\A<(task|feedback|user_message|answer|user_query)>(.*?)</\1>", re.DOTALL)
COMMAND = re.compile(r"^[ \t]*<(command-name|command-args)>([^<]*)</\1>", re.MULTILINE)
LINE = re.compile(
    r"^(?:# AGENTS\.md instructions for [^\n]*|\[Request interrupted by user[^\n\]]*\][ \t]*)$", re.MULTILINE
)
ATTRIBUTE = re.compile(r"""(?:path|url)=["']([^"'\n]{1,300})""")


def said(words: str) -> str:
    """The user's own words in a message's words; "" where all of it is the program's.

    What is in the middle of a line is the user's, whatever it looks like.
    """
    if "<" not in words and "[Request" not in words and "# AGENTS" not in words:
        return words.strip()
    for name in (*ADDED, *ATTACHED):
        if f"<{name}" in words:
            words = _without(words, name)
    words = LINE.sub("", COMMAND.sub(r"\2", words)).strip()
    return WRAPPED.sub(r"\2", words).strip()


def _without(words: str, name: str) -> str:
    """The words without all elements of a name; a mention stands for one with an attachment."""
    start = re.compile(rf"^[ \t]*<{re.escape(name)}(?:\s[^<>\n]*)?>", re.MULTILINE)
    end = f"</{name}>"
    kept, at = [], 0
    while match := start.search(words, at):
        stop = words.find(end, match.end())
        if stop < 0:
            break
        kept.append(words[at : match.start()])
        if name in ATTACHED and (path := ATTRIBUTE.search(match[0])):
            kept.append(f"[attached: {path[1]}]")
        at = stop + len(end)
    return "".join((*kept, words[at:]))
