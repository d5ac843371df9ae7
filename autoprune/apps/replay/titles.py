"""Titles of recorded conversations: the project, the time, and the first words of the user."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

from autoprune.apps.sessions import Recording
from autoprune.conversation.messages import one_line
from autoprune.conversation.transcript import Speaker
from autoprune.facts.utterances import user_words
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

SEARCHED = 30  # messages in which the user's first words are looked for
LONGEST = 80  # characters of a prompt
CHATS = "chats"  # Gemini CLI's folder for the logs of a project, in a folder of the project's name
SHORT = 2  # characters: a folder's name of so few says nothing without its parent's


@dataclass(frozen=True)
class Title:
    """The name of a conversation for people. `time` is that of its last request in Unix seconds, 0 if unknown."""

    agent: str = ""
    project: str = ""
    time: float = 0.0
    prompt: str = ""

    @property
    def date(self) -> str:
        """The local date of the last request; "" if unknown."""
        return datetime.fromtimestamp(self.time).date().isoformat() if self.time else ""

    def __str__(self) -> str:
        return " · ".join(filter(None, (self.project, self.date, self.prompt)))


UNTITLED = Title()


def title_of(path: str, stretches: Sequence[Recording]) -> Title:
    """Find the title of a conversation from its stretches between compactions.

    The project is the name of the folder that the agent worked in, with its parent's name if it is short, as in
    ".worktrees/1". If the log does not name that folder, it is the folder that holds the file.
    """
    times = [request.time for each in stretches for request in each.requests if request.time]
    place = place_of(path, stretches)
    name = PurePath(place).name
    project = name if len(name) > SHORT else place
    agent = next((each.agent for each in stretches if each.agent), "")
    return Title(agent, project, max(times, default=0.0), _first_words(stretches[0]) if stretches else "")


def place_of(path: str, stretches: Sequence[Recording]) -> str:
    """Return the last two parts of the path of a conversation's folder."""
    holder = PurePath(path).parent
    holder = holder.parent if holder.name == CHATS else holder
    folder = next((each.folder for each in stretches if each.folder), "") or str(holder)
    return "/".join([part for part in folder.replace("\\", "/").split("/") if part][-2:])


def project_of(folder: str) -> str:
    """Find the project of a folder that an agent worked in: the name of its repository's folder; "" if unknown.

    Work trees belong to their repository: ".worktrees/3" and ".claude/worktrees/fix" in it.
    """
    parts = [part for part in folder.replace("\\", "/").split("/") if part]
    for at, part in enumerate(parts[1:], 1):
        if part == ".worktrees" or parts[at : at + 2] == [".claude", "worktrees"]:
            return parts[at - 1]
    return parts[-1] if parts else ""


def _first_words(recording: Recording) -> str:
    """Find the user's first words, on one line; "" if the first messages of the conversation hold none."""
    messages = list(recording.messages[:SEARCHED])
    entries = parse(messages, new_parser(len), 0).entries
    for entry in entries:
        if entry.speaker is Speaker.USER and (words := user_words(entry.texts)):
            return one_line(words, LONGEST)
    return ""
