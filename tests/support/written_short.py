"""Conversations in short: "U A[c1] R[c1] A", written in every wire format, and in XML text, and parsed."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tables import each_row

from autoprune.conversation.transcript import Entry
from autoprune.wire import gemini, new_parser
from autoprune.wire.parsing import parse

Message: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[[str], Message]


def chat_call(name: str) -> Message:
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }


def chat_result(name: str) -> Message:
    return {"role": "tool", "tool_call_id": name, "content": "Done."}


def responses_call(name: str) -> Message:
    return {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}


def responses_result(name: str) -> Message:
    return {"type": "function_call_output", "call_id": name, "output": "Done."}


def anthropic_call(name: str) -> Message:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": name, "input": {}}]}


def anthropic_result(name: str) -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": "Done."}]}


def bedrock_call(name: str) -> Message:
    return {"role": "assistant", "content": [{"toolUse": {"toolUseId": name, "name": name, "input": {}}}]}


def bedrock_result(name: str) -> Message:
    return {"role": "user", "content": [{"toolResult": {"toolUseId": name, "content": [{"text": "Done."}]}}]}


def gemini_call(name: str) -> Message:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}


def gemini_result(name: str) -> Message:
    return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"output": "Done."}}}]}


def xml_call(name: str) -> Message:
    return {"role": "assistant", "content": f"<{name}>\n<path>a.py</path>\n</{name}>"}


def xml_result(name: str) -> Message:
    content = f"<tool_result tool_name='{name}' success='true'>\n<content>Done.</content>\n</tool_result>"
    return {"role": "user", "content": content}


# How a call and a result are written; the id is also the tool's name, for Gemini and XML have no ids.
NATIVE: dict[str, tuple[Write, Write]] = {
    "openai_chat": (chat_call, chat_result),
    "openai_responses": (responses_call, responses_result),
    "anthropic": (anthropic_call, anthropic_result),
    "bedrock": (bedrock_call, bedrock_result),
    "gemini": (gemini_call, gemini_result),
}
FORMATS = {**NATIVE, "xml": (xml_call, xml_result)}
ROLES = {"S": "system", "U": "user", "A": "assistant"}

every_format = each_row("written_in", FORMATS)
every_native_format = each_row("written_in", NATIVE)


def messages(short: str, written_in: str) -> list[Message]:
    """The messages: each of one word, a call or a result."""
    return [_message(word, written_in) for word in short.split()]


def _message(word: str, written_in: str) -> Message:
    call, result = FORMATS[written_in]
    name = word[2:-1]
    if name:
        return call(name) if word[0] == "A" else result(name)
    role = ROLES[word]
    if written_in == "gemini" and role != "system":
        return dict(gemini.message(role, "Words."))
    if written_in == "bedrock":
        return {"role": role, "content": [{"text": "Words."}]}
    return {"role": role, "content": "Words."}


def entries(short: str, written_in: str) -> Sequence[Entry]:
    """The entries, one for each word."""
    return parsed(messages(short, written_in))


def parsed(conversation: Sequence[Any]) -> Sequence[Entry]:
    """The entries of messages in any format; each character is a token."""
    return parse(conversation, new_parser(len), 0).entries
