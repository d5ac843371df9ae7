"""Many session files: what cannot be replayed is named and takes nothing with it, and each run gives the same."""

import gzip
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from recorded_sessions import session, timeless, write_sessions
from tables import each_row

from autoprune.apps.replay import FED_BACK, ReplayArgs
from autoprune.apps.replay.corpus import Processes, key, replay_files, why_skipped, without_curves
from autoprune.apps.replay.session import TOO_SHORT, overview
from autoprune.apps.replay.verdict import overview_rows
from autoprune.economics import LISTS, prices
from autoprune.strategies.catalog import RUN_STRATEGY

ARGS = ReplayArgs(("none", "low_water"), safe_zone=5_000)
TRAP = """
import os

class Trap:
    name = "trap"
    every_request = True

    def step(self, view):
        said = view.results[0].text if view.results else ""
        if "dies" in said:
            os._exit(3)
        if "takes" in said:
            bytearray(1 << 60)
        if "raises" in said:
            raise LookupError("lost")
        return []
"""


def test_each_file_gives_its_figures(tmp_path: Path):
    paths = write_sessions(tmp_path, "one", "two")
    found = dict(replay_files(paths, ARGS))
    assert [(row.episode, row.strategy) for each in found.values() for row in each.figures] == [
        (path, strategy) for path in paths for strategy in ARGS.strategies
    ]


@each_row(
    "result, reward",
    [
        ({"verifier_result": {"rewards": {"reward": 1.0}}}, 1.0),
        ({"verifier_result": {"rewards": {"style": 0.2, "reward": 0}}}, 0.0),
        ({"verifier_result": {"rewards": {"tests": 0.5}}}, 0.5),
        ({"verifier_result": {"rewards": {"reward": "good"}}}, None),
        ({"verifier_result": None, "exception_info": {}}, None),
        ({"verifier_result": {"rewards": {"reward": 10**400}}}, None),
        ([1], None),
        ("{", None),
        (None, None),
    ],
)
def test_the_reward_of_a_trial_is_in_harbors_result(result: Any, reward: float | None, tmp_path: Path):
    agent = tmp_path / "job" / "task__1" / "agent"
    agent.mkdir(parents=True)
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result)
        (agent.parent / "result.json").write_text(text, encoding="utf-8")
    (path,) = write_sessions(agent, "trajectory")
    assert [each.reward for _, each in replay_files([path], ARGS)] == [reward]


def test_the_outcomes_of_trials_stand_beside_their_bills(tmp_path: Path):
    paths = []
    for number, reward in enumerate((1, 1, 0)):
        agent = tmp_path / f"task__{number}" / "agent"
        agent.mkdir(parents=True)
        paths += write_sessions(agent, "trajectory")
        result = {"verifier_result": {"rewards": {"reward": reward}}}
        (agent.parent / "result.json").write_text(json.dumps(result), encoding="utf-8")
    args = replace(ARGS, strategies=("none", RUN_STRATEGY))
    found = [each for _, each in replay_files([*paths, *write_sessions(tmp_path, "other")], args)]
    (said,) = (value for name, value in overview_rows(overview(found)) if name == "outcomes")
    shares = [row.bills["own"].with_rereads for row in found[0].figures]
    share = f"{shares[1] / shares[0]:.3f}"
    bills = f"bill with `autoprune run`: {share} in those that passed, {share} in the others"
    assert said == f"2 of 3 replayed trials passed; {bills}"


@each_row(
    "data, why",
    [
        (b"", "is empty"),
        (b"   \n\n", "is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10, "is not UTF-8 text: byte 0 is 0x89"),
        (b"# Notes\n\nnot a session\n", "is not JSON: give"),
        (json.dumps({"name": "autoprune", "version": 1}).encode(), "holds an object with the fields name, version"),
        (json.dumps([{"id": number} for number in range(1_000)]).encode(), "holds an object with the fields id"),
        (gzip.compress(b"x" * 1_000)[:20], "is a gzip file that is damaged or cut off"),
        (json.dumps(session("short", 5)).encode(), TOO_SHORT),
        (
            json.dumps([{"role": "user", "content": "go"}] * 2).encode(),
            "was read as a list of messages: 2 messages, none of them an answer of a model",
        ),
        (json.dumps(["x" * 20_000_000]).encode(), "holds a string where a message with a 'role' should be"),
        (b"[" * 200_000, "nest"),
    ],
)
def test_a_file_that_is_no_session_is_skipped_with_a_reason(tmp_path: Path, data: bytes, why: str):
    (tmp_path / "broken.json").write_bytes(data)
    good = write_sessions(tmp_path, "good")
    found = dict(replay_files([str(tmp_path / "broken.json"), *good], ARGS))
    assert [why in why_skipped(each) for each in found.values()] == [True, False]
    assert found[good[0]].figures


def test_a_file_that_cannot_be_read_is_skipped_with_a_reason(tmp_path: Path):
    names = ["missing.json", "."] + (["secret.json"] if os.geteuid() else [])
    (tmp_path / "secret.json").touch(mode=0)
    found = replay_files([str(tmp_path / name) for name in names], ARGS)
    assert [why_skipped(each) for _, each in found] == [
        "it cannot be read: No such file or directory",
        "it cannot be read: Is a directory",
        "it cannot be read: Permission denied",
    ][: len(names)]


def test_a_session_that_kills_its_process_loses_only_itself(tmp_path: Path):
    trap = tmp_path / "trap.py"
    trap.write_text(TRAP, encoding="utf-8")
    paths = write_sessions(tmp_path, "dies", "good", "raises", "takes")
    args = ReplayArgs(("none", f"{trap}:Trap"), safe_zone=5_000)
    found = dict(sorted(replay_files(paths, args, engine=Processes(2))))
    assert [why_skipped(each) for each in found.values()] == [
        "its process died, perhaps because the memory ran out",
        "",
        "it cannot be replayed: LookupError: lost",
        "it takes more memory than there is",
    ]


def test_several_processes_give_the_same_figures_as_one(tmp_path: Path):
    paths = write_sessions(tmp_path, "one", "two", "three")
    alone = [timeless(asdict(each)) for _, each in replay_files(paths, ARGS)]
    many = dict(replay_files(paths, ARGS, engine=Processes(2)))
    assert [timeless(asdict(many[path])) for path in paths] == alone


def test_an_abandoned_run_ends_its_processes(tmp_path: Path):
    running = replay_files(write_sessions(tmp_path, "one", "two", "three"), ARGS, engine=Processes(1))
    next(running)
    running.close()
    assert list(running) == []


def test_without_curves_the_sums_stay(tmp_path: Path):
    ((_, found),) = replay_files(write_sessions(tmp_path, "one"), ARGS)
    short = without_curves(found)
    assert [(sum(row.prompts), sum(row.held)) for row in short.figures] == [
        (sum(row.prompts), sum(row.held)) for row in found.figures
    ]
    assert {len(row.prompts) for row in short.figures} == {1}


def test_the_key_depends_on_arguments_version_settings_and_strategy_files(tmp_path: Path):
    mine = tmp_path / "mine.py"
    mine.write_text("class Mine: ...", encoding="utf-8")
    own, reading = ReplayArgs(("none", f"{mine}:Mine")), ReplayArgs(readers=(f"{mine}:READER",))
    first = [key(own, "1", {}), key(reading, "1", {})]
    mine.write_text("class Mine: at_least = 5", encoding="utf-8")
    keys = [
        *first,
        key(own, "1", {}),
        key(reading, "1", {}),
        key(ReplayArgs(), "1", {}),
        key(ARGS, "1", {}),
        key(ARGS, "2", {}),
        key(ARGS, "1", {"AUTOPRUNE_GROUP_SIZE": "3"}),
        key(ReplayArgs(ARGS.strategies, safe_zone=6_000), "1", {}),
        key(ReplayArgs(ARGS.strategies, [LISTS["deepseek"]], safe_zone=5_000), "1", {}),
        key(ReplayArgs(ARGS.strategies, safe_zone=5_000, styles=(FED_BACK,)), "1", {}),
    ]
    assert len(set(keys)) == len(keys)
    assert key(ARGS, "1", {"HOME": "/"}) == key(ARGS, "1", {})


def test_steps_fold_in_both_calling_styles_at_prices_with_tiers():
    strategy = "cache_aware(fold_steps=3, start_at=1000) @ 20k"
    args = ReplayArgs([strategy], prices=[prices("claude-haiku-5-5")], styles=("full", FED_BACK))
    (found,) = dict(replay_files(["fixtures/sessions/edit_loop_openai.jsonl"], args)).values()
    assert [each.violations for each in found.figures] == [(), ()]
