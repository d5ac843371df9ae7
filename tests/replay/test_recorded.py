"""What a log says of its bill: models, lives of caches, what was read from them, and what it cost."""

from typing import Any

import pytest
from episodes import in_words, reading
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.choices import NoPruning
from autoprune.apps.replay.episode import Episode, episode, recorded_cost, sources, usage_dollars
from autoprune.apps.replay.episode_figures import OWN, bill
from autoprune.apps.replay.play import play
from autoprune.apps.replay.sizes import usual_text_ratio
from autoprune.apps.sessions import Recording, Request, Usage
from autoprune.economics import HOUR, prices
from autoprune.strategies import ObservationMasking

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5"
# Prompts of 5, 113 and 171 words.
MESSAGES = reading("a " * 100, "b " * 50)


def recording(*requests: Request) -> Recording:
    return Recording(MESSAGES, requests=requests, agent="an agent", holds_prompt=True)


def written(short: int, long: int, cached: int = 0) -> Usage:
    return Usage(short + long + cached, cached, short + long, 5, short, long)


def of(*usages: Usage | None, models: tuple[str, ...] = (CLAUDE,) * 3, **told: Any) -> Episode:
    requests = (Request(at, model=model, usage=each) for at, model, each in zip((1, 3, 5), models, usages, strict=True))
    return episode(recording(*requests), "small", in_words, **told)


def test_the_life_of_the_cache_is_that_of_most_written_tokens():
    hour = of(written(0, 5), written(0, 108, 5), written(10, 48, 113))
    assert [(each.prices.life, each.prices.write) for each in hour.billings] == [(HOUR, 2.0)] * 3
    short = of(written(5, 0), written(108, 0, 5), written(58, 0, 113))
    assert [(each.prices.life, each.prices.write) for each in short.billings] == [(300, 1.25)] * 3


def test_a_changed_life_counts_from_there_on_and_an_unknown_one_is_the_vendors():
    changed = of(written(5, 0), written(0, 108, 5), Usage(171, 113))
    assert [each.prices.life for each in changed.billings] == [300, HOUR, HOUR]
    assert [each.prices.life for each in of(None, None, None).billings] == [300] * 3
    assert [each.prices.life for each in of(None, None, None, models=(GPT,) * 3).billings] == [HOUR] * 3
    assert [each.prices.life for each in of(None, None, None, life=60.0).billings] == [60] * 3


def test_the_requested_cache_life_counts_if_the_answer_names_none():
    requests = (Request(1, model=CLAUDE, cache_life=HOUR), Request(3, model=CLAUDE), Request(5, model=CLAUDE))
    known = recording(*requests)
    assert [each.prices.life for each in episode(known, "small", in_words).billings] == [HOUR] * 3
    assert sources(known, model=None, life=None) == ("recorded", "requested")


@each_row(
    ("model", "life", "expected"),
    [(None, None, ("assumed", "assumed")), (CLAUDE, None, ("given", "assumed")), (None, 60.0, ("assumed", "given"))],
)
def test_assumed_models_and_lives_are_marked(model: str | None, life: float | None, expected: tuple[str, str]):
    assert sources(recording(Request(1)), model=model, life=life) == expected


def test_each_request_has_the_prices_of_its_own_model():
    known = of(None, None, None, models=(CLAUDE, "", GPT))
    assert [each.prices.name for each in known.billings] == [CLAUDE, CLAUDE, GPT]
    assert known.prices.name == CLAUDE
    run = play(known, lambda: AgenticConversationPruner(10**9), NoPruning(), count=in_words)
    dear, cheap = (each.prices for each in known.billings[1:])
    assert dear.input_price
    assert cheap.input_price
    text = usual_text_ratio(CLAUDE)
    dollars = dear.input_price * text * (1.25 * 5 + 25 + 0.1 * 5 + 1.25 * 108 + 25)
    dollars += cheap.input_price * text * (0.125 * 113 + 58 + cheap.output * 4)
    found = bill(run, OWN)
    assert found.input_price == dear.input_price
    assert found.total * dear.input_price == pytest.approx(dollars, rel=0.01)


def test_a_cold_cache_gives_no_more_than_recorded():
    known = of(Usage(5), Usage(113, 5), Usage(171, 20))
    assert known.is_cold(2)
    assert (known.cached_tokens(2, 171, 113), known.cached_tokens(2, 100, 10)) == (20, 10)


def test_without_recorded_cached_tokens_pauses_decide():
    known = of(Usage(5), Usage(113), Usage(171))
    assert [each.hit for each in known.billings] == [None] * 3
    assert known.cached_tokens(2, 171, 113) == 113


def test_a_cache_that_was_warm_after_a_longer_pause_lives_that_long():
    def known(seconds: float, read: int) -> Episode:
        return episode(
            recording(
                Request(1, 0.0, model=CLAUDE, usage=Usage(5)),
                Request(3, 10.0, model=CLAUDE, usage=Usage(113, 5)),
                Request(5, 10.0 + seconds, model=CLAUDE, usage=Usage(171, read)),
            ),
            "small",
            in_words,
        )

    assert [each.prices.life for each in known(1_500, 113).billings] == [1_500] * 3
    assert known(1_500, 20).prices.life == known(100, 113).prices.life == 300
    requests = (Request(1, 0.0, usage=Usage(5)), Request(3, 900.0, usage=Usage(113, 5)))
    assert sources(recording(*requests), model=None, life=None, used=900.0) == ("assumed", "observed")


def test_a_given_life_replaces_what_the_log_says_of_hits():
    requests = (
        Request(1, 0.0, model=CLAUDE, usage=Usage(5)),
        Request(3, 10.0, model=CLAUDE, usage=Usage(113, 5)),
        Request(5, 910.0, model=CLAUDE, usage=Usage(171, 113)),
    )
    for life, is_cold in ((None, False), (300.0, True), (3_600.0, False)):
        assert episode(recording(*requests), "small", in_words, life=life).is_cold(2) == is_cold


def test_no_cache_is_assumed_where_the_log_counts_none():
    none = [Usage(5, counts_cached=True), Usage(113, counts_cached=True), Usage(171, counts_cached=True)]
    known = of(*none)
    assert [known.is_cold(at) for at in range(3)] == [True] * 3
    assert (known.prices.read, known.prices.write) == (1.0, 1.0)
    answers = known.prices.output * sum(each.answer for each in known.billings)
    assert bill(run_unpruned(known), OWN).total == pytest.approx(5 + 113 + 171 + answers)
    assert of(*none[:2], Usage(171)).prices.write == 1.25


def test_a_cache_is_assumed_to_have_a_price_where_the_log_counts_reads_and_the_list_has_none():
    for cached, read in ((0, 1.0), (5, 0.1)):
        requests = (Request(at, 10.0, model="codestral", usage=Usage(113, cached)) for at in (1, 3, 5))
        assert episode(recording(*requests), "small", in_words).prices.read == read


@each_row(("output", "expected"), [(400, 400), (4, 4), (1, 6), (0, 6)])
def test_an_answers_tokens_are_recorded_ones_unless_these_are_too_few(output: int, expected: int):
    known = of(Usage(5, 0, 0, output), Usage(113, 5, 0, output), None)
    assert known.billings[0].answer == expected


def test_the_cost_in_a_log_takes_precedence_over_the_cost_of_its_tokens():
    stated = of(Usage(5, cost=0.5), Usage(113, 5, cost=0.25), Usage(171, 113, cost=0.25))
    requests = tuple(Request(1, usage=Usage(5, cost=each)) for each in (0.5, 0.25, 0.25))
    assert recorded_cost(requests, stated.billings) == 1.0
    counted = of(written(5, 0), written(108, 0, 5), written(58, 0, 113))
    tokens = 1.25 * (5 + 108 + 58) + 0.1 * (5 + 113) + 5 * 15
    usages = (written(5, 0), written(108, 0, 5), written(58, 0, 113))
    assert recorded_cost(tuple(Request(1, usage=each) for each in usages), counted.billings) == pytest.approx(
        tokens * 3e-6
    )
    assert recorded_cost((Request(1),) * 3, counted.billings) is None


def test_writing_costs_what_the_model_charges_unless_the_log_tells_two_caches_apart():
    gpt = prices(GPT)
    dollars = [usage_dollars(each, gpt, 0) for each in (written(90, 0), written(0, 90), written(50, 40))]
    assert dollars == [pytest.approx(tokens * 1.25e-6) for tokens in (90, 90, 1.25 * 50 + 2 * 40)]


@each_row(("missing", "expected"), [(1, 9.0), (2, None)])
def test_a_few_requests_without_usage_do_not_make_the_cost_unknown(missing: int, expected: float | None):
    billing = of(*[Usage(5, cost=1.0)] * 3).billings[0]
    requests = [*[Request(1, usage=Usage(5, cost=1.0))] * (10 - missing), *[Request(1)] * missing]
    assert recorded_cost(requests, [billing] * 10) == expected


def test_savings_at_cold_requests_are_counted_separately():
    known = of(Usage(5), Usage(113, 5), Usage(171, 0))
    run = play(known, lambda: AgenticConversationPruner(10**9), ObservationMasking(1), count=in_words)
    found = bill(run, OWN)
    assert found.saved == pytest.approx(bill(run_unpruned(known), OWN).total - found.total)
    assert 0 < found.saved_cold <= found.saved + 1e-6
    warm = of(Usage(5), Usage(113, 5), Usage(171, 113))
    again = play(warm, lambda: AgenticConversationPruner(10**9), ObservationMasking(1), count=in_words)
    assert bill(again, OWN).saved_cold == 0


def run_unpruned(known: Episode) -> Any:
    return play(known, lambda: AgenticConversationPruner(10**9), NoPruning(), count=in_words)
