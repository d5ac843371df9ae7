"""tau-bench's results: a JSON list of tasks, each with its messages in the shape of Chat Completions."""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import fields, listed
from autoprune.apps.sessions._recorded import Conversation, Message, Reader, bad_record, stretch
from autoprune.apps.sessions._requests import answers
from autoprune.apps.sessions.as_chat import conversation


def detect(values: Sequence[object]) -> bool:
    """Look for a list of tasks with a `traj` each."""
    tasks = listed(values[0]) if len(values) == 1 else ()
    return bool(tasks) and all("traj" in fields(task) for task in tasks)


def read(values: Sequence[object]) -> list[Conversation]:
    """Return a conversation per task and trial. Raises SessionError for a message without a role."""
    return [conversation(messages) for messages in _runs(values)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Return a conversation per task and trial, each as one stretch. Raises SessionError as `read` does."""
    return [[stretch(conversation, zip(run, answers(run), strict=True))] for run in _runs(values)]


def _runs(values: Sequence[object]) -> Iterator[list[Message]]:
    for at, task in enumerate(listed(values[0]), 1):
        messages = [dict(fields(message)) for message in listed(fields(task).get("traj"))]
        if not all(isinstance(message.get("role"), str) for message in messages):
            raise bad_record("of the tasks has a message without a role", at)
        yield messages


READER = Reader("tau-bench", detect, read, record)
