"""tau-bench's results: a JSON list of tasks, each with its messages in the shape of Chat Completions."""

from collections.abc import Sequence

from autoprune.sessions._json import fields, listed
from autoprune.sessions._recorded import Conversation, Reader, bad_record
from autoprune.sessions.as_chat import conversation


def detect(values: Sequence[object]) -> bool:
    """Look for a list of tasks with a `traj` each."""
    tasks = listed(values[0]) if len(values) == 1 else ()
    return bool(tasks) and all("traj" in fields(task) for task in tasks)


def read(values: Sequence[object]) -> list[Conversation]:
    """Return a conversation per task and trial. Raises SessionError for a message without a role."""
    return [_conversation(task, at) for at, task in enumerate(listed(values[0]), 1)]


def _conversation(task: object, at: int) -> Conversation:
    messages = [fields(message) for message in listed(fields(task).get("traj"))]
    if not all(isinstance(message.get("role"), str) for message in messages):
        raise bad_record("of the tasks has a message without a role", at)
    return conversation([dict(message) for message in messages])


READER = Reader("tau-bench", detect, read)
