"""Blocks in a message of the wrong role: each goes into a message of its own role, in the same order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from autoprune.repairs.drafts import Draft, Shape, new
from autoprune.repairs.log import Log
from autoprune.rewriting import with_item
from autoprune.rules.problem import Problem

MISPLACED = ("misplaced_call", "misplaced_result", "misplaced_thinking")


def separated(drafts: Sequence[Draft], shape: Shape, log: Log) -> list[Draft]:
    """The drafts, with those that hold misplaced blocks in several parts.

    Thinking goes with the calls that it stands before; it is removed where it stands before none.
    """
    kept: list[Draft] = []
    for one in drafts:
        problems = {int(problem.path[2]): problem for problem in log.at(one.at, *MISPLACED)}
        roles = _roles(one, problems, shape)
        kept += _parts(one, roles, shape) if problems else [one]
        for at, problem in problems.items():
            log.add(problem, _done(roles[at], shape))
    return kept


def _done(role: str | None, shape: Shape) -> str:
    if role is None:
        return "removed the thinking, which only the model's messages may hold"
    return f"put it in a message of the {'model' if role == shape.MODEL else 'user'}'s"


def _roles(one: Draft, problems: Mapping[int, Problem], shape: Shape) -> dict[int, str | None]:
    """The role that each misplaced block belongs to; None for what belongs to none."""
    roles: dict[int, str | None] = {}
    is_before_call = False
    for at, _ in reversed(one.blocks):
        rule = problems[at].rule if at in problems else ""
        is_before_call = rule == "misplaced_call" or (is_before_call and rule == "misplaced_thinking")
        if rule:
            is_models = rule == "misplaced_call" or is_before_call
            roles[at] = "user" if rule == "misplaced_result" else shape.MODEL if is_models else None
    return roles


def _parts(one: Draft, roles: Mapping[int, str | None], shape: Shape) -> list[Draft]:
    """The runs of blocks that share a role. The first of the message's own role stays the message."""
    staying = [(at, block) for at, block in one.blocks if roles.get(at, "") is not None]
    runs = [(role, list(run)) for role, run in groupby(staying, key=lambda each: roles.get(each[0]) or one.role)]
    own = next((at for at, (role, _) in enumerate(runs) if role == one.role), None)
    if own is None and runs:
        role = runs[0][0]
        one = replace(one, message=with_item(one.message, "role", role), role=role)
        own = 0
    if own is None:
        return [one.holding([])]
    return [
        one.holding(run) if at == own else new(role or "user", [block for _, block in run], one.message, shape)
        for at, (role, run) in enumerate(runs)
    ]
