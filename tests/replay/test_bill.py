"""What runs cost, by hand: every figure is a sum that a person can do."""

from dataclasses import dataclass, replace

import pytest
from episodes import episode, in_words, reading
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.choices import NoPruning
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.episode_figures import bill
from autoprune.apps.replay.play import Run, play
from autoprune.economics import Prices
from autoprune.planning.view import View
from autoprune.strategies import ObservationMasking

PLACEHOLDER = 22  # words
PRICES = Prices(1.25, 0.1, 5)
SAME = NoPruning()


def pruner() -> AgenticConversationPruner:
    return AgenticConversationPruner(10**9)


def run(known: Episode, strategy: object = SAME) -> Run:
    return play(known, pruner, strategy, count=in_words)


def some(number: int) -> str:
    return "word " * number


# A conversation of three results: messages of 5, 5, 103, 5, 53, 5, 33 and 4 words


def test_without_pruning_a_prompt_is_read_from_the_cache_except_its_new_tokens():
    unpruned = run(episode(reading(some(100), some(50), some(30)), head=10))
    assert [(prompt.tokens, prompt.held) for prompt in unpruned.prompts] == [(15, 0), (123, 15), (181, 123), (219, 181)]
    cost = 1.25 * 15 + 25
    cost += 0.1 * 15 + 1.25 * 108 + 25
    cost += 0.1 * 123 + 1.25 * 58 + 25
    cost += 0.1 * 181 + 1.25 * 38 + 20
    found = bill(unpruned, PRICES)
    assert (found.total, found.with_rereads, found.cache_breaks) == (pytest.approx(cost), pytest.approx(cost), 0)


def test_an_edit_breaks_the_cache_from_its_message_on():
    masked = run(episode(reading(some(100), some(50), some(30)), head=10), ObservationMasking(1))
    # The first result is cleared at the third request, the second at the fourth.
    third, fourth = 181 - 100 + PLACEHOLDER, 219 - 150 + 2 * PLACEHOLDER
    assert [(prompt.tokens, prompt.held) for prompt in masked.prompts[2:]] == [(third, 20), (fourth, 50)]
    assert bill(masked, PRICES).cache_breaks == 2


def test_a_prompt_that_the_agent_itself_made_shorter_is_no_break():
    known = episode(reading(some(100), some(50), some(30)), head=200)
    shorter = replace(known, sizes=replace(known.sizes, beside=(200.0, 200.0, 10.0, 10.0)))
    unpruned = run(shorter)
    assert unpruned.prompts[2].held < unpruned.prompts[1].tokens
    assert bill(unpruned, PRICES).cache_breaks == 0


@each_row(
    ("seconds", "life", "is_cold"),
    [(299.0, 300.0, False), (300.0, 300.0, False), (301.0, 300.0, True), (301.0, 3600.0, False)],
)
def test_after_a_pause_longer_than_its_life_the_cache_is_cold(seconds: float, life: float, is_cold: bool):
    messages = reading(some(100), some(50))
    warm, cold = run(episode(messages, 10)), run(episode(messages, 10, {5: seconds}))
    held = warm.prompts[2].held
    more = (PRICES.write - PRICES.read) * held if is_cold else 0
    prices = replace(PRICES, life=life)
    assert bill(cold, prices).total - bill(warm, prices).total == pytest.approx(more)
    assert bill(cold, prices).cache_breaks == 0


def test_a_reread_costs_one_request_one_write_and_ten_reads_of_the_result():
    source = f"def only_here(): pass\n{some(50)}"
    known = episode(reading(source, some(50), some(30), old_string="def only_here(): pass"), head=10)
    cleared = run(known, ObservationMasking(1))
    assert cleared.rereads == ((3, 0),)
    prompt, result = cleared.prompts[3].tokens, known.transcript.results[0].tokens
    cost = 0.1 * prompt + 5 * 120 + 1.25 * result + 10 * 0.1 * result
    found = bill(cleared, PRICES)
    assert found.with_rereads - found.total == pytest.approx(cost)


# Closed forms


@dataclass(frozen=True)
class ClearsFirst:
    """Clears the first result at one request."""

    at: int
    name = "clears the first"
    every_request = True

    def step(self, view: View) -> list[object]:
        found = (each for each in view.candidates() if view.request == self.at and each.sent == 1)
        return [each.cleared("the first") for each in found]


def difference(cleared: int, behind: int, requests: int, prices: Prices) -> float:
    """What it costs more to clear tokens in front of others that are cached, with so many requests from there on.

    Behind the cut stand the placeholder's message, a call and a result.
    """
    texts = [some(cleared + PLACEHOLDER), some(behind - PLACEHOLDER - 3 - 5 - 3), *["word"] * requests]
    known = episode(reading(*texts), head=1_000)
    assert len(known.requests) == 3 + requests
    return bill(run(known, ClearsFirst(3)), prices).total - bill(run(known), prices).total


@each_row(
    ("prices", "cleared", "behind", "requests"),
    [
        (Prices(1.25, 0.1, 5), 46, 40, 10),
        (Prices(1, 0.1, 8), 90, 40, 4),
        (Prices(1, 0.5, 4), 60, 180, 3),
        (Prices(1, 0.02, 4), 245, 50, 10),
    ],
)
def test_break_even_to_the_token(prices: Prices, cleared: int, behind: int, requests: int):
    assert prices.break_even(cleared, behind) == pytest.approx(requests)
    assert difference(cleared, behind, requests, prices) == pytest.approx(0, abs=1e-6)
    assert difference(cleared, behind, requests + 1, prices) == pytest.approx(-prices.read * cleared)
    assert difference(cleared, behind, requests - 1, prices) == pytest.approx(prices.read * cleared)
    assert difference(cleared + 1, behind, requests, prices) == pytest.approx(-prices.read * requests)
    assert difference(cleared, behind + 1, requests, prices) == pytest.approx(prices.write - prices.read)
