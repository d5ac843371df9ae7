"""What has gone before, as far as a format needs it to read the next message."""

from typing import Protocol

from autoprune.tokens import Count
from autoprune.transcript import ToolCall


class Dialogue(Protocol):
    """A conversation as far as it has been read: its counter, its requests, its open calls."""

    count: Count
    sent: int

    @property
    def request(self) -> int:
        """The request that the model answers, or has answered last."""

    def is_tool_result(self, text: str) -> bool:
        """Whether a user's text can hold results."""

    def tool_name(self, tag: str) -> str:
        """The tool that a start tag names."""

    def answered(self, call_id: object) -> ToolCall | None:
        """The open call with an id; it is open no longer."""

    def answered_in_text(self, tool: str) -> ToolCall | None:
        """The open call of a tool in the model's text; it is open no longer."""
