"""What a wire format is: a module, or any object, with these few functions."""

from collections.abc import Mapping
from typing import Any, Protocol

from autoprune.conversation.transcript import Entry, Speaker
from autoprune.formats.dialogue import Dialogue


class Format(Protocol):
    """How one API writes a conversation. Messages come as mappings: an SDK's object as that of its fields."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """What the format is called by."""

    def seen(self, message: Mapping[str, object], /) -> str | None:
        """What shows that a message is of this format, in words ("a block of type 'tool_use'"); None: nothing does."""

    def speaker(self, message: Mapping[str, object], /) -> Speaker:
        """Who a message comes from."""

    def parse(self, message: Mapping[str, object], at: int, dialogue: Dialogue, /) -> Entry:
        """Message number `at` as pruning sees it. Each result knows how to be replaced (`put`)."""

    def message(self, role: str, text: str, /) -> Any:
        """A message of words; `role` is "user" or "assistant"."""
