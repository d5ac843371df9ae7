"""Whether figures of tasks predict which of them a policy loses or wins in another agent: areas under the curve.

A task is *lost* if it was solved without the policy and not with it, and *won* if it was solved only with it. Lost
tasks are compared with the others that were solved without the policy, and won tasks with the others that were not,
each within one experiment. The area under the curve (AUC) is the share of such pairs of tasks in which the one that
changed has the larger figure: 0.5 is chance. Intervals are bootstrapped over tasks.
"""

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

DRAWS = 1_000
SEED = 11
PARTS = 4  # of the tasks by size


@dataclass(frozen=True)
class Task:
    """The figures of a task, by name."""

    name: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """Whether a task was solved without a policy and with it."""

    task: str
    before: bool
    after: bool


@dataclass(frozen=True)
class Ranked:
    """The figures of the tasks that changed in an experiment, and of those that they are compared with."""

    changed: Sequence[tuple[str, float]]
    others: Sequence[tuple[str, float]]

    def wins(self, weights: Mapping[str, int]) -> tuple[float, float]:
        """Count the pairs in which the changed task has the larger figure (a tie is half a pair), and all pairs.

        `weights` say how often each task was drawn.
        """
        known = sorted((figure, weights[task]) for task, figure in self.others if weights[task])
        figures, sums = [figure for figure, _ in known], [0]
        for _, weight in known:
            sums.append(sums[-1] + weight)
        won = total = 0.0
        for task, figure in self.changed:
            weight = weights[task]
            won += weight * (sums[bisect_left(figures, figure)] + sums[bisect_right(figures, figure)]) / 2
            total += weight * sums[-1]
        return won, total


def rank(figure: str, tasks: Sequence[Task], changes: Sequence[Change], *, solved_before: bool) -> Ranked:
    """Compare the tasks of an experiment whose outcome changed with those whose outcome did not."""
    known = {task.name: task.figures[figure] for task in tasks}
    chosen = [each for each in changes if each.before == solved_before and each.task in known]
    changed, others = (
        [(each.task, known[each.task]) for each in chosen if (each.before != each.after) == is_changed]
        for is_changed in (True, False)
    )
    return Ranked(changed, others)


def area(experiments: Sequence[Ranked], weights: Mapping[str, int]) -> float:
    """The area under the curve over all pairs of tasks within an experiment; 0.5 if there are none."""
    won, total = map(sum, zip(*(each.wins(weights) for each in experiments), strict=True))
    return won / total if total else 0.5


def interval_of_area(experiments: Sequence[Ranked], names: Sequence[str]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the area over tasks, which are the same in all experiments."""
    draw = random.Random(SEED)
    areas = sorted(area(experiments, Counter(draw.choices(names, k=len(names)))) for _ in range(DRAWS))
    return areas[round(0.025 * DRAWS)], areas[round(0.975 * DRAWS) - 1]


def similar(tasks: Sequence[Task], changes: Sequence[Change], size: str) -> Iterator[Sequence[Change]]:
    """Split an experiment into four, so that the tasks of each part are of similar size."""
    by_size = sorted(tasks, key=lambda task: task.figures[size])
    for part in range(PARTS):
        names = {task.name for task in by_size[len(tasks) * part // PARTS : len(tasks) * (part + 1) // PARTS]}
        yield [each for each in changes if each.task in names]


@dataclass(frozen=True)
class Prediction:
    """How well a figure predicts changes: the area over all experiments, its interval, and those of single ones."""

    whole: float
    low: float
    high: float
    single: Sequence[float]

    @property
    def is_chance(self) -> bool:
        """Whether the interval covers 0.5."""
        return self.low <= 0.5 <= self.high

    def __str__(self) -> str:
        """The area with its interval, and the range of single experiments."""
        return f"{self.whole:.2f} ({self.low:.2f}–{self.high:.2f}) {min(self.single):.2f}–{max(self.single):.2f}"


def predict(tasks: Sequence[Task], experiments: Sequence[Sequence[Ranked]]) -> Prediction:
    """Compute the areas of a figure over experiments, each in parts within which tasks are compared."""
    names = [task.name for task in tasks]
    together = [each for parts in experiments for each in parts]
    once = Counter(names)
    single = [area(parts, once) for parts in experiments]
    return Prediction(area(together, once), *interval_of_area(together, names), single)


def prediction(tasks: Sequence[Task], experiments: Sequence[Sequence[Change]], *, size: str) -> Iterator[str]:
    """Yield a row for each figure, for lost tasks and for won ones.

    The last rows compare only tasks of a similar size, which is the figure named `size`.
    """
    whole = [[each] for each in experiments]
    parts = [list(similar(tasks, each, size)) for each in experiments]
    yield "                         lost, interval   single      won, interval    single"
    for figure in tasks[0].figures:
        yield f"{figure:25}{'  '.join(map(str, _both(figure, tasks, whole)))}"
    yield f"among tasks with a similar number of {size} (quarters):"
    found = {figure: _both(figure, tasks, parts) for figure in tasks[0].figures if figure != size}
    yield from (f"  {figure:23}{'  '.join(map(str, each))}" for figure, each in found.items())
    chance = [each.is_chance for both in found.values() for each in both]
    yield f"Of these last {len(chance)} intervals {sum(chance)} cover chance."
    lost, won = (sum(len(each.changed) for (each,) in _ranked(size, tasks, whole, way)) for way in (True, False))
    yield f"tasks: {len(tasks)}, experiments: {len(experiments)}, lost: {lost}, won: {won}"


def _both(figure: str, tasks: Sequence[Task], experiments: Sequence[Sequence[Sequence[Change]]]) -> list[Prediction]:
    return [predict(tasks, _ranked(figure, tasks, experiments, solved_before)) for solved_before in (True, False)]


def _ranked(
    figure: str, tasks: Sequence[Task], experiments: Sequence[Sequence[Sequence[Change]]], solved_before: bool
) -> list[list[Ranked]]:
    return [[rank(figure, tasks, part, solved_before=solved_before) for part in parts] for parts in experiments]
