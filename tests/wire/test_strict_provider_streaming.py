"""Real clients assemble the strict provider's streams into the same answers as without streaming."""

from typing import Any

import pytest
from strict_provider.exchange import Request
from strict_provider.scripts import ASIDE, Call, Turn
from strict_provider.server import Provider

TURN = Turn("I look. " * 100, (Call("read", {"path": "a" * 900}), Call("read", {"path": "b"})), "Which one? " * 100)
ASKED = [{"role": "user", "content": "Go on."}]


@pytest.fixture(autouse=True)
def one_turn(strict_provider: Provider) -> None:
    strict_provider.play.script = [TURN]


def plain(value: Any) -> Any:
    """A value without what is nothing, and without what the clients add to what is streamed."""
    match value:
        case dict():
            said = {key: plain(item) for key, item in value.items() if item is not None}
            return {key: item for key, item in said.items() if not key.startswith("parsed")}
        case list():
            return [plain(item) for item in value]
    return value


def test_messages_of_anthropic(anthropic_client: Any):
    request = {"model": "claude-opus-5-5", "max_tokens": 1_000, "messages": ASKED}
    with anthropic_client.messages.stream(**request) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    whole = anthropic_client.messages.create(**request)
    assert plain(streamed.to_dict()) == plain(whole.to_dict())
    assert [block.type for block in streamed.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert kinds.count("content_block_delta") > 6


def test_chat_completions(openai_client: Any):
    request = {"model": "gpt-4.1", "messages": ASKED}
    with openai_client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    whole = openai_client.chat.completions.create(**request)
    said, whole_said = (plain(each.choices[0].message.to_dict()) for each in (streamed, whole))
    calls = [{key: value for key, value in call.items() if key != "index"} for call in said["tool_calls"]]
    assert (said["content"], calls) == (whole_said["content"], whole_said["tool_calls"])
    assert streamed.usage == whole.usage


def test_responses(openai_client: Any):
    request = {"model": "gpt-5.5", "input": ASKED, "store": False, "include": ["reasoning.encrypted_content"]}
    with openai_client.responses.stream(**request) as stream:
        kinds = {event.type for event in stream}
        streamed = stream.get_final_response()
    whole = openai_client.responses.create(**request)
    assert plain([item.to_dict() for item in streamed.output]) == plain([item.to_dict() for item in whole.output])
    assert {"response.reasoning_summary_text.delta", "response.function_call_arguments.delta"} <= kinds


def test_contents_of_gemini(gemini_client: Any):
    request = {"model": "gemini-3.1-pro-preview", "contents": "Go on."}
    chunks = [*gemini_client.models.generate_content_stream(**request)]
    whole = gemini_client.models.generate_content(**request)
    assert [part for chunk in chunks for part in chunk.candidates[0].content.parts] == whole.candidates[0].content.parts
    assert chunks[-1].usage_metadata == whole.usage_metadata
    assert len(chunks) == 3


def test_a_request_beside_the_conversation_is_answered_beside_the_script(strict_provider: Provider):
    strict_provider.play.is_aside = lambda request: not request.body.get("tools")
    body = {"model": "gpt-4.1", "messages": ASKED}
    tools = [{"type": "function", "function": {"name": "read"}}]
    answers = [
        strict_provider.answer(Request("/v1/chat/completions", {}, each))[1] for each in (body, body | {"tools": tools})
    ]
    assert [answer["choices"][0]["message"]["content"] for answer in answers] == [ASIDE.text, TURN.text]
