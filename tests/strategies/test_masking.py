"""`observation_masking` and the settings named for systems: which results stay, and when the others go."""

from typing import Any

import pytest
from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, SettingsError
from autoprune.strategies import ObservationMasking
from autoprune.strategies.catalog import available, config, description
from autoprune.strategies.clearing import like_claude_code, like_langchain, like_opencode, like_swe_agent

HUGE = 10**9
LINE = "it was a bright cold day in april and the clocks were striking thirteen\n"


def messages(count: int, lines: int = 30, tool: str = "read") -> list[Any]:
    return WIRE["openai_chat"]([[Step(tool, {"path": f"{at}.txt"}, LINE * lines)] for at in range(count)])


def left(given: list[Any], strategy: ObservationMasking, safe_zone: int = HUGE, **more: Any) -> list[int]:
    """The numbers of the results that are whole after a prune."""
    plan = AgenticConversationPruner(safe_zone).plan(given, strategy, **more)
    return [at for at, result in enumerate(plan.transcript.results) if result in plan.kept]


@each_row(
    "strategy, count, expected",
    [
        (ObservationMasking(3), 8, [5, 6, 7]),
        (ObservationMasking(3), 3, [0, 1, 2]),
        (ObservationMasking(0), 5, [4]),  # which the model has not seen
        (ObservationMasking(2, polling=3), 7, [3, 4, 5, 6]),
        (ObservationMasking(2, polling=3), 8, [6, 7]),
        (ObservationMasking(2, minimum=100_000), 8, list(range(8))),
        (like_swe_agent(), 9, [4, 5, 6, 7, 8]),
    ],
)
def test_the_newest_stay(strategy: ObservationMasking, count: int, expected: list[int]):
    assert left(messages(count), strategy) == expected


def test_like_langchain_waits_for_the_safe_zone_and_like_claude_code_for_a_cold_cache():
    given = messages(8)
    assert left(given, like_langchain()) == list(range(8))
    assert left(given, like_langchain(), 3_600) == [5, 6, 7]
    assert left(given, like_claude_code()) == list(range(8))
    assert left(given, like_claude_code(), pauses={len(given): 3_600.0}) == [3, 4, 5, 6, 7]


def test_like_opencode_keeps_the_newest_tokens_and_skills_and_waits_for_its_minimum():
    assert left(messages(8, lines=500), like_opencode()) == list(range(8))  # 60,000 tokens: 20,000 cannot be won
    found = left(messages(12, lines=500), like_opencode())
    assert found == list(range(found[0], 12))
    assert 5 <= len(found) <= 9
    assert left(messages(12, lines=500, tool="skill"), like_opencode()) == list(range(12))


@each_row(
    "strategy, said",
    [
        (ObservationMasking(keep=-1), "keep is -1: give a number, 0 or more"),
        (ObservationMasking(keep=1.5), "keep is 1.5: give a number"),  # type: ignore[arg-type]
        (ObservationMasking(polling=0), "polling is 0: give a number, 1 or more"),
        (ObservationMasking(after_pause="1h"), "after_pause is '1h': give seconds"),  # type: ignore[arg-type]
    ],
)
def test_invalid_parameters_are_errors(strategy: ObservationMasking, said: str):
    with pytest.raises(SettingsError, match=said):
        left(messages(4), strategy)


def test_presets_are_found_by_name_with_descriptions():
    known = available(("like_opencode", "like_claude_code", "like_langchain", "like_swe_agent"))
    assert {name: description(each).partition(":")[0] for name, each in known.items()} == {
        "like_opencode": "As opencode",
        "like_claude_code": "As Claude Code",
        "like_langchain": "As LangChain's ClearToolUsesEdit",
        "like_swe_agent": "As SWE-agent's LastNObservations",
    }
    assert config(known["like_claude_code"]) == {"keep": 5, "after_pause": 3_600}
    spared = {"tools": ("skill",), "last_tokens": 40_000}
    assert config(known["like_opencode"]) == {"keep": 0, "minimum": 20_000, "protect": spared}
