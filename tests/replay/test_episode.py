"""What is replayed: which stretch of a recording, with which head, pauses and safe zone."""

from typing import Any

from episodes import USER, call, in_words, reading, result
from tables import each_row

from autoprune.replay.episode import LEAST_REQUESTS, episode, longest
from autoprune.sessions import Recording, Request, Usage

# Messages of 5, 5, 103, 5, 53 and 4 words: prompts of 5, 113 and 171.
MESSAGES = reading("a " * 100, "b " * 50)


def recorded(*prompts: int | None, holds_prompt: bool = False, times: tuple[float | None, ...] = ()) -> Recording:
    """The conversation with the size of each prompt as the provider reported it."""
    usages = [Usage(prompt) if prompt else None for prompt in prompts]
    known = [*times, *[None] * 3]
    requests = tuple(Request(at, time, usage=usage) for at, time, usage in zip((1, 3, 5), known, usages, strict=False))
    return Recording(MESSAGES, requests, "an agent", holds_prompt)


def head(recording: Recording) -> int:
    return episode(recording, "small", in_words).head


@each_row(
    ("prompts", "expected"),
    [
        # The provider counts as we do.
        ((2_005, 2_113, 2_171), 2_000),
        # It reports 1.5 tokens for each counted one: (2_162 - 2_000) / 108, (2_249 - 2_162) / 58.
        ((3_000, 3_162, 3_249), 1_995),
        # The median step counts, not one in which something else was added.
        ((2_005, 2_113, 9_999_999), 1_000),
        # At most two tokens for one, at least one for one.
        ((4_000, 4_000 + 108 * 9, 4_000 + (108 + 58) * 9), 1_995),
        ((2_005, 2_006, 2_007), 2_000),
        # What is known of one request alone is no ratio.
        ((2_005, None, None), 2_000),
        ((None, 2_113, 2_171), 2_000),
        # At least 1,000, and 15,000 where nothing is recorded.
        ((105, 213, 271), 1_000),
        ((None, None, None), 15_000),
    ],
)
def test_the_head_is_the_first_recorded_prompt_without_its_messages_in_counted_tokens(
    prompts: tuple[int | None, ...], expected: int
):
    assert head(recorded(*prompts)) == expected


def test_a_log_that_holds_the_whole_prompt_has_no_head():
    assert head(recorded(None, None, None, holds_prompt=True)) == 0
    assert head(recorded(2_005, 2_113, 2_171, holds_prompt=True)) == 2_000  # the schemas of the tools


def test_pauses_lie_before_the_message_of_an_answer_and_are_from_one_answer_to_the_next():
    known = recorded(None, None, None, times=(100.0, 130.0, 530.0))
    assert episode(known, "small", in_words).pauses == {3: 30.0, 5: 400.0}
    backwards = recorded(None, None, None, times=(100.0, 50.0, None))
    assert episode(backwards, "small", in_words).pauses == {}


def test_where_times_are_not_known_the_pause_without_the_model_counts():
    requests = (Request(1), Request(3, pause=7.0), Request(5, time=1.0, pause=9.0))
    assert episode(Recording(MESSAGES, requests, None, False), "small", in_words).pauses == {3: 7.0, 5: 9.0}


@each_row(("words", "expected"), [(40, 40_000), (99_900, 40_000), (100_100, 80_000)])
def test_the_safe_zone_is_by_the_size_of_the_messages(words: int, expected: int):
    messages: list[Any] = [USER, call("r", {}), result("r", "w " * words), {"role": "assistant", "content": "Done."}]
    known = Recording(messages, (Request(1), Request(3)), None, False)
    assert episode(known, "small", in_words).safe_zone == expected
    assert episode(known, "small", in_words, safe_zone=123).safe_zone == 123


def test_the_stretch_with_the_most_requests_is_replayed_if_it_has_enough():
    def of(number: int) -> Recording:
        return Recording([], tuple(Request(at) for at in range(number)), None, False)

    enough, more = of(LEAST_REQUESTS), of(LEAST_REQUESTS + 5)
    assert longest([enough, more, of(3)]) is more
    assert longest([enough]) is enough
    assert longest([of(LEAST_REQUESTS - 1)]) is None
    assert longest([]) is None
