"""The promises for strategies that are asked at each request, remember something in a walk, and are told of pauses."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from every_format import EACH, again, as_bytes, conversations, facts, requests, shape
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rounds import WIRE, Step

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.conversation.edits import Replace
from autoprune.economics import LISTS, Invoice, Prices
from autoprune.planning.view import Strategy, View
from autoprune.strategies import CacheAware, ObservationMasking


@dataclass(frozen=True)
class Priced:
    """Clears all results older than `age` requests when what they cost to carry reaches the cost of the cut."""

    age: int = 1
    prices: Prices = LISTS["anthropic"]
    name = "priced"
    every_request = True

    def begin(self) -> "Account":
        return Account(self)

    def step(self, view: View) -> Iterator[Replace]:
        return self.begin().step(view)


class Account:
    name = "priced"

    def __init__(self, known: Priced) -> None:
        self.known = known
        self.owed = 0.0

    def step(self, view: View) -> Iterator[Replace]:
        prices = self.known.prices
        old = [each for each in view.candidates() if view.request - each.sent > self.known.age]
        if not old:
            return
        self.owed += prices.read * sum(each.saves for each in old)
        first = old[0].part.location.message
        behind = sum(view.weight(at) for at in range(first + 1, view.sent))
        if view.pause > 300 or self.owed >= (prices.write - prices.read) * behind:
            self.owed = 0.0
            yield from (each.cleared("it pays") for each in old)


@dataclass(frozen=True)
class WhileCold:
    """Clears everything that the model has seen after a long pause, and nothing else; looks at what was sent."""

    name = "while cold"
    every_request = True

    def step(self, view: View) -> Iterator[Replace]:
        is_cold = view.pause > 300 or (view.invoice is not None and not view.invoice.read)
        for candidate in view.candidates():
            if is_cold and candidate.part.location.message < view.sent:
                yield candidate.cleared("the cache is cold")


STATELESS: tuple[Strategy, ...] = (ObservationMasking(0), ObservationMasking(2), ObservationMasking(1, 3), WhileCold())
EAGER = CacheAware(threshold=1_000, patience=0.5, stay=0, start_at=0, never_dearer=None)
CACHE_AWARE = (
    EAGER,
    CacheAware(threshold=30, prices=(1, 0.5), stay=0, start_at=0, never_dearer=None),
    CacheAware(threshold=1_000, patience=0.5, stay=2, start_at=0, never_dearer=None),
    CacheAware(start_at=500),
)
PATIENT = CacheAware(
    threshold=1_000, patience=10**6, stay=0, start_at=0, never_dearer=None
)  # clears where the cache is cold alone
STRATEGIES = (*STATELESS, Priced(), Priced(0, LISTS["openai-0.5"]), *CACHE_AWARE)


@dataclass(frozen=True)
class Case:
    messages: list[Any]
    strategy: Strategy
    pauses: dict[int, float]
    safe_zone: int = 10**9

    def pruner(self) -> AgenticConversationPruner:
        return AgenticConversationPruner(self.safe_zone)

    def pruned(self, messages: list[Any], pruner: AgenticConversationPruner | None = None, **more: Any) -> Any:
        ours = pruner or self.pruner()
        return ours.prune(messages, self.strategy, **{**more, "pauses": {**self.pauses, **more.get("pauses", {})}})


@st.composite
def cases(draw: st.DrawFn, format: str) -> list[Case]:
    messages = draw(conversations(format))
    pause = st.sampled_from((0.0, 1.0, 400.0))
    pauses = {at: draw(pause) for at in requests(messages)}
    zones = st.sampled_from((300, 1_000, 10**9))
    return [Case(messages, draw(st.sampled_from(STRATEGIES)), pauses, draw(zones)) for _ in range(3)]


def every_case(test: Any) -> Any:
    def check(format: str, data: st.DataObject) -> None:
        for case in data.draw(cases(format)):
            test(case)

    check.__name__ = test.__name__
    return pytest.mark.parametrize("format", EACH)(examples(8)(given(data=st.data())(check)))


@every_case
def test_the_promises_hold_as_the_conversation_grows(case: Case):
    ours = case.pruner()
    sent: list[Any] = []
    edited: dict[object, str] = {}
    for at in requests(case.messages):
        result = case.pruned(case.messages[:at], ours)
        assert all(edit.saved > 0 for edit in result.plan.edits)
        texts = {edit.part.location: edit.text for edit in result.plan.edits}
        assert edited.items() <= texts.items()
        if {place for place in texts if place.message < len(sent)} == edited.keys():
            assert as_bytes(result.conversation[: len(sent)]) == as_bytes(sent)
        assert case.pruned(result.conversation).conversation is result.conversation
        sent, edited = result.conversation, texts


@pytest.mark.parametrize("format", EACH)
@examples(25)
@given(data=st.data())
def test_cleared_results_stay_cleared_wherever_the_conversation_is_pruned(format: str, data: st.DataObject):
    """Between any two messages: the request that cleared them may turn out to be none."""
    messages = data.draw(conversations(format))
    places = sorted(data.draw(st.sets(st.integers(1, len(messages)), min_size=1)))
    pauses = {at: data.draw(st.sampled_from((0.0, 1.0, 400.0)), label=f"pause {at}") for at in places}
    zone = data.draw(st.sampled_from((300, 1_000, 10**9)))
    case = Case(messages, data.draw(st.sampled_from(CACHE_AWARE)), pauses, zone)
    gone: set[object] = set()
    for at in places:
        result = case.pruned(messages[:at])
        cleared = {edit.part.location for edit in result.plan.edits}
        assert gone <= cleared
        assert case.pruned(result.conversation).conversation is result.conversation
        gone = cleared


@pytest.mark.parametrize("format", EACH)
@examples(15)
@given(data=st.data())
def test_what_was_cleared_stays_cleared_when_the_cache_comes_to_live_longer_or_shorter(
    format: str, data: st.DataObject
):
    messages = data.draw(conversations(format))
    pauses = {at: data.draw(st.sampled_from((0.0, 400.0, 4_000.0))) for at in requests(messages)}
    case = Case(messages, data.draw(st.sampled_from((PATIENT, PATIENT, EAGER))), pauses)
    warm, lives = AgenticConversationPruner(PruneArgs(case.safe_zone, model="claude-sonnet-4-5")), {}
    gone: set[object] = set()
    for at in requests(messages):
        lives |= data.draw(st.sampled_from(({}, {at: {"cache_ttl": 300.0}}, {at: {"cache_ttl": 3_600.0}})))
        result = case.pruned(messages[:at], warm, history=lives)
        cleared = {edit.part.location for edit in result.plan.edits}
        assert gone <= cleared
        fresh = AgenticConversationPruner(warm.args)
        assert facts(case.pruned(messages[:at], fresh, history=lives)) == facts(result)
        gone = cleared


@every_case
def test_the_memo_does_not_change_decisions(case: Case):
    """Message by message: also where a request was looked for and none stands there later."""
    warm = case.pruner()
    for at in range(1, len(case.messages) + 1):
        given = again(case.messages[:at]) if at % 3 == 0 else case.messages[:at]
        got, wanted = case.pruned(given, warm), case.pruned(given)
        assert shape(got.conversation) == shape(wanted.conversation)
        assert facts(got) == facts(wanted)


@every_case
def test_other_pauses_before_earlier_requests_are_noticed(case: Case):
    warm = case.pruner()
    places = requests(case.messages)
    for at in places:
        case.pruned(case.messages[:at], warm)
        for changed in {places[0], at}:
            other = {changed: 0.0 if case.pauses[changed] > 300 else 500.0}
            got = case.pruned(case.messages[:at], warm, pauses=other)
            assert facts(got) == facts(case.pruned(case.messages[:at], pauses=other))
        assert facts(case.pruned(case.messages[:at], warm)) == facts(case.pruned(case.messages[:at]))


def test_another_invoice_of_an_earlier_request_is_noticed():
    messages = WIRE["openai_chat"]([[Step("read_file", {"path": "a.py"}, "a line of a file\n" * 90)] for _ in range(4)])
    warm = AgenticConversationPruner(10**9)
    for read in (900, 0, 900):
        result = warm.prune(messages, WhileCold(), invoices={7: Invoice(1_000, read, 0)})
        assert [edit.part.location.message for edit in result.plan.edits] == ([] if read else [2, 4])


@pytest.mark.parametrize("strategy", [Priced(0), WhileCold()])
def test_a_request_that_was_looked_for_and_does_not_stand_leaves_no_trace(strategy: Strategy):
    """The user interrupts, again and again, so that no request stands where the prompt ended before."""
    messages = WIRE["openai_chat"]([[Step("read_file", {"path": "a.py"}, "a line of a file\n" * 90)] for _ in range(3)])
    messages += [{"role": "user", "content": f"Wait, {'and more ' * at}"} for at in range(40)]
    case = Case(messages, strategy, {40: 400.0})
    warm = AgenticConversationPruner(10**9)
    for at in range(len(messages) - 40, len(messages) + 1):
        assert facts(case.pruned(messages[:at], warm)) == facts(case.pruned(messages[:at]))


@dataclass(frozen=True)
class Reading:
    """Clears nothing, and notes the life of the cache at each request."""

    noted: list[float]
    life: float = 0.0
    name = "reading"
    every_request = True

    def for_prices(self, known: Prices) -> "Reading":
        return replace(self, life=known.life)

    def step(self, view: View) -> list[Replace]:
        self.noted.append(self.life)
        return []


def test_the_cache_life_is_that_of_the_settings_until_a_change():
    messages = WIRE["openai_chat"]([[Step("read_file", {"path": "a.py"}, "a line\n")] for _ in range(4)])
    strategy = Reading([])
    ours = AgenticConversationPruner(PruneArgs(10**9, cache_ttl="10m"))
    ours.plan(messages, strategy, history={3: {"cache_ttl": 300.0}, 7: {"cache_ttl": 3_600.0}})
    assert requests(messages) == [1, 3, 5, 7, 9]
    assert strategy.noted == [600, 300, 300, 3_600, 3_600]
    for wrong in ([300], {"first": {}}, {"9" * 5_000: 5}, {3: 5.0}, {3: {"cache_life": 5}}, {3: {"cache_ttl": -1.0}}):
        with pytest.raises(SettingsError, match=r"^history|cache_ttl"):
            ours.plan(messages, strategy, history=wrong)  # type: ignore[arg-type]
