"""The strict provider refuses what OpenAI refuses, with the same errors, caches, and keeps reasoning."""

import json
from typing import Any

import openai
import pytest
from strict_provider import loops
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider

LONG = "Read the file before you change it, and say what you found in it. " * 150  # some 2,100 tokens

Messages = list[dict[str, Any]]

# Broken rules of Chat Completions

USER = {"role": "user", "content": "Go on."}


def asked(*ids: str, **fields: Any) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "grep", "arguments": "{}"} | fields} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answered(id: str, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "Found."} | fields


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (
            [],
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        ),
    ],
)
def test_openai_chat_refuses(messages: Messages, words: str, strict_provider: Provider, openai_client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refusal:
        openai_client.chat.completions.create(model="gpt-4.1", messages=messages)

    assert (refusal.value.body["message"], refusal.value.type) == (words, "invalid_request_error")
    assert [(each.status, each.message) for each in strict_provider.refusals] == [(400, words)]


@pytest.mark.parametrize(
    "messages", [[USER, USER], [{"role": "assistant", "content": "Hi."}, USER], [USER, asked("a"), answered("a"), USER]]
)
def test_openai_requires_alternation_if_it_is_turned_on(
    messages: Messages, strict_provider: Provider, openai_client: openai.OpenAI
):
    openai_client.chat.completions.create(model="local", messages=messages)
    strict_provider.play.strict_alternation = True
    with pytest.raises(
        openai.BadRequestError, match="Conversation roles must alternate user/assistant/user/assistant/"
    ):
        openai_client.chat.completions.create(model="local", messages=messages)


# Broken rules of Responses


def call(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "grep", "arguments": "{}"} | fields


def output(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "Found."} | fields


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([USER, call("a")], "No tool output found for function call a."),
    ],
)
def test_openai_responses_refuses(items: Messages, words: str, strict_provider: Provider, openai_client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refusal:
        openai_client.responses.create(model="gpt-5.5", input=items)

    assert (refusal.value.body["message"], refusal.value.type) == (words, "invalid_request_error")
    assert [(each.status, each.message) for each in strict_provider.refusals] == [(400, words)]


REASONED = [Turn(thinking="I look for it.", calls=(Call("grep", {}),)), Turn("Done.", thinking="It is there.")]


def reasoned(openai_client: openai.OpenAI, **request: Any) -> Messages:
    """The user, reasoning, a call with its output, reasoning, a message: as the API handed them out."""
    return loops.openai_responses(openai_client, ["Find it."], **request)


def without(items: Messages, *kinds: str) -> Messages:
    return [item for item in items if item.get("type") not in kinds]


def test_reasoning_stays_with_the_item_that_follows_it(strict_provider: Provider, openai_client: openai.OpenAI):
    strict_provider.play.script = REASONED
    items = reasoned(openai_client)
    thought, asked_for = items[1]["id"], items[2]["id"]

    for edited, words in [
        (
            without(items, "reasoning"),
            f"Item '{asked_for}' of type 'function_call' was provided without its required 'reasoning' item: "
            f"'{thought}'.",
        ),
        (
            without(items, "function_call", "function_call_output"),
            f"Item '{thought}' of type 'reasoning' was provided without its required following item.",
        ),
        (items[:2], f"Item '{thought}' of type 'reasoning' was provided without its required following item."),
    ]:
        with pytest.raises(openai.BadRequestError) as refusal:
            openai_client.responses.create(model="gpt-5.5", input=edited)
        assert refusal.value.body["message"] == words
    nameless = [{key: value for key, value in item.items() if key != "id"} for item in without(items, "reasoning")]
    assert openai_client.responses.create(model="gpt-5.5", input=nameless).output_text == "Done."


def test_encrypted_reasoning_must_come_back_unchanged(strict_provider: Provider, openai_client: openai.OpenAI):
    strict_provider.play.script = REASONED
    stateless = {"store": False, "include": ["reasoning.encrypted_content"]}
    items = reasoned(openai_client, **stateless)
    assert openai_client.responses.create(model="gpt-5.5", input=items, **stateless).output_text == "Done."

    id = items[1]["id"]
    broken = [items[0], items[1] | {"encrypted_content": "gAAAAA=="}, *items[2:]]
    with pytest.raises(openai.BadRequestError) as refusal:
        openai_client.responses.create(model="gpt-5.5", input=broken, **stateless)
    reason = "Reason: Encrypted content could not be decrypted or parsed."
    assert refusal.value.body["message"] == f"The encrypted content for item {id} could not be verified. {reason}"
    assert refusal.value.code == "invalid_encrypted_content"

    bare = [items[0], items[1] | {"encrypted_content": None}, *items[2:]]
    with pytest.raises(openai.NotFoundError, match=f"Item with id '{id}' not found. Items are not persisted when"):
        openai_client.responses.create(model="gpt-5.5", input=bare, **stateless)


def test_stored_responses_and_items_are_found_again(strict_provider: Provider, openai_client: openai.OpenAI):
    strict_provider.play.script = REASONED
    first = openai_client.responses.create(model="gpt-5.5", input="Go on.")
    result = output(first.output[1].call_id)
    references = [USER, *({"type": "item_reference", "id": item.id} for item in first.output), result]

    assert (
        openai_client.responses.create(model="gpt-5.5", previous_response_id=first.id, input=[result]).output_text
        == "Done."
    )
    assert openai_client.responses.create(model="gpt-5.5", input=references).output_text == "Done."
    with pytest.raises(openai.NotFoundError, match="Item with id 'rs_0' not found"):
        openai_client.responses.create(model="gpt-5.5", input=[{"type": "item_reference", "id": "rs_0"}])
    with pytest.raises(openai.BadRequestError, match="Invalid value: 'shout'"):
        openai_client.responses.create(model="gpt-5.5", input=[{"type": "shout"}])
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call"):
        openai_client.responses.create(model="gpt-5.5", previous_response_id=first.id, input=[USER])
    with pytest.raises(openai.BadRequestError, match="Previous response with id 'resp_0' not found"):
        openai_client.responses.create(model="gpt-5.5", previous_response_id="resp_0", input=[USER])


def test_a_trigger_is_answered_by_a_compaction_that_comes_back(strict_provider: Provider, openai_client: openai.OpenAI):
    request: dict[str, Any] = {"model": "gpt-5.5", "store": False}
    compacted = openai_client.responses.create(**request, input=[USER, {"type": "compaction_trigger"}])
    assert [item.type for item in compacted.output] == ["compaction"]
    openai_client.responses.create(**request, input=[USER, compacted.output[0].to_dict(), USER])
    assert strict_provider.refusals == []


@pytest.mark.parametrize(("model", "is_dropping"), [("gpt-6.2-sol", True), ("gpt-5.5", False)])
def test_newer_models_drop_reasoning_after_an_edit_and_say_so(
    model: str, is_dropping: bool, strict_provider: Provider, openai_client: openai.OpenAI
):
    strict_provider.play.script = REASONED
    stateless = {"store": False, "include": ["reasoning.encrypted_content"], "model": model}
    items = reasoned(openai_client, **stateless)
    cleared = [{**item, "output": "Cleared."} if "output" in item else item for item in items]
    dropped = [{"id": items[4]["id"], "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}]

    def reported(sent: Messages) -> Any:
        tools = json.loads(json.dumps(strict_provider.requests[0].body["tools"]))
        return openai_client.responses.create(input=sent, tools=tools, **stateless).to_dict()["input_transformations"]

    assert reported(items) == []
    assert reported(cleared) == (dropped if is_dropping else [])


# Prompt caches


def test_openai_reads_an_unchanged_prefix_in_steps_of_128_tokens(
    strict_provider: Provider, openai_client: openai.OpenAI
):
    strict_provider.play.script = [Turn("Done.")]
    head = [{"role": "system", "content": LONG}, USER]
    whole = [*head, {"role": "assistant", "content": LONG}, USER]

    def used(messages: Messages, model: str = "gpt-4.1") -> tuple[int, int]:
        usage = openai_client.chat.completions.create(model=model, messages=messages).usage
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens

    size, cached = used(head)
    assert (size > 2_048, cached) == (True, 0)
    assert used(whole)[1] == size - size % 128
    assert used(whole, "gpt-4.1-mini")[1] == 0
    assert used([*head, {"role": "assistant", "content": "Cleared."}, USER])[1] == size - size % 128
    assert used([head[0] | {"content": f"{LONG}!"}, *whole[1:]])[1] == 0
    assert [used([USER])[1], used([USER])[1]] == [0, 0]  # below the minimum


def test_responses_report_cached_tokens_in_their_own_shape(strict_provider: Provider, openai_client: openai.OpenAI):
    strict_provider.play.script = [Turn("Done.")]
    usages = [openai_client.responses.create(model="gpt-5.5", input=LONG).usage for _ in range(2)]
    size = usages[0].input_tokens
    assert [usage.input_tokens_details.cached_tokens for usage in usages] == [0, size - size % 128]
    assert [usage.total_tokens for usage in usages] == [size + usages[0].output_tokens] * 2
