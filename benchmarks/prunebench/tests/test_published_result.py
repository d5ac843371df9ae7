"""The programs that re-examine a published result: bills at all prices from three sums, and areas under the curve."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from autoprune.apps.replay import ReplayArgs, replay_session
from autoprune.apps.replay.rows import summarize
from autoprune.economics import LISTS

PROJECT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def programs():
    """The modules `masking`, `task_outcomes` and `complexity_trap`, as the program imports them."""
    folders = [str(PROJECT), str(PROJECT.parent)]
    sys.path[:0] = folders
    try:
        yield [importlib.import_module(name) for name in ("masking", "task_outcomes", "complexity_trap")]
    finally:
        for each in folders:
            sys.path.remove(each)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trajectories of 30 requests, whose results have different lengths."""
    folder = tmp_path_factory.mktemp("trajectories")
    for number in (1, 2):
        messages = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix the parser."}]
        for at in range(30):
            text = f"I look at part {at}.\n\n```bash\nsed -n {at},{at + 9}p src/parser.py\n```"
            output = f"<returncode>0</returncode>\n<output>\n{f'line {at} of parser' * at * number}\n</output>"
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": output}]
        known = {"info": {}, "messages": messages, "trajectory_format": "mini-swe-agent-1"}
        (folder / f"task-{number}.traj.json").write_text(json.dumps(known))
    return folder


@pytest.fixture(scope="module")
def masked(programs, folder: Path):
    """The trajectories under each policy, by its name."""
    masking, *_ = programs
    return {each.strategy: each for each in masking.replayed(sorted(folder.iterdir()))}


def test_a_bill_from_three_sums_is_the_bill_of_a_replay(masked, folder: Path):
    strategy = "complexity_trap(keep=5)"
    for prices, write, read in (("anthropic", 1.25, 0.1), ("deepseek", 1, 0.02), ("no-cache", 1, 1)):
        args = ReplayArgs(strategies=("none", strategy), prices=(LISTS[prices],))
        sessions = [replay_session(str(file), file.read_bytes(), args) for file in sorted(folder.iterdir())]
        rows = summarize([each for session in sessions for each in session.figures], prices)
        bill = next(row.bill.value for row in rows if row.strategy == strategy)
        assert masked[strategy].bill(write, read) == pytest.approx(bill)


def test_at_the_break_even_price_of_a_cached_read_masking_costs_as_much_as_no_pruning(masked):
    found = masked["complexity_trap(keep=10)"]
    for write in (1, 1.25):
        even = found.break_even(write).value
        assert 0 < even < write
        assert found.bill(write, even) == pytest.approx(1)
        assert found.bill(write, even - 0.01) > 1 > found.bill(write, even + 0.01)


def test_conversations_are_counted_by_length_and_by_whether_anything_is_masked(masked):
    assert [masked[f"complexity_trap(keep={keep})"].touched for keep in (10, 58)] == [2, 0]
    assert [len(masked["window(keep=10)"].between(20, most).pairs) for most in (30, 31)] == [0, 2]


def test_lost_tasks_are_compared_with_solved_ones_of_the_same_experiment_and_size(programs):
    _, outcomes, _ = programs
    tasks = [outcomes.Task(name, {"lost": figure}) for name, figure in zip("abcde", (1, 2, 2, 3, 9), strict=True)]
    changes = [outcomes.Change(name, True, name not in "bd") for name in "abcd"] + [outcomes.Change("e", False, True)]
    whole = outcomes.Comparison(tasks, [changes, changes], {})
    found = whole.predict("lost", solved_before=True)
    assert found.whole.value == (1 + 0.5 + 1 + 1) / 4
    assert found.single == [found.whole.value] * 2
    assert whole.count("lost", solved_before=True) == 4
    apart = outcomes.Comparison(tasks, [changes], {"a": 0, "b": 1, "c": 1, "d": 2})
    assert apart.predict("lost", solved_before=True).whole.value == 0.5
    assert whole.predict("lost", solved_before=False).whole.value is None


def test_a_figure_that_decides_is_seen_and_one_that_does_not_is_chance(programs):
    _, outcomes, _ = programs
    tasks = [outcomes.Task(str(at), {"lost": at % 10, "other": at * 7 % 11, "size": at}) for at in range(60)]
    changes = [outcomes.Change(str(at), True, at % 10 < 8) for at in range(60)]
    comparison = outcomes.Comparison(tasks, [changes], {})
    found = [comparison.predict(name, solved_before=True) for name in tasks[0].figures]
    assert [each.whole.is_chance for each in found] == [False, True, True]
    assert found[0].whole.value == found[0].whole.low == 1.0
    lines = list(outcomes.prediction(tasks, [changes], size="size"))
    assert lines[-1] == "tasks: 60, experiments: 1, lost: 12, won: 0"
    assert max(map(len, lines)) <= 80


def test_published_rows_are_read_by_experiment(programs):
    *_, complexity_trap = programs
    table = (
        "experiment,instance_id,cost,turn_count,mean_prompt_tokens,outcome\n"
        "raw,one,0.5,20,1000,1\nraw,two,0.7,30,2000,0\nmasked,one,0.4,25,800,0\n"
    )
    runs = complexity_trap.read_costs(table)
    assert runs["raw"][0] == complexity_trap.Attempt("one", is_solved=True, cost=0.5, turns=20, tokens=20_000)
    changes = complexity_trap.changes_between(runs["raw"], runs["masked"])
    assert [(each.task, each.before, each.after) for each in changes] == [("one", True, False)]


def test_the_program_names_what_is_missing_and_the_commands_that_bring_it(tmp_path: Path):
    program = [sys.executable, PROJECT / "masking.py", "clones", "sessions"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")] == [
        "git clone --mirror https://github.com/gruckion/mini-swe-agent clones/gruckion/mini-swe-agent",
        "git clone --mirror https://github.com/Recursive-Safeguarding/the-complexity-trap "
        "clones/Recursive-Safeguarding/the-complexity-trap",
    ]
