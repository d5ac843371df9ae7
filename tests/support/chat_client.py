"""A model that always answers the same, and the turns of a conversation to sum up."""

from types import SimpleNamespace
from typing import Any

REQUEST = "Make the parser accept tabs; never push to main."


def turn(number: int) -> list[dict[str, Any]]:
    words = REQUEST if number == 0 else f"And now part {number}, please."
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": '{"command": "make"}'}}
    return [
        {"role": "user", "content": words},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": f"line of {number}\n" * 120},
        {"role": "assistant", "content": f"Part {number} is done."},
    ]


class Client:
    """Answers like the client of a server whose model writes the same each time."""

    base_url = "http://localhost/v1"

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def with_options(self, **options: Any) -> Any:
        return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=self.create)))

    def create(self, **request: Any) -> Any:
        message = SimpleNamespace(content=self.answer, refusal=None)
        return SimpleNamespace(choices=[SimpleNamespace(finish_reason="stop", message=message)], usage=None)
