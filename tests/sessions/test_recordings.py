"""Recordings: the messages of each stretch between compactions, and each request's time, pause, model and usage."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from session_texts import NOON, USED, asked, clock, lines, outline, samples_in, stretches
from tables import each_row

from autoprune import AgenticConversationPruner, SessionError, SettingsError
from autoprune.apps.sessions import (
    READERS,
    Answer,
    Conversation,
    Reader,
    Recording,
    Request,
    Usage,
    conversation,
    load,
    recordings,
    stretch,
)

FOLDER = Path(__file__).parents[2] / "fixtures" / "readers"
SAMPLES = samples_in(FOLDER)
Value = Any


# Claude Code


def claude(seconds: int, uuid: str, parent: str | None, content: Value, response: str = "", **more: Value) -> Value:
    """A line of Claude Code; the model's if it has a response."""
    role = "assistant" if response else "user"
    usage = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 7, "output_tokens": 5}
    message = {"role": role, "content": content, "id": response, "model": "claude-x", "usage": usage} | more
    return {"type": role, "uuid": uuid, "parentUuid": parent, "timestamp": clock(seconds), "message": message}


def use(call_id: str) -> Value:
    return [{"type": "tool_use", "id": call_id, "name": "Read", "input": {}}]


def result(call_id: str, content: str) -> Value:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": content}]


def words(text: str) -> Value:
    return [{"type": "text", "text": text}]


def test_a_response_on_several_lines_is_one_request_with_its_last_usage():
    thought = [{"type": "thinking", "thinking": "hm", "signature": "x"}]
    early = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 7, "output_tokens": 1}
    text = lines(
        claude(0, "1", None, "go"),
        claude(2, "2", "1", thought, "m1", usage=early),
        claude(3, "3", "2", words("I look."), "m1", usage=early),
        claude(4, "4", "3", use("a"), "m1"),
        claude(14, "5", "4", result("a", "A")),
        claude(20, "6", "5", words("Done."), "m2"),
    )
    said = ["user:go", "assistant:I look.+Read", "user:A", "assistant:Done."]
    assert stretches(text) == [(said, (asked(1, 2, None), asked(3, 20, 10)))]


@each_row(
    "given, pause",
    [
        ([("2", 30), ("3", 12)], 26),  # the last of the parallel results, although it stands first
        ([("2", 3), ("3", 4)], 0),  # both were there before the answer was complete
        ([("2", 12)], 8),  # the other call was not answered
        ([], None),  # no call was answered: nothing is left of this answer, and the next one is the first
    ],
)
def test_the_model_waits_for_the_newest_result_of_parallel_calls(given: list[tuple[str, int]], pause: float):
    text = lines(
        claude(0, "1", None, "go"),
        claude(2, "2", "1", use("2"), "m1"),
        claude(4, "3", "2", use("3"), "m1"),
        *(claude(time, f"r{call}", call, result(call, call)) for call, time in given),
        claude(40, "9", f"r{given[-1][0]}" if given else "3", words("Done."), "m2"),
    )
    [(_, requests)] = stretches(text)
    assert [(request.time, request.pause) for request in requests][-1] == (NOON + 40, pause)


def written(**split: int) -> Value:
    """Claude Code's usage with the cache that was written: `short` for five minutes, `long` for an hour."""
    creation = {
        f"ephemeral_{name}_input_tokens": split.get(word, 0) for name, word in (("5m", "short"), ("1h", "long"))
    }
    return {"input_tokens": 3, "cache_creation_input_tokens": sum(split.values()), "cache_creation": creation}


def test_a_conversation_and_its_sub_agent_write_to_different_caches():
    main = [claude(0, "1", None, "go"), claude(2, "2", "1", words("A."), "m1", usage=written(long=70))]
    sub = [claude(0, "3", None, "help"), claude(2, "4", "3", words("B."), "m2", usage=written(short=50))]
    aside = [{**line, "isSidechain": True} for line in sub]
    [(_, [of_main])] = stretches(lines(*main, *aside))
    [(_, [of_sub])] = stretches(lines(*aside))
    assert of_main.usage == Usage(prompt=73, written=70, written_1h=70)
    assert of_sub.usage == Usage(prompt=53, written=50, written_5m=50)


def test_the_model_of_an_answer_in_fast_mode_is_named_so():
    fast = {"usage": {"input_tokens": 3, "output_tokens": 5, "speed": "fast"}}
    standard = {"usage": {"input_tokens": 3, "output_tokens": 5, "speed": "standard"}}
    text = lines(
        claude(0, "1", None, "one"),
        claude(2, "2", "1", words("A."), "m1", **fast),
        claude(9, "3", "2", "two"),
        claude(12, "4", "3", words("B."), "m2", **standard),
    )
    [(_, requests)] = stretches(text)
    assert [each.model for each in requests] == ["claude-x-fast", "claude-x"]


@each_row("costs, cost", [((0.25, 0.25), 0.25), ((0.25, None), 0.25), ((None, 0.25), 0.25), ((0, 0), None)])
def test_a_response_has_the_cost_that_any_of_its_lines_states(costs: tuple[Value, Value], cost: float | None):
    spoken = [claude(2, "2", "1", words("I look."), "m1"), claude(3, "3", "2", words("I see."), "m1")]
    billed = [{**line, "costUSD": each} for line, each in zip(spoken, costs, strict=True)]
    [(_, [request])] = stretches(lines(claude(0, "1", None, "go"), *billed))
    assert request.usage == Usage(prompt=30, cached=20, written=7, output=5, cost=cost)


def test_an_interrupted_answer_is_no_request_but_pauses_count_from_its_end():
    text = lines(
        claude(0, "1", None, "one"),
        claude(2, "2", "1", words("A."), "m1"),
        claude(100, "3", "2", "two"),
        claude(110, "4", "3", use("a"), "m2"),
        claude(130, "5", "4", "stop that"),
        claude(140, "6", "5", words("B."), "m3"),
    )
    said = ["user:one", "assistant:A.", "user:two+stop that", "assistant:B."]
    assert stretches(text) == [(said, (asked(1, 2, None), asked(3, 140, 20)))]


def test_messages_that_claude_code_wrote_itself_are_no_requests():
    text = lines(
        claude(0, "1", None, "go"),
        claude(2, "2", "1", words("No response requested."), "m1", model="<synthetic>"),
        claude(3, "3", "2", "go on"),
        claude(4, "4", "3", words("Done."), "m2"),
    )
    [(said, requests)] = stretches(text)
    assert said == ["user:go", "assistant:No response requested.", "user:go on", "assistant:Done."]
    assert requests == (asked(3, 4, None),)


@each_row(
    "metadata, kept",
    [(None, []), ({"preservedMessages": {"anchorUuid": "s", "uuids": ["4", "5"]}}, ["assistant:B.", "user:three"])],
)
def test_claude_code_is_recorded_in_stretches_and_kept_answers_are_no_new_requests(metadata: Value, kept: list[str]):
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    text = lines(
        claude(0, "1", None, "one"),
        claude(1, "2", "1", words("A."), "m1"),
        claude(2, "3", "2", "two"),
        claude(3, "left", "3", words("Left."), "m9"),
        claude(4, "4", "3", words("B."), "m2"),
        claude(5, "5", "4", "three"),
        {**boundary, "compactMetadata": metadata},
        claude(8, "s", "b", "summary"),
        claude(9, "6", "s", words("C."), "m3"),
        {**boundary, "uuid": "b2"},
        claude(12, "t", "b2", "shorter"),
        claude(13, "7", "t", words("D."), "m4"),
    )
    before = ["user:one", "assistant:A.", "user:two", "assistant:B.", "user:three"]
    between = ["user:summary", *kept, "assistant:C."]
    assert stretches(text) == [
        (before, (asked(1, 1, None), asked(3, 4, 1))),
        (between, (asked(len(between) - 1, 9, None),)),
        (["user:shorter", "assistant:D."], (asked(1, 13, None),)),
    ]


def test_messages_before_a_lost_line_of_claude_code_are_recorded():
    text = lines(
        claude(0, "1", None, "one"),
        claude(1, "2", "1", words("A."), "m1"),
        {"type": "progress", "uuid": "3", "parentUuid": "never written"},
        claude(5, "4", "3", "two"),
        claude(6, "5", "4", words("B."), "m2"),
    )
    assert stretches(text) == [
        (["user:one", "assistant:A.", "user:two", "assistant:B."], (asked(1, 1, None), asked(3, 6, 4)))
    ]


def hooked_turn(at: int, parent: str | None, calls: int) -> list[Value]:
    """A turn of Claude Code whose hooks write progress at its first call, on which the next prompt hangs."""
    made = [claude(at, f"{at}", parent, f"prompt {at}")]
    last = f"{at}"
    for number in range(calls):
        call = f"{at}.{number}"
        made += [
            claude(at, f"{call}a", last, use(call), f"m{call}"),
            claude(at, f"{call}r", f"{call}a", result(call, call)),
        ]
        if not number:
            made.insert(-1, {"type": "progress", "uuid": f"{at}p", "parentUuid": f"{call}a"})
        last = f"{call}r"
    return [*made, claude(at, f"{at}e", last, words("done"), f"m{at}e")]


def test_all_turns_of_claude_code_with_hooks_are_recorded():
    turns = [hooked_turn(at, f"{at - 1}p" if at else None, 4) for at in range(8)]
    [(messages, requests)] = stretches(lines(*(line for turn in turns for line in turn)))
    assert (len(messages), len(requests)) == (8 * 10, 8 * 5)
    assert messages[:5] == ["user:prompt 0", "assistant:Read", "user:0.0", "assistant:Read", "user:0.1"]


def test_a_prompt_of_claude_code_that_replaces_another_one_hangs_on_the_same_message():
    first = hooked_turn(0, None, 2)
    replaced, last = hooked_turn(1, "0p", 1), hooked_turn(2, "0p", 1)
    [[recording]] = recordings(lines(*first, *replaced, *last), "s")
    assert list(map(outline, recording.messages)) == [
        *("user:prompt 0", "assistant:Read", "user:0.0", "assistant:Read", "user:0.1", "assistant:done"),
        *("user:prompt 2", "assistant:Read", "user:2.0", "assistant:done"),
    ]
    assert recording.notes == ("lines of abandoned branches, left out: 3",)


def test_a_prompt_that_shrinks_without_a_compaction_is_a_note():
    def usage(tokens: int) -> Value:
        return {"usage": {"input_tokens": tokens, "output_tokens": 5}}

    made = [claude(0, "0", None, "go")]
    for at, tokens in enumerate((1_000, 2_000, 1_900, 1_000)):
        made.append(claude(at, f"{at}a", made[-1]["uuid"], use(f"c{at}"), f"m{at}", **usage(tokens)))
        made.append(claude(at, f"{at}r", f"{at}a", result(f"c{at}", "ok")))
    [[recording]] = recordings(lines(*made), "s")
    assert recording.notes == (
        "requests with a much smaller prompt than before without a compaction; messages may be missing or not sent: 1",
    )


def test_an_answer_and_a_result_that_hang_on_a_hook_of_claude_code_follow_their_turn():
    text = lines(
        claude(0, "1", None, "go"),
        claude(1, "2", "1", use("a"), "m1"),
        {"type": "progress", "uuid": "h", "parentUuid": "2"},
        claude(2, "3", "h", result("a", "A")),
        claude(3, "4", "h", use("b"), "m2"),
        claude(4, "5", "h", result("b", "B")),
        claude(5, "6", "h", words("Done."), "m3"),
    )
    [(said, requests)] = stretches(text)
    assert said == ["user:go", "assistant:Read", "user:A", "assistant:Read", "user:B", "assistant:Done."]
    assert len(requests) == 3


def test_a_prompt_that_grows_by_more_than_the_messages_is_a_note():
    made = [claude(0, "0", None, "go")]
    for at, tokens in enumerate((20_000, 20_500, 60_000, 60_100)):
        used = {"input_tokens": tokens, "output_tokens": 5}
        made.append(claude(at, f"{at}a", made[-1]["uuid"], use(f"c{at}"), f"m{at}", usage=used))
        made.append(claude(at, f"{at}r", f"{at}a", result(f"c{at}", "ok")))
    [[recording]] = recordings(lines(*made), "s")
    assert recording.notes == ("requests whose prompt grew by more than the messages read; messages may be missing: 1",)


def test_a_user_who_went_back_behind_another_hook_of_a_turn_leaves_the_later_turns():
    first = hooked_turn(0, None, 2)
    first.insert(-1, {"type": "progress", "uuid": "0q", "parentUuid": "0.0r"})
    text = lines(*first, *hooked_turn(1, "0p", 1), *hooked_turn(2, "0q", 1))
    [(said, _)] = stretches(text)
    assert [each for each in said if "prompt" in each] == ["user:prompt 0", "user:prompt 2"]


# Codex


def codex(seconds: int, kind: str, **payload: Value) -> Value:
    return {"timestamp": clock(seconds), "type": kind, "payload": payload}


def spoke(seconds: int, role: str, text: str) -> Value:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex(seconds, "response_item", type="message", role=role, content=[{"type": kind, "text": text}])


def called(seconds: int, call_id: str) -> Value:
    return codex(seconds, "response_item", type="function_call", call_id=call_id, name="shell", arguments="{}")


def returned(seconds: int, call_id: str) -> Value:
    return codex(seconds, "response_item", type="function_call_output", call_id=call_id, output=call_id.upper())


def counted(seconds: int, total: int, prompt: int) -> Value:
    last = {"input_tokens": prompt, "cached_input_tokens": 10, "output_tokens": 4, "reasoning_output_tokens": 2}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last}
    return codex(seconds, "event_msg", type="token_count", info=info)


def by_gpt(message: int, time: float, pause: float | None, prompt: int = 0, model: str = "gpt-x") -> Request:
    return Request(message, NOON + time, pause, model, Usage(prompt, 10, 0, 4) if prompt else None)


CODEX = [
    codex(0, "session_meta", id="1"),
    codex(0, "turn_context", model="gpt-x"),
    spoke(1, "user", "one"),
    codex(2, "response_item", type="reasoning", encrypted_content="…"),
    spoke(3, "assistant", "I look."),
    called(4, "a"),
    called(5, "b"),
    returned(6, "a"),
    counted(7, 50, 50),
    returned(9, "b"),
    counted(10, 50, 50),  # reported again
    called(12, "c"),
]


def test_codex_is_recorded_with_the_token_count_after_each_answer():
    text = lines(
        *CODEX, counted(13, 120, 70), returned(20, "c"), codex(21, "turn_context", model="gpt-y"), called(25, "d")
    )
    said = ["user:one", "assistant:I look.", "call:a", "call:b", "output:A", "output:B", "call:c", "output:C"]
    assert stretches(text) == [(said, (by_gpt(1, 3, None, 50), by_gpt(6, 12, 4, 70)))]


def test_a_repeated_token_count_of_codex_is_not_that_of_the_next_answer():
    text = lines(*CODEX, returned(20, "c"), counted(21, 50, 50), spoke(22, "assistant", "Done."), counted(23, 130, 80))
    [(_, requests)] = stretches(text)
    assert requests == (by_gpt(1, 3, None, 50), by_gpt(6, 12, 4), by_gpt(8, 22, 8, 80))


def test_usage_that_codex_logs_before_its_answer_belongs_to_that_answer():
    """So did Codex until 0.63, and it reported the usage again after the answer."""
    text = lines(
        *CODEX[:3],
        counted(2, 50, 50),
        spoke(3, "assistant", "I look."),
        called(4, "a"),
        returned(6, "a"),
        counted(7, 50, 50),
        counted(9, 120, 70),
        called(10, "b"),
        returned(11, "b"),
        counted(12, 200, 80),
        spoke(13, "assistant", "Done."),
        spoke(20, "user", "two"),
        counted(24, 290, 90),
        spoke(25, "assistant", "Again."),
    )
    [(_, requests)] = stretches(text)
    assert [each.usage.prompt for each in requests if each.usage] == [50, 70, 80, 90]


def test_usage_that_codex_logs_after_an_open_call_belongs_to_the_answer():
    text = lines(*CODEX, spoke(12, "assistant", "And d."), called(13, "d"), counted(14, 120, 70))
    [(said, requests)] = stretches(text)
    assert said[-1] == "assistant:And d."
    assert requests[-1] == by_gpt(6, 12, 4, 70)


@each_row("is_taken_back", [False, True])
def test_codex_is_recorded_in_stretches_unless_a_compaction_was_rolled_back(is_taken_back: bool):
    replacement = [spoke(0, "user", "one")["payload"], spoke(0, "assistant", "Kept.")["payload"]]
    text = lines(
        codex(0, "session_meta", id="1"),
        codex(0, "turn_context", model="gpt-x"),
        spoke(1, "user", "one"),
        spoke(2, "assistant", "A."),
        counted(3, 50, 50),
        spoke(4, "user", "two"),
        codex(5, "compacted", message="", replacement_history=replacement),
        spoke(6, "assistant", "B."),
        *([codex(7, "event_msg", type="thread_rolled_back", num_turns=1)] if is_taken_back else []),
        spoke(8, "user", "three"),
        spoke(9, "assistant", "C."),
    )
    start = ["user:one", "assistant:A."]
    after = ["user:one", "assistant:Kept.", "assistant:B.", "user:three", "assistant:C."]
    assert stretches(text) == (
        [([*start, "user:three", "assistant:C."], (by_gpt(1, 2, None, 50), by_gpt(3, 9, 6)))]
        if is_taken_back
        else [([*start, "user:two"], (by_gpt(1, 2, None, 50),)), (after, (by_gpt(2, 6, None), by_gpt(4, 9, 2)))]
    )


def test_answers_of_codex_that_were_rolled_back_are_paid():
    turn = spoke(30, "user", "two"), spoke(31, "assistant", "B."), counted(32, 130, 80)
    text = lines(*CODEX, returned(20, "c"), *turn)
    [[before]] = recordings(text, "s")
    [[after]] = recordings(text + lines(codex(33, "event_msg", type="thread_rolled_back", num_turns=1)), "s")
    [taken_back] = after.besides
    assert taken_back == replace(before.requests[-1], message=0, pause=None) == by_gpt(0, 31, None, 80)


def test_an_answer_of_codex_whose_call_has_no_result_is_paid():
    [[recording]] = recordings(lines(*CODEX, counted(13, 120, 70)), "s")
    assert [each.usage and each.usage.prompt for each in (*recording.requests, *recording.besides)] == [50, 70]


@each_row(
    "more",
    [
        [returned(20, "c"), codex(21, "response_item", type="reasoning", id="r"), counted(22, 130, 80)],
        [returned(20, "c"), spoke(21, "assistant", "On."), counted(22, 130, 70), called(23, "d"), counted(24, 210, 80)],
        [codex(20, "event_msg", type="task_started"), spoke(20, "user", "two"), counted(22, 130, 80)],
        [counted(19, 120, 70), spoke(20, "user", "two"), counted(22, 200, 80)],
    ],
    ids=["only reasoning", "two answers in a row", "no answer", "no answer twice"],
)
def test_every_request_of_codex_is_paid(more: list[Value]):
    """Also one whose answer is no message, or follows another answer, so that the recording does not hold it."""
    [[recording]] = recordings(lines(*CODEX, *more), "s")
    paid = [each.usage.prompt for each in (*recording.requests, *recording.besides) if each.usage]
    assert sorted(paid) == [each["payload"]["info"]["last_token_usage"]["input_tokens"] for each in _reports(more)]


def _reports(more: list[Value]) -> list[Value]:
    return [counted(7, 50, 50), *(each for each in more if each["payload"]["type"] == "token_count")]


SPAWNED = {"subagent": {"thread_spawn": {"parent_thread_id": "1", "depth": 1}}}


@each_row(
    "mark, started, copied_at",
    [
        ({"forked_from_id": "1"}, 0, [0.0] * len(CODEX)),
        ({"source": SPAWNED}, 0, [3 + at / 4 for at in range(len(CODEX))]),
        ({}, 0, [3 + at / 4 for at in range(len(CODEX))]),
        ({"source": SPAWNED}, 100, [float(at * 8) for at in range(len(CODEX))]),
    ],
    ids=["a fork", "slowly, for a sub-agent", "without a mark", "with their own times"],
)
def test_the_requests_that_codex_copies_from_another_session_are_not_those_of_this_one(
    mark: Value, started: int, copied_at: list[float]
):
    copied = [{**each, "timestamp": clock(at)} for each, at in zip(CODEX, copied_at, strict=True)]
    header = codex(started, "session_meta", id="2", **mark)
    own = [returned(105, "c"), spoke(108, "assistant", "Done."), counted(109, 130, 80)]
    [[recording]] = recordings(lines(header, *copied, *own), "s")
    assert (recording.requests, recording.besides) == ((by_gpt(8, 108, None, 80),), ())


def test_a_fast_sub_agent_of_codex_that_copies_nothing_pays_for_all_its_requests():
    header = codex(0, "session_meta", id="2", source=SPAWNED)
    asked = [codex(0, "turn_context", model="gpt-x"), spoke(0, "user", "one")]
    answers = [
        part
        for at in (1, 2, 3)
        for part in (called(at, f"c{at}"), counted(at, 50 + at, 50 + at), returned(at, f"c{at}"))
    ]
    [[recording]] = recordings(lines(header, *asked, *answers), "s")
    assert [each.usage.prompt for each in recording.requests if each.usage] == [51, 52, 53]


def test_a_codex_session_that_was_resumed_copies_nothing():
    header = codex(12, "session_meta", id="1")
    [[recording]] = recordings(lines(*CODEX, header, returned(20, "c"), spoke(23, "assistant", "Done.")), "s")
    assert [each.time for each in recording.requests] == [NOON + 3, NOON + 12, NOON + 23]


# Gemini CLI


def gemini(seconds: int, record_id: str, kind: str, text: str, **more: Value) -> Value:
    return {"id": record_id, "timestamp": clock(seconds), "type": kind, "content": [{"text": text}], **more}


TOKENS = {"input": 85, "output": 6, "cached": 80, "thoughts": 3, "tool": 5, "total": 99}
READ = {
    "id": "c",
    "name": "read_file",
    "args": {},
    "timestamp": clock(9),
    "result": [{"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "text"}}}],
}
CHAT = [
    {"sessionId": "s", "projectHash": "p"},
    gemini(0, "1", "user", "one"),
    gemini(4, "2", "gemini", "I look.", toolCalls=[READ], model="gemini-x", tokens=TOKENS),
]
GEMINI = {"model": "gemini-x", "usage": Usage(90, 80, 0, 9)}
SAID = ["user:one", "model:I look.+read_file", "user:text"]
THEN = gemini(15, "3", "gemini", "Done.", model="gemini-x", tokens=TOKENS)


@each_row(
    "history, expected",
    [
        ([], [([*SAID, "model:Done."], (asked(1, 4, None, **GEMINI), asked(3, 15, 5, **GEMINI)))]),
        (CHAT[1:], [([*SAID, "model:Done."], (asked(1, 4, None, **GEMINI), asked(3, 15, 5, **GEMINI)))]),
        (
            [gemini(0, "1", "user", "one"), {**CHAT[2], "content": [{"text": "I looked."}]}],
            [
                (SAID, (asked(1, 4, None, **GEMINI),)),
                (
                    ["user:one", "model:I looked.+read_file", "user:text", "model:Done."],
                    (asked(3, 15, None, **GEMINI),),
                ),
            ],
        ),
        (
            [gemini(10, "8", "user", "summary"), gemini(10, "9", "gemini", "Got it.")],
            [
                (SAID, (asked(1, 4, None, **GEMINI),)),
                (["user:summary", "model:Got it.+Done."], ()),
            ],
        ),
    ],
)
def test_gemini_cli_is_recorded_in_stretches_between_rewrites_of_its_history(history: list[Value], expected: Value):
    assert stretches(lines(*CHAT, {"$set": {"messages": history}} if history else {"$set": {}}, THEN)) == expected


def test_answers_of_gemini_cli_that_were_rewound_are_paid():
    again = gemini(25, "5", "gemini", "Yes.", model="gemini-x", tokens={**TOKENS, "input": 90})
    [[recording]] = recordings(lines(*CHAT, THEN, {"$rewindTo": "3"}, gemini(20, "4", "user", "two"), again), "s")
    assert recording.besides == (asked(0, 15, None, **GEMINI),)
    assert [each.usage and each.usage.prompt for each in recording.requests] == [90, 95]


def test_answers_of_gemini_cli_without_a_part_are_paid():
    empty = {**gemini(12, "e", "gemini", ""), "content": [], "tokens": {**TOKENS, "input": 88}}
    silent = {**gemini(13, "f", "gemini", ""), "tokens": {**TOKENS, "input": 89}}
    [[recording]] = recordings(lines(*CHAT, empty, silent, gemini(14, "4", "user", "Go on."), THEN), "s")
    assert sorted(each.usage.prompt for each in recording.besides if each.usage) == [93, 94]
    assert [each.usage and each.usage.prompt for each in recording.requests] == [90, 90]


# Copilot CLI


def copilot(seconds: int, kind: str, **data: Value) -> Value:
    return {"type": kind, "id": str(seconds), "timestamp": clock(seconds), "data": data}


def test_copilot_cli_is_recorded_in_stretches_with_output_tokens():
    text = lines(
        copilot(0, "session.start", selectedModel="m"),
        copilot(1, "system.message", role="system", content="rules"),
        copilot(2, "user.message", content="one"),
        copilot(4, "assistant.message", content="A.", outputTokens=8),
        copilot(5, "session.compaction_start"),
        copilot(6, "user.message", content="two"),
        copilot(7, "assistant.message", content="B.", model="n"),
        copilot(8, "session.compaction_complete", success=True, summaryContent="so far"),
        copilot(9, "user.message", content="three"),
        copilot(10, "assistant.message", content="C."),
    )
    summary = "user:<user_message>\none\n</user_message>\n\n<summary>\nso far\n</summary>"
    assert stretches(text) == [
        (
            ["system:rules", "user:one", "assistant:A.", "user:two", "assistant:B."],
            (asked(2, 4, None, model="m", usage=Usage(0, output=8)), asked(4, 7, 2, model="n", usage=None)),
        ),
        (
            ["system:rules", summary, "user:two", "assistant:B.", "user:three", "assistant:C."],
            (asked(5, 10, None, model="m", usage=None),),
        ),
    ]


# pi and Cline


def pi(seconds: int, role: str, content: Value, **more: Value) -> Value:
    message = {"role": role, "content": content, "model": "m", **more}
    return {"type": "message", "timestamp": clock(seconds), "message": message}


PI_USAGE = {"input": 3, "cacheRead": 20, "cacheWrite": 7, "output": 5}
THOUGHT = {"type": "thinking", "thinking": "hm"}


def chained(*entries: Value) -> list[Value]:
    """Entries of version 2 and later, each the child of the previous one."""
    return [{**each, "id": str(at), "parentId": str(at - 1) if at else None} for at, each in enumerate(entries)]


@each_row("ids", [False, True])
def test_pi_is_recorded_in_stretches_without_thoughts(ids: bool):
    kept = {"firstKeptEntryId": "2"} if ids else {"firstKeptEntryIndex": 3}
    entries = [
        pi(0, "user", "one"),
        pi(2, "assistant", [THOUGHT, *words("A.")], usage=PI_USAGE),
        pi(10, "user", "two"),
        pi(12, "assistant", words("B."), usage=PI_USAGE),
        {"type": "compaction", "summary": "so far", **kept},
        pi(30, "user", "three"),
        pi(31, "assistant", words("C.")),
    ]
    text = lines({"type": "session", "id": "s"}, *(chained(*entries) if ids else entries))
    after = ["user:<summary>\nso far\n</summary>+two", "assistant:B.", "user:three", "assistant:C."]
    used = {"model": "m", "usage": USED}
    assert stretches(text) == [
        (
            ["user:one", "assistant:A.", "user:two", "assistant:B."],
            (asked(1, 2, None, **used), asked(3, 12, 8, **used)),
        ),
        (after, (asked(3, 31, None, model="m", usage=None),)),
    ]


def test_a_message_of_an_extension_of_pi_is_not_counted_as_summarized():
    noted = {"type": "custom_message", "content": "Remember this."}
    entries = chained(pi(0, "user", "one"), noted, pi(2, "assistant", words("A.")))
    assert not any("compaction" in note for note in load(lines({"type": "session", "id": "s"}, *entries), "s").notes)


def test_a_broken_line_of_pi_costs_only_itself():
    entries = chained(*(pi(at, "user" if at % 2 == 0 else "assistant", words(f"{at}")) for at in range(10)))
    text = lines({"type": "session", "id": "s"}, *entries).split("\n")
    text[5] = text[5][:20]
    [[recording]] = recordings("\n".join(text), "s", skip_broken=True)
    assert "".join(message.rpartition(":")[2] for message in map(outline, recording.messages)) == "012356789"
    assert recording.notes == ("line 6 is broken, left out",)


@each_row(("name", "counts"), [("cacheRead", True), ("other", False)])
def test_a_log_that_counts_no_cached_tokens_differs_from_one_that_does_not_count_them(name: str, counts: bool):
    entries = [pi(0, "user", "one"), pi(2, "assistant", words("A."), usage={"input": 3, "output": 5, name: 0})]
    [(_, [request])] = stretches(lines({"type": "session", "id": "s"}, *chained(*entries)))
    assert request.usage == Usage(3, output=5)
    assert request.usage.counts_cached is counts


@each_row(
    "more, usage",
    [
        ({}, USED),
        ({"cacheWrite1h": 0}, replace(USED, written_5m=7)),
        ({"cacheWrite1h": 7}, replace(USED, written_1h=7)),
        ({"cacheWrite1h": 2, "cost": {"total": 0.5}}, replace(USED, written_5m=5, written_1h=2, cost=0.5)),
        ({"cost": {"total": 0}}, USED),
    ],
)
def test_pi_records_costs_and_since_later_versions_the_cache_written(more: Value, usage: Usage):
    entries = [pi(0, "user", "one"), pi(2, "assistant", words("A."), usage=PI_USAGE | more)]
    [(_, [request])] = stretches(lines({"type": "session", "id": "s"}, *chained(*entries)))
    assert request.usage == usage


@each_row("kind", ["compaction", "branch_summary"])
def test_the_request_that_wrote_a_summary_of_pi_was_paid(kind: str):
    summary = {"type": kind, "timestamp": clock(9), "summary": "so far", "firstKeptEntryId": "2"}
    usage = {"input": 50, "cacheRead": 0, "cacheWrite": 0, "output": 6, "cost": {"total": 0.25}}
    entries = [pi(0, "user", "one"), pi(2, "assistant", words("A."), usage=PI_USAGE), summary | {"usage": usage}]
    *_, last = recordings(lines({"type": "session", "id": "s"}, *chained(*entries)), "s")[0]
    assert [(each.time, each.usage) for each in last.besides] == [(NOON + 9, Usage(50, output=6, cost=0.25))]


def test_a_request_by_which_pi_kept_the_cache_warm_was_paid_and_ends_the_pause():
    usage = {"input": 0, "cacheRead": 30, "cacheWrite": 0, "output": 0, "cost": {"total": 0.25}}
    warm = {"type": "usage", "kind": "cache_warm", "timestamp": clock(250), "model": "m", "usage": usage}
    before = [pi(0, "user", "one"), pi(2, "assistant", words("A."), usage=PI_USAGE)]
    after = [pi(400, "user", "two"), pi(402, "assistant", words("B."), usage=PI_USAGE)]
    text = lines({"type": "session", "id": "s"}, *chained(*before, warm, *after))
    [(said, [_, second])] = stretches(text)
    assert said == ["user:one", "assistant:A.", "user:two", "assistant:B."]
    assert second.pause == 152  # to the end of the answer
    [paid] = recordings(text, "s")[0][-1].besides
    assert (paid.time, paid.model, paid.usage) == (NOON + 250, "m", Usage(30, 30, cost=0.25))


@each_row("ids, said", [(False, ["user:one", "assistant:I w", "user:two"]), (True, ["user:one+two"])])
def test_only_version_1_of_pi_resends_interrupted_answers(ids: bool, said: list[str]):
    entries = [
        pi(0, "user", "one"),
        pi(2, "assistant", words("I w"), stopReason="aborted"),
        pi(3, "assistant", [], stopReason="aborted"),
        pi(4, "user", "two"),
    ]
    [(found, _)] = stretches(lines({"type": "session", "id": "s"}, *(chained(*entries) if ids else entries)))
    assert found == said


def test_cline_is_recorded_with_its_metrics():
    metrics = {"inputTokens": 50, "cacheReadTokens": 40, "cacheWriteTokens": 6, "outputTokens": 4, "cost": 0.25}
    messages = [
        {"role": "user", "content": "one", "ts": NOON * 1000},
        {"role": "assistant", "content": words("A."), "ts": int(NOON * 1000) + 2500, "modelInfo": {"id": "m"}},
        {"role": "user", "content": "two", "ts": int(NOON * 1000) + 9500},
        {"role": "assistant", "content": words("B."), "ts": int(NOON * 1000) + 11000, "metrics": metrics},
    ]
    text = json.dumps({"sessionId": "s", "agent": "lead", "version": 1, "messages": messages})
    first, second = (
        asked(1, 2.5, None, model="m", usage=None),
        asked(3, 11, 7, model="", usage=Usage(50, 40, 6, 4, cost=0.25)),
    )
    assert stretches(text) == [(["user:one", "assistant:A.", "user:two", "assistant:B."], (first, second))]


# Any file

PLAIN = [
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "I look."},
    {"role": "assistant", "content": "I looked."},
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "Done."},
]
ITEMS = [
    {"role": "user", "content": "go"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "A"},
]


@each_row(
    "text, expected",
    [
        (json.dumps(PLAIN), Recording(PLAIN, requests=(Request(2), Request(5)), holds_prompt=True)),
        (lines(*PLAIN[1:]), Recording(PLAIN[1:], requests=(Request(1), Request(4)))),
        (json.dumps({"messages": PLAIN[:2]}), Recording(PLAIN[:2], holds_prompt=True)),
        (json.dumps(ITEMS), Recording(ITEMS, requests=(Request(1),))),
        (
            lines(*PLAIN) + '{"role"',
            Recording(PLAIN, ("line 7 is cut off, left out",), (Request(2), Request(5)), holds_prompt=True),
        ),
    ],
)
def test_plain_messages_are_one_stretch(text: str, expected: Recording):
    assert recordings(text, "s") == [[expected]]


def said_by(value: Value) -> list[Value]:
    return [{"role": value["who"], "content": value["what"]}]


LOG = [{"who": "user", "what": "go"}, {"who": "assistant", "what": "Done."}]


@each_row(
    "record, request",
    [
        (None, Request(1)),
        (
            lambda values: [
                [stretch("openai_chat", [(said_by(v)[0], Answer(5.0) if v is values[1] else 3.0) for v in values])]
            ],
            Request(1, 5.0),
        ),
    ],
)
def test_a_custom_reader_is_recorded_with_or_without_record(record: Value, request: Request):
    def read(values: Value) -> list[Conversation]:
        return [conversation("openai_chat", [message for value in values for message in said_by(value)])]

    reader = Reader("mine", lambda values: "who" in values[0], read, record)
    [[found]] = recordings(lines(*LOG), "s", readers=[reader])
    assert found == Recording([said_by(value)[0] for value in LOG], requests=(request,), agent="mine")


@each_row(
    "text, what",
    [
        ("", "is empty"),
        ("{", "is broken JSON"),
        ('{"version": 1, "sessionId": "s", "agent": "lead", "messages": [{}]}', "record 1 of the messages"),
    ],
)
def test_files_that_cannot_be_read_cannot_be_recorded(text: str, what: str):
    with pytest.raises(SessionError, match=what):
        recordings(text, "s")


PAGE = Path(__file__).parents[2] / "docs" / "session_files.md"
FACTS = ("model", "time", "prompt", "cached", "written", "written_5m, written_1h", "cost", "cache_life")


def facts(request: Request) -> set[str]:
    """What a reader knows about a request, by the columns of the page."""
    usage = request.usage or Usage(0)
    known = {
        "model": request.model,
        "time": request.time is not None,
        "prompt": usage.prompt,
        "cached": usage.cached,
        "written": usage.written,
        "written_5m, written_1h": usage.written_5m or usage.written_1h,
        "cost": usage.cost is not None,
        "cache_life": request.cache_life is not None,
    }
    return {fact for fact in FACTS if known[fact]}


def test_the_page_lists_what_each_reader_knows_about_requests():
    found: dict[str, set[str]] = {}
    for path in SAMPLES:
        for each in (each for run in recordings(path.read_text(encoding="utf-8"), path.name) for each in run):
            if each.agent:
                found.setdefault(each.agent, set()).update(*map(facts, each.requests))
    [columns] = re.findall(r"^\| agent \| (`model`.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rows = re.findall(r"^\| `([\w-]+)` \|((?: (?:yes)? ?\|){8})$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(column.replace("`", "") for column in columns.split(" | ")) == FACTS
    assert found == {
        agent: {fact for fact, cell in zip(FACTS, cells.split("|"), strict=False) if cell.strip()}
        for agent, cells in rows
    }


def test_every_shipped_reader_has_record():
    assert [reader.name for reader in READERS if reader.record is None] == []


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_pruners_find_the_recorded_requests(path: Path):
    for parts in recordings(path.read_text(encoding="utf-8"), path.name):
        for each in parts:
            transcript = AgenticConversationPruner("100m").plan(each.messages).transcript
            walked = [at for at in transcript.requests if at < len(each.messages)]
            assert {request.message for request in each.requests} <= set(walked)


def test_a_conversation_for_an_unknown_api_raises():
    with pytest.raises(SettingsError, match=r"there is no API 'antropic' \(did you mean anthropic"):
        conversation("antropic", [])
