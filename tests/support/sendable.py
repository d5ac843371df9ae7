"""Whether a provider would take a conversation: as the body of a request, to the strict provider, without HTTP.

What the provider itself must have made is made by it here: signatures, and ids that it would know. The rest is sent as
it is; where the messages are an SDK's objects, as that SDK writes them.
"""

import base64
import json
from typing import Any

from every_format import fields
from pydantic import BaseModel
from strict_provider.exchange import Request
from strict_provider.gemini_rules import PASSES
from strict_provider.scripts import Play, Turn
from strict_provider.seals import digest, seal
from strict_provider.server import Provider

from autoprune.wire import find_provider

UNKNOWN = ("x_trace", "x_score", "x_note", "cache_control")  # fields of gateways that OpenAI does not take


def rules(messages: list[Any]) -> str:
    """The provider whose conversation it is; texts alone may be anybody's, and are OpenAI's."""
    return find_provider(None, messages).name


def accepts(messages: list[Any], provider: str) -> str | None:
    """The strict provider's refusal; None where it takes the conversation."""
    path, name, convert, beside = APIS[provider]
    body = {**beside, name: [convert(plain(message)) for message in messages]}
    request = Request(path, {"anthropic-beta": "mid-conversation-system"}, json.loads(json.dumps(body)))
    status, answer = Provider("", Play([Turn("It is done.")])).answer(request)
    return None if status == 200 else json.dumps(answer)


def plain(value: Any) -> Any:
    """A message as JSON values; what is None in an SDK's object is absent."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, BaseModel):
        return {name: plain(item) for name, item in fields(value).items() if item is not None}
    return value


def chat(message: Any) -> Any:
    """Without the fields that OpenAI refuses from everybody."""
    if isinstance(message, list):
        return [chat(item) for item in message]
    if not isinstance(message, dict):
        return message
    return {name: chat(item) for name, item in message.items() if name not in UNKNOWN}


def anthropic(message: Any) -> Any:
    """Of a response only what is sent, with the signatures of the provider."""
    sent = {name: message[name] for name in ("role", "content") if name in message}
    if isinstance(sent.get("content"), list):
        sent["content"] = [signed(block) for block in sent["content"]]
    return sent


def signed(block: Any) -> Any:
    """A block; one of thinking as the provider would have made it."""
    if block["type"] not in ("thinking", "redacted_thinking"):
        return block
    text = block.get("thinking", block.get("data"))
    return {"type": "thinking", "thinking": text, "signature": seal(digest(text), "system", "tools", "content")}


def gemini(content: Any) -> Any:
    """With the names of the wire, one of its roles, and a stand-in that passes for each signature."""
    camel = camel_case(content)
    role = {"function": "user"}.get(camel.get("role"), camel.get("role"))
    passed = {"thoughtSignature": PASSES[0]}
    parts = [{**part, **(passed if "thoughtSignature" in part else {})} for part in camel["parts"]]
    return {**camel, "parts": parts, **({"role": role} if role else {})}


def camel_case(value: Any) -> Any:
    """Names as on the wire, but for those in a call's arguments and in a response."""
    if isinstance(value, list):
        return [camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {camel(name): item if name in ("args", "response") else camel_case(item) for name, item in value.items()}


def camel(name: str) -> str:
    """A name without underscores."""
    first, *others = name.split("_")
    return "".join([first, *map(str.capitalize, others)])


def responses(item: Any) -> Any:
    """Without ids, which the provider would look up, and with reasoning that it would have encrypted."""
    kind = item.get("type", "message")
    sent = {name: value for name, value in item.items() if name != "id" or kind == "mcp_approval_request"}
    if kind == "reasoning":
        sent["encrypted_content"] = seal(digest(item.get("summary")))
    if kind == "local_shell_call_output":
        sent["call_id"] = item["id"]
    return sent


def same(message: Any) -> Any:
    """A message as it is."""
    return message


TOOLS = {"toolConfig": {"tools": [{"toolSpec": {"name": "read_file", "inputSchema": {"json": {}}}}]}}
APIS = {
    "openai_chat": ("/v1/chat/completions", "messages", chat, {"model": "gpt-5"}),
    "openai_responses": ("/v1/responses", "input", responses, {"model": "gpt-5", "store": False}),
    "anthropic": ("/v1/messages", "messages", anthropic, {"model": "claude-sonnet-4-5", "max_tokens": 99}),
    "gemini": ("/v1beta/models/gemini-2.5-pro:generateContent", "contents", gemini, {}),
    "bedrock": ("/model/claude/converse", "messages", same, TOOLS),
}
