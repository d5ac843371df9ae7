"""Whether figures of tasks predict which of them a policy loses or wins in another agent: areas under the curve.

A task is *lost* if it was solved without the policy and not with it, and *won* if it was solved only with it. Lost
tasks are compared with the others that were solved without the policy, and won tasks with the others that were not,
each within one experiment. Intervals are bootstrapped over tasks, which are the same in all experiments.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from estimates import Case, Estimate, auc, estimate, quantile_strata

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
class Prediction:
    """How well a figure predicts changes: the AUC over all experiments, and those of single ones."""

    whole: Estimate
    single: Sequence[float]

    def __str__(self) -> str:
        """The AUC with its interval, and the range of single experiments."""
        singles = f"{min(self.single):.2f}–{max(self.single):.2f}" if self.single else ""
        return f"{self.whole!s} {singles:9}"


@dataclass(frozen=True)
class Comparison:
    """Tasks and their outcomes in several experiments, each with and without a policy.

    `parts` divides the tasks by size: only tasks of the same part are compared.
    """

    tasks: Sequence[Task]
    experiments: Sequence[Sequence[Change]]
    parts: Mapping[str, int]

    def cases(self, figure: str, *, solved_before: bool) -> list[list[Case]]:
        """The tasks of each experiment that were solved without the policy, or that were not."""
        known = {task.name: task.figures[figure] for task in self.tasks}
        return [
            [
                Case(known[each.task], each.after != each.before, each.task, (at, self.parts.get(each.task)))
                for each in changes
                if each.task in known and each.before == solved_before
            ]
            for at, changes in enumerate(self.experiments)
        ]

    def predict(self, figure: str, *, solved_before: bool) -> Prediction:
        """Compute the AUC of a figure for lost tasks (`solved_before`) or for won ones."""
        found = self.cases(figure, solved_before=solved_before)
        singles = [area for each in found if (area := auc(each)) is not None]
        return Prediction(estimate([case for each in found for case in each], auc), singles)

    def count(self, figure: str, *, solved_before: bool) -> int:
        """The number of lost tasks, or of won ones, over all experiments."""
        return sum(case.happened for each in self.cases(figure, solved_before=solved_before) for case in each)


def prediction(tasks: Sequence[Task], experiments: Sequence[Sequence[Change]], *, size: str) -> Iterator[str]:
    """Yield a row for each figure, for lost tasks and for won ones.

    The last rows compare only tasks of a similar size, which is the figure named `size`.
    """
    whole = Comparison(tasks, experiments, {})
    parts = quantile_strata({task.name: task.figures[size] for task in tasks}, PARTS)
    alike = Comparison(tasks, experiments, parts)
    yield f"{'':25}{'lost, interval':18}{'single':10}{'won, interval':18}single"
    for figure in tasks[0].figures:
        yield _row(figure, _both(whole, figure))
    yield f"among tasks with a similar number of {size} (quarters):"
    found = {figure: _both(alike, figure) for figure in tasks[0].figures if figure != size}
    yield from (_row(f"  {figure}", each) for figure, each in found.items())
    chance = [each.whole.is_chance for both in found.values() for each in both]
    yield f"Of these last {len(chance)} intervals {sum(chance)} cover chance."
    lost, won = (whole.count(size, solved_before=way) for way in (True, False))
    yield f"tasks: {len(tasks)}, experiments: {len(experiments)}, lost: {lost}, won: {won}"


def _both(comparison: Comparison, figure: str) -> list[Prediction]:
    return [comparison.predict(figure, solved_before=solved_before) for solved_before in (True, False)]


def _row(name: str, found: Sequence[Prediction]) -> str:
    return f"{name:25}{' '.join(map(str, found))}".rstrip()
