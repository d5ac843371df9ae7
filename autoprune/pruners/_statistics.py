"""What became of one conversation in another: the figures of `get_cleanup_statistics`. Changes nothing."""

from dataclasses import replace
from typing import Any

from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.summary import apart, running
from autoprune.conversation.transcript import Transcript
from autoprune.formats import parse
from autoprune.pruners._reading import Reading, fixed_tokens
from autoprune.pruners.report import statistics, token_figures


def cleanup_statistics(
    original: list[Any], pruned: list[Any], reading: Reading, overhead: int, placeholder: Placeholder
) -> dict[str, int | float]:
    """Return the figures of a conversation that became another, also where somebody else dropped or changed messages.

    `placeholder` stands where a result was cleared; `overhead` are tokens sent beside either conversation.
    """
    before, after = (_compared(list(apart(each)), reading, overhead) for each in (original, pruned))
    found = statistics(before, after, placeholder)
    gone = found["messages_removed"] + found["messages_summarized"]
    if now := running(pruned):
        # The mark says for how many messages the summary stands.
        was = running(original)
        is_new = was and (was.text, was.messages, was.room) != (now.text, now.messages, now.room)
        gone -= bool(is_new)  # the old summary itself
        summarized = min(gone, max(0, now.messages - (was.messages if was else 0)))
        found |= {"messages_removed": gone - summarized, "messages_summarized": summarized}
    tokens = (reading.transcript(each, overhead).tokens for each in (original, pruned))
    return {**found, **token_figures(*tokens), "total_messages": len(original)}


def _compared(conversation: list[Any], reading: Reading, overhead: int) -> Transcript:
    """Return a conversation to compare with another: what is gone from one must not change how the rest is read."""
    parser = reading.parser(wants_inputs=True)
    parser.standing = replace(parser.standing, is_free=True)
    return parse(conversation, parser, fixed_tokens(conversation, overhead))
