"""A summary in levels: sections that are made one when there are too many, below a goal that is never summarized."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row
from utterances import PHRASES, model, user, utterances, words

from autoprune.facts.utterances import Utterance
from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Written
from autoprune.summarizers.levels import Levels
from autoprune.summarizers.sections import Section, parse_sections, write_sections
from autoprune.tokens import exact

GOAL = Section("The user's first request", "Fix it.")


def joined(brief: Brief) -> str:
    """The words of a brief, in brackets: it shows what was made one."""
    return f"({'+'.join(one.words for one in brief.utterances)})"


def text_of(answer: Answer) -> str:
    return answer.text if isinstance(answer, Written) else ""


def after(levels: Levels, number: int, max_tokens: int = 2_000, size: int = 1) -> list[tuple[str, str]]:
    """The sections after some summaries, each about one message."""
    text = ""
    for at in range(1, number + 1):
        said = (model(f"m{at} " * (size - 1) + f"m{at}"),)
        text = text_of(levels(Brief((user("Fix it."), *said) if at == 1 else said, text, max_tokens, words)))
    return [(section.title, section.body) for section in parse_sections(text) or ()]


HEAD = (GOAL.title, GOAL.body)


@each_row(
    ("number", "sections"),
    [
        (1, [("Level 1", "(m1)")]),
        (2, [("Level 1", "(m1)"), ("Level 1", "(m2)")]),
        (3, [("Level 2", "((m1)+(m2)+(m3))")]),
        (4, [("Level 2", "((m1)+(m2)+(m3))"), ("Level 1", "(m4)")]),
        (6, [("Level 2", "((m1)+(m2)+(m3))"), ("Level 2", "((m4)+(m5)+(m6))")]),
        (9, [("Level 3", "(((m1)+(m2)+(m3))+((m4)+(m5)+(m6))+((m7)+(m8)+(m9)))")]),
    ],
)
def test_a_full_level_becomes_one_section_of_the_next(number: int, sections: list[tuple[str, str]]):
    assert after(Levels(joined, fanout=3), number) == [HEAD, *sections]


def test_the_last_level_is_not_summarized_again():
    levels = [title for title, _ in after(Levels(joined, fanout=2, depth=2), 9)]
    assert levels == [HEAD[0], *["Level 2"] * 4, "Level 1"]


def shortening(brief: Brief) -> str:
    """The first words of a brief, as many as it may have."""
    return " ".join(" ".join(one.words for one in brief.utterances).split()[: brief.max_tokens])


def test_without_room_sections_are_merged_before_a_level_is_full():
    sections = after(Levels(shortening, fanout=9, depth=2), 4, max_tokens=80, size=40)
    assert sections == [HEAD, ("Level 2", " ".join(["m1"] * 16)), ("Level 1", " ".join(["m4"] * 25))]


def test_without_room_for_the_last_level_its_oldest_section_is_shortened_and_then_goes():
    sections = after(Levels(shortening, fanout=2, depth=1), 3, max_tokens=100, size=60)
    assert [title for title, _ in sections] == [HEAD[0], "Level 1", "Level 1"]
    assert sections[1][1].startswith("m2 m2")
    assert "left out" in sections[1][1]
    assert sections[2][1] == " ".join(["m3"] * 45)


def test_a_section_that_would_become_tiny_is_dropped():
    previous = write_sections([GOAL, Section("Level 1", "one " * 20), Section("Level 1", "two " * 20)])
    sections = parse_sections(text_of(Levels(joined, fanout=9, depth=1)(Brief((), previous, 45, words))))
    assert sections == (GOAL, Section("Level 1", ("two " * 20).strip()))


def test_a_section_has_half_of_the_room_that_is_left():
    levels, said = Levels(shortening), (user("Fix it."), model("word " * 500))
    room = 1_000 - words(write_sections([GOAL]))
    steps = levels.steps(Brief(said, "", 1_000, words, "And now?"))
    assert list(next(steps)) == [Ask(shortening, Brief(said[1:], "", room // 2, words, "And now?"))]


def test_a_failure_on_new_messages_fails_the_whole():
    def inner(brief: Brief) -> str:
        raise RuntimeError("no connection")

    assert Levels(inner)(Brief((model("one"),), "", 100, words)) == Failed("RuntimeError: no connection")


def test_if_merging_fails_the_sections_stay():
    def inner(brief: Brief) -> str | None:
        return joined(brief) if len(brief.utterances) == 1 else None

    sections = after(Levels(inner, fanout=2), 4)
    assert sections == [HEAD, *(("Level 1", f"(m{at})") for at in (1, 2, 3, 4))]


def test_a_summary_of_more_levels_is_continued_with_fewer():
    previous = write_sections([GOAL, Section("Level 3", "a"), Section("Level 2", "b")])
    answer = Levels(joined, fanout=3, depth=2)(Brief((model("c"),), previous, 100, words))
    levels = [Section("Level 2", "a"), Section("Level 2", "b"), Section("Level 1", "(c)")]
    assert answer == Written(write_sections([GOAL, *levels]))


def free(brief: Brief) -> str:
    return ""


def test_it_calls_a_model_if_the_inner_one_does_and_its_identity_has_its_settings():
    class Modest:
        calls_model = False
        identity = "modest"

        def __call__(self, brief: Brief) -> str:
            return "short"

    assert (Levels(free).calls_model, Levels(Modest()).calls_model) == (True, False)
    assert Levels(free).identity == f"Levels({__name__}.free, fanout=4, depth=3)"
    assert Levels(Modest(), 2, 5).identity == "Levels(modest, fanout=2, depth=5)"


@examples(100)
@given(
    utterances(), utterances(), st.integers(-1, 4), st.integers(-1, 4), st.integers(0, 400), st.sampled_from(PHRASES)
)
def test_levels_fit_for_any_inner_summarizer(first: Any, second: Any, fanout: int, depth: int, room: int, say: str):
    levels = Levels(lambda brief: f"{say} " * (len(brief.utterances) % 4), fanout, depth)
    text = text_of(levels(Brief(first, "", room)))
    again = Brief(second, text, room)
    assert len(text) <= room
    assert len(text_of(levels(again))) <= room
    assert levels(again) == levels(again)


@examples(10)
@given(st.lists(utterances(), min_size=20, max_size=20), st.sampled_from(PHRASES), st.integers(1, 90))
def test_the_goal_survives_twenty_summaries(parts: list[tuple[Utterance, ...]], say: str, times: int):
    count, goal = exact(), user("Fix ## the test (2 lines)\n\n## Level 1 (1 line) \ud800")
    levels = Levels(lambda brief: f"## Level 1 (1 line)\n{say} " * times, fanout=2)
    text = ""
    for number, part in enumerate(parts):
        brief = Brief((goal, *part) if number == 0 else part, text, 300, count)
        text = text_of(levels(brief))
        assert 0 < count(text) <= 300
    head, *rest = parse_sections(text) or ()
    assert head == Section("The user's first request", goal.words)
    assert all(section.title.startswith("Level ") for section in rest)
