"""LangChain's messages as a format: read directly, and cleared in copies that keep their ids. Needs no LangChain.

`PruningMiddleware` and `pre_model_hook` use it. To use it with your own pruner, write `AgenticConversationPruner(args,
formats=[langchain_messages])`.

How it works: The field `type` distinguishes the classes; streamed messages have other values (`AIMessageChunk`). An
answer names its calls in `tool_calls`, and models that write blocks repeat them in the content. They are counted once:

    AIMessage(content=[{"type": "thinking", …}, {"type": "tool_use", "id": "c1", …}], tool_calls=[{"id": "c1", …}])
    ToolMessage(content="…", tool_call_id="c1", artifact=…, id="m7")    only the content is sent, counted and cleared
"""

from collections.abc import Mapping, Sequence
from typing import Any

from autoprune.wire import (
    MESSAGE_TOKENS,
    NAME_TOKENS,
    Entry,
    Location,
    Parser,
    Path,
    Speaker,
    Thought,
    ToolCall,
    encrypted_tokens,
    fields_of,
    items_of,
    json_text,
    listed,
    native_call,
    native_result,
    nested,
    payload,
    text_block,
    texts,
)

NAME = "langchain"
MARKS = ("additional_kwargs", "response_metadata")  # fields by which a message is recognized
SPEAKERS: Mapping[object, Speaker] = {
    **dict.fromkeys(("system", "SystemMessageChunk", "developer"), Speaker.SYSTEM),
    **dict.fromkeys(("human", "HumanMessageChunk", "user"), Speaker.USER),
    **dict.fromkeys(("ai", "AIMessageChunk", "assistant"), Speaker.MODEL),
    **dict.fromkeys(("tool", "ToolMessageChunk", "function", "FunctionMessageChunk"), Speaker.TOOL),
}
ROLES = {Speaker.SYSTEM: "system", Speaker.USER: "user", Speaker.MODEL: "assistant", Speaker.TOOL: "tool"}
WITH_ROLE = ("chat", "ChatMessageChunk")  # types whose speaker is in the field `role`
# A call whose arguments are not JSON is "invalid", but it is sent and answered too.
CALLS = ("tool_calls", "invalid_tool_calls")
CALL_BLOCKS = frozenset(("tool_use", "tool_call", "function_call", "invalid_tool_call", "tool_call_chunk"))
BOUND = frozenset(("thinking", "redacted_thinking"))  # Anthropic's, which may be bound to the messages before it
THINKING = BOUND | {"reasoning", "reasoning_content"}
ENCRYPTED = frozenset(("encrypted_content", "data"))
# Fields of a thinking block that are not counted as text.
UNREAD = ENCRYPTED | {"type", "id", "index", "signature", "cache_control", "extras", "status"}


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the fields that identify a LangChain message; None for other messages."""
    return f"{MARKS[0]!r}" if all(mark in message for mark in MARKS) else None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a message."""
    kind = message.get("type")
    return SPEAKERS.get(message.get("role") if kind in WITH_ROLE else kind, Speaker.OTHER)


def role(message: Mapping[str, object]) -> str | None:
    """Return the role that Chat Completions has for a message."""
    return ROLES.get(speaker(message))


def message(role: str, text: str) -> Any:
    """Create a message with a text. Only this function needs LangChain."""
    from langchain_core.messages import AIMessage, HumanMessage

    return (AIMessage if role == "assistant" else HumanMessage)(text)


def strip_unsent(message: Any, at: int) -> Any:
    """Replace the artifact of message number `at` by that number; unchanged without an artifact."""
    return message if getattr(message, "artifact", None) is None else message.model_copy(update={"artifact": at})


def restore_unsent(message: Any, messages: Sequence[Any]) -> Any:
    """Restore the artifact of a stripped message by its number; unchanged without a number."""
    at = getattr(message, "artifact", None)
    return message if at is None else message.model_copy(update={"artifact": messages[at].artifact})


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. Fields that are never sent, such as metadata, are not counted."""
    who = speaker(message)
    content = listed(message.get("content"))
    if who is Speaker.TOOL:
        return _read_tool_message(message, content, at, parser)
    name = message.get("name")
    weight = MESSAGE_TOKENS + (NAME_TOKENS + parser.count(name) if isinstance(name, str) else 0)
    if who is Speaker.USER:
        results, spent = texts.user_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, results)
    if who is Speaker.MODEL:
        return _read_answer(message, content, at, weight, parser)
    return Entry(who, weight + parser.tokens(content))


def _read_tool_message(message: Mapping[str, object], content: object, at: int, parser: Parser) -> Entry:
    """Read a tool's message. Its name is not sent, so it is not counted."""
    name = message.get("name")
    call = parser.answered(message.get("tool_call_id", name))
    held = payload(content, parser.count, text_block)
    failed = message.get("status") == "error"
    result = native_result(parser, (at, "content"), held, call, kind=NAME, tool=name, is_error=failed)
    return Entry(Speaker.TOOL, MESSAGE_TOKENS + held.tokens, (result,))


def _read_answer(message: Mapping[str, object], content: object, at: int, weight: int, parser: Parser) -> Entry:
    calls, spent = _read_calls(message, at, parser)
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    # Models that write blocks repeat their calls in the content; those were counted in `tool_calls`.
    repeated = CALL_BLOCKS if calls else frozenset[str]()
    weight += spent + sum(_block_tokens(block, parser) for block in blocks if _kind(block) not in repeated)
    said = texts.model_content(content, (at, "content"), parser) if content else []
    return Entry(Speaker.MODEL, weight, (), (*calls, *said), _thinking(content, (at, "content"), parser))


def _read_calls(message: Mapping[str, object], at: int, parser: Parser) -> tuple[list[ToolCall], int]:
    found: list[ToolCall] = []
    spent = 0
    for name in CALLS:
        for index, item in enumerate(items_of(message.get(name))):
            call = fields_of(item)
            tool, arguments = call.get("name"), call.get("args")
            written = json_text(arguments) if isinstance(arguments, Mapping) else arguments
            spent += parser.tokens(tool) + parser.tokens(written)
            found.append(native_call(parser, (at, name, index), call.get("id"), tool, arguments, ("args",)))
    return found, spent


def _thinking(content: object, path: Path, parser: Parser) -> tuple[Thought, ...]:
    """Return the thinking blocks that may be bound to the messages before them."""
    blocks: Sequence[object] = content if isinstance(content, list) else ()
    bound = [(index, block) for index, block in enumerate(blocks) if _kind(block) in BOUND]
    is_alone = len(bound) == len(blocks)
    thoughts = ((Location((*path, index)), _block_tokens(block, parser)) for index, block in bound)
    return tuple(Thought(place, spent, is_alone, NAME) for place, spent in thoughts)


def _block_tokens(block: object, parser: Parser) -> int:
    """Count the tokens of a block; for a thinking block, without signatures and ids, which the model does not read."""
    if _kind(block) not in THINKING:
        return parser.tokens(block)
    total = 0
    open_values = [block]
    for value in nested(open_values):
        held = fields_of(value)
        total += parser.count(value) if isinstance(value, str) else 0
        total += sum(encrypted_tokens(held.get(name)) for name in ENCRYPTED)
        open_values.extend(value if isinstance(value, list) else ())
        open_values.extend(inner for name, inner in held.items() if name not in UNREAD)
    return total


def _kind(block: object) -> object:
    kind = fields_of(block).get("type")
    return kind if isinstance(kind, str) else None
