"""The strict provider refuses what Gemini refuses, with the same errors, requires signatures, and caches."""

from typing import Any

import pytest
from strict_provider.exchange import Request
from strict_provider.scripts import Turn
from strict_provider.server import Provider

LONG = "Read the file before you change it, and say what you found in it. " * 150  # some 2,100 tokens

Messages = list[dict[str, Any]]

GO = {"role": "user", "parts": [{"text": "Go on."}]}
SAID = {"role": "model", "parts": [{"text": "Hello."}]}
PASS = "skip_thought_signature_validator"
UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:tool_0` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
    "for more details."
)


def calls(number: int, signature: str | None = None) -> dict[str, Any]:
    parts: Messages = [{"functionCall": {"name": f"tool_{index}", "args": {}}} for index in range(number)]
    return {"role": "model", "parts": [parts[0] | ({"thoughtSignature": signature} if signature else {}), *parts[1:]]}


def responses(number: int, **fields: Any) -> dict[str, Any]:
    parts = [
        {"functionResponse": {"name": f"tool_{index}", "response": {"output": "Found."}} | fields}
        for index in range(number)
    ]
    return {"role": "user", "parts": parts}


NUMBER = (
    "Please ensure that the number of function response parts is equal to the number of function call parts "
    "of the function call turn."
)


def asked(provider: Provider, model: str, contents: Messages) -> tuple[int, Any]:
    """Status and body of an answer, without the client, which would not send what is malformed."""
    return provider.answer(Request(f"/v1beta/models/{model}:generateContent", {}, {"contents": contents}))


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([], "* GenerateContentRequest.contents: contents is not specified\n"),
    ],
)
def test_gemini_refuses(contents: Messages, words: str, strict_provider: Provider):
    answer = asked(strict_provider, "gemini-2.5-pro", contents)

    assert answer == (400, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}})
    assert [(each.status, each.message) for each in strict_provider.refusals] == [(400, words)]


@pytest.mark.parametrize(
    ("model", "contents", "position"),
    [
        ("gemini-3.1-pro-preview", [GO, calls(2), responses(2)], 2),
        ("gemini-3.1-pro-preview", [GO, calls(1, PASS), responses(1), calls(1), responses(1)], 4),
        ("gemini-3.1-pro-preview", [GO, calls(2, PASS), responses(2)], None),
        ("gemini-3.1-pro-preview", [GO, calls(1), responses(1), SAID, GO], None),
        ("gemini-2.5-pro", [GO, calls(2), responses(2)], None),
    ],
)
def test_gemini_3_requires_the_signature_of_each_step_of_the_current_turn(
    model: str, contents: Messages, position: int | None, strict_provider: Provider
):
    status, answer = asked(strict_provider, model, contents)
    words = UNSIGNED.format(position)
    assert (status, answer.get("error", {}).get("message")) == ((400, words) if position else (200, None))


def test_gemini_refuses_fields_it_does_not_know(strict_provider: Provider):
    body = {"contents": [GO], "messages": []}
    status, answer = strict_provider.answer(Request("/v1beta/models/gemini-2.5-pro:generateContent", {}, body))
    words = 'Invalid JSON payload received. Unknown name "messages": Cannot find field.'
    assert (status, answer["error"]["message"]) == (400, words)


def test_gemini_requires_alternation_if_it_is_turned_on(strict_provider: Provider):
    assert asked(strict_provider, "gemini-2.5-pro", [GO, GO])[0] == 200
    strict_provider.play.strict_alternation = True
    status, answer = asked(strict_provider, "gemini-2.5-pro", [GO, GO])
    words = "Please ensure that multiturn requests alternate between user and model."
    assert (status, answer["error"]["message"]) == (400, words)


def test_geminis_client_raises_its_own_error(gemini_client: Any):
    error = pytest.importorskip("google.genai.errors").ClientError
    unsigned = [GO, {"role": "model", "parts": [{"function_call": {"name": "grep", "args": {}}}]}, GO]
    with pytest.raises(error) as refusal:
        gemini_client.models.generate_content(model="gemini-2.5-pro", contents=unsigned)
    assert (refusal.value.code, refusal.value.status, refusal.value.message) == (400, "INVALID_ARGUMENT", NUMBER)


def test_gemini_reads_an_unchanged_prefix(strict_provider: Provider, gemini_client: Any):
    strict_provider.play.script = [Turn("Done.")]
    long = {"role": "user", "parts": [{"text": LONG}]}

    def used(*contents: dict[str, Any]) -> tuple[int, int | None]:
        usage = gemini_client.models.generate_content(model="gemini-2.5-pro", contents=list(contents)).usage_metadata
        return usage.prompt_token_count, usage.cached_content_token_count

    size, cached = used(long)
    assert (size > 2_048, cached) == (True, None)
    assert used(long, SAID, GO)[1] == size
    assert used({"role": "user", "parts": [{"text": f"{LONG}!"}]}, SAID, GO)[1] is None
