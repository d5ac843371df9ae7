"""`cache_aware` leaves results in view until the agent has had time to use them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, sample_cases
from reading_tasks import KINDS, Reader, document
from rounds import WIRE, Round, Step

from autoprune import AgenticConversationPruner
from autoprune.strategies import CacheAware

ZONE = 600_000  # tokens, as `autoprune run` takes it for a window of a million
NO_FLOOR = CacheAware(start_at=0)
EAGER = CacheAware(threshold=1_000, patience=0.1, start_at=0)  # clears whatever it may
LOG = "10:07 INFO worker 3 took a job in 120 ms\n"
SMALL = Step("list", {"path": "docs"}, "a.md")
EDIT = Step("edit", {"path": "src/app.py", "old": "a", "new": "b"}, "ok")


def reader(
    kind: str, count: int, strategy: Any, format: str = "anthropic", characters: int = 6_000, *, fed_back: bool = False
) -> Reader:
    pruner = AgenticConversationPruner(ZONE)
    documents = [document(kind, number, characters) for number in range(count)]
    return Reader(lambda given: pruner.prune(given, strategy).conversation, WIRE[format], documents, fed_back=fed_back)


@pytest.mark.parametrize("strategy", ["cache_aware", NO_FLOOR], ids=["default", "no floor"])
@pytest.mark.parametrize("kind", sample_cases(KINDS, 5))
def test_documents_needed_together_are_in_view_together(kind: str, strategy: Any):
    """Each is read once: two, three or five that are compared, and twenty for one report."""
    assert [reader(kind, count, strategy).compare() for count in (2, 3, 5, 20)] == [3, 4, 6, 21]


@pytest.mark.parametrize(("count", "characters"), [(25, 800), (6, 25_000)], ids=["short", "long"])
@pytest.mark.parametrize("kind", sample_cases(KINDS, 5))
def test_no_document_is_cleared_before_the_report_is_written(kind: str, count: int, characters: int):
    assert reader(kind, count, EAGER, characters=characters).compare() == count + 1


@pytest.mark.parametrize("fed_back", [False, True], ids=["full history", "fed back"])
@pytest.mark.parametrize("format", WIRE)
def test_documents_stay_in_view_in_every_format(format: str, fed_back: bool):
    assert reader("csv", 5, NO_FLOOR, format, fed_back=fed_back).compare() == 6


def kept(rounds: list[Round], strategy: CacheAware = EAGER, zone: int = ZONE, **more: Any) -> list[str]:
    """The paths of the results in view at the next request."""
    plan = AgenticConversationPruner(zone).plan(WIRE["openai_chat"](rounds), strategy, **more)
    calls = [result.call for result in plan.kept]
    return [call.arguments.split('"')[3] for call in calls if call and isinstance(call.arguments, str)]


def read(*names: str, text: str = LOG * 100) -> list[Round]:
    return [[Step("read", {"path": name}, text)] for name in names]


def test_a_result_goes_some_requests_after_the_agent_has_written():
    reading = read("a.log", "b.log", *[f"{at}.log" for at in range(20)])
    assert kept(reading)[:2] == ["a.log", "b.log"]
    assert kept([*reading, [EDIT], *[[SMALL]] * 3])[:2] == ["a.log", "b.log"]
    assert kept([*reading, [EDIT], *[[SMALL]] * 8])[0] == "src/app.py"


@pytest.mark.parametrize(
    "writing",
    [
        [EDIT],
        [Step("bash", {"command": "cat > report.md <<'EOF'\nAll is well.\nEOF"}, "")],
        [Step("send_report", {"body": "All is well. " * 100}, "sent")],
        "Thank you. Now look at something else.",
    ],
    ids=["an edit", "a shell command that writes", "a long text in a call", "an answer to the user"],
)
def test_kinds_of_writing(writing: Round):
    assert kept([*read("a.log"), writing, *[[SMALL]] * 8])[0] != "a.log"


def test_a_pause_clears_nothing_that_the_agent_has_not_used():
    given = [*read("a.log", "b.log"), [SMALL]]
    at = len(WIRE["openai_chat"](given))
    assert kept(given, pauses={at: 4_000.0}) == ["a.log", "b.log", "docs"]


def test_a_result_fetched_again_is_not_cleared_twice():
    before = [*read("a.log"), [EDIT], *[[SMALL]] * 8]
    again = [*before, *read("a.log"), [EDIT], *[[SMALL]] * 30]
    assert "a.log" not in kept(before)
    assert kept(again)[0] == "src/app.py"
    assert "a.log" in kept(again)


def test_a_plan_says_that_a_result_is_not_used_yet_or_was_fetched_again():
    fetched = [*read("a.log"), [EDIT], *[[SMALL]] * 8, *read("a.log"), [EDIT], *[[SMALL]] * 30, *read("b.log"), [SMALL]]
    plan = AgenticConversationPruner(ZONE).plan(WIRE["openai_chat"](fetched), EAGER)
    reasons = {result.call.arguments: why for result, why in plan.kept.items() if result.call and result.tool == "read"}
    assert reasons == {'{"path": "a.log"}': "fetched again", '{"path": "b.log"}': "not used yet"}


def test_another_range_of_a_file_is_another_fetch():
    def part(start: int) -> list[Round]:
        return [[Step("read", {"path": "a.log", "start": str(start)}, LOG * 100)]]

    given = [*part(1), [EDIT], *[[SMALL]] * 8, *part(200), [EDIT], *[[SMALL]] * 30]
    assert "a.log" not in kept(given)


def test_nothing_goes_from_a_small_prompt():
    given = [*read("a.log", text=LOG * 400), [EDIT], *[[SMALL]] * 8]  # some 6,000 tokens
    assert kept(given, replace(EAGER, start_at=8_000))[0] == "a.log"
    assert kept(given, replace(EAGER, start_at=4_000))[0] != "a.log"


# Above the safe zone


FAILURE = Step("bash", {"command": "pytest -x"}, "E   KeyError: 'name'\n" * 40 + "=== 1 failed in 0.12s ===\n")
OLD_LOGS = read(*[f"{at}.log" for at in range(12)], text=LOG * 60)


def working(*rounds: Round) -> list[Round]:
    """An agent that reads logs, then edits a file whose test fails."""
    source = [Step("read", {"path": "src/app.py"}, "def load(rows):\n    return rows[0]\n" * 60)]
    return [*OLD_LOGS, source, [EDIT], [FAILURE], *rounds]


def test_above_the_safe_zone_results_in_use_go_last():
    given = working(*[[SMALL]] * 20)
    in_view = kept(given, CacheAware(), zone=5_000)
    assert "0.log" not in in_view
    assert {"src/app.py", "pytest -x"} <= set(in_view)


def test_results_in_use_go_only_if_the_prompt_then_fits():
    given = working(*[[SMALL]] * 20)
    least = AgenticConversationPruner(1).prune(WIRE["openai_chat"](given), "tool_output_cleanup").report.tokens_after
    zones = range(least, least + 1_000, 100)
    assert [zone for zone in zones if "pytest -x" not in kept(given, CacheAware(), zone=zone)]
    too_much = ["Read this first. " * 600, *given]
    assert "pytest -x" in kept(too_much, CacheAware(), zone=least)
    assert "0.log" not in kept(too_much, CacheAware(), zone=least)


def test_small_results_never_go_for_the_safe_zone():
    small = [[Step("edit", {"path": f"{at}.py"}, "The file was updated. " * 6)] for at in range(100)]
    in_view = kept([*OLD_LOGS, *small, [SMALL]], CacheAware(), zone=5_000)
    assert [name for name in in_view if name.endswith(".py")] == [f"{at}.py" for at in range(100)]


def test_above_the_safe_zone_older_results_go_before_the_newest_ones():
    """A result is large and holds no name, so it is worth least, but the agent has just read it."""
    code = "".join(f"def read_part_{at}(self): return self.partNumber{at}\n" for at in range(30))
    old = [[Step("read", {"path": f"{at}.py"}, f"# {at}\n{code}")] for at in range(10)]
    in_view = kept([*old, *read("new.log", text=LOG * 200), [SMALL]], CacheAware(), zone=7_000)
    assert "new.log" in in_view
    assert "0.py" not in in_view


# In any order


@st.composite
def rounds(draw: st.DrawFn) -> list[Round]:
    """Reads of a few files in any order, with writing and words between them."""
    made: list[Round] = []
    for _ in range(draw(st.integers(3, 25))):
        does = draw(st.sampled_from(("read", "read", "read", "small", "edit", "say")))
        name = draw(st.sampled_from("abc"))
        made += {
            "read": read(f"{name}.log", text=f"{name}\n{LOG * draw(st.sampled_from((20, 100)))}"),
            "small": [[SMALL]],
            "edit": [[EDIT]],
            "say": ["Go on."],
        }[does]
    return made


@examples(150)
@given(rounds(), st.integers(1, 6), st.booleans())
def test_below_the_safe_zone_no_result_goes_before_it_could_be_used_and_no_fetch_goes_twice(
    made: list[Round], stay: int, is_paused: bool
):
    messages = WIRE["openai_chat"](made)
    pauses = dict.fromkeys(range(1, len(messages) + 1), 400.0) if is_paused else {}
    strategy = CacheAware(threshold=1_000, patience=0.1, stay=stay, start_at=0)
    plan = AgenticConversationPruner(ZONE).plan(messages, strategy, pauses=pauses)
    cleared_at: dict[str, int] = {}
    for edit in sorted(plan.edits, key=lambda each: (each.request, each.part.location.path)):
        result: Any = edit.part
        assert edit.request >= result.sent + stay
        assert result.request < cleared_at.setdefault(result.call.arguments, edit.request)
