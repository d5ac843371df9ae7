"""A strategy at each request of an episode: what stays in view, what would be fetched again, both calling styles."""

from episodes import USER, Sends, call, episode, in_words, reading, result
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.choices import NoPruning
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import Run, play
from autoprune.planning.view import Strategy
from autoprune.strategies import ObservationMasking
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

SOURCE = "def first_of(rows):\n    return rows[0]\n"
OTHER = "other words " * 40
LONG = SOURCE + OTHER

CLEARING = (
    *(ObservationMasking(2), ObservationMasking(1, 4), ObservationMasking(2, every_request=False)),
    *(ToolOutputCleanup(), LowWater()),
)


def run(known: Episode, strategy: Strategy, limit: int = 10**9, *, fed_back: bool = False) -> Run:
    return play(known, lambda: AgenticConversationPruner(limit), strategy, count=in_words, fed_back=fed_back)


def sent(messages: list[dict[str, object]], prompts: list[list[dict[str, object]]], **last: object) -> Run:
    """A run in which these prompts are sent, one at each request."""
    known = episode(messages)
    return play(known, lambda: Sends(lambda given, number: prompts[number - 1]), NoPruning(), count=in_words)


# Retention


@each_row(
    ("texts", "keep", "retained"),
    [
        ((LONG, OTHER, OTHER), 2, False),
        ((LONG, OTHER, OTHER), 3, True),
        ((OTHER, LONG, OTHER), 2, True),
        ((LONG, LONG, OTHER), 2, True),
        ((LONG, OTHER, LONG), 1, True),
    ],
)
def test_any_source_that_survives_retains_an_atom(texts: tuple[str, ...], keep: int, retained: bool):
    found = run(episode(reading(*texts, old_string=SOURCE)), ObservationMasking(keep))
    assert (found.retained, found.in_results) == ((retained,), (retained,))


def test_a_fact_that_is_out_of_view_is_fetched_again_and_a_quote_is_not():
    texts = (f"the sum was 12,345 {OTHER}", f"all orders are shipped {OTHER}", OTHER)
    for words, rereads in (("It was 12345.", ((3, 0),)), ("It says “all orders are shipped”.", ())):
        found = run(episode([*reading(*texts)[:-1], {"role": "assistant", "content": words}]), ObservationMasking(1))
        assert (found.retained, found.rereads) == ((False,), rereads)


def test_a_whole_result_beside_a_cleared_one_is_a_source():
    """All results of a request in one message, as Anthropic takes them."""
    calls = [{"type": "tool_use", "id": id, "name": "read", "input": {}} for id in ("a", "b")]
    results = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in (("a", OTHER), ("b", LONG))]
    edit = {"type": "tool_use", "id": "e", "name": "edit", "input": {"old_string": SOURCE}}
    messages = [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
        {"role": "assistant", "content": [{**calls[0], "id": "c"}]},
        {"role": "user", "content": [{**results[0], "tool_use_id": "c"}]},
        {"role": "assistant", "content": [edit]},
    ]
    found = run(episode(messages), ObservationMasking(2))
    assert (found.retained, found.in_results) == ((True,), (True,))


def test_a_new_message_retains_the_atoms_that_it_shows():
    messages = reading(LONG, OTHER, old_string=SOURCE.strip())
    told = {"role": "user", "content": f"Before: {SOURCE}"}
    found = sent(messages, [messages[:1], messages[:3], [told, *messages[3:5]]])
    assert (found.retained, found.in_results) == ((True,), (False,))


# What would be fetched again


def test_a_result_is_fetched_again_after_ten_requests():
    needs = [call(f"s{at}", {"old_string": f"line {at} of the source"}) for at in range(14)]
    source = "\n".join(f"line {at} of the source" for at in range(14)) + "\n" + OTHER
    messages = [USER, call("r", {}), result("r", source), call("n", {}), result("n", "x")]
    for at, need in enumerate(needs):
        messages += [need, result(f"s{at}", "x")]
    found = run(episode(messages), ObservationMasking(0))
    assert found.rereads == ((2, 0), (13, 0))
    assert found.retained == (False,) * 14


# Pauses


def test_the_strategy_gets_the_recorded_pauses():
    told: list[tuple[int, float]] = []

    class Asks:
        name = "asks"
        every_request = True

        def step(self, view: object) -> list[object]:
            told.append((view.request, view.pause))  # type: ignore[attr-defined]
            return []

    run(episode(reading(OTHER, OTHER, OTHER), pauses={3: 10.0, 5: 400.0}), Asks())
    assert told == [(0, 0.0), (1, 10.0), (2, 400.0), (3, 0.0)]


# Both calling styles


def prompts(found: Run) -> list[tuple[int, int]]:
    return [(prompt.tokens, prompt.held) for prompt in found.prompts]


SIZES = st.lists(st.sampled_from((1, 30, 60, 200, 800)), min_size=4, max_size=16)


@given(
    SIZES,
    st.sampled_from(CLEARING),
    st.integers(100, 2_000),
)
@examples(60)
def test_both_calling_styles_give_the_same_prompts_and_break_no_promise(
    sizes: list[int], strategy: Strategy, limit: int
):
    known = episode(reading(*[f"{at} " * size for at, size in enumerate(sizes)], old_string=f"{'0 ' * 9}"))
    full, fed = (run(known, strategy, limit, fed_back=style) for style in (False, True))
    assert prompts(full) == prompts(fed)
    assert (full.retained, full.in_results, full.rereads) == (fed.retained, fed.in_results, fed.rereads)
    assert (full.violations, fed.violations) == ((), ())


def test_without_pruning_everything_is_in_view():
    known = episode(reading(LONG, OTHER, old_string=SOURCE))
    found = run(known, NoPruning())
    assert (found.retained, found.in_results, found.rereads, found.violations) == ((True,), (True,), (), ())
    assert [held for _, held in prompts(found)] == [0, *(tokens for tokens, _ in prompts(found)[:-1])]
