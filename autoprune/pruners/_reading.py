"""Read and count conversations with one counter, in some formats. Prunes nothing, looks no setting up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autoprune.conversation.edits import Running
from autoprune.conversation.summary import running
from autoprune.conversation.transcript import Transcript
from autoprune.formats import Format, Parser, new_parser, parse
from autoprune.tokens import REPLY_TOKENS, Memo


@dataclass(frozen=True)
class Reading:
    """How a pruner reads: its counter, the formats to choose from, and what finds XML results and names their tools."""

    count: Memo
    formats: Sequence[Format]
    is_tool_result: Callable[[str], bool]
    tool_name: Callable[[str], str]

    def parser(self, summary: Running | None = None, *, wants_inputs: bool = False) -> Parser:
        """Return a parser of one conversation, which stands behind a `summary`, if any."""
        names = self.is_tool_result, self.tool_name
        return new_parser(self.count, *names, self.formats, wants_inputs=wants_inputs, summary=summary)

    def transcript(self, conversation: list[Any], overhead: int, *, wants_inputs: bool = False) -> Transcript:
        """Return a conversation, read and counted, with the tokens of `overhead` sent beside it."""
        parser = self.parser(running(conversation), wants_inputs=wants_inputs)
        return parse(conversation, parser, fixed_tokens(conversation, overhead))


def fixed_tokens(conversation: list[Any], overhead: int) -> int:
    """Return the tokens of a prompt besides its messages: what is sent beside them, and the begun reply."""
    return overhead + (REPLY_TOKENS if conversation else 0)
