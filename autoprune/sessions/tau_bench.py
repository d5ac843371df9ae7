"""tau-bench's results: a JSON list of tasks, each with its messages in the shape of Chat Completions."""

from collections.abc import Sequence

from autoprune.sessions.as_chat import run
from autoprune.sessions.json_values import fields, listed
from autoprune.sessions.recording import Run, wrong

NAME = "tau-bench"


def detect(values: Sequence[object]) -> bool:
    """A list of tasks with a `traj` each."""
    tasks = listed(values[0]) if len(values) == 1 else ()
    return bool(tasks) and all("traj" in fields(task) for task in tasks)


def read(values: Sequence[object]) -> list[Run]:
    """A conversation per task and trial. Raises SessionError for a message without a role."""
    return [_run(task, at) for at, task in enumerate(listed(values[0]), 1)]


def _run(task: object, at: int) -> Run:
    messages = [fields(message) for message in listed(fields(task).get("traj"))]
    if not all(isinstance(message.get("role"), str) for message in messages):
        raise wrong("of the tasks has a message without a role", at)
    return run([dict(message) for message in messages])
