"""The formats that ship, and detection of a message's format: exactly one, or an error that says why."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, cast

import autoprune.wire.anthropic as anthropic
import autoprune.wire.bedrock as bedrock
import autoprune.wire.chat as chat
import autoprune.wire.gemini as gemini
import autoprune.wire.responses as responses
import autoprune.wire.xml_tool_result as xml
from autoprune.conversation.messages import fields, fields_of, role_of
from autoprune.conversation.summary import CALLS_LATER, NO_ANSWER, RoleOf, RunningSummary
from autoprune.conversation.transcript import Speaker
from autoprune.errors import ConversationError, SettingsError, near_or_all
from autoprune.settings.plugins import load_plugin, plugin_names
from autoprune.tokens import Count
from autoprune.wire.parsing import Format, Parser, Standing
from autoprune.wire.texts import message_texts

SHIPPED: tuple[Format, ...] = (chat, responses, anthropic, bedrock, gemini)

MODEL_ROLES = ("assistant", "model")
PLUGINS = "autoprune.formats"  # the entry point group for formats of installed packages

RECIPE = "see docs/integrations/recipes.md"
# How to prune the messages of frameworks, by the package or module that defines their classes.
ADAPTERS = {
    "langchain_core": "use autoprune.integrations.langchain, or formats=[autoprune.integrations.langchain_messages]",
    "pydantic_ai": "use autoprune.integrations.pydantic_ai, or formats=[autoprune.integrations.pydantic_ai_messages]",
    "google.adk": "use autoprune.integrations.adk",
    "agents.items": "use autoprune.integrations.openai_agents",
    **dict.fromkeys(("haystack", "autogen_core", "autogen_agentchat", "smolagents"), RECIPE),
    "llama_index": "convert with llama_index.llms.openai.utils.to_openai_message_dicts(messages)",
    "semantic_kernel": "convert with [message.to_dict() for message in messages]",
}


def is_from_model(message: object) -> bool:
    """Return whether the model wrote a message of a shipped format."""
    known = fields_of(message)
    return known.get("role") in MODEL_ROLES or responses.speaker(known) is Speaker.MODEL


def new_parser(
    count: Count,
    is_tool_result: Callable[[str], bool] = xml.is_tool_result,
    tool_name: Callable[[str], str] = xml.tool_name,
    formats: Sequence[Format] = SHIPPED,
    *,
    wants_inputs: bool = False,
    summary: RunningSummary | None = None,
) -> Parser:
    """Create a parser that detects each message's format among `formats`. Messages follow the `summary`, if any."""
    choose = partial(recognize, formats=formats)
    standing = _standing_after(summary) if summary else Standing()
    return Parser(count, choose, is_tool_result, tool_name, message_texts, standing, wants_inputs)


def _standing_after(summary: RunningSummary) -> Standing:
    """Return the standing before the first message, which follows a running summary."""
    if summary.calls == NO_ANSWER:
        return Standing()
    if summary.calls == CALLS_LATER:
        return Standing(calls_later=True)
    return Standing(has_spoken=True) if summary.calls else Standing(is_folded=True)


def check_formats(formats: object) -> Sequence[Format]:
    """Return a caller's formats. Raises SettingsError for anything but a list of formats."""
    given: list[Any] = [*formats] if isinstance(formats, Iterable) and not isinstance(formats, str) else [formats]
    for each in given:
        if not (isinstance(getattr(each, "NAME", None), str) and callable(getattr(each, "seen", None))):
            raise SettingsError(
                f"formats holds {each!r}, which is no format: give a list of modules or objects such as "
                "[autoprune.integrations.langchain_messages]; settings choose a shipped format by its name"
            )
    return given


def recognize(message: object, at: int, formats: Sequence[Format]) -> tuple[Mapping[str, object], Format]:
    """Return the fields and the format of message number `at`; OpenAI Chat if all formats would write it alike.

    Custom formats take precedence over shipped ones. Raises ConversationError for an item that is no message, for marks
    of two formats, and for neither a mark nor a role.
    """
    values = message if type(message) is dict else _fields_of(message, at, formats)
    if formats is SHIPPED and _is_plain(values):
        return values, chat
    has_role = isinstance(values.get("role"), str)
    if len(formats) == 1 and (has_role or formats[0] is not chat):
        return values, formats[0]
    own = next((each for each in formats if each not in SHIPPED and each.seen(values)), None)
    if own is not None:
        return values, own
    marks = {each.NAME: (each, mark) for each in formats if (mark := each.seen(values))}
    if len(marks) == 1:
        ((only, _),) = marks.values()
        return values, only
    if marks:
        what = " and ".join(f"{name} ({mark})" for name, (_, mark) in marks.items())
        raise ConversationError(f"message {at} looks like {what}: name the format of all messages", (at,))
    if not has_role:
        raise _unknown_message(values, at)
    return values, chat


def _is_plain(message: Mapping[str, object]) -> bool:
    """Return whether a message has a role and no mark of any shipped format but OpenAI Chat."""
    content = message.get("content")
    is_text = "parts" not in message and "type" not in message and (type(content) is str or content is None)
    return is_text and isinstance(message.get("role"), str)


def _fields_of(message: object, at: int, formats: Sequence[Format]) -> Mapping[str, object]:
    """Return the fields of a message that is no dict.

    Raises ConversationError if the message has no fields or needs an adapter.
    """
    values = fields(message)
    if (how := _find_adapter(type(message).__mro__)) and not _has_custom_format(values, formats):
        raise ConversationError(f"message {at} is {type(message).__name__} of a framework: {how}", (at,))
    if values is None:
        what = f"{type(message).__name__} {str(message)[:40]!r}"
        raise ConversationError(f"message {at} is {what}, not a message: give a dict with 'role' and 'content'", (at,))
    return values


@lru_cache(maxsize=256)
def _find_adapter(classes: tuple[type, ...]) -> str | None:
    """Return how to prune messages of a framework's class, as text, given its base classes; None for other classes."""
    modules = (one.__module__.split(".") for one in classes)
    packages = (".".join(module[:length]) for module in modules for length in (1, 2))
    return next((ADAPTERS[name] for name in packages if name in ADAPTERS), None)


def _has_custom_format(known: Mapping[str, object] | None, formats: Sequence[Format]) -> bool:
    """Return whether a message has a mark of a custom format."""
    return known is not None and any(each.seen(known) for each in formats if each not in SHIPPED)


def roles_in(formats: Sequence[Format]) -> RoleOf:
    """Return a function that finds the role of a message in any of these formats."""
    others = [each for each in formats if hasattr(each, "role")]

    def find_role(message: object) -> str | None:
        own = next((each for each in others if each.seen(fields_of(message))), None)
        return role_of(message) if own is None else cast(Any, own).role(fields_of(message))

    return find_role if others else role_of


def dominant_format(messages: Iterable[object], formats: Sequence[Format]) -> Format:
    """Return the format of the first message with a mark of a format; OpenAI Chat if no message has a mark."""
    if len(formats) == 1:
        return formats[0]
    only_chat = (chat,)
    known = map(fields_of, messages)
    asked = ((each, only_chat if formats is SHIPPED and _is_plain(each) else formats) for each in known)
    return next((written_in for message, some in asked for written_in in some if written_in.seen(message)), chat)


def _unknown_message(message: Mapping[str, object], at: int) -> ConversationError:
    # SDK objects have all fields, most of them None.
    present = [str(name) for name, value in message.items() if value is not None]
    names = ", ".join(present or map(str, message)) or "nothing"
    kind = f" of type {message['type']!r}" if "type" in message else ""
    if "role" in present:
        return ConversationError(f"the role of message {at}{kind} is {message['role']!r}: give a text", (at, "role"))
    return ConversationError(
        f"message {at}{kind} has no 'role' (it has {names}): give 'user', 'assistant', 'tool' …", (at,)
    )


def find_formats(name: str | None, formats: Sequence[Format]) -> Sequence[Format]:
    """Return the format with a name, or all formats for None. Raises SettingsError for an unknown name.

    If none of `formats` has the name, an installed plugin may.
    """
    if name is None:
        return formats
    matching = tuple(each for each in formats if name == each.NAME)[:1] or _load_format(name)
    if not matching:
        names = [*(each.NAME for each in formats), *plugin_names(PLUGINS)]
        raise SettingsError(f"there is no format {name!r}{near_or_all(name, names)}")
    return matching


def _load_format(name: str) -> tuple[Format, ...]:
    """Load the format that an installed package registers under a name, if any. Loads no other plugin."""
    plugin: Any = load_plugin(PLUGINS, name)
    if plugin is None:
        return ()
    missing = [each for each in ("NAME", "seen", "speaker", "parse", "message") if not hasattr(plugin, each)]
    if missing:
        raise SettingsError(f"the plugin {name!r} under {PLUGINS} is no format: it has no {', '.join(missing)}")
    return (plugin,)
