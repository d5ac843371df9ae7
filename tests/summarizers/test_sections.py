"""A running summary as sections: what is written is read back, and the head survives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from utterances import PHRASES, model, user, words

from autoprune.summarizers.brief import Brief, Failed, Written, with_usage
from autoprune.summarizers.sections import (
    EARLIER,
    GOAL,
    Section,
    cut,
    fit_head,
    parse_sections,
    resume,
    without_request,
    write_sections,
)

BODIES = st.lists(st.sampled_from(PHRASES), max_size=8).map("\n".join) | st.text(max_size=60)
TITLES = st.sampled_from(("Level 1", "Actions (3 lines)", "a", GOAL, "## b"))


def anything(section: Section) -> bool:
    return True


def test_sections_are_written_with_their_number_of_lines():
    text = write_sections([Section("One", "a\nb"), Section("Two", " \n"), Section("Three", "\n## One (1 line)\n")])
    assert text == "## One (2 lines)\na\nb\n\n## Three (1 line)\n## One (1 line)"


@given(st.lists(st.builds(Section, TITLES, BODIES), max_size=5))
def test_written_text_is_parsed_back(sections: list[Section]):
    stripped = [Section(section.title, section.body.strip()) for section in sections]
    assert parse_sections(write_sections(sections)) == tuple(section for section in stripped if section.body)


def test_the_first_request_begins_the_head():
    brief = Brief((model("Hello."), user(" "), user(" Fix it.\n\nNow. "), user("And this.")))
    assert resume(brief, anything) == ((Section(GOAL, "Fix it.\n\nNow."),), ())


def test_text_that_the_harness_put_around_the_users_words_is_not_part_of_the_request():
    added = "<environment_context>\n<cwd>/src</cwd>\n</environment_context>"
    brief = Brief((user(added), user(f"{added}\nFix it."), user("And this.")))
    head = (Section(GOAL, "Fix it."),)
    assert resume(brief, anything) == (head, ())
    assert without_request(brief, head) == brief.utterances[2:]


def test_the_head_of_the_previous_summary_stays():
    previous = write_sections([Section(GOAL, "Fix it."), Section("Level 1", "b")])
    head = (Section(GOAL, "Fix it."),)
    assert resume(Brief((user("More."),), previous), anything) == (head, (Section("Level 1", "b"),))


def test_a_previous_summary_without_the_user_gets_the_first_request_that_comes():
    previous = write_sections([Section("Level 1", "b")])
    head = (Section(GOAL, "More."),)
    assert resume(Brief((user("More."),), previous), anything) == (head, (Section("Level 1", "b"),))


def test_another_summarizers_text_stays_unchanged():
    head = (Section(EARLIER, "They fixed it."),)
    assert resume(Brief((user("More."),), "They fixed it.\n"), anything) == (head, ())
    assert resume(Brief((user("More."),), write_sections(head)), anything) == (head, ())


def test_the_goal_in_another_summarizers_sections_stays_the_goal():
    previous = write_sections([Section(GOAL, "Fix it."), Section("Level 1", "b")])
    head = (Section(GOAL, "Fix it."), Section(EARLIER, "## Level 1 (1 line)\nb"))
    assert resume(Brief((), previous), lambda section: False) == (head, ())
    assert resume(Brief((), write_sections(head)), lambda section: False) == (head, ())


def test_a_long_first_request_has_half_of_the_room():
    brief = Brief((), max_tokens=60, count=words)
    (goal,) = fit_head((Section(GOAL, "word " * 40),), brief)
    assert words(goal.body) <= 30
    assert goal.body.startswith("word word")
    assert "left out" in goal.body


@pytest.mark.parametrize(
    ("text", "limit", "becomes"), [("a b c", 3, "a b c"), ("a b c", 0, ""), ("a b c", -1, ""), ("", 3, "")]
)
def test_a_text_is_cut_only_if_it_is_too_long(text: str, limit: int, becomes: str):
    assert cut(text, limit, words) == becomes


@pytest.mark.parametrize(
    ("answers", "whole"),
    [
        ((), Written("text")),
        ((Failed("no"), Written("a", 5, 2, 0.25, "m"), Written("b", 1, 1, 0.5, "m")), Written("text", 6, 3, 0.75, "m")),
        ((Written("a", 5, 2, 0.25, "m"), Written("b")), Written("text", 5, 2, None, "m")),
    ],
)
def test_usage_adds_up(answers: tuple[Written | Failed, ...], whole: Written):
    assert with_usage("text", answers) == whole
