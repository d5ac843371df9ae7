"""The programs that test whether evidence means anything: estimates, and logs in which results were cleared."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
NAMES = ("alpha", "beta", "gamma")
QUOTED = {name: f"the {name} service restarts after every slow probe" for name in NAMES}
CLEARED = 4  # the request from which the first two reads are not sent


@pytest.fixture(scope="module")
def programs():
    """The modules `estimates`, `cleared` and `outcomes`, as the program imports them."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield [importlib.import_module(name) for name in ("estimates", "cleared", "outcomes")]
    finally:
        sys.path.remove(str(BENCHMARKS))


def read(call: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call that reads a file, and its result."""
    use = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": f"/notes/{name}.md"}}
    return use, {"type": "tool_result", "tool_use_id": call, "content": f"{QUOTED[name]}\n" + f"about {name}\n" * 50}


def records(question: str) -> Iterator[dict[str, Any]]:
    """Three files are read, two are cleared, one of these is read again, and the agent quotes all three."""
    calls = [read(f"c{at}", name) for at, name in enumerate((*NAMES, "alpha"))]
    at_request = 0

    def record(kind: str, content: object) -> dict[str, Any]:
        nonlocal at_request
        message: dict[str, Any] = {"role": kind, "content": content}
        if kind == "assistant":
            at_request += 1
            usage = {"input_tokens": 10, "cache_read_input_tokens": 900 * at_request, "output_tokens": 5}
            message |= {"id": f"m{at_request}", "model": "claude-x", "usage": usage}
        return {"type": kind, "timestamp": f"2026-01-01T10:0{at_request}:30.000Z", "message": message}

    yield record("user", "Say what the services do.")
    for use, result in calls[:3]:
        yield record("assistant", [use])
        yield record("user", [result])
    yield record("assistant", [{"type": "text", "text": "I have read them."}])
    yield {
        "type": "system",
        "subtype": "microcompact_boundary",
        "timestamp": "2026-01-01T10:04:40.000Z",
        "microcompactMetadata": {"compactedToolIds": ["c0", "c1"]},
    }
    yield record("user", "Look again.") | {"timestamp": "2026-01-01T10:04:50.000Z"}
    yield record("assistant", [calls[3][0]])
    yield record("user", [calls[3][1]])
    yield record("assistant", [{"type": "text", "text": ", ".join(f'"{text}"' for text in QUOTED.values())}])
    yield record("user", question)
    yield record("assistant", [{"type": "text", "text": "I missed one."}])


def log(question: str) -> bytes:
    """The log as lines of JSON, each with its parent."""
    shared = {"sessionId": "s", "version": "2.1.0", "isSidechain": False}
    known = enumerate(records(question))
    lines = [shared | {"uuid": str(at), "parentUuid": str(at - 1) if at else None} | each for at, each in known]
    return "\n".join(map(json.dumps, lines)).encode()


@pytest.fixture(scope="module")
def stretch(programs):
    """The log's only stretch."""
    _, cleared, _ = programs
    (found,) = cleared.read_log(log(cleared.QUESTION), "log.jsonl")
    return found


def test_a_log_says_what_was_cleared_and_what_was_read_again(stretch):
    assert stretch.cleared == {0: CLEARED, 1: CLEARED}
    assert stretch.repeats == {0: 3}
    assert [stretch.repeated_at(each) for each in stretch.reads] == [CLEARED, *[float("inf")] * 3]
    assert {(number, need.atom.text) for number, need in stretch.lost if need.atom.kind == "quote"} == {
        (0, QUOTED["alpha"]),
        (1, QUOTED["beta"]),
    }


def test_nothing_counts_from_the_question_on(programs, stretch):
    _, cleared, outcomes = programs
    assert stretch.end == CLEARED + 2
    (whole,) = cleared.read_log(log("Thanks."), "log.jsonl")
    assert whole.end == CLEARED + 3
    figures = outcomes.trial(stretch, "one", "FAILURE").figures
    assert (figures["cleared results"], figures["cleared reads not repeated"], figures["… before they were sent"]) == (
        2,
        1,
        0,
    )
    assert figures["share of results cleared"] == 2 / 4
    assert figures["peak prompt"] == 900 * (CLEARED + 2) + 10


def test_a_log_that_several_trials_share_counts_once(programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, cleared, outcomes = programs
    clone = tmp_path / outcomes.TRIALS.repository
    for name, outcome, session in (("one", "FAILURE", "a"), ("two", "FAILURE", "a"), ("three", "UNKNOWN", "b")):
        folder = clone / "dev/misc/experiment" / name
        folder.mkdir(parents=True)
        known = {"metadata": {"session_file": f"{session}.jsonl"}, "outcome": {"self_reported": outcome}}
        (folder / "trial_data.json").write_text(json.dumps(known))
        (folder / f"{session}.jsonl").write_bytes(log(cleared.QUESTION))
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Trials"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(outcomes, "TRIALS", replace(outcomes.TRIALS, commit="HEAD"))
    count, *lines = outcomes.report_trials(tmp_path)
    assert count == "3 trials with 2 logs: 0 SUCCESS, 1 FAILURE, 1 not asked"
    assert lines[:2] == [
        "no cleared results              0, of them FAILURE  0",
        "cleared results                 1, of them FAILURE  1",
    ]
    assert lines[-1].split() == ["facts", "lost", "–", "–", "–"]


def test_reads_are_compared_at_the_requests_at_which_they_were_cleared_and_kept(programs, stretch):
    *_, outcomes = programs
    found = outcomes.merged(outcomes.exposures(stretch, is_within=True))
    counts = {exposed: [0, 0] for exposed in (True, False)}
    for each in found:
        counts[each.is_exposed][0] += each.events
        counts[each.is_exposed][1] += each.requests
    # The first read is repeated in the answer to the request that lacks it; the second lacks two requests.
    assert counts[True] == [1, 3]
    assert counts[False][0] == 0
    reads = list(outcomes.cleared_reads(stretch))
    assert [each.is_repeated for each in reads] == [True, False]
    used = {each.is_repeated: each.kinds for each in outcomes.uses(stretch)}
    assert all("quote" in kinds for kinds in used.values())
    assert sorted(used) == [False, True]


def test_the_area_under_the_curve_counts_pairs_of_a_stratum_and_half_of_ties(programs):
    estimates, *_ = programs
    case = estimates.Case
    scores = [(2, True), (3, True), (1, False), (2, False)]
    assert estimates.auc([case(*each) for each in scores]) == (1 + 0.5 + 2) / 4
    apart = [case(2, True, stratum="a"), case(1, False, stratum="a"), case(9, False, stratum="b")]
    assert estimates.auc(apart) == 1
    assert estimates.auc(apart[2:]) is None


def test_a_ratio_of_rates_is_that_within_strata(programs):
    estimates, *_ = programs
    # Twice the rate in both strata, though the exposed are mostly in the one with the lower rate.
    rows = [(True, 2, 10, "high"), (False, 10, 100, "high"), (True, 2, 100, "low"), (False, 1, 100, "low")]
    known = [estimates.Exposure(*each[:3], "s", each[3]) for each in rows]
    assert estimates.rate_ratio(known) == pytest.approx(2)
    assert estimates.rate_ratio(known[:1]) is None


def test_an_interval_draws_whole_sessions(programs):
    estimates, *_ = programs
    cases = [estimates.Case(at % 10, at % 10 > 6, at // 10) for at in range(40)]
    found = estimates.estimate(cases, estimates.auc)
    assert str(found) == "1.00 [1.00, 1.00]"
    assert not found.is_chance
    mixed = [estimates.Case(1 if at % 2 else 0, at < 20, at) for at in range(40)]
    assert estimates.estimate(mixed, estimates.auc).is_chance
    one = estimates.estimate([estimates.Case(each.score, each.happened) for each in cases], estimates.auc)
    assert (one.value, one.low) == (1, None)
    assert len(str(one)) == len(str(found)) == len(str(estimates.Estimate(None)))


def test_equal_values_stay_in_one_stratum(programs):
    estimates, *_ = programs
    assert estimates.quantile_strata({"a": 1, "b": 2, "c": 2, "d": 3}, 2) == {"a": 0, "b": 0, "c": 0, "d": 1}


@pytest.mark.full
@pytest.mark.parametrize("test", ["trials", "clearings"])
def test_the_program_names_the_command_that_brings_what_is_missing(tmp_path: Path, test: str):
    program = [sys.executable, BENCHMARKS / "outcomes.py", test, "clones"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    repository = "rcgray/claude-code-bug-phantom-reads-17407"
    assert done.stderr.endswith(f"git clone --mirror https://github.com/{repository} clones/{repository}\n")
