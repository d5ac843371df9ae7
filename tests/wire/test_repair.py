"""Repair solves problems, says what it did, loses none of the user's words, and does not change valid messages."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from google.genai import types as genai
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem
from strict_provider import anthropic_rules, gemini_rules, responses_rules
from strict_provider import bedrock as strict_bedrock
from strict_provider import openai_chat as strict_chat
from strict_provider.exchange import RefusalError
from tables import each_row

from autoprune.errors import ConversationError, SettingsError
from autoprune.wire import BEGINNING, EMPTY, NO_RESULT, NO_WORDS, UNREPAIRED, Problem, Repair, problems, repair

WORDS = st.sampled_from(("Fix it.", "And now?", "I look.", "見て", "a < b\n", "Done."))


# Valid conversations, one function a provider: rounds of words, calls, results and words.


@st.composite
def anthropic(draw: st.DrawFn) -> list[Any]:
    found: list[Any] = []
    for at in range(draw(st.integers(0, 3))):
        found.append({"role": "user", "content": draw(st.one_of(WORDS, WORDS.map(lambda words: [said(words)])))})
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": f"s{at}"}
        spoken: list[Any] = [
            *([thinking] if draw(st.booleans()) else []),
            *([said("I look.")] if draw(st.booleans()) else []),
        ]
        ids = [f"toolu_{at}_{index}" for index in range(draw(st.integers(0, 3)))]
        if ids:
            is_object = draw(st.booleans())
            calls = [ToolUseBlock(id=id, name="f", input={}, type="tool_use") if is_object else use(id) for id in ids]
            found.append({"role": "assistant", "content": [*spoken, *calls]})
            results = [answer(id, draw(st.sampled_from(("ok", "", [said("ok")])))) for id in draw(st.permutations(ids))]
            found.append({"role": "user", "content": [*results, *([said("Go on.")] if draw(st.booleans()) else [])]})
        found.append({"role": "assistant", "content": draw(st.sampled_from(("Done.", [said("Done.")])))})
    return found


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}}


def answer(id: str, content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


@st.composite
def bedrock(draw: st.DrawFn) -> list[Any]:
    found: list[Any] = []
    for at in range(draw(st.integers(0, 3))):
        found.append({"role": "user", "content": [{"text": draw(WORDS)}]})
        ids = [f"t.{at}:{index}" for index in range(draw(st.integers(0, 3)))]
        if ids:
            calls = [{"toolUse": {"toolUseId": id, "name": "f", "input": {}}} for id in ids]
            found.append({"role": "assistant", "content": [{"text": "I look."}, *calls]})
            results = [
                {"toolResult": {"toolUseId": id, "content": [{"text": "ok"}], "status": "success"}}
                for id in draw(st.permutations(ids))
            ]
            found.append({"role": "user", "content": results})
        found.append({"role": "assistant", "content": [{"text": draw(WORDS)}]})
    return found


@st.composite
def gemini(draw: st.DrawFn) -> list[Any]:
    found: list[Any] = []
    is_object, has_ids = draw(st.booleans()), draw(st.booleans())
    for at in range(draw(st.integers(0, 3))):
        words = {"text": draw(WORDS)}
        # The SDK also takes a bare part in place of a content.
        found.append({"role": "user", "parts": [words]} if is_object or draw(st.booleans()) else words)
        names = [draw(st.sampled_from("fg")) for _ in range(draw(st.integers(0, 3)))]
        if names:
            ids = [{"id": f"{at}-{index}"} if has_ids else {} for index in range(len(names))]
            calls = [{"functionCall": {**id, "name": name, "args": {}}} for id, name in zip(ids, names, strict=True)]
            found.append({"role": "model", "parts": [*([{"text": "I look."}] if draw(st.booleans()) else []), *calls]})
            results = [
                {"functionResponse": {**id, "name": name, "response": {"output": "ok"}}}
                for id, name in zip(ids, names, strict=True)
            ]
            found.append({"role": draw(st.sampled_from(("user", "function"))), "parts": results})
        found.append({"role": "model", "parts": [{"text": draw(WORDS)}]})
    return [genai.Content.model_validate(content) for content in found] if is_object else found


@st.composite
def openai_chat(draw: st.DrawFn) -> list[Any]:
    found: list[Any] = [{"role": "system", "content": "Be brief."}] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 3))):
        found.append({"role": "user", "content": draw(st.one_of(WORDS, WORDS.map(lambda words: [said(words)])))})
        ids = draw(st.lists(st.sampled_from(("call_1", "call_2", "x")), max_size=3))
        if ids:
            calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            found.append(ChatCompletionMessage.model_validate(message) if draw(st.booleans()) else message)
            found += [{"role": "tool", "tool_call_id": id, "content": "ok"} for id in draw(st.permutations(ids))]
        found.append({"role": "assistant", "content": draw(WORDS)})
    return found


@st.composite
def openai_responses(draw: st.DrawFn) -> list[Any]:
    found: list[Any] = []
    for at in range(draw(st.integers(0, 3))):
        found.append({"role": "user", "content": draw(WORDS)})
        kinds = draw(st.lists(st.sampled_from(KINDS), max_size=3))
        for index, (kind, fields, output) in enumerate(kinds):
            is_thought, call_id = draw(st.booleans()), f"call_{at}_{index}"
            thought = {"type": "reasoning", "id": f"rs_{at}_{index}", "summary": []}
            found += [ResponseReasoningItem.model_validate(thought)] if is_thought else []
            found.append({"type": kind, "id": f"fc_{at}_{index}", "call_id": call_id, **fields})
            found.append({"type": f"{kind}_output", "call_id": call_id, **output})
        words = [{"type": "output_text", "text": draw(WORDS), "annotations": []}]
        found.append({"type": "message", "id": f"msg_{at}", "role": "assistant", "content": words})
    return found


KINDS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("function_call", {"name": "f", "arguments": "{}"}, {"output": "ok"}),
    ("custom_tool_call", {"name": "f", "input": "x"}, {"output": "ok"}),
    ("local_shell_call", {"action": {"type": "exec", "command": ["ls"]}}, {"output": "ok"}),
    ("shell_call", {"action": {"commands": ["ls"]}}, {"output": [{"stdout": "ok", "stderr": ""}]}),
    ("apply_patch_call", {"operation": {"type": "delete_file", "path": "a"}}, {"status": "completed"}),
    ("computer_call", {"action": {"type": "wait"}}, {"output": {"type": "computer_screenshot"}}),
)
VALID: dict[str, Callable[[], st.SearchStrategy[list[Any]]]] = {
    "anthropic": anthropic,
    "bedrock": bedrock,
    "gemini": gemini,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
EVERY_PROVIDER = each_row("provider", VALID)


# What others do to them.


@st.composite
def broken(draw: st.DrawFn, provider: str) -> list[Any]:
    """A valid conversation after drops, copies and moves of messages and blocks, and with emptied texts."""
    found = draw(VALID[provider]())
    for _ in range(draw(st.integers(0, 5))):
        found = draw(st.sampled_from((dropped, copied, moved, emptied, cut, flipped, joined, unnamed)))(found, draw)
    return found


def dropped(found: list[Any], draw: st.DrawFn) -> list[Any]:
    at = draw(st.integers(0, len(found)))
    return [*found[:at], *found[at + 1 :]]


def copied(found: list[Any], draw: st.DrawFn) -> list[Any]:
    at = draw(st.integers(0, len(found)))
    where = draw(st.integers(0, len(found)))
    return [*found[:where], *found[at : at + 1], *found[where:]]


def moved(found: list[Any], draw: st.DrawFn) -> list[Any]:
    return list(draw(st.permutations(found))) if draw(st.booleans()) else found[1:] + found[:1]


def emptied(found: list[Any], draw: st.DrawFn) -> list[Any]:
    """One message's text is emptied, or one of its blocks' texts; a chat message may lose its content."""
    blank = draw(st.sampled_from(("", " ", "\n", None)))
    at = draw(st.integers(0, len(found)))
    return [in_plain(message, blank) if index == at else message for index, message in enumerate(found)]


def in_plain(message: Any, blank: str | None) -> Any:
    one = plain(message)
    name = "parts" if "parts" in one else "content"
    if isinstance(one.get(name), list) and any("text" in block for block in one[name]):
        return {**one, name: [{**block, "text": blank or ""} if "text" in block else block for block in one[name]]}
    return {**one, name: blank} if isinstance(one.get(name), str) else message


def cut(found: list[Any], draw: st.DrawFn) -> list[Any]:
    """One message loses its first or last block, or has it twice, or in another order."""
    at = draw(st.integers(0, len(found)))
    how = draw(st.sampled_from((lambda a: a[1:], lambda a: a[:-1], lambda a: [*a, *a[:1]], lambda a: a[::-1])))
    return [recut(message, how) if index == at else message for index, message in enumerate(found)]


ROLES = {"assistant": "user", "user": "assistant", "model": "user", "function": "model", "tool": "user"}


def flipped(found: list[Any], draw: st.DrawFn) -> list[Any]:
    """One message gets another role that its API knows."""
    at = draw(st.integers(0, len(found)))
    return [in_another_role(message) if index == at else message for index, message in enumerate(found)]


def in_another_role(message: Any) -> Any:
    one = plain(message)
    role = "model" if "parts" in one and one.get("role") == "user" else ROLES.get(one.get("role", ""))
    return {**one, "role": role} if role else message


def joined(found: list[Any], draw: st.DrawFn) -> list[Any]:
    """Two neighbors become one message, in the role of either."""
    at = draw(st.integers(0, len(found)))
    if len(both := [plain(message) for message in found[at : at + 2]]) < 2:
        return found
    one = both[draw(st.integers(0, 1))]
    name = "parts" if "parts" in one else "content"
    if not all(isinstance(each.get(name), list) for each in both):
        return found
    return [*found[:at], {**one, name: [*both[0][name], *both[1][name]]}, *found[at + 2 :]]


def unnamed(found: list[Any], draw: st.DrawFn) -> list[Any]:
    """One response of Gemini's gets another name or id; one item of Responses loses a field."""
    at = draw(st.integers(0, len(found)))
    name = draw(st.sampled_from(("call_id", "name", "arguments", "input", "output", "summary", "content")))
    change = draw(st.sampled_from(({"name": "f"}, {"name": "h"}, {"id": "0-0"}, {"id": "z"})))
    return [differing(message, name, change) if index == at else message for index, message in enumerate(found)]


def differing(message: Any, name: str, change: dict[str, Any]) -> Any:
    one = plain(message)
    if "parts" in one:
        key = "functionResponse"
        return {**one, "parts": [{**part, key: part[key] | change} if key in part else part for part in one["parts"]]}
    is_item = one.get("type") in ("function_call", "custom_tool_call", "message", "reasoning") or (
        one.get("type") in ("function_call_output", "custom_tool_call_output")
    )
    return {field: value for field, value in one.items() if field != name} if is_item else message


def recut(message: Any, how: Callable[[list[Any]], list[Any]]) -> Any:
    one = plain(message)
    name = next((name for name in ("content", "parts", "tool_calls") if isinstance(one.get(name), list)), None)
    return message if name is None else {**one, name: how(one[name])}


def plain(message: Any) -> dict[str, Any]:
    """A message as a mapping."""
    return message if isinstance(message, dict) else message.model_dump(exclude_none=True, by_alias=True)


# What holds for all of them.


@EVERY_PROVIDER
@given(data=st.data())
def test_a_valid_conversation_is_returned_unchanged(provider: str, data: st.DataObject):
    found = data.draw(VALID[provider]())
    assert problems(found, provider) == []
    assert repair(found, provider).conversation is found
    assert repair(found, provider).repairs == ()


@EVERY_PROVIDER
@given(data=st.data(), is_strict=st.booleans())
def test_a_repaired_conversation_is_valid_and_not_repaired_again(provider: str, data: st.DataObject, is_strict: bool):
    found = data.draw(broken(provider))
    before = copy.deepcopy(found)
    once = repair(found, provider, strict_alternation=is_strict)
    assert problems(once.conversation, provider, strict_alternation=is_strict) == []
    twice = repair(once.conversation, provider, strict_alternation=is_strict)
    assert (twice.conversation is once.conversation, twice.repairs) == (True, ())
    assert found == before
    assert (
        (once.conversation is found)
        == (not once.repairs)
        == (not problems(found, provider, strict_alternation=is_strict))
    )


@EVERY_PROVIDER
@given(data=st.data(), is_strict=st.booleans())
def test_no_words_of_the_user_or_the_system_are_lost(provider: str, data: st.DataObject, is_strict: bool):
    found = data.draw(broken(provider))
    kept = list(words(repair(found, provider, strict_alternation=is_strict).conversation))
    for spoken in words(found):
        assert any(spoken in one for one in kept)
    assert len("".join(kept)) >= len("".join(words(found)))


def words(conversation: list[Any]) -> Iterator[str]:
    """Every text of the user's and the system's that is not blank."""
    for message in map(plain, conversation):
        content = message.get("content", message.get("parts"))
        if message.get("role") in ("user", "system") and "tool_call_id" not in message:
            texts = [content] if isinstance(content, str) else [plain(block).get("text") for block in content or ()]
            yield from (text for text in texts if text and text.strip())


def marked(conversation: list[Any]) -> list[Any]:
    """A conversation in which each payload, call, thought and text says a word that nothing else says."""
    numbers = count()
    found = [plain(message) for message in conversation]
    return [marked_item(message, lambda: f"mark{next(numbers)}.") for message in found]


def marked_item(one: dict[str, Any], mark: Callable[[], str]) -> dict[str, Any]:
    """A message or an item with a mark in each thing in it that could be lost."""
    if "type" in one:
        return {**one, "mark": mark()}
    name = "parts" if "parts" in one else "content"
    if "role" not in one:
        return one if is_blank(one) else {**one, "mark": mark()}
    if isinstance(one.get(name), list):
        one = {
            **one,
            name: [block if is_blank(block) else {**block, "mark": mark()} for block in map(plain, one[name])],
        }
    elif isinstance(one.get(name), str) and one[name].strip():
        one = {**one, name: f"{one[name]}{mark()}"}
    elif one["role"] == "tool":  # an empty result is valid, and can be removed like any other
        one = {**one, "mark": mark()}
    if isinstance(one.get("tool_calls"), list):
        one = {**one, "tool_calls": [{**call, "mark": mark()} for call in one["tool_calls"]]}
    return one


def is_blank(block: dict[str, Any]) -> bool:
    return "text" in block and not block["text"].strip()


MARK = re.compile(r"mark\d+\.")
GONE = re.compile(
    r"removed (?:(?P<number>\d+) of the calls|the (?:result|call|output|thinking|reasoning|second item|part)(?!s)\b)"
)


@EVERY_PROVIDER
@given(data=st.data(), is_strict=st.booleans(), open_calls=st.sampled_from(("answer", "keep", "remove")))
def test_each_removed_block_has_its_own_note(provider: str, data: st.DataObject, is_strict: bool, open_calls: str):
    found = marked(data.draw(broken(provider)))
    once = repair(found, provider, strict_alternation=is_strict, open_calls=open_calls)
    before, after = (MARK.findall(json.dumps(conversation)) for conversation in (found, once.conversation))
    assert sorted(set(after)) == sorted(after)
    notes = [told for one in once.repairs if (told := GONE.match(one.what))]
    assert len({*before} - {*after}) == sum(int(told["number"] or 1) for told in notes)


# One case for each kind of repair: the whole conversation, and what was said to be done.

GO = {"role": "user", "content": "Go."}
MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
OK = {"role": "assistant", "content": "Done."}
HI = {"role": "user", "parts": [{"text": "Go."}]}
HELLO = {"role": "user", "content": [{"text": "Go."}]}


def made(conversation: list[Any], provider: str, *, strict_alternation: bool = False) -> tuple[list[Any], list[str]]:
    once = repair(conversation, provider, strict_alternation=strict_alternation)
    return once.conversation, [f"{one.problem.rule} {one.problem.path}: {one.what}" for one in once.repairs]


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def lost(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": NO_RESULT, "is_error": True}


@each_row(
    ("conversation", "becomes", "said_to_be_done"),
    [
        (
            [GO, assistant(use("a"), use("b"))],
            [GO, assistant(use("a"), use("b")), user(lost("a"), lost("b"))],
            ["unanswered_call (1,): answered 2 of the calls with a placeholder"],
        ),
        (
            [GO, assistant(use("a"), use("b")), user(answer("b"), said("Go on.")), OK],
            [GO, assistant(use("a"), use("b")), user(answer("b"), lost("a"), said("Go on.")), OK],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [GO, assistant(use("a")), GO, OK, user(said("Late:"), answer("a")), OK],
            [GO, assistant(use("a")), user(answer("a"), said("Go.")), OK, user(said("Late:")), OK],
            [
                "unanswered_call (1,): moved the results behind the calls",
                "orphan_result (4, 'content', 1): moved it directly behind its call",
            ],
        ),
        (
            [GO, OK, user(answer("a"), said("Go on.")), assistant(use("a")), OK],
            [GO, OK, user(said("Go on.")), assistant(use("a")), user(answer("a")), OK],
            [
                "unanswered_call (3,): moved the results behind the calls",
                "orphan_result (2, 'content', 0): moved it directly behind its call",
            ],
        ),
        (
            [GO, OK, user(answer("z")), OK],
            [GO, OK, OK],
            [
                "orphan_result (2, 'content', 0): removed the result",
                "orphan_result (2, 'content', 0): removed the empty message",
            ],
        ),
        (
            [user(answer("z"), said("Go."))],
            [user(said("Go."))],
            ["orphan_result (0, 'content', 0): removed the result"],
        ),
        (
            [user(answer("z")), OK],
            [{"role": "user", "content": [said(EMPTY)]}, OK],
            [
                "orphan_result (0, 'content', 0): removed the result",
                f"orphan_result (0, 'content', 0): wrote {EMPTY!r} in the empty message",
            ],
        ),
        (
            [user(answer("z"))],
            [],
            [
                "orphan_result (0, 'content', 0): removed the result",
                "orphan_result (0, 'content', 0): removed the empty message",
            ],
        ),
        (
            [GO, assistant(use("a")), user(answer("a"), answer("a", "again"))],
            [GO, assistant(use("a")), user(answer("a"))],
            ["duplicate_result (2, 'content', 1): removed the result"],
        ),
        (
            [GO, assistant(use("a")), user(said("Wait."), answer("a"))],
            [GO, assistant(use("a")), user(answer("a"), said("Wait."))],
            ["results_not_first (2, 'content', 1): moved it directly behind its call"],
        ),
        (
            [GO, assistant(use("a")), user(answer("a")), assistant(use("a")), user(answer("a", "2"))],
            [GO, assistant(use("a")), user(answer("a")), assistant(use("a_2")), user(answer("a_2", "2"))],
            ["duplicate_call_id (3, 'content', 0): gave the call and its result the id 'a_2'"],
        ),
        (
            [GO, assistant(use("f:0")), user(answer("f:0"))],
            [GO, assistant(use("f_0")), user(answer("f_0"))],
            ["call_id_pattern (1, 'content', 0): gave the call and its result the id 'f_0'"],
        ),
        (
            [GO, OK, user(said("I look."), THOUGHT, use("a")), user(answer("a"))],
            [GO, OK, user(said("I look.")), assistant(THOUGHT, use("a")), user(answer("a"))],
            [
                "misplaced_thinking (2, 'content', 1): put it in a message of the model's",
                "misplaced_call (2, 'content', 2): put it in a message of the model's",
            ],
        ),
        (
            [GO, assistant(said("I look."), use("a"), answer("a"), said("Done."))],
            [GO, assistant(said("I look."), use("a")), user(answer("a")), OK],
            ["misplaced_result (1, 'content', 2): put it in a message of the user's"],
        ),
        (
            [GO, assistant(use("a")), assistant(answer("a"))],
            [GO, assistant(use("a")), user(answer("a"))],
            ["misplaced_result (2, 'content', 0): put it in a message of the user's"],
        ),
        (
            [user(THOUGHT, said("Go.")), user(THOUGHT)],
            [user(said("Go."))],
            [
                "misplaced_thinking (0, 'content', 0): removed the thinking, which only the model's messages may hold",
                "misplaced_thinking (1, 'content', 0): removed the thinking, which only the model's messages may hold",
            ],
        ),
        (
            [GO, assistant(answer("z"), said("Hi."))],
            [GO, assistant(said("Hi."))],
            [
                "misplaced_result (1, 'content', 0): put it in a message of the user's",
                "orphan_result (1, 'content', 0): removed the result",
                "orphan_result (1, 'content', 0): removed the empty message",
            ],
        ),
        (
            [GO, assistant(said(""), {"type": "thinking", "thinking": "Hm."}, said("Hi.")), GO],
            [GO, assistant(said("Hi.")), GO],
            [
                "empty_text (1, 'content', 0): removed the empty text",
                "thinking_signature (1, 'content', 1): removed the thinking, which cannot be sent without a signature",
            ],
        ),
        (
            [user(*[MARKED] * 5)],
            [user(said("x"), *[MARKED] * 4)],
            ["too_many_marks (0, 'content', 0): removed the cache mark"],
        ),
        (
            [GO, assistant(use("a")), user(answer("a", [MARKED]), *[MARKED] * 4)],
            [GO, assistant(use("a")), user(answer("a", [said("x")]), *[MARKED] * 4)],
            ["too_many_marks (2, 'content', 0, 'content', 0): removed the cache mark"],
        ),
        (
            [GO, assistant(use("a")), user(answer("a", [said("")]))],
            [GO, assistant(use("a")), user(answer("a", EMPTY))],
            ["empty_text (2, 'content', 0, 'content', 0): removed the empty text from the result"],
        ),
        (
            [OK, GO],
            [{"role": "user", "content": BEGINNING}, OK, GO],
            [f"first_message (0,): began with a message of the user's: {BEGINNING!r}"],
        ),
        (
            [GO, {"role": "assistant", "content": "It is \n"}],
            [GO, {"role": "assistant", "content": "It is"}],
            ["trailing_whitespace (1, 'content'): removed the white space at the end"],
        ),
        (
            [GO, {"role": "assistant", "content": ""}, {"role": "user", "content": ""}],
            [GO, {"role": "assistant", "content": EMPTY}, {"role": "user", "content": EMPTY}],
            [
                f"empty_content (1, 'content'): wrote {EMPTY!r} in the empty message",
                f"empty_content (2, 'content'): wrote {EMPTY!r} in the empty message",
            ],
        ),
        (
            [GO, {"role": "assistant"}],
            [GO],
            ["empty_content (1, 'content'): removed the empty message"],
        ),
        (
            [GO, {"role": "assistant"}, GO],
            [GO, {"role": "assistant", "content": [said(EMPTY)]}, GO],
            [f"empty_content (1, 'content'): wrote {EMPTY!r} in the empty message"],
        ),
        (
            [GO, assistant({"type": "text"}, use("a")), user(answer("a"))],
            [GO, assistant(use("a")), user(answer("a"))],
            ["empty_text (1, 'content', 0): removed the empty text"],
        ),
    ],
)
def test_repairs_for_anthropic(conversation: list[Any], becomes: list[Any], said_to_be_done: list[str]):
    assert made(conversation, "anthropic") == (becomes, said_to_be_done)


def test_a_message_whose_results_are_removed_stays_if_roles_must_alternate():
    mended, _ = made([GO, OK, user(answer("z")), OK], "anthropic", strict_alternation=True)
    assert mended == [GO, OK, user(said(EMPTY)), OK]


def calling(*ids: str, **more: Any) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def tool(id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


@each_row(
    ("conversation", "becomes", "said_to_be_done"),
    [
        (
            [GO, calling("a", "b"), tool("b"), OK],
            [GO, calling("a", "b"), tool("b"), tool("a", NO_RESULT), OK],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [GO, calling("a"), GO, tool("a"), OK],
            [GO, calling("a"), tool("a"), GO, OK],
            [
                "unanswered_call (1,): moved the results behind the calls",
                "orphan_result (3,): moved it directly behind its call",
            ],
        ),
        (
            [GO, calling("a"), calling("a"), tool("a")],
            [GO, calling("a"), tool("a", NO_RESULT), calling("a"), tool("a")],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        ([tool("a"), GO], [GO], ["orphan_result (0,): removed the result"]),
        (
            [tool("a"), GO, calling("a"), tool("b")],
            [GO, calling("a"), tool("a")],
            [
                "unanswered_call (2,): moved the results behind the calls",
                "orphan_result (0,): moved it directly behind its call",
                "orphan_result (3,): removed the result",
            ],
        ),
        (
            [tool("a"), GO, calling("a"), GO, calling("a"), tool("a")],
            [GO, calling("a"), tool("a", NO_RESULT), GO, calling("a"), tool("a")],
            [
                "unanswered_call (2,): answered 1 of the calls with a placeholder",
                "orphan_result (0,): removed the result",
            ],
        ),
        (
            [GO, calling("a"), tool("a"), tool("a"), tool("z")],
            [GO, calling("a"), tool("a")],
            ["duplicate_result (3,): removed the result", "orphan_result (4,): removed the result"],
        ),
        (
            [GO, calling("a"), tool("a"), {"role": "tool", "content": "x"}],
            [GO, calling("a"), tool("a")],
            ["missing_call_id (3, 'tool_call_id'): removed the result"],
        ),
        (
            [GO, {"role": "assistant", "content": None}, GO],
            [GO, {"role": "assistant", "content": EMPTY}, GO],
            [f"null_content (1, 'content'): wrote {EMPTY!r} in the empty message"],
        ),
        (
            [GO, calling("a"), tool("a", None)],
            [GO, calling("a"), tool("a", EMPTY)],
            [f"null_content (2, 'content'): wrote {EMPTY!r} in the empty message"],
        ),
        (
            [{**GO, "tool_calls": calling("a")["tool_calls"]}, tool("a")],
            [GO, calling("a"), tool("a")],
            ["misplaced_call (0, 'tool_calls'): put the calls in a message of the assistant's"],
        ),
        (
            [GO, {**calling("a"), "role": "user"}, {**tool("a"), "role": "user"}, {**GO, "tool_call_id": "a"}],
            [GO, calling("a"), tool("a"), GO],
            [
                "misplaced_call (1, 'tool_calls'): put the calls in a message of the assistant's",
                "misplaced_result (2, 'tool_call_id'): gave it the role 'tool'",
                "misplaced_result (3, 'tool_call_id'): removed the id, which no open call has",
            ],
        ),
        (
            [GO, {**OK, "tool_calls": []}],
            [GO, OK],
            ["empty_tool_calls (1, 'tool_calls'): removed the empty list of calls"],
        ),
    ],
)
def test_repairs_for_openai_chat(conversation: list[Any], becomes: list[Any], said_to_be_done: list[str]):
    assert made(conversation, "openai_chat") == (becomes, said_to_be_done)


@each_row(
    ("conversation", "becomes", "said_to_be_done"),
    [
        (
            [GO, GO, OK, OK],
            [{"role": "user", "content": "Go.\n\nGo."}, {"role": "assistant", "content": "Done.\n\nDone."}],
            [
                "alternation (1,): made one message of this and the one before",
                "alternation (3,): made one message of this and the one before",
            ],
        ),
        (
            [{"role": "user", "content": "Go.", "name": "a"}, {"role": "user", "content": [said("On.")]}],
            [{"role": "user", "content": [said("Go."), said("On.")], "name": "a"}],
            ["alternation (1,): made one message of this and the one before"],
        ),
        (
            [GO, calling("a"), tool("a"), GO],
            [GO, calling("a"), tool("a"), {"role": "assistant", "content": NO_WORDS}, GO],
            [f"alternation (3,): put a message of the assistant's before it: {NO_WORDS!r}"],
        ),
        (
            [{"role": "system", "content": "x"}, OK],
            [{"role": "system", "content": "x"}, {"role": "user", "content": BEGINNING}, OK],
            [f"alternation (1,): put a message of the user's before it: {BEGINNING!r}"],
        ),
        (
            [GO, {"role": "assistant", "content": None}, GO],
            [GO, {"role": "assistant", "content": EMPTY}, GO],
            [f"null_content (1, 'content'): wrote {EMPTY!r} in the empty message"],
        ),
        (
            [GO, OK, {"role": "assistant", "content": None, "refusal": "No."}],
            [GO, OK, {"role": "user", "content": NO_WORDS}, {"role": "assistant", "content": None, "refusal": "No."}],
            [f"alternation (2,): put a message of the user's before it: {NO_WORDS!r}"],
        ),
    ],
)
def test_roles_alternate_if_a_template_requires_it(
    conversation: list[Any], becomes: list[Any], said_to_be_done: list[str]
):
    assert made(conversation, "openai_chat", strict_alternation=True) == (becomes, said_to_be_done)


def call(id: str, kind: str = "function_call", **more: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": id, "name": "f", "arguments": "{}", **more}


def output(id: str, given: Any = "ok", kind: str = "function_call") -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": id, "output": given}


PAIR = [call("a"), output("a")]
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
SEARCH = {"type": "tool_search_call", "call_id": "a", "execution": "client", "arguments": {}}
SERVERS_SEARCH = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}
FOUND = {"type": "tool_search_output", "call_id": "a", "status": "completed", "execution": "client", "tools": []}
APPROVAL_REQUEST = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}", "server_label": "s"}
APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
FAILED = [{"stdout": "", "stderr": NO_RESULT, "outcome": {"type": "exit", "exit_code": 1}}]


@each_row(
    ("conversation", "becomes", "said_to_be_done"),
    [
        (
            [GO, call("a"), call("b"), output("b"), OK],
            [GO, call("a"), call("b"), output("a", NO_RESULT), output("b"), OK],
            ["unanswered_call (1,): answered the call with a placeholder"],
        ),
        (
            [GO, call("a", "shell_call")],
            [GO, call("a", "shell_call"), output("a", FAILED, "shell_call")],
            ["unanswered_call (1,): answered the call with a placeholder"],
        ),
        (
            [GO, call("a", "apply_patch_call"), OK],
            [
                *(GO, call("a", "apply_patch_call")),
                {**output("a", NO_RESULT, "apply_patch_call"), "status": "failed"},
                OK,
            ],
            ["unanswered_call (1,): answered the call with a placeholder"],
        ),
        (
            [GO, SEARCH, OK, {**FOUND, "call_id": "b"}],
            [GO, SEARCH, FOUND, OK],
            [
                "unanswered_call (1,): answered the call with a placeholder",
                "orphan_result (3,): removed the output",
            ],
        ),
        ([GO, SERVERS_SEARCH, OK], [GO, SERVERS_SEARCH, OK], []),
        ([GO, APPROVAL, OK], [GO, OK], ["orphan_result (1,): removed the output"]),
        (
            [GO, APPROVAL, APPROVAL_REQUEST, OK],
            [GO, APPROVAL_REQUEST, APPROVAL, OK],
            ["orphan_result (1,): moved the output behind its call"],
        ),
        (
            [GO, REASONING, call("a", "computer_call"), GO],
            [GO, GO],
            [
                "unanswered_call (2,): removed the call",
                "reasoning_alone (1,): removed the reasoning",
            ],
        ),
        (
            [GO, output("z"), call("a"), output("a"), output("a")],
            [GO, call("a"), output("a")],
            ["orphan_result (1,): removed the output", "duplicate_result (4,): removed the output"],
        ),
        (
            [output("a"), GO, call("a"), call("b"), output("b")],
            [GO, call("a"), output("a"), call("b"), output("b")],
            [
                "orphan_result (0,): moved the output behind its call",
                "unanswered_call (2,): moved the output behind its call",
            ],
        ),
        (
            [output("a"), GO, call("a"), call("a"), output("a")],
            [GO, call("a"), call("a"), output("a", NO_RESULT), output("a")],
            ["orphan_result (0,): removed the output", "unanswered_call (3,): answered the call with a placeholder"],
        ),
        (
            [{"role": "user"}, {"type": "function_call"}, {"type": "function_call_output"}],
            [{"role": "user", "content": EMPTY}, call("call_1", name="unknown"), output("call_1", EMPTY)],
            [
                "missing_field (0, 'content'): wrote '(empty)' as its content",
                "missing_field (1, 'arguments'): wrote '{}' as its arguments",
                "missing_field (1, 'call_id'): gave it the call_id 'call_1'",
                "missing_field (1, 'name'): wrote 'unknown' as its name",
                "missing_field (2, 'call_id'): gave it the call_id 'call_1'",
                "missing_field (2, 'output'): wrote '(empty)' as its output",
            ],
        ),
        (
            [GO, call("call_1"), call("b"), output("b"), {**output("", "1")}, {**output("", "2"), "call_id": None}],
            [GO, call("call_1"), call("b"), output("b"), output("call_1", "1")],
            [
                "missing_field (4, 'call_id'): gave it the call_id 'call_1'",
                "missing_field (5, 'call_id'): removed the output, which answers no call",
            ],
        ),
        (
            [GO, {"type": "reasoning", "id": "rs_1"}, {"type": "custom_tool_call", "call_id": "a", "name": "f"}],
            [
                *(GO, REASONING, {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": ""}),
                output("a", NO_RESULT, "custom_tool_call"),
            ],
            [
                "missing_field (1, 'summary'): wrote [] as its summary",
                "missing_field (2, 'input'): wrote '' as its input",
                "unanswered_call (2,): answered the call with a placeholder",
            ],
        ),
        ([GO, REASONING], [GO], ["reasoning_alone (1,): removed the reasoning"]),
        (
            [GO, {**APPROVAL_REQUEST, "id": None}, {**APPROVAL, "approval_request_id": None}, OK],
            [GO, OK],
            [
                "missing_field (1, 'id'): removed the item, whose id is not known",
                "missing_field (2, 'approval_request_id'): removed the item, whose approval_request_id is not known",
            ],
        ),
        (
            [GO, REASONING, output("z"), OK],
            [GO, REASONING, OK],
            ["orphan_result (2,): removed the output"],
        ),
        (
            [{**GO, "id": "m"}, {**OK, "id": "n"}, {**OK, "id": "n"}, {**GO, "id": "m"}],
            [{**GO, "id": "m"}, {**OK, "id": "n"}, GO],
            ["duplicate_item (2,): removed the second item", "duplicate_item (3,): removed the id"],
        ),
    ],
)
def test_repairs_for_openai_responses(conversation: list[Any], becomes: list[Any], said_to_be_done: list[str]):
    assert made(conversation, "openai_responses") == (becomes, said_to_be_done)


def replies(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def asks(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def fc(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}}


def fr(name: str = "f", response: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {**more, "name": name, "response": response}}


OUTPUT, ERROR = {"output": "ok"}, {"error": NO_RESULT}


@each_row(
    ("conversation", "becomes", "said_to_be_done"),
    [
        (
            [HI, replies(fc("f", id="1"), fc("g", id="2")), asks(fr("g", OUTPUT, id="2"))],
            [
                *(HI, replies(fc("f", id="1"), fc("g", id="2"))),
                asks(fr("g", OUTPUT, id="2"), fr("f", ERROR, id="1")),
            ],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [
                HI,
                replies(fc(id="1"), fc(id="2")),
                HI,
                asks(fr(response={"x": 2}, id="2"), fr(response={"x": 1}, id="1")),
            ],
            [
                *(HI, replies(fc(id="1"), fc(id="2"))),
                asks(fr(response={"x": 2}, id="2"), fr(response={"x": 1}, id="1"), {"text": "Go."}),
            ],
            [
                "unanswered_call (1,): moved the results behind the calls",
                "orphan_result (3, 'parts', 0, 'functionResponse'): moved it directly behind its call",
                "orphan_result (3, 'parts', 1, 'functionResponse'): moved it directly behind its call",
                "orphan_result (3, 'parts', 0, 'functionResponse'): removed the empty message",
            ],
        ),
        (
            [HI, replies(fc(id="1"), fc(id="2")), asks(fr(response={"x": 2}, id="2")), replies({"text": "Hi."})],
            [
                *(HI, replies(fc(id="1"), fc(id="2"))),
                *(asks(fr(response={"x": 2}, id="2"), fr(response=ERROR, id="1")), replies({"text": "Hi."})),
            ],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [HI, replies(fc(), fc(id="2")), asks(fr(response={"x": 1}, id="2"))],
            [
                *(HI, replies(fc(), fc(id="2"))),
                asks(fr(response={"x": 1}, id="2"), fr(response=ERROR)),
            ],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [HI, replies({"function_call": {"name": "f"}})],
            [
                *(HI, replies({"function_call": {"name": "f"}})),
                asks({"function_response": {"name": "f", "response": ERROR}}),
            ],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [HI, replies(fc()), HI, asks(fr(response=OUTPUT))],
            [HI, replies(fc()), asks(fr(response=OUTPUT), {"text": "Go."})],
            [
                "unanswered_call (1,): moved the results behind the calls",
                "orphan_result (3, 'parts', 0, 'functionResponse'): moved it directly behind its call",
                "orphan_result (3, 'parts', 0, 'functionResponse'): removed the empty message",
            ],
        ),
        (
            [HI, replies(fc()), asks(fr(response=OUTPUT), fr("g", OUTPUT))],
            [HI, replies(fc()), asks(fr(response=OUTPUT))],
            ["orphan_result (2, 'parts', 1, 'functionResponse'): removed the result"],
        ),
        (
            [HI, replies(fc("f", id="1")), asks(fr("g", OUTPUT, id="1"))],
            [HI, replies(fc("f", id="1")), asks(fr("f", OUTPUT, id="1"))],
            ["result_names (2, 'parts', 0, 'functionResponse'): gave it the name of its call, 'f'"],
        ),
        (
            [HI, replies(fc("f", id="1")), HI, asks(fr("g", OUTPUT, id="1"), {"text": "On."})],
            [HI, replies(fc("f", id="1")), asks(fr("f", OUTPUT, id="1"), {"text": "Go."}), asks({"text": "On."})],
            [
                "unanswered_call (1,): moved the results behind the calls",
                "orphan_result (3, 'parts', 0, 'functionResponse'): gave it the name of its call, 'f', "
                "and moved it there",
            ],
        ),
        (
            [HI, replies(fc("f"), fc("g")), asks(fr("f", OUTPUT), fr("h", OUTPUT))],
            [HI, replies(fc("f"), fc("g")), asks(fr("f", OUTPUT), fr("g", ERROR))],
            [
                "result_names (2, 'parts', 1, 'functionResponse'): answered 1 of the calls with a placeholder",
                "result_names (2, 'parts', 1, 'functionResponse'): removed the result",
            ],
        ),
        (
            [HI, replies(fc("f", id="1"), fc("g", id="2")), asks(fr("f", OUTPUT, id="9"))],
            [HI, replies(fc("f", id="1"), fc("g", id="2")), asks(fr("f", OUTPUT, id="9"), fr("g", ERROR, id="2"))],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [
                HI,
                replies(fc(id="1"), fc(id="2")),
                asks(fr(response={"x": 0}), fr(response={"x": 1}, id="1"), fr("z", OUTPUT)),
            ],
            [HI, replies(fc(id="1"), fc(id="2")), asks(fr(response={"x": 0}), fr(response={"x": 1}, id="1"))],
            ["orphan_result (2, 'parts', 2, 'functionResponse'): removed the result"],
        ),
        (
            [asks({"text": "I look."}, fc()), replies(fr(response=OUTPUT), {"text": "Hi."})],
            [asks({"text": "I look."}), replies(fc()), asks(fr(response=OUTPUT)), replies({"text": "Hi."})],
            [
                "misplaced_call (0, 'parts', 1, 'functionCall'): put it in a message of the model's",
                "misplaced_result (1, 'parts', 0, 'functionResponse'): put it in a message of the user's",
            ],
        ),
        (
            [HI, replies({"text": "I"}), replies({"text": "look."}), replies(fc()), asks(fr(response=OUTPUT))],
            [HI, replies({"text": "I"}, {"text": "look."}, fc()), asks(fr(response=OUTPUT))],
            ["call_place (3,): made one message of this and the one before"],
        ),
        (
            [replies(fc()), asks(fr(response=OUTPUT))],
            [asks({"text": BEGINNING}), replies(fc()), asks(fr(response=OUTPUT))],
            [f"call_place (0,): began with a message of the user's: {BEGINNING!r}"],
        ),
        (
            [HI, replies(fc()), asks(fr(response="ok")), replies({"text": ""}, {}), HI],
            [HI, replies(fc()), asks(fr(response=OUTPUT)), replies({"text": EMPTY}), HI],
            [
                "result_shape (2, 'parts', 0, 'functionResponse', 'response'): wrapped the response in an object",
                "empty_text (3, 'parts', 0): removed the empty text",
                "empty_part (3, 'parts', 1): removed the empty part",
                f"empty_text (3, 'parts', 0): wrote {EMPTY!r} in the empty message",
            ],
        ),
    ],
)
def test_repairs_for_gemini(conversation: list[Any], becomes: list[Any], said_to_be_done: list[str]):
    assert made(conversation, "gemini") == (becomes, said_to_be_done)


def uses(*ids: str) -> dict[str, Any]:
    return assistant(*({"toolUse": {"toolUseId": id, "name": "f", "input": {}}} for id in ids))


def result(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": content, **more}}


@each_row(
    ("conversation", "becomes", "said_to_be_done"),
    [
        (
            [HELLO, uses("a"), user({"text": "Wait."}, result("a", []))],
            [HELLO, uses("a"), user(result("a", []), {"text": "Wait."})],
            ["results_not_first (2, 'content', 1): moved it directly behind its call"],
        ),
        (
            [user({"text": "Go."}, *uses("a")["content"]), assistant(result("a", []), {"text": "Hi."})],
            [user({"text": "Go."}), uses("a"), user(result("a", [])), assistant({"text": "Hi."})],
            [
                "misplaced_call (0, 'content', 1): put it in a message of the model's",
                "misplaced_result (1, 'content', 0): put it in a message of the user's",
            ],
        ),
        (
            [user({"text": "Go."}, {"reasoningContent": {"reasoningText": {"text": "Hm."}}})],
            [HELLO],
            ["misplaced_thinking (0, 'content', 1): removed the thinking, which only the model's messages may hold"],
        ),
        (
            [HELLO, uses("a")],
            [HELLO, uses("a"), user(result("a", [{"text": NO_RESULT}], status="error"))],
            ["unanswered_call (1,): answered 1 of the calls with a placeholder"],
        ),
        (
            [HELLO, HELLO, assistant({"text": "Hi."}), assistant({"text": "There."})],
            [user({"text": "Go."}, {"text": "Go."}), assistant({"text": "Hi."}, {"text": "There."})],
            [
                "alternation (1,): made one message of this and the one before",
                "alternation (3,): made one message of this and the one before",
            ],
        ),
        (
            [HELLO, assistant({"text": ""}), HELLO, assistant({"text": ""})],
            [HELLO, assistant({"text": EMPTY}), HELLO],
            [
                "empty_text (1, 'content', 0): removed the empty text",
                "empty_text (3, 'content', 0): removed the empty text",
                f"empty_text (1, 'content', 0): wrote {EMPTY!r} in the empty message",
                "empty_text (3, 'content', 0): removed the empty message",
            ],
        ),
        (
            [
                HELLO,
                uses("a"),
                user(result("a", [], status="error")),
                uses("b", "b"),
                user(result("b", [{"text": " "}])),
            ],
            [
                *(HELLO, uses("a"), user(result("a", [{"text": EMPTY}], status="error")), uses("b", "b_2")),
                user(result("b", [{"text": EMPTY}]), result("b_2", [{"text": NO_RESULT}], status="error")),
            ],
            [
                f"empty_result (2, 'content', 0, 'toolResult', 'content'): wrote {EMPTY!r} in the empty result",
                "empty_text (4, 'content', 0, 'toolResult', 'content', 0): removed the empty text from the result",
                "duplicate_call_id (3, 'content', 1): gave the call and its result the id 'b_2'",
                "unanswered_call (3,): answered 1 of the calls with a placeholder",
            ],
        ),
    ],
)
def test_repairs_for_bedrock(conversation: list[Any], becomes: list[Any], said_to_be_done: list[str]):
    assert made(conversation, "bedrock") == (becomes, said_to_be_done)


# What the strict provider says, which knows nothing of these rules


def sent(conversation: list[Any], provider: str) -> None:
    """Check a conversation by the strict provider's rules. Raises RefusalError."""
    match provider:
        case "anthropic":
            anthropic_rules.check({"messages": conversation}, ("messages",), alternate=False)
        case "bedrock":
            strict_bedrock.check({"toolConfig": {"tools": [{}]}}, conversation)
        case "gemini":
            gemini_rules.check({"contents": conversation}, "gemini-2.5-pro", alternate=False)
        case "openai_chat":
            strict_chat.check({"messages": conversation}, alternate=False)
        case _:
            responses_rules.check(conversation, responses_rules.Shelf(), is_stored=False)


@each_row(
    ("conversation", "provider"),
    [
        ([user(said("Go."), use("a")), user(answer("a"))], "anthropic"),
        ([GO, assistant(use("a"), answer("a"), said("Done."))], "anthropic"),
        ([user(THOUGHT, said("Go."))], "anthropic"),
        ([HELLO, uses("a"), user({"text": "Wait."}, result("a", [{"text": "ok"}]))], "bedrock"),
        ([HELLO, assistant(*uses("a")["content"], result("a", [{"text": "ok"}]))], "bedrock"),
        ([user({"text": "Go."}, *uses("a")["content"]), assistant({"text": "Hi."})], "bedrock"),
        ([user({"text": "Go."}, {"reasoningContent": {"reasoningText": {"text": "Hm."}}})], "bedrock"),
        ([asks({"text": "Go."}, fc()), asks(fr(response=OUTPUT))], "gemini"),
        ([HI, replies(fc()), replies(fr(response=OUTPUT), {"text": "Hi."})], "gemini"),
        ([{**GO, "tool_calls": calling("a")["tool_calls"]}, tool("a")], "openai_chat"),
        ([GO, calling("a"), {**tool("a"), "role": "user"}], "openai_chat"),
        *(
            (
                [GO, *({name: value for name, value in item.items() if name != field} for item in PAIR)],
                "openai_responses",
            )
            for field in ("call_id", "name", "arguments", "output")
        ),
        ([{"role": "user"}, OK], "openai_responses"),
    ],
)
def test_a_refused_conversation_has_problems_and_is_accepted_after_the_repair(conversation: list[Any], provider: str):
    with pytest.raises(RefusalError):
        sent(conversation, provider)
    assert problems(conversation, provider) != []
    sent(repair(conversation, provider).conversation, provider)


# Objects of the SDKs


def test_an_anthropic_block_and_message_keep_their_types():
    call_block = ToolUseBlock(type="tool_use", id="f:0", name="f", input={})
    message = {"role": "assistant", "content": [TextBlock(type="text", text=""), call_block]}
    after = repair([GO, message, user(answer("f:0"))], "anthropic").conversation
    assert after == [GO, assistant(ToolUseBlock(type="tool_use", id="f_0", name="f", input={})), user(answer("f_0"))]
    assert call_block.id == "f:0"


def test_contents_of_the_gemini_sdk_keep_their_types_and_new_ones_have_them():
    call_part = genai.Part(function_call=genai.FunctionCall(id="1", name="f"))
    contents = [genai.Content(role="model", parts=[call_part, genai.Part(text="")])]
    after = repair(contents, "gemini").conversation
    lost_part = genai.Part(function_response=genai.FunctionResponse(id="1", name="f", response=ERROR))
    assert after == [
        genai.Content(role="user", parts=[genai.Part(text=BEGINNING)]),
        genai.Content(role="model", parts=[call_part]),
        genai.Content(role="user", parts=[lost_part]),
    ]
    assert contents == [genai.Content(role="model", parts=[call_part, genai.Part(text="")])]


def test_an_empty_list_of_calls_of_the_openai_sdk_is_not_sent_as_null():
    message = ChatCompletionMessage(role="assistant", content="Done.", tool_calls=[])
    (_, after) = repair([GO, message], "openai_chat").conversation
    assert isinstance(after, ChatCompletionMessage)
    assert json.loads(after.model_dump_json(exclude_unset=True)) == {"role": "assistant", "content": "Done."}
    assert message.tool_calls == []


def test_items_of_the_openai_sdk_are_answered():
    item = ResponseFunctionToolCall(type="function_call", call_id="a", name="f", arguments="{}")
    assert repair([GO, item]).conversation == [GO, item, output("a", NO_RESULT)]


# What it cannot mend, and what it is


def test_problems_that_only_the_caller_can_solve_stay_reported():
    conversation = [
        {"role": "system", "content": "x"},
        GO,
        {"role": "narrator", "content": "x"},
        assistant(use("a") | {"input": "{}"}),
        user(answer("a"), said("Go on.")),
    ]
    after = repair(conversation, "anthropic")
    assert (after.conversation is conversation, after.repairs) == (True, ())
    assert {problem.rule for problem in problems(conversation, "anthropic")} == set(UNREPAIRED)


def test_a_tuple_stays_a_tuple_unless_it_is_repaired():
    right, wrong = (GO, OK), (GO, calling("a"))
    assert repair(right).conversation is right
    assert repair(wrong).conversation == [GO, calling("a"), tool("a", NO_RESULT)]


def test_a_repair_is_one_readable_line_and_a_value():
    problem = Problem("openai_chat", "orphan_result", (0,), "messages with role 'tool' must be …")
    assert str(Repair(problem, "removed the result")) == f"{problem} -> removed the result"
    assert Repair(problem, "x") == Repair(problem, "x")


@pytest.mark.parametrize(
    ("conversation", "provider", "error"), [(None, None, ConversationError), ([GO], "mistral", SettingsError)]
)
def test_a_repair_raises_the_errors_of_validation(conversation: Any, provider: Any, error: type[Exception]):
    with pytest.raises(error):
        repair(conversation, provider)
