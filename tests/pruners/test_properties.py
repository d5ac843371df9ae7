"""What a pruner remembers changes nothing, odd objects do no harm, and no more is cleared than the safe zone needs."""

import copy
import gc
import json
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from every_format import facts
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from openai.types.chat import ChatCompletionMessage
from profiles import examples, sample_cases
from strategies_hypothesis import conversations, loops, safe_zones
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, Result
from autoprune.conversation.edits import Replace, apply, element, element_content
from autoprune.conversation.transcript import ToolResult
from autoprune.planning.plan import Reason
from autoprune.planning.view import Strategy
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup
from autoprune.tokens import Memo

SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)
INSIDE = f"\n<message>Content cleared to save tokens</message>\n<content>{SENTENCE}</content>\n"
STRATEGIES: dict[str, Strategy] = {
    "tool_output_cleanup": ToolOutputCleanup(),
    "low_water": LowWater(),
    "low_water, no margin": LowWater(target=1.0, minimum_reclaim=0.0),
    "low_water, half at least": LowWater(target=0.6, minimum_reclaim=0.5),
}
ALL = sorted(STRATEGIES)
CHECKED = examples(35)


def pruner(safe_zone: int, **settings: Any) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(conversation_prune_safe_zone_tokens=safe_zone, **settings))


def count(messages: list[Any]) -> int:
    return pruner(1).count_tokens(messages)


def fields(message: Any) -> dict[str, Any]:
    """What a message or any object of an SDK holds, extra fields too."""
    return message if isinstance(message, dict) else {**vars(message), **(message.__pydantic_extra__ or {})}


def role(message: Any) -> str:
    return str(fields(message)["role"])


def as_json(messages: object) -> str:
    """The bytes of a conversation: 1 is not true here, and the order of names counts."""
    return json.dumps(messages, default=fields)


def reparsed(messages: list[Any]) -> list[Any]:
    """The conversation as a framework reloads it: no object is the same."""
    return json.loads(as_json(messages))


@dataclass(frozen=True)
class Case:
    """A conversation and a safe zone."""

    messages: list[Any]
    safe_zone: int

    def pruned(self, strategy: str) -> Result:
        """The outcome, by a new pruner."""
        return pruner(self.safe_zone).prune(self.messages, STRATEGIES[strategy])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A conversation, and a safe zone from tiny to huge; often one that has to be worked for."""
    messages = draw(st.one_of(conversations(), loops()))
    tokens = count(messages)
    edges = [tokens]  # exactly what is left when so many results are cleared
    for edit in pruner(1).plan(messages).edits:
        edges.append(edges[-1] - edit.saved)
    exactly = st.builds(lambda edge, more: max(1, edge + more), st.sampled_from(edges), st.sampled_from((-1, 0, 1)))
    return Case(messages, draw(st.one_of(safe_zones(tokens), exactly)))


def is_seen(messages: list[Any], at: int) -> bool:
    """Whether the model has spoken after message number `at`."""
    return any(role(message) == "assistant" for message in messages[at + 1 :])


def cleared(result: Result) -> list[int]:
    """Which results were cleared, by their number in the conversation."""
    return [number for number, row in enumerate(result.report.rows) if row["cleared"]]


def requests(messages: list[Any]) -> list[int]:
    """Where the model was called: before each run of assistant messages, and at the end unless it has just spoken."""
    speaks = [role(message) == "assistant" for message in messages]
    return [at for at in range(1, len(messages) + 1) if not speaks[at - 1] and (at == len(messages) or speaks[at])]


# Decisions are a pure function of the conversation and the arguments


def assert_pure(warm: AgenticConversationPruner, messages: list[Any], strategy: Strategy) -> Result:
    """What a pruner with a past gives is what a new one gives."""
    cold = AgenticConversationPruner(warm.args)
    cold.replacement_message = warm.replacement_message
    wanted, got = cold.prune(messages, strategy), warm.prune(messages, strategy)
    assert as_json(got.conversation) == as_json(wanted.conversation)
    assert list(map(type, got.conversation)) == list(map(type, wanted.conversation))
    own = [[new is old for new, old in zip(one.conversation, messages, strict=True)] for one in (got, wanted)]
    assert own[0] == own[1]
    assert (got.conversation is messages) == (wanted.conversation is messages)
    assert facts(got) == facts(wanted)
    return got


LONG = "a long answer of some tool\n" * 60


def put(message: Any, name: str, value: object) -> None:
    if isinstance(message, dict):
        message[name] = value
    else:
        setattr(message, name, value)


def change_the_text(message: Any) -> None:
    content = fields(message).get("content")
    put(message, "content", f"{content}!" if isinstance(content, str) else LONG)


def shorten_the_text(message: Any) -> None:
    put(message, "content", "short")


def restore_a_long_text(message: Any) -> None:
    put(message, "content", LONG)


def append_a_block(message: Any) -> None:
    content = fields(message).get("content")
    block = {"type": "text", "text": f"<tool_result tool_name='X' success='true'>{LONG}</tool_result>"}
    if isinstance(content, list):
        content.append(block)
    else:
        put(message, "content", [block, {"type": "text", "text": str(content)}])


def change_a_block(message: Any) -> None:
    content = fields(message).get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            block["text"] = f"{block.get('text')} and more"
        elif isinstance(block, list):
            block.append(1)


def drop_a_block(message: Any) -> None:
    content = fields(message).get("content")
    if isinstance(content, list) and content:
        content.pop()


def change_the_arguments(message: Any) -> None:
    for call in fields(message).get("tool_calls") or ():
        put(fields(call)["function"], "arguments", '{"path": "other.py", "lines": [1, 2, 3, 4, 5, 6, 7, 8, 9]}')


def rename_the_calls(message: Any) -> None:
    for call in fields(message).get("tool_calls") or ():
        put(call, "id", "call_1")
        put(fields(call)["function"], "name", "renamed")


def answer_another_call(message: Any) -> None:
    if role(message) == "tool":
        put(message, "tool_call_id", "call_2")


def change_the_role(message: Any) -> None:
    put(message, "role", {"user": "assistant", "assistant": "user", "tool": "user"}.get(role(message), "tool"))


def change_an_extra_field(message: Any) -> None:
    trace = fields(message).get("x_trace")
    if isinstance(trace, dict):
        trace["spans"].append({"now": True})
    else:
        put(message, "x_trace", {"spans": []})


def lose_the_content(message: Any) -> None:
    put(message, "content", None)


CHANGES = (
    *(change_the_text, shorten_the_text, restore_a_long_text, append_a_block, change_a_block, drop_a_block),
    *(change_the_arguments, rename_the_calls, answer_another_call, change_the_role, change_an_extra_field),
    lose_the_content,
)
CHANGE = st.sampled_from(CHANGES)
ANYWHERE = st.integers(0, 60)  # taken modulo the length
ONE = st.sampled_from((0, 0, 0, 1))  # of two conversations


class OnePrunerForAll(RuleBasedStateMachine):
    """Two conversations that grow, shrink and change in place, in the hands of one pruner."""

    @initialize(first=loops(), second=conversations(), share=st.integers(1, 9), strategy=st.sampled_from(ALL))
    def begin(self, first: list[Any], second: list[Any], share: int, strategy: str):
        self.talks = [first, second]
        self.reached = [requests(first)[-2], 0]
        self.returned: list[list[Any]] = []
        self.tokens = count(first)
        self.pruner = pruner(max(1, self.tokens * share // 10))
        self.strategy = STRATEGIES[strategy]
        self.goes_on(0, 0)

    def check(self, messages: list[Any]) -> list[Any]:
        conversation = assert_pure(self.pruner, messages, self.strategy).conversation
        self.returned = [conversation, *self.returned[:3]]
        return conversation

    @rule(which=ONE, more=st.integers(0, 5))
    def goes_on(self, which: int, more: int):
        self.reached[which] = min(len(self.talks[which]), self.reached[which] + more)
        self.check(self.talks[which][: self.reached[which]])

    @rule(which=ONE)
    def goes_on_to_its_end(self, which: int):
        self.reached[which] = len(self.talks[which])
        self.check(self.talks[which])

    @rule(more=loops())
    def goes_on_with_more_work(self, more: list[Any]):
        del self.talks[0][self.reached[0] :]
        self.talks[0] += more
        self.goes_on(0, 5)

    @rule(which=ONE, at=ANYWHERE)
    def is_truncated(self, which: int, at: int):
        talk = self.talks[which]
        self.reached[which] = at % (len(talk) + 1)
        self.check(talk[: self.reached[which]])
        self.check(talk[self.reached[which] :])

    @rule(which=ONE, how=st.sampled_from((copy.deepcopy, copy.copy, reparsed)))
    def is_loaded_again(self, which: int, how: Callable[[list[Any]], list[Any]]):
        self.talks[which] = how(self.talks[which])
        self.check(self.talks[which][: self.reached[which]])

    @rule(which=ONE, more=st.integers(0, 5))
    def is_fed_back(self, which: int, more: int):
        at = self.reached[which]
        self.talks[which] = self.check(self.talks[which][:at]) + self.talks[which][at:]
        self.goes_on(which, more)

    @rule(which=ONE, text=st.sampled_from(("Stop!", LONG)))
    def is_interrupted_by_the_user(self, which: int, text: str):
        self.talks[which].insert(self.reached[which], {"role": "user", "content": text})
        self.goes_on(which, 1)

    @rule(which=ONE)
    def is_answered(self, which: int):
        self.talks[which].insert(self.reached[which], {"role": "assistant", "content": "I see."})
        self.goes_on(which, 1)

    @rule(which=ONE, at=ANYWHERE)
    def loses_a_message(self, which: int, at: int):
        if self.talks[which]:
            del self.talks[which][at % len(self.talks[which])]
            self.goes_on(which, 0)

    @rule(which=ONE, at=ANYWHERE)
    def has_a_message_twice(self, which: int, at: int):
        talk = self.talks[which]
        if talk:
            talk.insert(at % len(talk), talk[(at * 7) % len(talk)])
            self.goes_on(which, 0)

    @rule(which=ONE, at=ANYWHERE, change=CHANGE)
    def is_changed_in_place(self, which: int, at: int, change: Callable[[Any], None]):
        if self.talks[which]:
            change(self.talks[which][at % len(self.talks[which])])
            self.goes_on(which, 0)

    @rule(which=st.integers(0, 3), at=ANYWHERE, change=CHANGE)
    def what_was_returned_is_changed(self, which: int, at: int, change: Callable[[Any], None]):
        messages = self.returned[which] if which < len(self.returned) else []
        if messages:
            change(messages[at % len(messages)])
            self.check(list(messages))
            self.goes_on(0, 0)

    @rule(which=ONE, at=ANYWHERE, change=CHANGE)
    def what_was_cleared_is_changed(self, which: int, at: int, change: Callable[[Any], None]):
        messages = self.talks[which][: self.reached[which]]
        returned = self.check(messages)
        edited = [new for new, old in zip(returned, messages, strict=True) if new is not old]
        if edited:
            change(edited[at % len(edited)])
            self.check(returned)
            self.goes_on(which, 0)

    @rule(share=st.integers(1, 9), strategy=st.sampled_from(ALL), beside=st.sampled_from((0, 0, 50)))
    def settings_change(self, share: int, strategy: str, beside: int):
        safe_zone = max(1, self.tokens * share // 10)
        self.pruner.args = PruneArgs(conversation_prune_safe_zone_tokens=safe_zone, overhead_tokens=beside)
        self.strategy = STRATEGIES[strategy]
        self.goes_on(0, 0)

    @rule(words=st.sampled_from((SENTENCE, "Gone.")))
    def another_replacement_message_is_set(self, words: str):
        self.pruner.replacement_message = words
        self.goes_on(0, 0)


OnePrunerForAll.TestCase.settings = examples(80, CHECKED, stateful_step_count=20)


class TestAPrunerWithAPastDecidesAsANewOne(OnePrunerForAll.TestCase):
    pass


def call(id: str = "call_1", **more: Any) -> dict[str, Any]:
    function = {"name": "read_file", "arguments": json.dumps({"path": "a.py"})}
    made = [{"id": id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": made, **more}


def answer(content: object, id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def loop(contents: list[Any], **more: Any) -> list[Any]:
    """A conversation with these results, all seen but the last."""
    pairs = ((call(f"c{at}"), answer(content, f"c{at}", **more)) for at, content in enumerate(contents))
    return [{"role": "user", "content": "Fix it."}, *(message for pair in pairs for message in pair)]


def test_equal_values_of_different_types_are_distinguished():
    """For Python 1 == 1.0 == True; in the provider's prompt, and in JSON, they differ."""
    for first, second in ((1, True), (1, 1.0), (True, 1), (0, False), (0.0, -0.0)):
        warm = pruner(60)
        assert_pure(warm, loop([LONG, LONG], x_flag=first), ToolOutputCleanup())
        assert_pure(warm, loop([LONG, LONG], x_flag=second), ToolOutputCleanup())
        assert_pure(warm, loop([LONG, first, LONG]), ToolOutputCleanup())
        assert_pure(warm, loop([LONG, second, LONG]), ToolOutputCleanup())


def test_another_kind_of_mapping_is_another_message():
    messages = loop([LONG, LONG])
    warm = pruner(60)
    assert_pure(warm, messages, ToolOutputCleanup())
    assert_pure(warm, [OrderedDict(message) for message in messages], ToolOutputCleanup())


@pytest.mark.parametrize("safe_zone", [60, 1_000_000])
def test_a_report_says_what_was_although_the_messages_change_later(safe_zone: int):
    spoken = ChatCompletionMessage.model_validate({"role": "assistant", "content": LONG, "reasoning_content": LONG})
    messages = [*loop([LONG, "ok", [{"type": "text", "text": LONG}], LONG]), spoken]
    wanted = facts(pruner(safe_zone).prune(copy.deepcopy(messages)))
    result = pruner(safe_zone).prune(messages)
    spoken.content = "changed"
    messages[2]["content"] = "changed"
    messages[5]["tool_calls"][0]["function"]["arguments"] = '{"path": "other.py"}'
    messages[6]["content"].append({"type": "text", "text": LONG})
    messages.append({"role": "user", "content": LONG})
    assert facts(result) == wanted


def test_a_change_inside_a_tuple_is_noticed():
    block = {"type": "text", "text": "short"}
    messages = [*loop([LONG, LONG]), {"role": "user", "content": (block,)}]
    warm = pruner(count(messages))
    assert_pure(warm, messages, ToolOutputCleanup())
    block["text"] = LONG
    assert [row["cleared"] for row in assert_pure(warm, messages, ToolOutputCleanup()).report.rows] == [True, False]


@each_row(("remember", "is_read_anew"), [(1, True), (2, False)])
def test_a_pruner_remembers_the_set_number_of_conversations(remember: int, *, is_read_anew: bool):
    asked: list[int] = []

    class Asked(ToolOutputCleanup):
        def step(self, view: Any) -> Any:
            asked.append(view.request)
            return super().step(view)

    ours = AgenticConversationPruner(PruneArgs(500), remember=remember)
    talks = [loop([f"{number} {LONG}" for _ in range(4)]) for number in range(2)]
    strategy = Asked()
    for talk in talks:
        ours.prune(talk, strategy)
    before = len(asked)
    for talk in talks:
        ours.prune(talk, strategy)
    assert (len(asked) > before) == is_read_anew


def test_a_list_that_changes_during_a_prune_is_pruned_as_it_was_passed():
    talk = loop([LONG] * 6)
    wanted, given = as_json(pruner(900).prune_conversations(talk)), [*talk]
    ours = AgenticConversationPruner(900, before_prune=lambda event: given.insert(0, {"role": "system", "content": ""}))
    assert as_json(ours.prune_conversations(given)) == wanted
    assert given[1:] == talk


def test_texts_are_counted_once_whatever_models_the_requests_name():
    def memos() -> int:
        return sum(isinstance(each, Memo) for each in gc.get_objects())

    talk, ours, before = loop([LONG]), pruner(500), memos()
    for number in range(20):
        ours.fill_in(model=f"model-{number}").prune(talk)
    assert memos() - before == 1


def test_threads_share_a_pruner():
    talks = [loop([f"{number} {LONG}" for _ in range(6)]) for number in range(3)]
    jobs = [talk[:at] for _ in range(8) for talk in talks for at in requests(talk)]
    jobs += [reparsed(messages) for messages in jobs]
    wanted = [as_json(pruner(900).prune_conversations(messages)) for messages in jobs]
    ours = pruner(900)
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(ours.prune_conversations, jobs))
    assert list(map(as_json, got)) == wanted
    assert any(text != as_json(messages) for text, messages in zip(wanted, jobs, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_the_threads_that_it_lacks():
    begun, over = threading.Event(), threading.Event()

    class Slow(dict[str, Any]):
        def __eq__(self, other: object) -> bool:
            begun.set()
            over.wait(60)
            return super().__eq__(other)

    ours, talk = pruner(500), [Slow(each) for each in loop([LONG])]
    ours.prune(talk)
    thread = threading.Thread(target=ours.prune, args=(talk,))
    thread.start()
    begun.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(5)
        try:
            ours.prune(loop([LONG]))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    over.set()
    thread.join()
    assert status == 0


ODD_WORDS = ("Gone.", "See `<tool_result tool_name='X'>`.", "</tool_result>", "漢字 \ud800", "\0")


@each_row("words", ODD_WORDS)
def test_an_odd_replacement_message_does_no_harm(words: str):
    native = loop([LONG, LONG])
    xml = written([(90, False)] * 3, as_xml=True)
    for messages in (native, xml):
        warm = pruner(70)
        warm.replacement_message = words
        once = assert_pure(warm, messages, ToolOutputCleanup()).conversation
        again = assert_pure(warm, [*once, {"role": "assistant", "content": "I see."}], ToolOutputCleanup())
        assert as_json(again.conversation[: len(once) - 1]) == as_json(once[:-1])


class Vector:
    """Compares like an array or a tensor: with another one there is no plain yes or no."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __eq__(self, other: object) -> Any:
        raise self._error("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_behind_fields_that_cannot_be_compared_a_change_is_noticed(error: type[Exception]):
    ours = pruner(60)
    for middle in (LONG, "ok", f"{LONG}more", "no"):
        messages = loop([LONG, middle, LONG], x_embedding=Vector(error))
        got = [message["content"] for message in ours.prune_conversations(messages)[2::2]]
        assert got == [SENTENCE, middle if len(middle) < len(SENTENCE) else SENTENCE, LONG]


# No more is cleared than the safe zone needs


def clear_one_by_one(messages: list[Any], safe_zone: int) -> list[Any]:
    """The literal contract, the slow way: oldest first, and after each result everything is counted again."""
    edits: list[Replace] = []
    for part in pruner(1).plan(messages).transcript.results:
        so_far = apply(messages, edits)
        if count(so_far) <= safe_zone:
            break
        edit = Replace(part, text_for(part), Reason.OVER_SAFE_ZONE, 0)
        if is_seen(messages, part.location.message) and count(apply(messages, [*edits, edit])) < count(so_far):
            edits.append(edit)
    return apply(messages, edits)


def text_for(part: ToolResult) -> str:
    return SENTENCE if part.location.start is None else INSIDE


@CHECKED
@given(case=cases())
def test_oldest_first_one_by_one_and_no_more_than_needed(case: Case):
    result = case.pruned("tool_output_cleanup")
    assert as_json(result.conversation) == as_json(clear_one_by_one(case.messages, case.safe_zone))


def small_loops() -> list[list[Any]]:
    """Conversations of a few hundred tokens, half of which can be cleared, in either format."""
    asks = {"role": "user", "content": "Please mind all of this. " * 40}
    texts = [f"{at} " + "word " * size for at, size in enumerate((160, 9, 90, 240, 110, 190))]
    whole = [f"<tool_result tool_name='X' success='true'>{text}</tool_result>" for text in texts]
    replies = ["\n".join(whole[:2]), whole[2], f"{whole[3]} and {whole[4]}", whole[5]]
    xml = [[{"role": "assistant", "content": "I read."}, {"role": "user", "content": reply}] for reply in replies]
    return [[asks, *loop(texts)[1:]], [asks, *(message for pair in xml for message in pair)]]


def zones(first: int, last: int) -> list[int]:
    """Every safe zone of a range; in quick every seventh between the first ones and the last ones."""
    return [*range(first, first + 4), *sample_cases(range(first + 4, last - 4)), *range(last - 4, last)]


@pytest.mark.parametrize("messages", small_loops(), ids=["openai", "xml"])
def test_every_safe_zone_is_met_exactly(messages: list[Any]):
    tokens = count(messages)
    left = [tokens]  # after none, one, two … are cleared
    for edit in pruner(1).plan(messages).edits:
        left.append(left[-1] - edit.saved)
    assert len(left) > 4
    for safe_zone in zones(left[-1] - 2, tokens + 2):
        result = pruner(safe_zone).prune(messages)
        needed = next((number for number, after in enumerate(left) if after <= safe_zone), len(left) - 1)
        assert result.report.results_cleared == needed
        assert result.report.tokens_after == left[needed]
        assert (result.conversation is messages) == (needed == 0)


# Parse, apply, and the statistics


@CHECKED
@given(case=cases(), data=st.data())
def test_statistics_are_right_after_messages_were_dropped(case: Case, data: st.DataObject):
    messages = [{**message, "x_number": at} for at, message in enumerate(reparsed(case.messages))]
    result = pruner(case.safe_zone).prune(messages)
    stays = data.draw(st.lists(st.booleans(), min_size=len(messages), max_size=len(messages)))
    after = [message for message, stay in zip(result.conversation, stays, strict=True) if stay]
    figures = pruner(1).get_cleanup_statistics(messages, after)
    assert {name: figures[name] for name in sorted(figures) if "token" not in name and "ratio" not in name} == {
        "messages_removed": stays.count(False),
        "messages_summarized": 0,
        "tool_calls_cleaned": 0,
        "tool_results_cleaned": sum(stays[edit.part.location.message] for edit in result.plan.edits),
        "total_messages": len(messages),
    }
    assert figures["pruned_tokens"] == count(after)
    assert figures["tokens_saved"] == count(messages) - count(after)


# Calls and their results


def pairs(messages: list[Any]) -> list[tuple[int, int | None, str]]:
    """Where each result stands, where its call stands, and the tool."""
    found = pruner(1).plan(messages).transcript.results
    return [(part.location.message, part.call and part.call.location.message, part.tool) for part in found]


@each_row(
    ("messages", "wanted"),
    [
        ([call(), answer("x")], [(1, 0, "read_file")]),
        ([call(), answer("x"), call(), answer("y")], [(1, 0, "read_file"), (3, 2, "read_file")]),
        ([call(), call(), answer("x")], [(2, 0, "read_file")]),
        ([call(), {"role": "user", "content": "Stop."}, call(), answer("x")], [(3, 2, "read_file")]),
        ([call("a"), call("b"), answer("x", "b"), answer("y", "a")], [(2, 1, "read_file"), (3, 0, "read_file")]),
        ([answer("x"), call()], [(0, None, "unknown")]),
        ([answer("x", "gone")], [(0, None, "unknown")]),
        ([call(), answer("x"), answer("y")], [(1, 0, "read_file"), (2, None, "unknown")]),
        ([call("12345678-a"), call("12345678-b"), answer("x", "12345678-b")], [(2, 1, "read_file")]),
        ([call(), answer(None), answer("x")], [(1, 0, "read_file"), (2, None, "unknown")]),
    ],
)
def test_a_result_belongs_to_the_open_call_with_its_id(messages: list[Any], wanted: list[tuple[int, int, str]]):
    assert pairs(messages) == wanted


# The same conversation in two formats


def written(results: list[tuple[int, bool]], as_xml: bool) -> list[Any]:
    """One loop in either format: results of so many words, after some of them the user speaks."""
    messages: list[Any] = [{"role": "user", "content": "Fix it."}]
    for length, is_turn in results:
        text = "word " * length + "."
        if as_xml:
            whole = element("read_file").replace(element_content(element("read_file")), f"<content>{text}</content>")
            messages += [{"role": "assistant", "content": "I read."}, {"role": "user", "content": whole}]
        else:
            messages += [call(), answer(text)]
        if is_turn:
            messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "More."}]
    return messages
