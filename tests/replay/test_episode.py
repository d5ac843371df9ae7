"""What is replayed: which stretch of a recording, with which head, pauses and safe zone."""

import pytest
from episodes import in_words, reading
from tables import each_row

from autoprune.apps.replay import ReplayArgs
from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.detail import detail
from autoprune.apps.replay.episode import LEAST_REQUESTS, Episode, episode, longest
from autoprune.apps.replay.evidence import Need
from autoprune.apps.replay.play import play
from autoprune.apps.sessions import Recording, Request, Usage
from autoprune.economics import LISTS
from autoprune.tokens import exact

# Messages of 5, 5, 103, 5, 53 and 4 words: prompts of 5, 113 and 171.
MESSAGES = reading("a " * 100, "b " * 50)


def recorded(*prompts: int | None, holds_prompt: bool = False, times: tuple[float | None, ...] = ()) -> Recording:
    """The conversation with the size of each prompt as the provider reported it."""
    usages = [Usage(prompt) if prompt else None for prompt in prompts]
    known = [*times, *[None] * 3]
    requests = tuple(Request(at, time, usage=usage) for at, time, usage in zip((1, 3, 5), known, usages, strict=False))
    return Recording(MESSAGES, requests=requests, agent="an agent", holds_prompt=holds_prompt)


def head(recording: Recording) -> int:
    return episode(recording, "small", in_words).head


@each_row(
    ("prompts", "expected"),
    [
        ((2_005, 2_113, 2_171), 2_000),
        ((2_005, None, None), 2_000),
        ((None, 2_113, 2_171), 2_000),
        # 15,000 where nothing is recorded.
        ((None, None, None), 15_000),
    ],
)
def test_the_head_is_what_recorded_prompts_have_beside_their_messages(prompts: tuple[int | None, ...], expected: int):
    found = episode(recorded(*prompts), "small", in_words)
    assert (found.ratio, found.head) == (pytest.approx(1.0, abs=0.01), expected)


@each_row("factor", [9, 0.1])
def test_a_calibration_is_within_what_a_tokenizer_may_have(factor: float):
    whole = [round(factor * each) for each in (5, 113, 171)]
    assert 0.8 <= episode(recorded(*whole, holds_prompt=True), "small", in_words).ratio <= 3.0


def test_a_log_that_holds_the_whole_prompt_has_no_head():
    assert head(recorded(None, None, None, holds_prompt=True)) == 0
    assert head(recorded(2_005, 2_113, 2_171, holds_prompt=True)) == 2_000  # the schemas of the tools


def test_a_pause_lasts_from_one_answer_to_the_next():
    known = recorded(None, None, None, times=(100.0, 130.0, 530.0))
    assert episode(known, "small", in_words).pauses == {3: 30.0, 5: 400.0}
    backwards = recorded(None, None, None, times=(100.0, 50.0, None))
    assert episode(backwards, "small", in_words).pauses == {}


def test_without_times_the_pause_without_the_model_counts():
    requests = (Request(1), Request(3, pause=7.0), Request(5, time=1.0, pause=9.0))
    assert episode(Recording(MESSAGES, requests=requests), "small", in_words).pauses == {3: 7.0, 5: 9.0}


@each_row(
    ("named", "given", "expected"),
    [("claude-sonnet-4-5", None, 180_000), ("", "gpt-4o", 108_000), ("", None, 180_000), ("my-model", None, 180_000)],
)
def test_the_default_safe_zone_is_that_of_run_for_the_sessions_model(named: str, given: str | None, expected: int):
    known = Recording(MESSAGES, requests=(Request(1, model=named), Request(3)))
    assert episode(known, "small", in_words, model=given).safe_zone == expected
    assert episode(known, "small", in_words, model=given, safe_zone=123).safe_zone == 123


def test_the_longest_prompt_shows_the_window_of_an_unknown_model():
    used = Usage(250_000)
    for model in ("", "my-model"):
        known = Recording(MESSAGES, requests=(Request(1, model=model), Request(3, usage=used)))
        assert episode(known, "small", in_words).safe_zone == 262_500


def test_a_prompt_beyond_the_short_window_shows_that_the_request_asked_for_the_long_one():
    known = Recording(MESSAGES, requests=(Request(1, model="claude-opus-4-6"), Request(3, usage=Usage(250_000))))
    assert episode(known, "small", in_words).safe_zone == 980_000


def test_no_prompt_of_an_unknown_model_is_above_the_limit():
    requests = tuple(map(Request, (1, 3, 5, 7)))
    known = episode(Recording(reading(*["word " * 70_000] * 3), requests=requests), "plain", exact())
    strategy, new_pruner = Policy("low_water").for_episode(known, LISTS["anthropic"])
    found = play(known, new_pruner, strategy, count=exact())
    assert tuple(prompt.tokens for prompt in found.prompts) == known.sizes.prompts(known.requests)


def test_the_stretch_with_the_most_requests_is_replayed_if_it_has_enough():
    def of(number: int) -> Recording:
        return Recording([], requests=tuple(Request(at) for at in range(number)))

    enough, more = of(LEAST_REQUESTS), of(LEAST_REQUESTS + 5)
    assert longest([enough, more, of(3)]) is more
    assert longest([enough]) is enough
    assert longest([of(LEAST_REQUESTS - 1)]) is None
    assert longest([]) is None


# What a compaction kept

SOURCE = "def first_of(rows):\n    return rows[0]\n" * 20
KEPT_MESSAGES = reading(SOURCE, "b " * 50, "c " * 50, SOURCE[:-1], "d " * 500, "e " * 50, old_string="return rows[0]")


def behind_a_compaction(*requests: int) -> Episode:
    """Seven answers of the model at 1, 3, … 13, of which only some were asked for here; the last one edits."""
    known = Recording(KEPT_MESSAGES, requests=tuple(map(Request, requests)), agent="an agent")
    return episode(known, "small", in_words)


def test_answers_that_a_compaction_kept_are_no_requests():
    known = behind_a_compaction(7, 9, 11, 13)
    assert (known.requests, [each.answer for each in known.billings]) == ((7, 9, 11, 13), [5, 5, 5, 7])
    assert known.walk_numbers == (3, 4, 5, 6)
    assert [known.first_request_from(number) for number in range(8)] == [0, 0, 0, 0, 1, 2, 3, 4]
    (need,) = known.evidence.needs
    assert need == Need(3, need.atom, (0, 3), 3)


def test_after_kept_answers_the_clairvoyant_loses_nothing_and_counts_the_same_requests():
    known = behind_a_compaction(5, 7, 9, 11, 13)
    strategy, new_pruner = Policy("clairvoyant").for_episode(known, LISTS["no-cache"])
    assert play(known, new_pruner, strategy, count=in_words).retained == (True,)
    found = detail(known, ReplayArgs(("window(keep=1)",), (LISTS["anthropic"],)))
    (outcome,) = found.outcomes
    assert len(found.unpruned) == len(outcome.prompts) == 5
    assert [(each.request, each.sent) for each in found.results] == [(0, 0), (0, 0), (0, 1), (1, 2), (2, 3), (3, 4)]
    # Each result is cleared as soon as another one has come: two are there at the first request.
    assert [(each.result, each.request) for each in outcome.cleared] == [(at, at) for at in range(5)]
