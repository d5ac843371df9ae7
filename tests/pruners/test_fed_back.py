"""Cases in which the full history and pruned output that is fed back once led to different prompts."""

from dataclasses import replace
from typing import Any

from every_format import as_bytes, count, requests
from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, problems
from autoprune.conversation.summary import CALLS_LATER, find_summary
from autoprune.planning.protections import Protections, Retention
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.pruners.conversation import ConversationPruner
from autoprune.strategies import presets
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.strategies.folding import Folding

LONG = "a line of text\n" * 60
PASTED = f"<tool_result tool_name='a' success='true'>{LONG}</tool_result>"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str = "It is done.") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def called(number: int, text: str = LONG) -> list[Any]:
    """A native call of OpenAI Chat with its result."""
    return WIRE["openai_chat"]([[Step("read_file", {"path": f"{number}.py"}, text)]])[1:]


def in_text(text: str = LONG) -> list[Any]:
    """A call in a text, with its result."""
    result = f"<tool_result tool_name='read_file' success='true'>{text}</tool_result>"
    return [model("<read_file>\n<path>a.py</path>\n</read_file>"), user(result)]


def both_ways(messages: list[Any], strategy: Folding, safe_zone: int, **args: Any) -> list[Any]:
    """Prune before each request the full history, and what was fed back; assert that both give the same prompts."""
    keeping, feeding = (ConversationPruner(PruneArgs(safe_zone, **args)) for _ in range(2))
    fed: list[Any] = []
    given = 0
    for at in requests(messages):
        full = keeping.prune_conversations(messages[:at], strategy)
        fed = feeding.prune_conversations([*fed, *messages[given:at]], strategy)
        given = at
        assert as_bytes(fed) == as_bytes(full)
    return fed


def chat_of_words() -> list[Any]:
    return [message for turn in range(6) for message in (user(f"Now part {turn}."), model(f"Done {turn}. " * 4))]


@each_row("roles", [("user",), ("tool", "user", "assistant"), ("user", "assistant"), ("assistant", "user")])
@each_row("share", [30, 50, 70])
@each_row("strategy", [presets.truncate(1), presets.summarize(1), presets.keep_last(3)])
def test_removal_by_role_leaves_no_neighboring_answers(strategy: Folding, share: int, roles: tuple[str, ...]):
    messages = [*chat_of_words(), *called(0), model(), user("And now?"), *called(1), model(), user("Thanks. Go on.")]
    by_role = replace(strategy, retain=Retention(roles=roles), summary_tokens=20)
    pruned = both_ways(messages, by_role, count(messages) * share // 100)
    assert not problems(pruned, "openai_chat", strict_alternation=True) or pruned[0]["role"] == "assistant"


def test_a_mark_that_says_that_there_is_no_answer_yet_is_carried_on():
    messages = [user("Fix it."), *in_text(), *in_text(), model(), user("And now?"), *in_text(), *in_text(), model()]
    strategy = replace(presets.summarize(), retain=Retention(roles=("tool", "user", "assistant")), summary_tokens=60)
    both_ways([*messages, user("Go on."), *in_text()], strategy, count(messages) * 60 // 100)


def test_results_that_begin_a_conversation_stay_results_behind_a_summary_of_native_calls():
    step = Step("run", {"command": "ls"}, "a line\n" * 40)
    begin = {"role": "user", "parts": [{"text": PASTED}]}
    messages = [begin, *WIRE["gemini"]([[step], [step], [step], [step]])[1:]]
    strategy = replace(presets.chat_summary(4, keep=2), summary_tokens=25)
    zone = count(messages)
    both_ways(messages, strategy, zone)
    first = ConversationPruner(PruneArgs(zone)).prune_conversations(messages[:5], strategy)
    known = find_summary(first)
    assert known
    assert known.rest == begin
    assert known.calls == CALLS_LATER


def test_a_summary_is_found_again_in_a_message_of_gemini_without_a_role():
    step = Step("run", {"command": "ls"}, LONG)
    messages = WIRE["gemini"]([[step], [step], [step], [step], [step]])
    del messages[0]["role"]
    strategy = replace(presets.sliding_window(2, keep=1), summary_tokens=40)
    assert find_summary(both_ways(messages, strategy, count(messages)))


def test_separately_kept_messages_are_folded_if_the_user_must_begin():
    step = Step("run", {"command": "ls"}, LONG)
    messages = WIRE["bedrock"]([[step], [step], "And now?", [step], [step]])
    for share in (30, 50, 60, 70):
        strategy = replace(presets.truncate(1), retain=Retention(roles=("assistant",)))
        assert problems(both_ways(messages, strategy, count(messages) * share // 100), "bedrock") == []


@each_row("args", [{"provider": "claude"}, {"format": "anthropic"}])
def test_a_provider_that_is_named_is_known_where_nothing_shows_it_any_more(args: dict[str, str]):
    step = Step("run", {"command": "ls"}, LONG)
    messages = WIRE["anthropic"]([[step], "And now?", "And then?", "And last?"])
    for keep in (2, 3):
        assert both_ways(messages, presets.keep_last(keep), count(messages), **args)[0]["role"] == "user"


def test_arguments_keep_the_request_of_their_call_if_their_message_is_read_again():
    none, long = ({"path": "a.py", "content": text, "mode": [7, None]} for text in ("", "x = 1  # set\n" * 8))
    calls = [[none], [long, long], [none], [none]]
    done = "Success. Updated the following files:\n"
    rounds = [[Step("read_file", given, done) for given in each] for each in calls]
    messages = [user("Fix it."), *WIRE["openai_chat"]([*rounds, "It is done."])[1:]]
    strategy = ToolOutputCleanup(Protections(last_results=2), clear_tool_inputs=ToolInputs(above=0))
    feeding, fed = AgenticConversationPruner(31), list[Any]()
    for at in requests(messages):
        given = [*fed, *messages[len(fed) : at]]
        warm, cold = feeding.prune(given, strategy), AgenticConversationPruner(31).prune(given, strategy)
        assert warm.report.to_dict()["inputs"] == cold.report.to_dict()["inputs"]
        fed = warm.conversation
