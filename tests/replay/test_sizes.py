"""The provider's sizes of messages are fitted to how recorded prompts grow: thinking is not billed as results."""

import random
from collections.abc import Sequence

import pytest
from episodes import USER, call, in_words, result
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.episode import Episode, episode
from autoprune.apps.replay.play import play
from autoprune.apps.replay.sizes import Growth, fit_ratios, usual_text_ratio
from autoprune.apps.sessions import Recording, Request, Usage
from autoprune.strategies.clearing import ObservationMasking

HEAD = 2_000


def session(count: int = 40, *, text: float = 1.5, says_output: bool = True, drops_at: Sequence[int] = ()) -> Recording:
    """Reads of 100 to 900 words, each after 0 to 600 tokens of thinking that the log does not hold.

    Prompts hold `text` tokens for each word, and the thinking up to the last of the requests `drops_at`.
    """
    source = random.Random(7)
    messages, requests = [USER], []
    visible, hidden = 5.0, 0
    for number in range(count):
        hidden, thinking = 0 if number in drops_at else hidden, source.randint(0, 600)
        output = round(text * 5) + thinking
        usage = Usage(round(HEAD + text * visible + hidden), output=output if says_output else 1)
        requests.append(Request(len(messages), usage=usage))
        words = source.randint(100, 900)
        messages += [call(f"c{number}", {}, "read"), result(f"c{number}", "word " * words)]
        visible, hidden = visible + 5 + words + 3, hidden + thinking
    return Recording(messages, requests=tuple(requests))


def of(recording: Recording) -> Episode:
    return episode(recording, "small", in_words)


@each_row(("says_output", "error"), [(True, 0.03), (False, 0.17)])
def test_results_and_thinking_have_sizes_of_their_own(says_output: bool, error: float):
    sizes = of(session(says_output=says_output)).sizes
    assert sizes.text == pytest.approx(1.5, abs=error)


def test_an_answer_without_a_recorded_output_is_its_visible_text_and_the_usual_thinking():
    """Thinking does not grow with the text: a long answer is not estimated by the ratio of the short ones."""
    answers, texts = 6 * (20, 30, 40, 25, 2_000, 35), 4 * (100, 900, 400, 700, 200, 500, 800, 300, 600)
    known = [
        Growth(at, round(1.5 * (text + answer)) + 300, text, answer, None)
        for at, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]
    fitted = fit_ratios(known, None)
    assert [fitted.estimate(each) for each in known] == [pytest.approx(each.tokens, rel=0.05) for each in known]


def test_unpruned_prompts_are_the_recorded_ones():
    recording = session()
    known = of(recording)
    assert list(known.unpruned) == [each.usage.prompt for each in recording.requests if each.usage]
    assert known.sizes.beside[0] == pytest.approx(HEAD, abs=10)


def test_a_cleared_result_is_worth_its_own_size():
    known = of(session())
    run = play(known, lambda: AgenticConversationPruner(10**9), ObservationMasking(1), count=in_words)
    cleared = sum(entry.tokens - 3 for entry in known.transcript.entries[2 : known.requests[-1] - 2 : 2])
    saved = known.unpruned[-1] - run.prompts[-1].tokens
    assert saved == pytest.approx(1.5 * cleared, rel=0.06)  # less the placeholders


def test_thinking_that_the_agent_drops_by_itself_is_gone():
    kept, dropped = (of(session(drops_at=at)).sizes.messages for at in ([], [20]))
    assert sum(kept) - sum(dropped) == pytest.approx(20 * 300, rel=0.2)
    assert dropped[1] == pytest.approx(8, abs=3)


def test_growth_by_what_no_log_holds_does_not_disturb_the_fit():
    source = random.Random(3)
    grown = [
        Growth(at, round(1.6 * text + output + (30_000 if at % 9 == 0 else 0)), text, 20, output)
        for at in range(60)
        for text, output in [(source.randint(50, 4_000), source.randint(50, 900))]
    ]
    found = fit_ratios(grown, None)
    assert (found.text, found.output) == (pytest.approx(1.6, abs=0.03), pytest.approx(1.0, abs=0.06))


@each_row(
    ("model", "ratio"),
    [
        ("claude-opus-4-7", 1.6),
        ("claude-opus-5-5", 1.6),
        ("us.anthropic.claude-sonnet-5-20260901-v1:0", 1.6),
        ("claude-sonnet-4-5-20250929", 1.22),
        ("claude-opus-4-20250514", 1.22),
        ("claude-haiku-5-5", 1.6),
        ("gpt-5.5", 1.0),
        (None, 1.0),
    ],
)
def test_a_short_session_has_the_usual_ratio_of_its_tokenizer(model: str | None, ratio: float):
    assert usual_text_ratio(model) == ratio
    assert fit_ratios([Growth(1, 5_000, 500, 10, 30)], model).text == pytest.approx(ratio, rel=0.2)
