"""Prune a conversation turn by turn with strategies that fold."""

from typing import Any

from autoprune.summarizers import Brief

STRATEGIES = ("summarize", "hybrid", "sliding_window", "summarize_older(keep=5)", "keep_last")


def short(brief: Brief) -> str:
    """A summary that does not depend on what a format knows beyond the words."""
    return f"{len(brief.utterances)} messages, {len(brief.previous)} characters before."


def prompts(pruner: Any, messages: list[Any], turn: int, *, whole: bool) -> list[list[Any]]:
    """The prompts before each turn of that many messages.

    A prompt is made from the `whole` history, or from the last prompt and the new messages.
    """
    sent: list[list[Any]] = [[]]
    for end in range(turn, len(messages) + 1, turn):
        given = messages[:end] if whole else [*sent[-1], *messages[end - turn : end]]
        sent.append(pruner.prune_conversations(given))
    return sent
