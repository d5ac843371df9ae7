"""Find the rules of a provider that a conversation breaks, and repair conversations. Changes nothing in place."""

from collections.abc import Sequence

from autoprune.conversation.messages import fields_of
from autoprune.errors import ConversationError, RuleError, SettingsError, did_you_mean
from autoprune.wire._detection import SHIPPED, dominant_format
from autoprune.wire._rules import DONE, NO_RESULT, OpenCalls, Problem, Provider, Repair, Repaired
from autoprune.wire.anthropic import PROVIDER as ANTHROPIC
from autoprune.wire.bedrock import PROVIDER as BEDROCK
from autoprune.wire.chat import PROVIDER as OPENAI_CHAT
from autoprune.wire.gemini import PROVIDER as GEMINI
from autoprune.wire.parsing import Format
from autoprune.wire.responses import PROVIDER as OPENAI_RESPONSES

# To ship a provider, write its module in this package and add a line.
SHIPPED_PROVIDERS = (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
)
PROVIDERS = {provider.name: provider for provider in SHIPPED_PROVIDERS}
NAMES = {name: provider for provider in SHIPPED_PROVIDERS for name in (provider.name, *provider.other_names)}
OPENAI = ("openai", "azure", "azure_openai")  # names for either of OpenAI's two APIs: the conversation's format decides
USER_FIRST = tuple(provider.name for provider in SHIPPED_PROVIDERS if provider.begins_with_user)


def find_provider(provider: object, conversation: Sequence[object]) -> Provider:
    """Find a provider by its name, or detect it from the conversation if `provider` is None.

    A `Provider` is returned unchanged.

    Raises SettingsError for an unknown name.
    """
    if isinstance(provider, Provider):
        return provider
    if provider is None:
        return _detect_provider(conversation)
    wanted = provider.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(provider, str) else ""
    # "openai" names a vendor with two APIs.
    if wanted in OPENAI:
        detected = _detect_provider(conversation)
        return detected if detected is OPENAI_RESPONSES else OPENAI_CHAT
    if wanted in NAMES:
        return NAMES[wanted]
    names = sorted({*NAMES, *OPENAI})
    near = did_you_mean(wanted, names)
    raise SettingsError(f"the rules of provider {provider!r}{near} are not known; known are {', '.join(names)}")


def _detect_provider(conversation: Sequence[object]) -> Provider:
    """Detect the provider from the first message with a format's mark; OpenAI's Chat Completions without marks."""
    return PROVIDERS[dominant_format(conversation, SHIPPED).NAME]


# Only the program that wrote the conversation can solve these problems; `repair` solves all others.
UNREPAIRED = ("unknown_role", "misplaced_system", "call_input")
MOST_ROUNDS = 20  # a guard against rules that undo each other


def problems(
    conversation: Sequence[object], provider: str | Provider | None = None, *, strict_alternation: bool = False
) -> list[Problem]:
    """Find the rules of a provider that a conversation breaks, in the order of their places.

    `provider` is "anthropic", "bedrock", "gemini", "openai_chat" or "openai_responses", another name for one of these,
    such as "claude" or "openai", or a `Provider`. With None, the provider is detected from the messages.
    `strict_alternation` adds the rule of local chat templates that user and assistant alternate; the Responses API has
    no such templates. Fields without a rule are ignored. Raises SettingsError for an unknown provider and
    ConversationError if the conversation is not a list.
    """
    messages = _check_list(conversation)
    rules = find_provider(provider, messages)
    broken = list(rules.problems(messages))
    if strict_alternation and rules.alternation:
        broken += rules.alternation(messages)
    return sorted(broken, key=lambda problem: problem.path)


def check_accepted(
    pruned: Sequence[object],
    given: Sequence[object],
    validate: bool | str | Provider = True,
    written_in: str | None = None,
    formats: Sequence[Format] = SHIPPED,
) -> tuple[str, ...]:
    """Raise RuleError if a provider would reject a pruned conversation.

    The error says whether the provider would have rejected the original too.

    `validate` is the pruner's setting: False for no check, a provider or its name for its rules, True for the rules of
    the format that `written_in` names or that the messages show. `formats` are the formats that messages may be written
    in. The rules of a caller's format are unknown: if `written_in` names such a format or a message is written in one,
    nothing is checked, and the returned notes state this.
    """
    if not validate:
        return ()
    provider = written_in if validate is True else find_provider(validate, pruned)
    if not isinstance(provider, Provider) and (unknown := _format_without_rules(pruned, provider, formats)) is not None:
        return (f"nothing was validated: no rules are known for the format {unknown!r}",)
    broken = problems(pruned, provider)
    if broken:
        # Checking the original too shows whether to repair the input or to report a bug in the pruner.
        had = (
            "Your messages had such problems before they were pruned: autoprune.repair mends them"
            if problems(given, provider)
            else "Your messages were fine before they were pruned: please report this as a bug of autoprune"
        )
        listed_problems = "; ".join(map(str, broken[:5])).rstrip(".") + ("; …" if len(broken) > 5 else "")
        raise RuleError(f"the provider would refuse the conversation: {listed_problems}. {had}", broken)
    return ()


def _format_without_rules(conversation: Sequence[object], name: str | None, formats: Sequence[Format]) -> str | None:
    """Return the named format, or else the format of a message, if no rules are known for it; None otherwise."""
    if name is not None:
        return None if name in PROVIDERS else name
    own = [each for each in formats if each.NAME not in PROVIDERS]
    return next((each.NAME for message in conversation for each in own if each.seen(fields_of(message))), None)


def repair(
    conversation: Sequence[object],
    provider: str | Provider | None = None,
    *,
    strict_alternation: bool = False,
    open_calls: str = "answer",
    reason: str = NO_RESULT,
) -> Repaired:
    """Repair a conversation so that it breaks no rules of a provider except those in `UNREPAIRED`.

    Messages that break no rule stay the same objects, as does a conversation without problems. The caller's objects
    are not changed, and no text of the user or the system is lost. Repairs are made in rounds, since a repair may
    break another rule: the path of each problem is its place in the round that found it. `provider`,
    `strict_alternation` and the errors are those of `problems`. If a `Provider` has no repair, the conversation is
    returned unchanged.

    `open_calls` decides what happens to a call without a result: "answer" adds a result that states the `reason`,
    "keep" leaves the call, which no provider accepts, and "remove" removes the call, and its message if it is then
    empty.
    """
    if open_calls not in DONE:
        raise SettingsError(f"open_calls is {open_calls!r}: give one of {', '.join(DONE)}")
    if not isinstance(reason, str):
        raise SettingsError(f"reason is {reason!r}: give a text for the result of a call that has none")
    messages = _check_list(conversation)
    rules = find_provider(provider, messages)
    done: list[Repair] = []
    for _ in range(MOST_ROUNDS):
        broken = problems(messages, rules, strict_alternation=strict_alternation)
        if not rules.mended or all(problem.rule in UNREPAIRED for problem in broken):
            break
        become = OpenCalls(open_calls, reason)
        mended = rules.mended(messages, broken, become, strict_alternation or rules.alternates)
        # A round without repairs would repeat forever.
        if not mended.repairs:
            break
        messages = mended.messages
        done += mended.repairs
    return Repaired(messages, tuple(done))


def _check_list(conversation: object) -> Sequence[object]:
    """Check that a conversation is a list or a tuple; raise ConversationError for anything else."""
    if isinstance(conversation, list | tuple):
        return conversation
    raise ConversationError(f"the conversation must be a list of messages, not {type(conversation).__name__}")
