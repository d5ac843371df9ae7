"""The published results of "The Complexity Trap" (arXiv 2508.21433), from a local clone of its repository.

`FIFTY` are the experiments of OpenHands on 50 tasks of SWE-bench Verified by window, and `None` for the one without
masking; `PAIRS` are those on about 500 tasks, without masking and with the newest 10 results.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sessions import Source
from task_outcomes import Change

WINDOWS = (10, 20, 29, 43, 50, 54, 58, 72, 86)
COSTS = Source(
    corpus="the-complexity-trap",
    repository="Recursive-Safeguarding/the-complexity-trap",
    branch="main",
    commit="1b07decf4ca4b5d722d25a57810fe18a2d8b60fb",
    license="MIT",
    path="auxiliary-data/{key}.csv",
    name="{key}.csv",
    sessions={"experiment_instance_costs_combined": "30309c73d126f792077c6114ba2aa9195fc00e042d0ecd32439cacbe3f35ec94"},
)
TABLE = "experiment_instance_costs_combined"
HANDS = "gemini-2.5-flash_maxiter_250_N_v0.43.0-no-hint-"
LATER = "observation_masking_for_eval-run_1"
FIFTY: Mapping[int | None, str] = {
    **{keep: f"{HANDS}observation_masking-M_{keep}-verified_50-{LATER}" for keep in WINDOWS},
    None: f"{HANDS}raw_agent-verified_50-run_1",
}
PAIRS: Mapping[str, tuple[str, str]] = {
    "SWE-agent, Gemini 2.5 Flash": (
        "gemini_2.5_flash-agent-t_0.8-baseline_raw.0-verified-500",
        "gemini_2.5_flash-agent-t_0.8-baseline_N_1_M_10.0-verified-500",
    ),
    "SWE-agent, Gemini, thinking": (
        "gemini_2.5_flash_thinking-agent-t_0.8-baseline_raw.0-verified-500",
        "gemini_2.5_flash_thinking-agent-t_0.8-baseline_N_1_M_10.0-verified-500",
    ),
    "SWE-agent, Qwen3-Coder 480B": (
        "local-Qwen3-Coder_480B_A35B_Instruct_FP8-baseline_raw.0-verified-500",
        "local-Qwen3-Coder_480B_A35B_Instruct_FP8-baseline_N_1_M_10.0-verified-500",
    ),
    "SWE-agent, Qwen3-32B": (
        "local-qwen3-32b-baseline_raw.0-verified-500",
        "local-qwen3-32b-baseline_N_1_M_10.0-verified-500",
    ),
    "SWE-agent, 32B, thinking": (
        "local-Qwen3-32B_thinking-baseline_raw-collect_reasoning.0-verified-500",
        "local-Qwen3-32B_thinking-baseline_N_1_M_10-collect_reasoning.0-verified-500",
    ),
    "OpenHands, Gemini 2.5 Flash": (f"{HANDS}raw_agent-run_1", f"{HANDS}observation_masking-{LATER}"),
}


@dataclass(frozen=True)
class Attempt:
    """A task in a published experiment. `tokens` are those of all its prompts, as turns times their mean."""

    task: str
    is_solved: bool
    cost: float
    turns: int
    tokens: float


def read_costs(table: str) -> dict[str, list[Attempt]]:
    """Read the published table: the tasks of each experiment."""
    runs: dict[str, list[Attempt]] = {}
    for row in csv.DictReader(table.splitlines()):
        turns = int(row["turn_count"])
        tokens = turns * float(row["mean_prompt_tokens"])
        run = Attempt(row["instance_id"], row["outcome"] == "1", float(row["cost"]), turns, tokens)
        runs.setdefault(row["experiment"], []).append(run)
    return runs


def changes_between(raw: Iterable[Attempt], masked: Iterable[Attempt]) -> list[Change]:
    """The outcomes of the tasks that two experiments share."""
    with_masking = {run.task: run.is_solved for run in masked}
    return [Change(run.task, run.is_solved, with_masking[run.task]) for run in raw if run.task in with_masking]
