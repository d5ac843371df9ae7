"""Find the rules of a provider that a conversation breaks, and mend what can be mended. Changes nothing in place."""

from collections.abc import Sequence

from autoprune.errors import ConversationError, RuleError, SettingsError
from autoprune.formats import SHIPPED, Format
from autoprune.providers._pairing import DONE
from autoprune.providers._problem import NO_RESULT, OpenCalls, Problem, Provider, Repair, Repaired
from autoprune.providers._table import PROVIDERS, is_marked, resolved

# What only the program that wrote it can mend; any other problem of rules is gone after a repair.
UNREPAIRED = ("unknown_role", "misplaced_system", "call_input")
MOST_ROUNDS = 20


def problems(
    conversation: Sequence[object], provider: str | Provider | None = None, *, strict_alternation: bool = False
) -> list[Problem]:
    """Return the rules that a conversation breaks, in the order of their places; an empty list where it breaks none.

    `provider` is one of "anthropic", "bedrock", "gemini", "openai_chat" and "openai_responses", or another name for
    one of them, such as "claude" or "openai", or a `Provider`; None finds it out from the conversation.
    `strict_alternation` adds the rule of local chat templates that user and assistant take turns; the Responses API
    knows no such templates. Whatever a message holds is passed over where no rule speaks of it. Raises SettingsError
    for an unknown provider and ConversationError for what is no list.
    """
    found = _sequence(conversation)
    rules = resolved(provider, found)
    broken = list(rules.problems(found))
    if strict_alternation and rules.alternation:
        broken += rules.alternation(found)
    return sorted(broken, key=lambda problem: problem.path)


def accepted(
    pruned: Sequence[object],
    given: Sequence[object],
    validate: bool | Provider = True,
    written_in: str | None = None,
    formats: Sequence[Format] = SHIPPED,
) -> tuple[str, ...]:
    """Raise RuleError where a provider would refuse a pruned conversation; say if it had refused the given one.

    `validate` is a pruner's: False for no check, True for the rules of the format that is named by `written_in` or
    else found out, a `Provider` for its rules. `formats` are those that messages may be written in. No rules are known
    for one of the caller's own: where it is named, or a message is of it, nothing is checked, and what is returned says
    so, for a report's fallbacks.
    """
    if not validate:
        return ()
    provider = validate if isinstance(validate, Provider) else written_in
    if not isinstance(provider, Provider) and (unknown := _without_rules(pruned, provider, formats)) is not None:
        return (f"nothing was validated: no rules are known for the format {unknown!r}",)
    found = problems(pruned, provider)
    if found:
        had = "they were in it before it was pruned; see repair()" if problems(given, provider) else "pruning made them"
        listed_problems = "; ".join(map(str, found[:5])) + ("; …" if len(found) > 5 else "")
        raise RuleError(f"the provider would refuse the conversation: {listed_problems} ({had})", found)
    return ()


def _without_rules(conversation: Sequence[object], name: str | None, formats: Sequence[Format]) -> str | None:
    """Return the format without rules that was named or, else, that a message is written in; None for neither."""
    if name is not None:
        return None if name in PROVIDERS else name
    own = [each for each in formats if each.NAME not in PROVIDERS]
    return next((each.NAME for message in conversation for each in own if is_marked(message, each)), None)


def repair(
    conversation: Sequence[object],
    provider: str | Provider | None = None,
    *,
    strict_alternation: bool = False,
    open_calls: str = "answer",
    reason: str = NO_RESULT,
) -> Repaired:
    """Return a conversation that breaks no rule but those of `UNREPAIRED`, and what was done to it.

    What breaks no rule stays the same object; the conversation itself, where none does. Nothing of the caller's is
    changed, and no words of the user's or the system's are lost. A repair may leave another rule broken, so it goes
    round by round: each problem has the place that it had in the round that found it. `provider` and
    `strict_alternation` are those of `problems`, and so are the errors. A `Provider` that mends nothing gets the
    conversation back as it is.

    A call without a result gets one that says the `reason`. With `open_calls` it may also "keep" waiting for one, which
    no provider accepts, or go ("remove") with what it leaves empty.
    """
    if open_calls not in DONE:
        raise SettingsError(f"open_calls is {open_calls!r}: give one of {', '.join(DONE)}")
    messages = _sequence(conversation)
    rules = resolved(provider, messages)
    done: list[Repair] = []
    for _ in range(MOST_ROUNDS):
        found = problems(messages, rules, strict_alternation=strict_alternation)
        if not rules.mended or all(problem.rule in UNREPAIRED for problem in found):
            break
        become = OpenCalls(open_calls, reason)
        mended = rules.mended(messages, found, become, strict_alternation or rules.alternates)
        if not mended.repairs:
            break
        messages = mended.messages
        done += mended.repairs
    return Repaired(messages, tuple(done))


def _sequence(conversation: object) -> Sequence[object]:
    """Return a conversation that is a list or a tuple. Raises ConversationError for anything else."""
    if isinstance(conversation, list | tuple):
        return conversation
    raise ConversationError(f"the conversation is no list but {type(conversation).__name__}: give a list of messages")
