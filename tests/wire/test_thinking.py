"""Thinking blocks after an edit: what each policy does, and which parameters the next request needs."""

import copy
import json
from typing import Any

import pytest
from anthropic import BadRequestError
from conversations import Message, openai_chat, words
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from strict_provider.scripts import Call, Turn
from tables import each_row

from autoprune import (
    AgenticConversationPruner,
    Clamp,
    ConversationPruner,
    Protections,
    PruneArgs,
    Result,
    SettingsError,
    ToolInputs,
)
from autoprune.conversation.edits import Reason
from autoprune.economics import Ledger
from autoprune.planning.plan import ThinkingPolicy
from autoprune.planning.thinking import drop_block, merged, policy
from autoprune.planning.view import Strategy
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)
POLICIES = [*ThinkingPolicy]
BINDS = "claude-opus-5-5"
PARAMETERS = {
    "extra_headers": {"anthropic-beta": "thinking-binding-controls-2026-08-01"},
    "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
}
NOTE = "{} behind the first edit; models that bind thinking to its prefix refuse it: see thinking_policy"


def pruner(safe_zone: int, policy: str | None = None, model: str | None = None) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone, model=model, thinking_policy=policy))


count = pruner(1).count_tokens


def thinking(text: str) -> Message:
    return {"type": "thinking", "thinking": f"{text} {words(20)}", "signature": f"signed {text}"}


def hidden(data: str) -> Message:
    return {"type": "redacted_thinking", "data": data * 40}


def called(number: int, *thoughts: Message, arguments: object = None) -> Message:
    """The model thinks, and calls a tool."""
    given = {"path": f"{number}.py"} if arguments is None else arguments
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": given}
    return {"role": "assistant", "content": [*thoughts, call]}


def answered(number: int, text: str) -> Message:
    """The result of that call."""
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
    return {"role": "user", "content": [result]}


def said(text: str, *thoughts: Message) -> Message:
    """The model thinks, and says something."""
    return {"role": "assistant", "content": [*thoughts, {"type": "text", "text": text}]}


def asked(text: str) -> Message:
    return {"role": "user", "content": text}


# Two turns: a file is read and described; a second file is read, and a third one.
TURNS: list[Message] = [
    asked("What is in 0.py?"),
    called(0, thinking("I read it.")),
    answered(0, words(400)),
    said("A program.", thinking("It is a program."), hidden("first")),
    asked("And the others?"),
    called(1, thinking("I read 1.py."), thinking("At once.")),
    answered(1, words(300)),
    called(2, hidden("second")),
    answered(2, words(200)),
]
CLEARED = [*TURNS[:2], answered(0, SENTENCE), *TURNS[3:]]  # the first result alone
ROOM = count(TURNS) - 1


def without_thinking(message: Message) -> Message:
    content = [block for block in message["content"] if "thinking" not in block["type"]]
    return {**message, "content": content}


def notes(result: Result) -> tuple[str, ...]:
    return result.report.fallbacks


# Each policy


def test_drop_block_tells_the_api_to_drop_the_blocks_itself():
    result = pruner(ROOM, "drop_block").prune(TURNS)
    assert result.conversation == CLEARED
    assert result.request_parameters == PARAMETERS
    assert notes(result) == ()


def test_strip_removes_all_thinking_after_the_edit_except_the_latest_turns():
    result = pruner(ROOM, "strip").prune(TURNS)
    assert result.conversation == [*CLEARED[:3], without_thinking(TURNS[3]), *TURNS[4:]]
    assert result.request_parameters == {}
    assert [thought.location.path for thought in result.plan.stripped] == [(3, "content", 0), (3, "content", 1)]
    stays = "3 thinking blocks stay behind an edit (of the latest turn, or alone in a message)"
    assert notes(result) == (f"{stays}: models that bind thinking refuse them",)
    assert f", 2 thinking blocks stripped, within the safe zone of {ROOM:,}" in str(result.report)


def test_refuse_edits_nothing_that_thinking_follows():
    result = pruner(ROOM, "refuse").prune(TURNS)
    assert result.conversation is TURNS
    assert result.request_parameters == {}
    (note,) = notes(result)
    assert note == "2 tool results were kept for the thinking behind them (thinking_policy 'refuse')"
    assert set(result.plan.kept.values()) == {Reason.BOUND, Reason.UNSEEN}
    assert result.plan.edits == ()
    report = result.report
    assert (report.results_cleared, report.tokens_after, report.within_safe_zone) == (0, report.tokens_before, False)
    assert sum(report.floor.values()) == report.tokens_after == count(TURNS)
    assert [row["reason"] for row in report.rows] == ["bound", "bound", "unseen"]
    assert (report.first_changed_message, report.cache_tokens_lost) == (None, 0)


def test_report_says_so_and_does_nothing():
    result = pruner(ROOM, "report").prune(TURNS)
    assert result.conversation == CLEARED
    assert result.request_parameters == {}
    assert notes(result) == (NOTE.format("5 thinking blocks stand"),)


@each_row("chosen", POLICIES)
@each_row(
    "messages",
    [
        [*TURNS[:2], answered(0, "ok"), *TURNS[3:]][:5],  # nothing that can be cleared
        [called(0), answered(0, words(400)), said("Fine."), asked("Well?")],  # no thinking at all
        [called(0, thinking("Before.")), answered(0, words(400)), said("Fine."), asked("Well?")],  # none behind
        openai_chat([words(400)], [words(100)]),
    ],
    ids=["no edit", "no thinking", "none behind", "another format"],
)
def test_without_thinking_after_an_edit_all_policies_give_the_same(messages: list[Message], chosen: str):
    plain = pruner(1).prune([message for message in messages if message["role"] != "system"])
    result = pruner(1, chosen).prune([message for message in messages if message["role"] != "system"])
    assert json.dumps(result.conversation) == json.dumps(plain.conversation)
    assert (result.request_parameters, notes(result)) == ({}, ())


# What is left alone


@pytest.mark.parametrize("chosen", POLICIES)
def test_nothing_is_done_within_the_safe_zone(chosen: str):
    result = pruner(ROOM + 1, chosen).prune(TURNS)
    assert result.conversation is TURNS
    assert (result.request_parameters, notes(result), result.plan.stripped) == ({}, (), ())


def test_thinking_that_is_alone_in_its_message_stays():
    """A message cannot be empty."""
    alone = {"role": "assistant", "content": [thinking("Cut short.")]}
    messages = [*TURNS[:3], alone, asked("Go on.")]
    result = pruner(1, "strip").prune(messages)
    assert result.conversation == [*CLEARED[:3], alone, asked("Go on.")]
    assert result.plan.stripped == ()
    stays = "1 thinking block stays behind an edit (of the latest turn, or alone in a message)"
    assert notes(result) == (f"{stays}: models that bind thinking refuse them",)


def items(model: str) -> list[Message]:
    """A call and its result, then reasoning, as the OpenAI Agents SDK writes the answers of a model."""
    thought = {"text": "It is a program.", "type": "reasoning_text"}
    return [
        asked("What is in 0.py?"),
        {"type": "function_call", "call_id": "c0", "name": "read_file", "arguments": '{"path": "0.py"}'},
        {"type": "function_call_output", "call_id": "c0", "output": words(400)},
        {"type": "reasoning", "id": "r", "summary": [], "content": [thought], "provider_data": {"model": model}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A program."}]},
        asked("And now?"),
    ]


@pytest.mark.parametrize(("model", "binds"), [("anthropic/claude-opus-5-5", True), ("gpt-5", False)])
def test_reasoning_is_bound_only_if_it_is_claudes(model: str, binds: bool):
    given = items(model)
    cleared = pruner(200, model=model).prune(given)
    assert cleared.conversation == [*given[:2], {**given[2], "output": SENTENCE}, *given[3:]]
    assert cleared.request_parameters == (PARAMETERS if binds else {})
    assert pruner(200, "strip").prune(given).conversation == cleared.conversation
    assert pruner(200, "refuse").prune(given).conversation == (given if binds else cleared.conversation)
    assert pruner(200).get_cleanup_statistics(given, cleared.conversation)["tool_results_cleaned"] == 1


def test_thinking_before_a_shortened_argument_in_the_same_message_stays_valid():
    wrote = called(0, thinking("I write."), arguments={"path": "a.py", "content": words(600)})
    result = {"type": "tool_result", "tool_use_id": "toolu_0", "content": "Done.", "is_error": False}
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs())
    messages = [asked("Write."), wrote, {"role": "user", "content": [result]}, said("Done."), asked("Thanks.")]
    for chosen in POLICIES:
        found = pruner(1, chosen).prune(messages, strategy)
        assert found.report.calls_cleaned == 1
        assert (found.request_parameters, notes(found)) == ({}, ())
        assert found.conversation[1]["content"][0] is wrote["content"][0]
    behind = [*messages[:3], said("Done.", thinking("It is done.")), asked("Thanks.")]
    assert pruner(1, "drop_block").prune(behind, strategy).request_parameters == PARAMETERS


# What an edit throws away


@each_row(("chosen", "lost"), [("drop_block", 5), ("strip", 5), ("refuse", 0), ("report", 0)])
def test_the_report_counts_the_thinking_that_an_edit_makes_invalid(chosen: str, lost: int):
    """`report` is for models that do not bind thinking, and `refuse` makes no such edit."""
    report = pruner(ROOM, chosen).prune(TURNS).report
    blocks = [thought for entry in report.plan.transcript.entries for thought in entry.thinking]
    assert len(blocks) == 6
    assert report.thinking_tokens_lost == sum(thought.tokens for thought in blocks[1:][:lost])
    assert report.to_dict()["thinking_tokens_lost"] == report.thinking_tokens_lost


def test_the_ledger_has_a_column_for_the_thinking_that_each_prune_made_invalid():
    ours, ledger = pruner(ROOM, "drop_block"), Ledger()
    lost = []
    for messages in (TURNS, [*TURNS, said("Three programs.", thinking("I have seen them.")), asked("Thanks.")]):
        result = ours.prune(messages)
        ledger.add(result)
        lost.append(result.report.thinking_tokens_lost)
    assert [each.thinking for each in ledger.entries] == [lost[0]]
    assert ledger.total.thinking == lost[1] > 0
    heading, row, *_ = str(ledger).splitlines()
    assert (heading.split()[-1], row.split()[-1], len(heading)) == ("thought", str(lost[0]), 80)
    assert "thought: tokens of thinking that the prune made invalid" in str(ledger)
    assert Ledger.from_dict(ledger.to_dict()).total == ledger.total


# Which policy


def test_thinking_behind_dropped_messages_is_lost():
    args = PruneArgs(count(TURNS) // 2, thinking_policy="drop_block")
    report = ConversationPruner(args).prune(TURNS, "truncate").report
    entries = report.plan.transcript.entries
    left = [thought for at, entry in enumerate(entries) if at not in report.plan.gone for thought in entry.thinking]
    assert report.messages_removed > 0
    assert report.thinking_tokens_lost == sum(thought.tokens for thought in left) > 0


@each_row(
    ("wanted", "model", "chosen"),
    [
        (None, None, "report"),
        (None, "gpt-4o", "report"),
        (None, "claude-sonnet-4-5", "report"),
        (None, "claude-opus-5-5", "drop_block"),
        (None, "anthropic/claude-sonnet-5.5", "drop_block"),
        (None, "us.anthropic.claude-haiku-5-5-20260901-v1:0", "drop_block"),
        (None, "claude-opus-6", "drop_block"),  # newer than this version of autoprune
        ("report", "claude-opus-5-5", "report"),
        ("strip", None, "strip"),
        (ThinkingPolicy.REFUSE, "claude-opus-5-5", "refuse"),
    ],
)
def test_models_that_bind_thinking_have_their_blocks_dropped_unless_something_else_is_asked_for(
    wanted: str | None, model: str | None, chosen: str
):
    assert policy(wanted, model) == chosen
    result = pruner(ROOM, wanted, model).prune(TURNS)
    assert (result.request_parameters == PARAMETERS) == (chosen == "drop_block")


@pytest.mark.parametrize(
    "model",
    [
        *("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"),
        *("claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-2"),
        *(
            "claude-opus-5-6",
            "claude-opus-5-10",
            "claude-sonnet-6",
            "claude-haiku-6-1",
            "claude-fable-6",
            "claude-mythos-7",
        ),
        *("claude-opus-latest", "~anthropic/claude-sonnet-latest", "claude-opus", "claude-opus-latest[1m]"),
        *("claude-atlas-1", "claude-atlas", "claude-6", "claude-5.5", "claude"),  # families that nobody knows yet
        *("us.anthropic.claude-opus-5-5-v1:0", "global.anthropic.claude-haiku-6-20270101-v1:0"),
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-6-v1:0",
        *("claude-opus-5-5@20260901", "vertex_ai/claude-sonnet-6@20270101", "claude-fable-5-1@latest"),
        *(
            "anthropic/claude-opus-5.5",
            "openrouter/anthropic/claude-sonnet-5.5:batch",
            "bedrock/eu.anthropic.claude-opus-6",
        ),
        *("claude-opus-5-5[1m]", "claude-fable-5-1[1m]", "claude-opus-5.5-fast", "claude-sonnet-6-thinking"),
        *("claude-5-5-opus", "anthropic--claude-5.5-sonnet", "databricks-claude-opus-6", "Claude Opus 5.5"),
    ],
)
def test_every_claude_from_the_first_version_of_its_family_that_binds_drops_blocks(model: str):
    assert policy(None, model) == "drop_block"


def test_a_policy_that_there_is_not_is_refused():
    said = "thinking_policy is 'keep': give one of drop_block, strip, refuse, report"
    for use in (pruner(ROOM, "keep").prune, pruner(1_000_000, "keep").plan):
        with pytest.raises(SettingsError, match=said):
            use(TURNS)


# Parameters of the next request


BETA = "thinking-binding-controls-2026-08-01"
BINDING = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
ADAPTIVE = {"type": "adaptive", **BINDING}
HEADER = {"anthropic-beta": BETA}
SAYS = {"extra_headers": HEADER, "thinking": ADAPTIVE}


def with_header(value: str, **more: object) -> dict[str, object]:
    return {"extra_headers": {"anthropic-beta": value, **more}, "thinking": ADAPTIVE}


def with_thinking(given: object) -> dict[str, object]:
    return {"extra_headers": HEADER, "thinking": given}


@each_row(
    ("given", "becomes"),
    [
        ({}, SAYS),
        ({"model": BINDS, "max_tokens": 9}, {"model": BINDS, "max_tokens": 9, **SAYS}),
        ({"thinking": {"type": "adaptive"}}, SAYS),
        ({"thinking": None}, SAYS),
        ({"thinking": {"display": "omitted"}}, with_thinking({"display": "omitted", **ADAPTIVE})),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
            with_thinking({"type": "enabled", "budget_tokens": 2_000, **BINDING}),
        ),
        ({"thinking": {"type": "disabled"}}, with_thinking({"type": "disabled"})),
        ({"thinking": {"type": "between_tools"}}, with_thinking({"type": "between_tools"})),
        ({"extra_headers": {"x-trace": "1"}}, with_header(BETA, **{"x-trace": "1"})),
        ({"extra_headers": None}, SAYS),
        ({"extra_headers": {"anthropic-beta": "one, two"}}, with_header(f"one,two,{BETA}")),
        ({"extra_headers": {"Anthropic-Beta": "one"}}, with_header(f"one,{BETA}")),
        ({"extra_headers": {"anthropic-beta": f"{BETA},one"}}, with_header(f"{BETA},one")),
        ({"extra_headers": {"anthropic-beta": f"{BETA}-b"}}, with_header(f"{BETA}-b,{BETA}")),
        ({"extra_headers": {"anthropic-beta": ""}}, SAYS),
        ({"betas": ["one", "two"]}, {"betas": ["one", "two"], **with_header(f"one,two,{BETA}")}),
        ({"betas": ["one"], **with_header("two")}, {"betas": ["one"], **with_header(f"two,{BETA}")}),
    ],
    ids=str,
)  # fmt: skip
def test_parameters_are_merged_into_those_of_a_request(given: dict[str, Any], becomes: dict[str, Any]):
    before = copy.deepcopy(given)
    assert merged(drop_block(), given) == becomes
    assert given == before
    assert merged(drop_block(), becomes) == becomes
    assert merged({}, given) == given


# Bedrock: boto3 refuses Anthropic's parameters


def in_bedrock(message: Message) -> Message:
    """A message of `TURNS` as Converse writes it."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [bedrock_block(block) for block in blocks]}


def bedrock_block(block: Message) -> Message:
    match block["type"]:
        case "thinking":
            text = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": text}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block["data"].encode()}}
        case "tool_use":
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case "tool_result":
            return {"toolResult": {"toolUseId": block["tool_use_id"], "content": [{"text": block["content"]}]}}
    return {"text": block["text"]}


BEDROCK_TURNS = [in_bedrock(message) for message in TURNS]
BEDROCK_MODEL = "us.anthropic.claude-opus-5-5-v1:0"
FIELDS = {"anthropic_beta": [BETA], "thinking": ADAPTIVE}


@pytest.mark.parametrize("kind", [AgenticConversationPruner, ConversationPruner])
@pytest.mark.parametrize(
    "asked_for",
    [
        {},
        {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2_000}}},
        {"additionalModelRequestFields": {"anthropic_beta": ["one"], "top_k": 9}},
    ],
    ids=str,
)
def test_boto3_accepts_the_parameters_of_a_bedrock_conversation(
    kind: Any, asked_for: Message, bedrock_client: Any, strict_provider: Any
):
    result = kind(PruneArgs(600, model=BEDROCK_MODEL)).prune(BEDROCK_TURNS)
    assert result.conversation is not BEDROCK_TURNS
    assert result.request_parameters == {"additionalModelRequestFields": FIELDS}
    tool = {"toolSpec": {"name": "read_file", "inputSchema": {"json": {"type": "object"}}}}
    request = {"modelId": BEDROCK_MODEL, "messages": result.conversation, "toolConfig": {"tools": [tool]}, **asked_for}
    bedrock_client.converse(**merged(result.request_parameters, into=request))  # which boto3 checks, and the provider
    sent = strict_provider.requests[-1].body["additionalModelRequestFields"]
    assert sent["anthropic_beta"][-1] == BETA
    assert sent["thinking"]["block_binding"] == BINDING["block_binding"]


BEDROCK_SAYS = {"additionalModelRequestFields": FIELDS}


@each_row(
    ("given", "becomes"),
    [
        ({}, FIELDS),
        ({"anthropic_beta": ["one"]}, {"anthropic_beta": ["one", BETA], "thinking": ADAPTIVE}),
        ({"anthropic_beta": ("one", BETA)}, {"anthropic_beta": ["one", BETA], "thinking": ADAPTIVE}),
        ({"thinking": {"type": "disabled"}}, {"anthropic_beta": [BETA], "thinking": {"type": "disabled"}}),
        ({"top_k": 9}, {"top_k": 9, **FIELDS}),
    ],
    ids=str,
)
def test_parameters_are_merged_into_those_of_a_bedrock_request(given: dict[str, Any], becomes: dict[str, Any]):
    request = {"modelId": "m", "additionalModelRequestFields": given}
    once = merged(BEDROCK_SAYS, request)
    assert once == {"modelId": "m", "additionalModelRequestFields": becomes}
    assert merged(BEDROCK_SAYS, once) == once


# Against a provider that checks every block


def script(turns: int) -> list[Turn]:
    """An agent that writes files, thinking before each; every fourth time it ends its turn."""
    made = []
    for number in range(turns):
        written = {"path": f"{number}.py", "content": words(120)}
        made.append(Turn(f"Step {number}.", (Call("write_file", written),), f"I think of {number}. {words(30)}"))
        if number % 4 == 3:
            made.append(Turn("That is done.", thinking="All is there."))
    return made


def refusals(client: Any, ours: AgenticConversationPruner, strategy: Strategy, *, is_fed_back: bool) -> list[str]:
    """The provider's complaints about a loop of ten pruned requests, with the output fed back or not."""
    messages = [asked("Write it all.")]
    told = []
    for number in range(10):
        result = ours.prune(messages, strategy)
        messages = list(result.conversation) if is_fed_back else messages
        more = merged(result.request_parameters, {"thinking": {"type": "adaptive"}})
        try:
            answer = client.messages.create(
                model=BINDS, max_tokens=900, messages=result.conversation, tools=TOOLS, **more
            )
        except BadRequestError as error:
            return [*told, str(error)]
        messages = [*messages, {"role": "assistant", "content": [block.model_dump() for block in answer.content]}]
        calls = [block.id for block in answer.content if block.type == "tool_use"]
        text = words(900 if number % 3 == 1 else 150)
        results = [{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": False} for id in calls]
        messages.append({"role": "user", "content": results or "And now?"})
    return told


TOOLS = [{"name": "write_file", "input_schema": {"type": "object"}}]
INPUTS_ALONE = ToolOutputCleanup(Protections(minimum_tokens=10_000), clear_tool_inputs=ToolInputs(above=20))


@pytest.mark.full
@pytest.mark.parametrize("is_fed_back", [False, True])
@pytest.mark.parametrize(
    ("chosen", "strategy", "is_refused"),
    [
        (None, ToolOutputCleanup(), False),
        (None, LowWater(), False),
        (None, ToolOutputCleanup(clamp=Clamp(300), clear_tool_inputs=ToolInputs(above=20)), False),
        (None, INPUTS_ALONE, False),
        ("refuse", ToolOutputCleanup(), False),
        ("report", ToolOutputCleanup(), True),
        ("strip", ToolOutputCleanup(), True),  # that of the latest turn must stay, and is bound
    ],
    ids=["cleanup", "low water", "all options", "arguments alone", "refuse", "report", "strip"],
)
def test_a_provider_that_binds_thinking_accepts_the_result_of_each_policy(
    chosen: str | None,
    strategy: Strategy,
    is_refused: bool,
    is_fed_back: bool,
    strict_provider: Any,
    anthropic_client: Any,
):
    strict_provider.play.script = script(10)
    said = refusals(anthropic_client, pruner(1_500, chosen, BINDS), strategy, is_fed_back=is_fed_back)
    assert bool(said) == is_refused, said
    assert all("bound to a different conversation" in words for words in said)


# For any conversation

THOUGHTS = st.lists(st.sampled_from((thinking("One."), thinking("Two."), hidden("three"))), max_size=2)
SIZES = st.sampled_from((1, 60, 200, 500))
STEPS = st.one_of(st.tuples(THOUGHTS, SIZES), st.tuples(THOUGHTS, SIZES), st.tuples(THOUGHTS, st.just("Go on.")))
STRATEGIES = st.sampled_from(
    (
        ToolOutputCleanup(),
        LowWater(target=0.6),
        ToolOutputCleanup(clamp=Clamp(100)),
        ToolOutputCleanup(clear_tool_inputs=ToolInputs(above=20)),
    )
)


def conversation(steps: list[Any]) -> list[Message]:
    messages = [asked("Fix it.")]
    for number, (thoughts, what) in enumerate(steps):
        if isinstance(what, str):
            messages += [said("It is done.", *thoughts), asked(what)]
        else:
            given = {"path": "a.py", "content": words(what)}
            done = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": words(what), "is_error": False}
            messages += [called(number, *thoughts, arguments=given), {"role": "user", "content": [done]}]
    return [copy.deepcopy(message) for message in messages]


CONVERSATIONS = st.lists(STEPS, min_size=1, max_size=7).map(conversation)
SHARES = st.sampled_from((0.1, 0.4, 0.7, 0.95))


@pytest.mark.parametrize("chosen", POLICIES)
@given(messages=CONVERSATIONS, share=SHARES, strategy=STRATEGIES)
@examples(40)
def test_the_promises_hold_with_each_policy(chosen: str, messages: list[Message], share: float, strategy: Strategy):
    before = copy.deepcopy(messages)
    ours = pruner(max(1, int(count(messages) * share)), chosen)
    result = ours.prune(messages, strategy)
    assert messages == before
    changed = {edit.part.location.message for edit in result.plan.edits}
    changed |= {thought.location.message for thought in result.plan.stripped}
    same = [new is old for new, old in zip(result.conversation, messages, strict=True)]
    assert same == [at not in changed for at in range(len(messages))]
    assert result.report.first_changed_message == min(changed, default=None)
    assert (result.report.tokens_before, result.report.tokens_after) == (count(messages), count(result.conversation))
    assert sum(result.report.floor.values()) == count(result.conversation)
    assert ours.get_cleanup_statistics(messages, copy.deepcopy(result.conversation)) == result.report.statistics
    assert ours.prune(result.conversation, strategy).conversation is result.conversation
    assert all(message["content"] for message in result.conversation)


def facts(result: Result) -> str:
    report = {**result.report.to_dict(), "seconds": None}
    return json.dumps([report, dict(result.request_parameters), result.conversation])


@pytest.mark.parametrize("chosen", POLICIES)
@given(messages=CONVERSATIONS, share=SHARES, strategy=STRATEGIES)
@examples(25)
def test_a_pruner_with_memory_gives_the_same_as_a_new_one(
    chosen: str, messages: list[Message], share: float, strategy: Strategy
):
    room = max(1, int(count(messages) * share))
    keeping, feeding = pruner(room, chosen), pruner(room, chosen)
    fed: list[Message] = []
    for at in range(1, len(messages) + 1, 2):
        full = keeping.prune(messages[:at], strategy)
        assert facts(full) == facts(pruner(room, chosen).prune(messages[:at], strategy))
        history = [*fed, *messages[len(fed) : at]]
        again = feeding.prune(history, strategy)
        assert facts(again) == facts(pruner(room, chosen).prune(history, strategy))
        fed = again.conversation
        if chosen != "refuse":  # by which pruned output shows thinking that was not there yet
            assert json.dumps(fed) == json.dumps(full.conversation)


@pytest.mark.parametrize("chosen", ["drop_block", "report", "strip"])
@given(messages=CONVERSATIONS, share=SHARES, strategy=STRATEGIES)
@examples(40)
def test_nothing_up_to_the_stable_boundary_changes_later(
    chosen: str, messages: list[Message], share: float, strategy: Strategy
):
    ours = pruner(max(1, int(count(messages) * share)), chosen)
    stable: list[Message] = []
    for at in range(1, len(messages) + 1, 2):
        result = ours.prune(messages[:at], strategy)
        assert result.conversation[: len(stable)] == stable
        boundary = result.report.stable_boundary
        stable = result.conversation[: 0 if boundary is None else boundary + 1]


def test_stripped_thinking_is_subtracted_before_results_are_cleared():
    """Of two results, each as large as the stripped thinking, only one is cleared."""
    big = words(300)
    thoughts = {"type": "thinking", "thinking": words(400), "signature": "c2ln"}
    first = [asked("Fix it."), called(0), answered(0, big), said("So.", thoughts), asked("Go on.")]
    second = [called(1), answered(1, big), said("Done."), asked("And now?"), called(2), answered(2, words(200))]
    room = count(first) + 10
    full, fed = pruner(room, "strip"), pruner(room, "strip")
    pruned: list[Message] = []
    for new in (first, second[:2], second[2:4], second[4:]):
        pruned = fed.prune([*pruned, *new]).conversation
    result = full.prune([*first, *second])
    assert result.conversation == pruned
    assert result.report.results_cleared == 1
    assert result.report.within_safe_zone


def test_thinking_that_will_be_stripped_later_is_not_stable_yet():
    behind = [*TURNS[:4], asked("Thanks.")]
    report, over = (pruner(1, "strip").prune(behind[:at]).report for at in (4, 5))
    assert (report.stable_boundary, over.stable_boundary) == (2, 4)
    assert pruner(1, "drop_block").prune(behind[:4]).report.stable_boundary == 3
