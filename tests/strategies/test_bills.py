"""`cache_aware` never makes a session dearer: the bill up to any request is at most that without pruning."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from profiles import sample_cases, size
from rounds import WIRE, Step
from utterances import result

import autoprune.economics as economics
from autoprune import AgenticConversationPruner
from autoprune.conversation.transcript import Location
from autoprune.economics import LISTS, Invoice, Pauses, Prices, Tier, check_invoices
from autoprune.errors import SettingsError
from autoprune.planning.view import Candidate
from autoprune.strategies import CacheAware
from autoprune.strategies.bills import late_in_prompt
from autoprune.strategies.cache_aware import CacheAwareState

HUGE = 10**9
PRIMING = 3  # tokens of a prompt besides its messages
REPORT = "All parts are described, and their names are kept. " * 30
PRICES = {
    "anthropic": LISTS["anthropic"],
    "cheap reads": Prices(1.25, 0.025),
    "an hour": Prices(2.0, 0.1, life=3_600),
    "free writes": Prices(1.0, 0.02),
    "no cache": LISTS["no-cache"],
    "tier": Prices(1.25, 0.1, tiers=(Tier(30_000, 5.0, 5.0),)),
    "two tiers": Prices(1.25, 0.05, tiers=(Tier(24_000, 2.0, 1.5), Tier(48_000, 4.0, 4.0))),
}


@dataclass(frozen=True)
class Session:
    """A conversation, the number of messages of each request, and pauses by that number."""

    messages: list[Any]
    requests: list[int]
    pauses: Mapping[int, float]


@cache
def session(seed: int, rounds: int = 60) -> Session:
    """Reads of all sizes, some of them parallel or repeated, notes, reports and pauses."""
    source = random.Random(seed)
    made: list[list[Step]] = []
    for _ in range(rounds):
        kind = source.random()
        if kind < 0.2:
            made.append(
                [Step("write", {"path": f"{source.randint(0, 9)}.md", "content": REPORT * source.randint(1, 6)}, "ok")]
            )
        else:
            words = [source.choice((5, 50, 300, 1_500, 4_000)) for _ in range(source.choice((1, 1, 1, 3)))]
            names = ("read", "bash", "search")
            made.append(
                [
                    Step(
                        source.choice(names),
                        {"path": f"{source.randint(0, 40)}.py"},
                        f"line {source.random()}\n" * (each // 8 + 1),
                    )
                    for each in words
                ]
            )
    messages = WIRE["openai_chat"](made)
    requests = [at for at, each in enumerate(messages) if each["role"] == "assistant"]
    pauses = {at: source.choice((400.0, 4_000.0)) for at in requests if source.random() < 0.08}
    return Session(messages, requests, pauses)


def prompts(known: Session, strategy: CacheAware, zone: int = HUGE, *, fed_back: bool = False) -> Iterator[list[Any]]:
    """The prompt of each request, as an agent loop would send it."""
    pruner = AgenticConversationPruner(zone)
    sent: list[Any] = []
    for before, at in pairwise([0, *known.requests]):
        given = [*sent, *known.messages[before:at]] if fed_back else known.messages[:at]
        sent = pruner.prune(given, strategy, pauses=known.pauses).conversation
        yield sent


class Count:
    """Tokens of messages, each of which is counted once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}
        self._one = AgenticConversationPruner(HUGE).count_tokens

    def __call__(self, messages: Sequence[Any]) -> int:
        return sum(map(self._size, messages), PRIMING)

    def _size(self, message: Any) -> int:
        if id(message) not in self._known:
            self._known[id(message)] = message, self._one([message]) - PRIMING
        return self._known[id(message)][1]


def bills(known: Session, sent: Sequence[list[Any]], prices: Prices, *, only_marks: bool = False) -> list[float]:
    """The bill up to each request.

    The cache holds the longest prefix that a prompt shares with the previous one, or with `only_marks` the longest of
    all prompts since the last pause with which this one begins.
    """
    count = Count()
    stored: list[list[Any]] = []
    total, result = 0.0, []
    for at, prompt in zip(known.requests, sent, strict=True):
        if known.pauses.get(at, 0.0) > prices.life:
            stored = []
        shared = [_shared(prompt, each) for each in (stored if only_marks else stored[-1:])]
        held = max(
            (size for size, each in zip(shared, stored, strict=False) if not only_marks or size == len(each)), default=0
        )
        total += prices.request(count(prompt), count(prompt[:held]) if held else 0)
        stored.append(prompt)
        result.append(total)
    return result


def shares(known: Session, sent: Sequence[list[Any]], prices: Prices, *, only_marks: bool = False) -> list[float]:
    """The bill up to each request as a share of that without pruning."""
    whole = [known.messages[:at] for at in known.requests]
    ours, theirs = (bills(known, each, prices, only_marks=only_marks) for each in (sent, whole))
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _shared(prompt: Sequence[object], before: Sequence[object]) -> int:
    pairs = zip(prompt, before, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(prompt), len(before)))


@pytest.mark.parametrize("fold_steps", [None, 5], ids=["clears", "folds"])
@pytest.mark.parametrize("name", sample_cases(PRICES, 7))
def test_no_session_is_dearer_at_any_request(name: str, fold_steps: int | None):
    prices, cheaper = PRICES[name], 0
    for known in map(session, range(size(6))):
        sent = list(prompts(known, CacheAware(prices=prices, fold_steps=fold_steps)))
        for only_marks in (False, True):
            found = shares(known, sent, prices, only_marks=only_marks)
            assert [at for at, share in enumerate(found) if share > 1.0000001] == []
            cheaper += found[-1] < 1
    assert cheaper > 1  # otherwise the test shows nothing


@pytest.mark.parametrize("name", sample_cases(PRICES, 7))
def test_a_loop_that_passes_pruned_output_back_is_not_dearer_either(name: str):
    """Folds shorten the list, so the loop's own record says where the pauses are."""
    for known in map(session, range(size(6))):
        now = [0.0]
        record = Pauses(clock=lambda now=now: now[0])
        pruner, strategy = AgenticConversationPruner(HUGE), CacheAware(prices=PRICES[name], fold_steps=5)
        sent: list[list[Any]] = [[]]
        for before, at in pairwise([0, *known.requests]):
            given = [*sent[-1], *known.messages[before:at]]
            now[0] += known.pauses.get(at, 1.0)
            sent.append(pruner.prune(given, strategy, pauses=record.before(given)).conversation)
        for only_marks in (False, True):
            found = shares(known, sent[1:], PRICES[name], only_marks=only_marks)
            assert [at for at, share in enumerate(found) if share > 1.0000001] == []


def test_steps_are_folded_in_these_sessions():
    known, strategy = session(0), CacheAware(prices=PRICES["anthropic"], fold_steps=5)
    result = AgenticConversationPruner(HUGE).prune(known.messages, strategy, pauses=known.pauses)
    assert len(result.plan.folds) > 2


@pytest.mark.parametrize("name", sample_cases(PRICES, 7))
def test_pruned_output_that_is_passed_back_has_the_same_bills(name: str):
    for seed in range(10, 10 + size(6)):
        known, strategy = session(seed), CacheAware(prices=PRICES[name])
        assert list(prompts(known, strategy, fed_back=True)) == list(prompts(known, strategy))


# Invoices of a cache that does not do what is expected


class Provider:
    """A cache of prefixes that loses everything before some requests, and may store nothing.

    Each answer has so many tokens of `thinking`, which only the provider knows. If there is any, a counted token of
    other messages is 1.5 of the provider's.
    """

    def __init__(self, lost: Sequence[int], *, stores: bool, thinking: int = 0) -> None:
        self.lost, self.stores, self.thinking = lost, stores, thinking
        self.bill = 0.0
        self._stored: list[Any] = []
        self._count = Count()

    def answer(self, prompt: list[Any], at: int, prices: Prices) -> Invoice:
        """Return the invoice of a prompt, and add it to the bill."""
        count = self._size
        same = 0 if at in self.lost else _shared(prompt, self._stored)
        whole, read = count(prompt), count(prompt[:same]) if same else 0
        self._stored = prompt if self.stores else []
        self.bill += prices.request(whole, read) if self.stores else prices.tier(whole).prompt * whole
        return Invoice(whole, read, whole - read if self.stores else 0, self.thinking)

    def _size(self, messages: list[Any]) -> int:
        if not self.thinking:
            return self._count(messages)
        said = [each for each in messages if each["role"] == "assistant"]
        return round(1.5 * (self._count(messages) - self._count(said))) + self.thinking * len(said)


@dataclass(frozen=True)
class Watched(CacheAware):
    """Records the bills of each walk."""

    walks: list[CacheAwareState] = field(default_factory=list)

    def begin(self) -> CacheAwareState:
        self.walks.append(super().begin())
        return self.walks[-1]


@dataclass(frozen=True)
class Live:
    """A live session: its prompts, and the bills of a pruned and an unpruned one up to each request."""

    prompts: list[list[Any]] = field(default_factory=list)
    pruned: list[float] = field(default_factory=list)
    unpruned: list[float] = field(default_factory=list)
    expected: list[tuple[float, float]] = field(default_factory=list)  # by the strategy, up to the request before

    @property
    def worst(self) -> float:
        return max(one / other for one, other in zip(self.pruned, self.unpruned, strict=True))


def play(
    known: Session,
    prices: Prices,
    lost: Sequence[int],
    *,
    stores: bool = True,
    told: bool = True,
    thinking: int = 0,
    charged: Prices | None = None,
    **options: Any,
) -> Live:
    """Play a session with a cache that loses everything after a pause, and before the requests in `lost`.

    The provider has the prices that are `charged`, by default those that pruning decides by.
    """
    pruner, strategy = AgenticConversationPruner(HUGE), Watched(prices=prices, **options)
    gone = [*lost, *(at for at, pause in known.pauses.items() if pause > prices.life)]
    providers = [Provider(gone, stores=stores, thinking=thinking) for _ in range(2)]
    invoices: dict[int, Invoice] = {}
    found = Live()
    for at in known.requests:
        sent = pruner.prune(known.messages[:at], strategy, pauses=known.pauses, invoices=invoices).conversation
        bills = strategy.walks[-1]._bills
        found.expected.append((bills.pruned, bills.unpruned) if bills else (0.0, 0.0))
        invoice = providers[0].answer(sent, at, charged or prices)
        providers[1].answer(known.messages[:at], at, charged or prices)
        if told and at != known.requests[-1]:
            invoices[known.requests[known.requests.index(at) + 1]] = invoice
        found.prompts.append(sent)
        found.pruned.append(providers[0].bill)
        found.unpruned.append(providers[1].bill)
    assert len(strategy.walks) == 1
    return found


@pytest.mark.parametrize("stores", [True, False], ids=["forgets", "never stores"])
@pytest.mark.parametrize("name", sample_cases(["anthropic", "free writes", "tier"], 4))
def test_no_session_is_dearer_if_the_cache_forgets_or_stores_nothing(name: str, stores: bool):
    cheaper = 0
    for seed in range(3):
        known = session(seed)
        lost = random.Random(seed).sample(known.requests, 8)
        found = play(known, PRICES[name], lost, stores=stores)
        assert found.worst <= 1.0000001
        cheaper += found.pruned[-1] < found.unpruned[-1]
    assert cheaper > 1  # otherwise the test shows nothing


@pytest.mark.parametrize("stores", [True, False], ids=["forgets", "never stores"])
def test_with_invoices_both_bills_are_those_of_the_provider(stores: bool):
    known = session(2)
    lost = random.Random(2).sample(known.requests, 8)
    found = play(known, PRICES["anthropic"], lost, stores=stores)
    paid = [(0.0, 0.0), *zip(found.pruned, found.unpruned, strict=True)]
    assert len({*map(len, found.prompts)}) > 1
    for expected, bill in zip(found.expected, paid, strict=False):
        assert expected == pytest.approx(bill, rel=1e-3)


def test_invoices_allow_cuts_after_misses_and_prevent_them_if_the_cache_lives_longer():
    known, prices = session(2), PRICES["free writes"]
    told, untold = (play(known, prices, known.requests[::2], told=each, patience=0.2) for each in (True, False))
    assert told.pruned[-1] < untold.pruned[-1]
    lasting = replace(prices, life=10**6)
    told, untold = (play(known, lasting, [], told=each, patience=0.2, cache_life=300.0) for each in (True, False))
    assert len(str(told.prompts)) > len(str(untold.prompts))


def test_no_session_is_dearer_if_answers_have_thinking_that_is_not_counted():
    for seed in range(size(4)):
        found = play(session(seed), PRICES["free writes"], [], thinking=4_000, patience=0.2)
        assert found.worst <= 1.0000001


def test_no_session_is_dearer_if_no_price_of_a_cached_token_is_listed_and_the_provider_has_one():
    listed, charged = Prices(1, 1, 4, input_price=1e-6), Prices(1, 0.1, 4)
    told, untold = (play(session(2), listed, [], charged=charged, told=each) for each in (True, False))
    assert told.worst <= 1.0000001 < untold.worst


def test_prices_that_were_given_are_not_replaced_by_assumed_ones():
    for given in ("no-cache", (1.0, 1.0), "claude-sonnet-4-5"):
        known = economics.prices(given)
        assert known.with_reads is known


def test_a_usage_that_does_not_count_cached_tokens_gives_no_invoice():
    unknown = Invoice.from_usage({"prompt_tokens": 98})
    assert unknown is None
    assert check_invoices({3: unknown, 5: Invoice(98, 0, 0)}) == {5: Invoice(98, 0, 0)}
    AgenticConversationPruner(HUGE).prune([], invoices={57: unknown})


def test_invoices_of_another_type_are_an_error():
    with pytest.raises(SettingsError, match=r"give values of Invoice.from_usage by the index of a message"):
        AgenticConversationPruner(HUGE).prune([], invoices={3: {"input_tokens": 5}})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("usage", "invoice"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 3}, Invoice(98, 90, 3)),
        ({"input_tokens": 98, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}, Invoice(98, 0, 0)),
        ({"prompt_tokens": 98, "prompt_tokens_details": {"cached_tokens": 90}}, Invoice(98, 90, 8)),
        ({"prompt_tokens": 98}, None),
    ],
)
def test_the_invoice_is_in_the_usage_of_an_answer(usage: dict[str, Any], invoice: Invoice | None):
    assert Invoice.from_usage(usage) == invoice


def test_pruned_output_that_is_passed_back_is_pruned_alike_with_invoices():
    known, prices = session(2), PRICES["free writes"]
    pruner, strategy = AgenticConversationPruner(HUGE), CacheAware(prices=prices, patience=0.2)
    gone = [*known.requests[::2], *known.pauses]
    provider, invoices, sent = Provider(gone, stores=True), dict[int, Invoice](), list[Any]()
    whole = play(known, prices, known.requests[::2], patience=0.2)
    for number, (before, at) in enumerate(pairwise([0, *known.requests])):
        given = [*sent, *known.messages[before:at]]
        sent = pruner.prune(given, strategy, pauses=known.pauses, invoices=invoices).conversation
        assert sent == whole.prompts[number]
        if number + 1 < len(known.requests):
            invoices[known.requests[number + 1]] = provider.answer(sent, at, prices)


def test_without_the_guarantee_a_session_can_be_dearer_on_the_way():
    strategy = CacheAware(prices=PRICES["anthropic"], never_dearer=None)
    known = session(3)
    assert max(shares(known, list(prompts(known, strategy)), strategy.prices)) > 1.03


def test_a_share_allows_a_session_to_be_so_much_dearer():
    strategy = CacheAware(prices=PRICES["anthropic"], never_dearer=0.02)
    for known in map(session, range(size(4))):
        assert max(shares(known, list(prompts(known, strategy)), strategy.prices)) <= 1.02


def test_above_the_safe_zone_results_worth_up_to_twice_as_much_go_if_they_are_later():
    results = [replace(result(None, "text"), location=Location((at,))) for at in range(3)]
    least, twice, more = (Candidate(each, "", 10, each) for each in results)
    clearing = {(each, ""): 10 for each in (least, twice, more)}
    assert [*late_in_prompt(clearing, {least: 1.0, twice: 2.0, more: 2.1}, 10)] == [(twice, "")]


def test_above_the_safe_zone_clearing_is_forced():
    known = session(1)
    sent = list(prompts(known, CacheAware(prices=PRICES["anthropic"]), zone=20_000))
    assert AgenticConversationPruner(HUGE).count_tokens(sent[-1]) <= 20_000


def test_a_prompt_stays_below_a_tier_if_that_is_wanted_or_pays():
    known, count = session(3), AgenticConversationPruner(HUGE).count_tokens
    stay, auto, cross = (
        max(map(count, prompts(known, CacheAware(prices=PRICES["tier"], tier=tier))))
        for tier in ("stay", "auto", "cross")
    )
    assert stay <= 30_000 < auto < cross


def test_a_parameter_that_cannot_be_used_is_an_error():
    with pytest.raises(SettingsError, match="tier is 'up': give one of auto, stay, cross"):
        CacheAware(tier="up").check_parameters()
    with pytest.raises(SettingsError, match="never_dearer is -1"):
        CacheAware(never_dearer=-1).check_parameters()
    with pytest.raises(SettingsError, match="fold_steps is '10': give a number, 1 or more, or None"):
        CacheAware(fold_steps="10").check_parameters()  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="clear_thinking is 'no': give True or False"):
        CacheAware(clear_thinking="no").check_parameters()  # type: ignore[arg-type]
