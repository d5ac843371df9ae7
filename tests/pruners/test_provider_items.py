"""What a provider's own items mean for a prune: compactions, approvals, loaded tools, results that go to programs."""

from collections.abc import Callable
from typing import Any

import pytest
from folding_cases import Stranger, echo
from profiles import sample_cases
from shipped import PRESETS

from autoprune import AgenticConversationPruner, PruneArgs, Result, problems
from autoprune.planning.protections import Retention
from autoprune.pruners.conversation import ConversationPruner
from autoprune.strategies import presets
from autoprune.strategies.catalog import CLEARING
from autoprune.strategies.folding import Folding

LONG = "a line of text\n" * 60
SUMMARY = "They fixed the parser; the lexer is next."
# Strategies with limits at which they fold the conversations here.
FOLDING = {
    **{name: make() for name, make in PRESETS.items()},
    "keep_last": presets.keep_last(3),
    "summarize_older": presets.summarize_older(3),
    "symbolize": presets.symbolize(2, batch=2),
    "chat_summary": presets.chat_summary(4, keep=2),
    "action_trace": presets.action_trace(5, keep=2),
    "sliding_window": presets.sliding_window(2, keep=1),
    "per_result": presets.per_result(threshold=200),
    "snapshot": presets.snapshot(4, keep=2, large=200),
}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def anthropic_turns(*numbers: int, **caller: Any) -> list[Any]:
    """A call and its result for each number."""
    turns: list[Any] = []
    for number in numbers:
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "read",
            "input": {"path": f"{number}.py"},
            **caller,
        }
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"{number}\n{LONG}"}
        turns += [model(call), {"role": "user", "content": [result]}]
    return turns


def responses_turns(*numbers: int) -> list[Any]:
    """A call and its output for each number."""
    turns: list[Any] = []
    for number in numbers:
        call = {
            "type": "function_call",
            "call_id": f"c{number}",
            "name": "read",
            "arguments": f'{{"path": "{number}.py"}}',
        }
        turns += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": f"{number}\n{LONG}"}]
    return turns


def compacted(*blocks: Any, content: str | None = SUMMARY) -> dict[str, Any]:
    """The model's message with Anthropic's compaction."""
    return model({"type": "compaction", "content": content}, *blocks)


def folded(messages: list[Any], name: str, *, share: int = 3, llm: Any = None, **settings: Any) -> Result:
    """Fold a conversation to a share of its tokens, with small limits."""
    safe_zone = max(1, ConversationPruner(PruneArgs(1)).count_tokens(messages) // share)
    return ConversationPruner(PruneArgs(safe_zone, **settings), llm).prune(messages, FOLDING[name], validate=True)


every_folding = pytest.mark.parametrize("name", sample_cases(PRESETS, 4))
every_clearing = pytest.mark.parametrize("name", CLEARING)


# Compactions


def anthropic_compacted() -> list[Any]:
    """A long conversation, its compaction in an answer with a call, and a long rest."""
    begun = [user("Fix it."), *anthropic_turns(*range(10))]
    [call], result = anthropic_turns(10)[0]["content"], anthropic_turns(10)[1]
    rest = [*anthropic_turns(*range(11, 20)), model(text("Done.")), user("And the docs?"), *anthropic_turns(20)]
    return [*begun, compacted(call), result, *rest]


@every_folding
def test_a_fold_keeps_anthropics_compaction_and_what_the_api_ignores(name: str):
    messages = anthropic_compacted()
    result = folded(messages, name)
    assert result.conversation[:22] == messages[:22]
    assert result.conversation is not messages
    assert folded(result.conversation, name, share=1).conversation is result.conversation


@every_folding
def test_a_summary_is_behind_the_compaction_where_the_api_reads_it(name: str):
    result = folded(anthropic_compacted(), name)
    places = [at for at, message in enumerate(result.conversation) if "[Summary of" in str(message)]
    assert places == ([22] if result.plan.summarized else [])


def test_a_summary_behind_results_and_words_is_found_again():
    messages = anthropic_compacted()
    messages[22] = {"role": "user", "content": [*messages[22]["content"], text("Also the lexer.")]}
    once = folded(messages, "summarize").conversation
    twice = folded([*once, *anthropic_turns(*range(30, 40))], "summarize").conversation
    assert [str(each).count("[Summary of") for each in (once, twice)] == [1, 1]
    assert [block.get("text", "")[:12] for block in twice[22]["content"]] == ["", "Also the lex", "[Summary of "]


def test_what_is_before_a_compaction_is_not_counted_and_the_report_says_so():
    messages = anthropic_compacted()
    pruner = AgenticConversationPruner(PruneArgs(50_000))
    report = pruner.prune(messages).report
    assert report.tokens_before == pruner.count_tokens(messages[21:]) == pruner.count_tokens(messages)
    assert report.results == 11
    assert report.notes == (
        "the provider replaced all messages before message 21 by the compaction in it: they are not in the prompt, so "
        "they are neither counted nor changed",
    )


def test_blocks_before_a_compaction_in_its_own_message_are_not_counted():
    pruner = AgenticConversationPruner(PruneArgs(50_000))
    after = [compacted(text("Go on.")), user("Yes.")]
    before = [model(text(LONG), *after[0]["content"]), after[1]]
    assert pruner.count_tokens(before) == pruner.count_tokens(after)


def test_a_summarizing_model_reads_the_compaction():
    briefs: list[str] = []

    def note(brief: Any) -> str:
        briefs.append(echo(brief))
        return "They read."

    folded(anthropic_compacted(), "summarize", llm=Stranger("noting", note))
    assert [SUMMARY in brief for brief in briefs] == [True]


def encrypted(kind: str = "compaction") -> dict[str, Any]:
    return {"type": kind, "encrypted_content": "gAAAAAB" * 30}


@every_folding
@pytest.mark.parametrize("kind", ["compaction", "context_compaction", "compaction_summary"])
def test_a_fold_keeps_the_newest_encrypted_compaction(name: str, kind: str):
    newest = encrypted(kind)
    messages = [
        *(user("Fix it."), *responses_turns(*range(4)), user("Fix more."), newest, user("Go on.")),
        *(*responses_turns(*range(4, 12)), user("And the docs?"), *responses_turns(12)),
    ]
    result = folded(messages, name)
    assert [each for each in result.conversation if each is newest] == [newest]
    assert result.conversation is not messages


def test_an_older_encrypted_compaction_may_go():
    older, newest = encrypted(), encrypted()
    messages = [
        user("Fix it."),
        older,
        user("Go on."),
        newest,
        user("And now?"),
        *responses_turns(*range(6)),
        user("So?"),
    ]
    kept = folded(messages, "truncate").conversation
    assert [any(each is one for each in kept) for one in (older, newest)] == [False, True]


@pytest.mark.parametrize("name", [*PRESETS, *CLEARING])
def test_a_request_for_a_compaction_is_sent_whole(name: str):
    messages = [user("Fix it."), *responses_turns(*range(12)), {"type": "compaction_trigger"}]
    pruner = (ConversationPruner if name in PRESETS else AgenticConversationPruner)(PruneArgs(400))
    result = pruner.prune(messages, FOLDING.get(name, name))
    assert result.conversation is messages
    assert "the last item asks the provider for a compaction, so the conversation is sent whole" in result.report.notes
    assert result.report.tokens_after == result.report.tokens_before


# System messages


def system(words: str) -> dict[str, Any]:
    return {"role": "system", "content": words}


SYSTEMS: dict[str, Callable[[], list[Any]]] = {
    "behind the first request": lambda: [user("Fix it."), system("Rule 1."), *anthropic_turns(*range(12))],
    "behind results": lambda: [
        *(user("Fix it."), *anthropic_turns(0, 1, 2, 3), system("Rule 1."), *anthropic_turns(4, 5, 6, 7)),
        *(system("Rule 2."), *anthropic_turns(8, 9, 10, 11)),
    ],
    "behind each request": lambda: [
        *(each for number in range(6) for each in asked(number)),
        *(user("And now?"), system("Rule 9."), *anthropic_turns(30)),
    ],
    "at the end": lambda: [
        *(user("Fix it."), *anthropic_turns(*range(9)), model(text("Done.")), user("More."), *anthropic_turns(9)),
        system("Rule 1."),
    ],
    "before the model's last words": lambda: [
        *(user("Fix it."), system("Rule 1."), *anthropic_turns(*range(9)), model(text("Done."))),
        *(user("More."), system("Rule 2."), model(text("Done."))),
    ],
}


def asked(number: int) -> list[Any]:
    """A request, a system message behind it, and the answer."""
    turns = anthropic_turns(2 * number, 2 * number + 1)
    return [user(f"Now part {number}."), system(f"Rule {number}."), *turns, model(text("Done."))]


@every_folding
@pytest.mark.parametrize("where", SYSTEMS)
@pytest.mark.parametrize("share", [2, 4, 20])
def test_system_messages_stay_where_anthropic_takes_them(name: str, where: str, share: int):
    messages = SYSTEMS[where]()
    assert problems(messages, "anthropic") == []
    result = folded(messages, name, share=share)
    rules = [each for each in messages if each["role"] == "system"]
    assert [each for each in result.conversation if each["role"] == "system"] == rules
    assert problems(result.conversation, "anthropic") == []
    assert problems(result.conversation, "anthropic", strict_alternation=True) == [] or name == "per_result"


# Pairs


def approval(number: int, *, approve: bool = True) -> list[Any]:
    """A request for approval, its answer, and the call that was approved."""
    asked = {"type": "mcp_approval_request", "id": f"mcpr_{number}", "name": "read", "arguments": "{}"}
    answer = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{number}", "approve": approve}
    call = {"type": "mcp_call", "id": f"mcp_{number}", "name": "read", "arguments": "{}", "output": LONG}
    more = {"server_label": "files"}
    called = [{**call, **more, "approval_request_id": f"mcpr_{number}"}] if approve else []
    return [{**asked, **more}, answer, *called]


def program(number: int) -> list[Any]:
    """A program with a call in each of two rounds, and its output."""
    caller = {"caller": {"type": "program", "caller_id": f"p{number}"}}
    first, first_output, second, second_output = responses_turns(100 + 2 * number, 101 + 2 * number)
    started = {"type": "program", "id": f"prog_{number}", "call_id": f"p{number}", "code": "read()", "fingerprint": "f"}
    ended = {"type": "program_output", "id": f"out_{number}", "call_id": f"p{number}", "result": LONG}
    calls = [{**each, **caller} for each in (first, first_output, second, second_output)]
    return [started, *calls, {**ended, "status": "completed"}]


def search(number: int, execution: str) -> list[Any]:
    """A search for tools, and the tools that were found."""
    found = {"status": "completed", "execution": execution, "tools": [{"type": "function", "name": f"tool_{number}"}]}
    id = {"call_id": f"s{number}"} if execution == "client" else {}
    return [
        {"type": "tool_search_call", **id, "execution": execution, "arguments": {}},
        {"type": "tool_search_output", **id, **found},
    ]


def ids(item: Any) -> set[str]:
    """The ids by which items belong together."""
    found = {item.get("approval_request_id"), item.get("call_id"), (item.get("caller") or {}).get("caller_id")}
    return {f"{each}" for each in (*found, item.get("id") if item["type"] == "mcp_approval_request" else None) if each}


PAIRED = {
    "approvals": lambda number: approval(number),
    "refusals": lambda number: approval(number, approve=False),
    "programs": program,
}


@every_folding
@pytest.mark.parametrize("what", PAIRED)
@pytest.mark.parametrize("share", [2, 4, 20])
def test_items_that_belong_together_go_together(name: str, what: str, share: int):
    messages = [user("Fix it.")]
    for number in range(6):
        messages += [*PAIRED[what](number), {"role": "assistant", "content": LONG}, user(f"Now part {number}.")]
    assert problems(messages, "openai_responses") == []
    gone = folded(messages, name, share=share).plan.gone
    assert gone or name == "per_result"
    sides: list[set[str]] = [set(), set()]
    for at, item in enumerate(messages):
        sides[at in gone] |= ids(item) if "type" in item else set()
    assert sides[0].isdisjoint(sides[1])


def test_a_request_for_approval_stays_while_its_answer_may_come():
    messages = [user("Fix it."), *responses_turns(*range(6)), *approval(1)[:1]]
    for name in PRESETS:
        assert folded(messages, name).conversation[-1] is messages[-1]


# What loads tools


def test_an_answer_joins_a_group_that_was_cut_long_before():
    asked, answer, called = approval(1)
    others = [each for number in range(6) for each in (user(f"Part {number}."), {"role": "assistant", "content": LONG})]
    messages = [user("Fix it."), *responses_turns(1), asked, *others, answer, called, user("And?"), *responses_turns(2)]
    for name in PRESETS:
        gone = folded(messages, name).plan.gone
        assert len({at in gone for at in (3, 16, 17)}) == 1


def loading_anthropic() -> dict[str, list[Any]]:
    """Messages with what loads tools, in the three ways of Anthropic's API."""
    reference = {"type": "tool_reference", "tool_name": "deploy"}
    call = {"type": "tool_use", "id": "toolu_s", "name": "search_tools", "input": {}}
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}}
    found = {"type": "tool_search_tool_search_result", "tool_references": [reference]}
    return {
        "a reference": [
            model(call),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_s", "content": [reference]}]},
        ],
        "a search": [
            model(asked, {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found}),
            user("Yes."),
        ],
        "an addition": [
            *anthropic_turns(50),
            {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "x"}}]},
        ],
    }


LOADING = {
    **loading_anthropic(),
    "a client's search": search(1, "client"),
    "a server's search": search(1, "server"),
    "a server's tools": [{"type": "mcp_list_tools", "id": "l", "server_label": "files", "tools": [{"name": "read"}]}],
}


def loaded(what: str) -> list[Any]:
    """A long conversation with what loads tools near its start."""
    turns = anthropic_turns if what in loading_anthropic() else responses_turns
    said = model(text("Done.")) if turns is anthropic_turns else {"role": "assistant", "content": "Done."}
    return [user("Fix it."), *turns(0, 1), *LOADING[what], *turns(*range(2, 9)), said, user("And now?"), *turns(9)]


@every_folding
@pytest.mark.parametrize("what", LOADING)
def test_a_fold_keeps_what_loads_tools(name: str, what: str):
    messages = loaded(what)
    [needed] = [each for each in LOADING[what] if any(kind in str(each) for kind in KINDS)]
    kept = folded(messages, name).conversation
    assert kept is not messages
    assert [each for each in kept if each is needed] == [needed]


KINDS = ("tool_references", "tool_reference'", "tool_addition", "tool_search_output", "mcp_list_tools")


def test_what_loads_tools_stays_also_where_system_messages_may_go():
    messages = loaded("an addition")
    strategy = Folding("mine", drops=True, retain=Retention(system=False))
    kept = ConversationPruner(PruneArgs(700)).prune(messages, strategy).conversation
    assert [each for each in kept if each["role"] == "system"] == [LOADING["an addition"][-1]]


@every_clearing
@pytest.mark.parametrize("what", LOADING)
def test_clearing_keeps_what_loads_tools(name: str, what: str):
    messages = loaded(what)
    kept = AgenticConversationPruner(PruneArgs(1)).prune(messages, name, validate=True).conversation
    assert [each for each in kept if any(each is one for one in LOADING[what] if "toolu_50" not in str(one))] == [
        each for each in LOADING[what] if "toolu_50" not in str(each)
    ]


# Results that go to programs


PROGRAM = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}


def programmatic() -> list[Any]:
    """A program that makes two calls, one after the other, and another call of the model's."""
    return [user("Fix it."), *anthropic_turns(0, 1, **PROGRAM), *anthropic_turns(2), model(text("So.")), user("More.")]


def test_results_that_go_to_a_program_are_not_counted():
    pruner = AgenticConversationPruner(PruneArgs(50_000))
    messages = programmatic()
    without = [
        {**each, "content": LONG} if each["role"] == "user" and each is not messages[0] else each for each in messages
    ]
    assert without != messages
    rows = pruner.prune(messages).report.rows
    assert [row["tokens"] for row in rows[:2]] == [0, 0]
    shorter = [
        *messages[:2],
        {"role": "user", "content": [{**messages[2]["content"][0], "content": "x"}]},
        *messages[3:],
    ]
    assert pruner.count_tokens(messages) == pruner.count_tokens(shorter)


@every_clearing
def test_results_that_go_to_a_program_are_not_cleared(name: str):
    messages = programmatic()
    pruner = AgenticConversationPruner(PruneArgs(1))
    kept = pruner.prune(messages, name, validate=True).conversation
    assert kept[:5] == messages[:5]
    assert pruner.prune(kept, name).conversation is kept


def test_a_result_beside_one_that_goes_to_a_program_is_cleared_once():
    [mine], mine_result = anthropic_turns(1)[0]["content"], anthropic_turns(1)[1]["content"][0]
    [its], its_result = anthropic_turns(2, **PROGRAM)[0]["content"], anthropic_turns(2)[1]["content"][0]
    messages = [
        user("Fix it."),
        model(mine, its),
        {"role": "user", "content": [mine_result, its_result]},
        model(text("So.")),
        user("?"),
    ]
    pruner = AgenticConversationPruner(PruneArgs(1))
    once = pruner.prune(messages)
    twice = pruner.prune(once.conversation)
    assert once.report.results_cleared == 1
    assert once.conversation[2]["content"][1] is its_result
    assert twice.conversation is once.conversation
    assert twice.report.tokens_before == once.report.tokens_after
