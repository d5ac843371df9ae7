"""Find the rules of a provider that a conversation breaks. Changes nothing, calls nothing."""

from collections.abc import Sequence

from autoprune.conversation.messages import fields
from autoprune.errors import ConversationError, RuleError, SettingsError, did_you_mean
from autoprune.formats import SHIPPED, Format
from autoprune.providers._problem import Problem
from autoprune.providers._table import NAMES, OPENAI, PROVIDERS


def problems(
    conversation: Sequence[object], provider: str | None = None, *, strict_alternation: bool = False
) -> list[Problem]:
    """Return the rules that a conversation breaks, in the order of their places; an empty list where it breaks none.

    `provider` is one of "anthropic", "bedrock", "gemini", "openai_chat" and "openai_responses", or another name for
    one of them, such as "claude" or "openai"; None finds it out from the conversation. `strict_alternation` adds the
    rule of local chat templates that user and assistant take turns; the Responses API knows no such templates.
    Whatever a message holds is passed over where no rule speaks of it. Raises SettingsError for an unknown provider
    and ConversationError for what is no list.
    """
    found = sequence(conversation)
    name = resolved(provider, found)
    rules = PROVIDERS[name]
    broken = list(rules.problems(found))
    if strict_alternation and rules.alternation:
        broken += rules.alternation(found)
    return sorted(broken, key=lambda problem: problem.path)


def accepted(
    pruned: Sequence[object], given: Sequence[object], provider: str | None = None, formats: Sequence[Format] = SHIPPED
) -> tuple[str, ...]:
    """Raise RuleError where a provider would refuse a pruned conversation; say if it had refused the given one.

    `provider` is the format that was named, if any was, and `formats` are those that messages may be written in. No
    rules are known for one of the caller's own: where it is named, or a message is of it, nothing is checked, and what
    is returned says so, for a report's fallbacks.
    """
    unknown = _without_rules(pruned, provider, formats)
    if unknown is not None:
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
    return next((each.NAME for message in conversation for each in own if _is_marked(message, each)), None)


def sequence(conversation: object) -> Sequence[object]:
    """Return a conversation that is a list or a tuple. Raises ConversationError for anything else."""
    if isinstance(conversation, list | tuple):
        return conversation
    raise ConversationError(f"the conversation is no list but {type(conversation).__name__}: give a list of messages")


def resolved(provider: object, conversation: Sequence[object]) -> str:
    """Return the name in the table of a provider by any of its names. Raises SettingsError for an unknown one."""
    if provider is None:
        return detected(conversation)
    wanted = provider.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(provider, str) else ""
    if wanted in OPENAI:
        return "openai_responses" if detected(conversation) == "openai_responses" else "openai_chat"
    if wanted in NAMES:
        return NAMES[wanted]
    names = sorted({*NAMES, *OPENAI})
    near = did_you_mean(wanted, names)
    raise SettingsError(f"the rules of provider {provider!r}{near} are not known; known are {', '.join(names)}")


def detected(conversation: Sequence[object]) -> str:
    """Return the provider of the first message that shows one; "openai_chat" where none does."""
    marked = (each.NAME for message in conversation for each in SHIPPED if _is_marked(message, each))
    return next(marked, "openai_chat")


def _is_marked(message: object, written_in: Format) -> bool:
    held = fields(message)
    return held is not None and written_in.seen(held) is not None
