"""The strategies of `ConversationPruner`: named settings of `Folding` and `PerResult`, modeled on other systems."""

from dataclasses import replace

from autoprune.strategies.folding import Folding
from autoprune.strategies.per_result import PerResult

BUFFER = 0.2  # of the safe zone
# What a model is told to write.
OUTCOMES = """\
Plain text about outcomes, not about how they came about, under these six headings. Facts only: what the record shows, \
no praise, no plans of your own, no guesses. A heading with nothing to say is left out, except the third.
## Request
What the user asked for, word for word, with what they changed or added later.
## What exists
Each thing that was made or changed and is there now: its path, what it does, and whether it was seen to work.
## What does not exist yet
What the request needs and is not there: not begun, begun and unfinished, or broken. "Nothing" where all is there.
## Technical setup
Languages, versions, dependencies, directories, configuration, and the commands that build, run and test it.
## Decisions
What was settled, by whom, and why.
## Errors
What failed, with the message, and what cured it; what failed and was not cured."""
PROSE = """\
One summary in plain text: paragraphs that tell the request, what was done and found, and how things stand. No \
headings."""
TITLE = "On the first line a title of at most ten words that says what the conversation is about, then an empty line."


def truncate(group_size: int | None = None) -> Folding:
    """Drop the oldest groups of messages, and the rest of their turn, until within the safe zone."""
    return Folding("truncate", group_size=group_size, keep=1, drops=True, at_turns=True)


def summarize(group_size: int | None = None, buffer: float = BUFFER, summary_tokens: int | None = None) -> Folding:
    """Fold the oldest groups into one running summary until within the safe zone."""
    return Folding("summarize", group_size=group_size, buffer=buffer, summary_tokens=summary_tokens)


def hybrid(group_size: int | None = None, buffer: float = BUFFER, summary_tokens: int | None = None) -> Folding:
    """Fold the oldest groups into one running summary, and drop more if that is not enough."""
    return replace(summarize(group_size, buffer, summary_tokens), name="hybrid", then_drops=True)


def keep_last(n: int = 10) -> Folding:
    """Keep the last n messages and the system's; drop the others."""
    return Folding("keep_last", n, keep=n, drops=True)


def summarize_older(keep: int = 5, title: str | None = None) -> Folding:
    """Keep the last messages; fold all before them into one titled summary."""
    instructions = PROSE if title else f"{PROSE} {TITLE}"
    return Folding("summarize_older", keep, keep=keep, title=title, instructions=instructions)


def symbolize(keep: int = 5, batch: int = 10) -> Folding:
    """Keep the last messages and the user's words before them; each of the model's becomes a line of ten words."""
    return Folding("symbolize", keep, keep=keep, summarizer=f"symbols(batch={batch!r})")


def chat_summary(trigger: int = 50, keep: int = 10) -> Folding:
    """With more messages than the trigger, keep the last ones and sum up the outcomes of all before them."""
    return Folding("chat_summary", trigger, keep=keep, buffer=BUFFER, instructions=OUTCOMES)


def action_trace(trigger: int = 10, keep: int = 5) -> Folding:
    """With more messages than the trigger, keep the last ones and list the calls before them by tool."""
    folding = Folding("action_trace", trigger, keep=keep, buffer=BUFFER, minimum_saved=0.1, summary_share=0.5)
    return replace(folding, summarizer="action_trace")


def sliding_window(n: int = 10, keep: int = 10, levels: int = 3) -> Folding:
    """Keep a window of the last messages; sum up every n that leave it, and summaries in turn, by level."""
    return Folding("sliding_window", n + keep, keep=keep, buffer=BUFFER, levels=levels)


def per_result(mode: str = "simple", threshold: int = 2_000, start_after: int = 1) -> PerResult:
    """Shorten each large tool result by itself once the model has seen it."""
    return PerResult(mode, threshold, start_after)


def snapshot(messages: int | None = 100, keep: int = 10, buffer: float = 0.3, large: int = 4_000) -> Folding:
    """Shorten large results, then fold all but the last messages into one snapshot of the state of the work."""
    results = PerResult(mode="auto", threshold=large)
    folding = Folding("snapshot", messages, keep=keep, group_size=1, buffer=buffer, results=results)
    return replace(folding, then_drops=True, at_turns=True)
