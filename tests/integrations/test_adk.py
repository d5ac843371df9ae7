"""The callback and the plugin for Google's ADK, in a loop against a strict provider and with a scripted model."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="Google's ADK is not installed")

import adk_loop as loop
from google.adk.events import Event
from google.adk.models import LlmRequest
from google.genai import types
from pydantic import BaseModel, Field
from reading_loop import (
    ANSWERED,
    CALLS,
    DONE,
    PATHS,
    SAFE_ZONE,
    SCRIPT,
    TASK,
    FailureError,
    figures,
    figures_of,
    read_file,
)
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.integrations.adk import PruningPlugin, before_model_callback

# What google-genai does with aiohttp.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")


def pruner() -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(SAFE_ZONE))


def by_callback() -> dict[str, Any]:
    return {"callback": before_model_callback(pruner())}


def by_plugin() -> dict[str, Any]:
    return {"plugins": [PruningPlugin(pruner())]}


def kept(events: list[Event]) -> list[str]:
    """The results in the events of a session."""
    return [answer.response["result"] for event in events for answer in event.get_function_responses()]


@pytest.mark.parametrize("hook", [by_callback, by_plugin])
def test_a_long_loop_stays_within_the_safe_zone_and_the_session_keeps_every_result(
    hook: Callable[[], dict[str, Any]], strict_provider: Provider
):
    strict_provider.play.script = SCRIPT
    events = loop.run(loop.over_http(strict_provider), **hook())
    found = figures_of(strict_provider)
    assert events[-1].content.parts[0].text == DONE
    assert strict_provider.refusals == []
    assert found.requests == CALLS + 1
    assert found.largest <= SAFE_ZONE
    assert kept(events) == list(map(read_file, PATHS))


def test_a_streamed_run_is_pruned_alike():
    plain, streamed = loop.Scripted(), loop.Scripted()
    loop.run(plain, **by_callback())
    events = loop.run(streamed, is_streaming=True, **by_callback())
    assert streamed.prompts == plain.prompts
    assert figures(streamed.prompts).largest <= SAFE_ZONE
    assert kept(events) == list(map(read_file, PATHS))


def request(results: int, *, model: str = "gemini-2.5-pro", thoughts: bool = False, **config: Any) -> LlmRequest:
    """A request after a number of results."""
    contents = [types.Content(role="user", parts=[types.Part(text=TASK)])]
    for path in PATHS[:results]:
        thought = types.Part(text=f"{path} is next.", thought=True, thought_signature=b"signed")
        call = types.Part.from_function_call(name="read_file", args={"path": path})
        answer = types.Part.from_function_response(name="read_file", response={"result": read_file(path)})
        contents.append(types.Content(role="model", parts=[*([thought] if thoughts else []), call]))
        contents.append(types.Content(role="user", parts=[answer]))
    return LlmRequest(model=model, contents=contents, config=types.GenerateContentConfig(**config))


def pruned(request: LlmRequest, **args: Any) -> list[types.Content]:
    before_model_callback(PruneArgs(SAFE_ZONE, **args))(None, request)
    return request.contents


def changed(asked: LlmRequest, **args: Any) -> list[int]:
    """The indexes of the contents that are pruned."""
    given = asked.contents
    return [at for at, (one, other) in enumerate(zip(given, pruned(asked, **args), strict=True)) if one is not other]


def test_contents_that_are_not_pruned_are_the_same_objects():
    asked = request(10)
    responses = [at for at, content in enumerate(asked.contents) if content.parts[0].function_response]
    cleared = changed(asked)
    assert cleared
    assert set(cleared) <= set(responses)


def test_the_name_of_a_model_of_litellm_is_read():
    for model in ("openai/gpt-5", "ollama_chat/llama3:8b", "projects/p/models/gemini-2.5-pro"):
        assert changed(request(10, model=model)) == changed(request(10))


def test_bound_thinking_is_an_error_before_the_request_and_stays_valid_with_refuse():
    asked, options = request(10, thoughts=True), {"model": "claude-opus-5-5", "thoughts": True}
    with pytest.raises(SettingsError, match=r"an LlmRequest cannot send .* PruneArgs\(thinking_policy='refuse'\)"):
        pruned(request(10, **options))
    assert changed(request(10, **options), thinking_policy="refuse") == []
    assert changed(request(10, **options), thinking_policy="report") == changed(request(10, model="claude-opus-5-5"))
    assert changed(request(10, thoughts=True), thinking_policy="refuse") == changed(asked)  # Gemini binds no thought


def test_the_system_instruction_and_the_tools_take_room_of_the_safe_zone():
    words = "word " * 8_000
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="read_file", description=words)])
    plain = request(6)
    assert pruned(plain) == request(6).contents
    assert pruned(request(6, system_instruction=words)) != plain.contents
    assert pruned(request(6, tools=[tool])) != plain.contents


class Answer(BaseModel):
    text: str = Field(description="word " * 8_000)


@pytest.mark.parametrize("schema", [Answer, list[Answer], Answer.model_json_schema()])
def test_the_schema_of_the_answer_takes_room_of_the_safe_zone(schema: Any):
    assert pruned(request(6, response_schema=schema)) != pruned(request(6))


def test_a_history_that_the_provider_keeps_is_left_alone():
    asked = request(20, cached_content="cachedContents/1")
    given = asked.contents
    assert pruned(asked) is given


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("hook", [by_callback, by_plugin])
def test_an_error_of_the_model_is_raised_unchanged_and_the_session_keeps_every_result(
    hook: Callable[[], dict[str, Any]], is_streaming: bool
):
    model, watching = loop.Failing(error=FailureError("The model is gone.")), loop.Watching("watching")
    pruning = hook()
    plugins = [*pruning.pop("plugins", ()), watching]
    with pytest.raises(FailureError) as raised:
        loop.run(model, plugins=plugins, is_streaming=is_streaming, **pruning)
    results = list(map(read_file, PATHS[:ANSWERED]))
    assert raised.value is model.error
    assert results[0] not in str(model.prompts[-1])
    assert kept(watching.session.events) == results
