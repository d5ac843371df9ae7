"""The strict provider refuses what Anthropic refuses, with the same errors, binds thinking, and caches at marks."""

from copy import deepcopy
from typing import Any

import pytest
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider

anthropic = pytest.importorskip("anthropic")

LONG = "Read the file before you change it, and say what you found in it. " * 150  # some 2,100 tokens
BETA = "thinking-binding-controls-2026-08-01"
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BINDING, UNBOUND = "claude-opus-5-5", "claude-opus-4-8"

Messages = list[dict[str, Any]]

# Broken rules

USER = {"role": "user", "content": "Go on."}


def use(*ids: str, **fields: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "grep", "input": {}} | fields for id in ids],
    }


def result(id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "Found."} | fields


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def unanswered(index: int, *ids: str) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}"
        ". Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


MARK = {"type": "ephemeral"}
MARKED = text("Go on.") | {"cache_control": MARK}
HELLO = {"role": "assistant", "content": "Hello."}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([USER, use("a"), USER], unanswered(1, "a")),
    ],
)
def test_anthropic_refuses(messages: Messages, words: str, strict_provider: Provider, anthropic_client: Any):
    with pytest.raises(anthropic.BadRequestError) as refusal:
        anthropic_client.messages.create(model=BINDING, max_tokens=100, messages=messages)

    assert refusal.value.body["error"] == {"type": "invalid_request_error", "message": words}
    assert refusal.value.request_id.startswith("req_")
    assert [(each.status, each.message) for each in strict_provider.refusals] == [(400, words)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"extra_body": {"response_format": {}}}, "response_format: Extra inputs are not permitted"),
        (
            {"extra_body": {"thinking": DROPS}},
            "thinking.adaptive.block_binding: Extra inputs are not permitted",
        ),
    ],
)
def test_anthropic_refuses_fields_it_does_not_know(fields: dict[str, Any], words: str, anthropic_client: Any):
    with pytest.raises(anthropic.BadRequestError) as refusal:
        anthropic_client.messages.create(model=BINDING, max_tokens=100, messages=[USER], **fields)
    assert refusal.value.body["error"]["message"] == words


def test_anthropic_requires_alternation_if_it_is_turned_on(strict_provider: Provider, anthropic_client: Any):
    anthropic_client.messages.create(model=BINDING, max_tokens=100, messages=[USER, USER])
    strict_provider.play.strict_alternation = True
    with pytest.raises(anthropic.BadRequestError) as refusal:
        anthropic_client.messages.create(model=BINDING, max_tokens=100, messages=[USER, USER])
    words = 'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'
    assert refusal.value.body["error"]["message"] == words


# Anthropic's thinking


def working(number: int) -> Turn:
    return Turn(f"Step {number}.", (Call("grep", {"pattern": str(number)}),), f"I think of step {number}.")


def step(anthropic_client: Any, messages: Messages, model: str, **request: Any) -> Any:
    """One request; its answer and the results of its calls are appended to `messages`."""
    api = anthropic_client.beta.messages if "betas" in request else anthropic_client.messages
    answer = api.create(model=model, max_tokens=100, messages=messages, **request)
    content = answer.to_dict()["content"]
    messages.append({"role": "assistant", "content": content})
    if results := [result(block["id"], content="Found.") for block in content if block["type"] == "tool_use"]:
        messages.append(user(*results))
    return answer


def opened(strict_provider: Provider, anthropic_client: Any, model: str) -> Messages:
    """A closed turn (user, thinking and text) and an open one (user, then two steps with results)."""
    strict_provider.play.script = [Turn("Done.", thinking="Easy."), *map(working, range(9))]
    messages: Messages = [dict(USER)]
    step(anthropic_client, messages, model, thinking={"type": "adaptive"})
    messages.append(dict(USER))
    step(anthropic_client, messages, model, thinking={"type": "adaptive"})
    step(anthropic_client, messages, model, thinking={"type": "adaptive"})
    assert [message["role"] for message in messages] == ["user", "assistant", "user", *("assistant", "user") * 2]
    return messages


def edited(messages: Messages, path: tuple[Any, ...], value: Any) -> Messages:
    """A copy with another value at a path."""
    changed = deepcopy(messages)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
NEEDS_BETA = f" That setting requires the `{BETA}` value in the `anthropic-beta` header."
OTHER_SYSTEM = " The `system` prompt differs from the one this block was created with."
CLEARED = (4, "content", 0, "content")  # the place of the open turn's first result


def test_bound_thinking_after_an_edit_is_refused(strict_provider: Provider, anthropic_client: Any):
    messages = opened(strict_provider, anthropic_client, BINDING)

    for request, words in [
        ({"messages": edited(messages, CLEARED, "Cleared.")}, f"messages.5.content.0: {BOUND}{NEEDS_BETA}"),
        ({"messages": edited(messages, (0, "content"), "Go!")}, f"messages.1.content.0: {BOUND}{NEEDS_BETA}"),
        ({"messages": messages, "system": "Be kind."}, f"messages.1.content.0: {BOUND}{NEEDS_BETA}{OTHER_SYSTEM}"),
        (
            {"messages": messages, "tools": [{"name": "grep", "input_schema": {"type": "object"}}]},
            f"messages.1.content.0: {BOUND}{NEEDS_BETA}",
        ),
        (
            {"messages": messages, "system": "Be kind.", "extra_headers": {"anthropic-beta": BETA}},
            f"messages.1.content.0: {BOUND}{OTHER_SYSTEM}",
        ),
        (
            {"messages": edited(messages, (1, "content"), messages[1]["content"][1:])},
            f"messages.3.content.0: {BOUND}{NEEDS_BETA}",
        ),
    ]:
        with pytest.raises(anthropic.BadRequestError) as refusal:
            anthropic_client.messages.create(model=BINDING, max_tokens=100, **request)
        assert refusal.value.body["error"]["message"] == words


def test_bound_thinking_after_an_edit_is_dropped_if_the_request_asks_for_it(
    strict_provider: Provider, anthropic_client: Any
):
    messages = edited(opened(strict_provider, anthropic_client, BINDING), CLEARED, "Cleared.")
    drop = {"betas": [BETA], "thinking": DROPS}
    dropped = [{"type": "thinking_dropped", "path": "messages.5.content.0", "reason": "prefix_binding_mismatch"}]

    # What comes after the edit is bound to the prompt without the dropped block.
    assert step(anthropic_client, messages, BINDING, **drop).to_dict()["input_transformations"] == dropped
    assert step(anthropic_client, messages, BINDING, **drop).to_dict()["input_transformations"] == dropped
    with pytest.raises(anthropic.BadRequestError, match="The block is bound to a different conversation"):
        step(anthropic_client, messages, BINDING)
    assert step(anthropic_client, [dict(USER)], BINDING, **drop).to_dict()["input_transformations"] == []


def test_cache_marks_and_the_shape_of_a_text_do_not_count_as_edits(strict_provider: Provider, anthropic_client: Any):
    messages = opened(strict_provider, anthropic_client, BINDING)
    marked = edited(messages, (0, "content"), [MARKED])
    marked = edited(marked, (*CLEARED[:3], "cache_control"), {"type": "ephemeral"})
    step(anthropic_client, marked, BINDING)
    assert strict_provider.refusals == []


@pytest.mark.parametrize(
    "path_and_value", [(CLEARED, "Cleared."), ((0, "content"), "Go!"), ((1, "content"), [text("Done.")])]
)
def test_other_models_accept_thinking_after_an_edit(
    path_and_value: tuple[tuple[Any, ...], Any], strict_provider: Provider, anthropic_client: Any
):
    messages = opened(strict_provider, anthropic_client, UNBOUND)
    step(anthropic_client, edited(messages, *path_and_value), UNBOUND, thinking={"type": "adaptive"})
    assert strict_provider.refusals == []


@pytest.mark.parametrize("model", [BINDING, UNBOUND])
def test_thinking_of_the_open_turn_must_stay_as_it_was(model: str, strict_provider: Provider, anthropic_client: Any):
    messages = opened(strict_provider, anthropic_client, model)
    words = (
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response."
    )
    for index in (3, 5):
        removed = edited(messages, (index, "content"), messages[index]["content"][1:])
        modified = edited(messages, (index, "content", 0, "thinking"), "I think of nothing.")
        for sent in (removed, modified):
            with pytest.raises(anthropic.BadRequestError) as refusal:
                anthropic_client.messages.create(
                    model=model, max_tokens=100, messages=sent, thinking={"type": "adaptive"}
                )
            assert refusal.value.body["error"]["message"] == f"messages.{index}.content.0: {words}"


@pytest.mark.parametrize("model", [BINDING, UNBOUND])
def test_thinking_of_a_closed_turn_is_checked_against_its_signature(
    model: str, strict_provider: Provider, anthropic_client: Any
):
    messages = opened(strict_provider, anthropic_client, model)
    for field in ("thinking", "signature"):
        with pytest.raises(anthropic.BadRequestError) as refusal:
            step(
                anthropic_client,
                edited(messages, (1, "content", 0, field), "Hard."),
                model,
                thinking={"type": "adaptive"},
            )
        words = "messages.1.content.0: Invalid `signature` in `thinking` block"
        assert refusal.value.body["error"]["message"] == words


# Prompt caches


def test_anthropic_reads_and_writes_its_cache_at_marks(strict_provider: Provider, anthropic_client: Any):
    strict_provider.play.script = [Turn("Done.")]

    def used(*texts: str, marks: tuple[int, ...] = (), model: str = UNBOUND) -> tuple[int, int, int]:
        """Tokens read, written and fresh for a user message of these texts."""
        blocks = [text(words) for words in texts]
        for index in marks:
            blocks[index]["cache_control"] = {"type": "ephemeral"}
        usage = anthropic_client.messages.create(model=model, max_tokens=100, messages=[user(*blocks)]).usage
        return usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens

    long, short = used(LONG)[2], used("Go on.")[2]
    assert used(LONG, "Go on.") == (0, 0, long + short)  # nothing is cached without a mark
    assert used(LONG, "Go on.", marks=(0,)) == (0, long, short)
    assert used(LONG, "Go on.", marks=(0,)) == (long, 0, short)
    assert used(LONG, LONG, "Go on.", marks=(1,)) == (long, long, short)  # the older entry is found by looking back
    assert used(f"{LONG}!", LONG, "Go on.", marks=(1,))[0] == 0  # an edit before the mark
    assert used(LONG, f"{LONG}!", "Go on.", marks=(0, 1))[0] == long  # an edit between two marks
    assert used("Go on.", marks=(0,)) == used("Go on.", marks=(0,)) == (0, 0, short)  # below the minimum
    assert used(LONG, "Go on.", marks=(0,), model=BINDING) == (0, long, short)  # each model has its own


@pytest.mark.parametrize(("blocks_between", "is_found"), [(18, True), (19, False)])
def test_anthropic_looks_back_twenty_blocks(
    blocks_between: int, is_found: bool, strict_provider: Provider, anthropic_client: Any
):
    strict_provider.play.script = [Turn("Done.")]
    marked = text(LONG) | {"cache_control": {"type": "ephemeral"}}
    first = anthropic_client.messages.create(model=UNBOUND, max_tokens=100, messages=[user(marked)])
    later = [text(LONG), *[text("More.")] * blocks_between, MARKED]
    second = anthropic_client.messages.create(model=UNBOUND, max_tokens=100, messages=[user(*later)])
    written = first.usage.cache_creation_input_tokens
    assert second.usage.cache_read_input_tokens == (written if is_found else 0)


def test_an_automatic_mark_follows_the_conversation(strict_provider: Provider, anthropic_client: Any):
    strict_provider.play.script = [Turn("Done.")]
    request = {"model": UNBOUND, "max_tokens": 100, "cache_control": {"type": "ephemeral"}}
    first = anthropic_client.messages.create(messages=[user(text(LONG))], **request).usage
    second = anthropic_client.messages.create(messages=[user(text(LONG)), HELLO, USER], **request).usage
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens > 1_024
    assert second.input_tokens == 0


def test_anthropic_reports_one_hour_cache_writes_separately(strict_provider: Provider, anthropic_client: Any):
    strict_provider.play.script = [Turn("Done.")]

    def wrote(*lives: str | None) -> tuple[int, int]:
        """Tokens written for an hour and for five minutes, for new blocks with marks for these lives."""
        blocks = [text(f"{lives} {LONG}") | {"cache_control": MARK | ({"ttl": each} if each else {})} for each in lives]
        found = anthropic_client.messages.create(model=UNBOUND, max_tokens=100, messages=[user(*blocks)]).usage
        return found.cache_creation.ephemeral_1h_input_tokens, found.cache_creation.ephemeral_5m_input_tokens

    hour, none = wrote("1h")
    assert (hour > 1_024, none) == (True, 0)
    assert wrote(None)[0] == wrote("5m")[0] == 0
    first, second = wrote("1h", None)
    assert first == pytest.approx(second, abs=20)
    for wrong, words in ((("5m", "1h"), "must not come after a ttl='5m'"), (("2h",), "should be '5m' or '1h'")):
        with pytest.raises(anthropic.BadRequestError, match=words):
            wrote(*wrong)


def test_anthropic_counts_tokens_as_it_bills_them(strict_provider: Provider, anthropic_client: Any):
    strict_provider.play.script = [Turn("Done.")]
    counted = anthropic_client.messages.count_tokens(model=UNBOUND, messages=[user(text(LONG))]).input_tokens
    usage = anthropic_client.messages.create(model=UNBOUND, max_tokens=100, messages=[user(text(LONG))]).usage
    assert (usage.input_tokens, usage.cache_read_input_tokens) == (counted, 0)
