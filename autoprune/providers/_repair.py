"""Mend what a provider would refuse, round by round, and report each thing that was done."""

from collections.abc import Sequence
from typing import Any

from autoprune.errors import SettingsError
from autoprune.providers._pairing import DONE
from autoprune.providers._problem import NO_RESULT, OpenCalls, Problem, Repair, Repaired, Round
from autoprune.providers._table import PROVIDERS, Provider
from autoprune.providers._validation import problems, resolved, sequence

# What only the program that wrote it can mend; any other problem of rules is gone after a repair.
UNREPAIRED = ("unknown_role", "misplaced_system", "call_input")
MOST_ROUNDS = 20


def repair(
    conversation: Sequence[object],
    provider: str | None = None,
    *,
    strict_alternation: bool = False,
    open_calls: str = "answer",
    reason: str = NO_RESULT,
) -> Repaired:
    """Return a conversation that breaks no rule but those of `UNREPAIRED`, and what was done to it.

    What breaks no rule stays the same object; the conversation itself, where none does. Nothing of the caller's is
    changed, and no words of the user's or the system's are lost. A repair may leave another rule broken, so it goes
    round by round: each problem has the place that it had in the round that found it. `provider` and
    `strict_alternation` are those of `problems`, and so are the errors.

    A call without a result gets one that says the `reason`. With `open_calls` it may also "keep" waiting for one, which
    no provider accepts, or go ("remove") with what it leaves empty.
    """
    if open_calls not in DONE:
        raise SettingsError(f"open_calls is {open_calls!r}: give one of {', '.join(DONE)}")
    name = resolved(provider, sequence(conversation))
    provided = PROVIDERS[name]
    messages: Sequence[object] = conversation
    done: list[Repair] = []
    for _ in range(MOST_ROUNDS):
        found = problems(messages, name, strict_alternation=strict_alternation)
        become = OpenCalls(open_calls, reason)
        once = _round(provided, messages, found, become, strict_alternation or provided.alternates)
        if not once.repairs:
            break
        messages = once.messages
        done += once.repairs
    return Repaired(messages if done else conversation, tuple(done))


def _round(
    provider: Provider, messages: Sequence[object], found: Sequence[Problem], open_calls: OpenCalls, alternates: bool
) -> Round:
    if all(problem.rule in UNREPAIRED for problem in found):
        return Round(list[Any](messages), [])
    return provider.mended(messages, found, open_calls, alternates)
