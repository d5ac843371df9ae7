"""`observation_masking`: which results stay, and when the others go."""

from typing import Any

import pytest
from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, SettingsError
from autoprune.strategies import ObservationMasking

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
    ],
)
def test_the_newest_stay(strategy: ObservationMasking, count: int, expected: list[int]):
    assert left(messages(count), strategy) == expected


@each_row(
    "strategy, said",
    [
        (ObservationMasking(keep=-1), "keep is -1: give a number, 0 or more"),
        (ObservationMasking(keep=1.5), "keep is 1.5: give a number"),  # type: ignore[arg-type]
        (ObservationMasking(polling=0), "polling is 0: give a number, 1 or more"),
    ],
)
def test_invalid_parameters_are_errors(strategy: ObservationMasking, said: str):
    with pytest.raises(SettingsError, match=said):
        left(messages(4), strategy)
