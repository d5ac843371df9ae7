"""`autoprune replay`: its tables, its cache, and files that cannot be replayed."""

import html
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import invalidate_caches
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from command_line import XML, run, run_process, run_text
from recorded_sessions import timeless, write_claude_log, write_sessions
from rich.console import Console, RenderableType
from tables import each_row
from typer.testing import CliRunner

from autoprune.apps.cli import replaying
from autoprune.apps.cli.command_table import app
from autoprune.apps.cli.replay import _tune_line, details_table, overview_table, verdict_table
from autoprune.apps.cli.replay_cache import Cached, installed_code
from autoprune.apps.cli.replaying import assumptions, find_files, replay_all, run_line, skipped_table
from autoprune.apps.replay import ReplayArgs, SessionFigures, request_table
from autoprune.apps.replay.corpus import Processes, Task, cores, details_of_files, one_by_one, replay_files
from autoprune.apps.replay.episode_figures import OWN
from autoprune.apps.replay.session import overview
from autoprune.apps.replay.verdict import standings
from autoprune.apps.sessions import READABLE
from autoprune.errors import SessionError
from autoprune.strategies.catalog import RUN_STRATEGY

FIXTURES = Path(__file__).parents[2] / "fixtures"
STRATEGIES = ("none", "low_water", "window", "clairvoyant")
ARGS = ReplayArgs(STRATEGIES, safe_zone=5_000)
OPTIONS = ("--strategy", "low_water", "--safe-zone", "5000", "--jobs", "1")
READER = """
from autoprune.apps.sessions import Conversation, Reader, fields

def detect(values):
    return "mine" in fields(values[0])

def read(values):
    return [Conversation(values[0]["mine"])]

READER = Reader("mine", detect, read)
"""
LONG = "low_water(target=0.6, protect={'last_results': 10}) @ 120k"
SLOW = """
import time

class Slow:
    name = "slow"
    every_request = True

    def step(self, view):
        time.sleep(0.05)
        return []
"""


def lines(drawn: RenderableType, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(drawn)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[SessionFigures]:
    paths = write_sessions(tmp_path_factory.mktemp("sessions"), "one", "two")
    return [figures for _, figures in replay_files(paths, ARGS) if figures]


def test_the_table_fits_80_columns_and_groups_by_evidence(found: list[SessionFigures]):
    rows = [row for each in found for row in each.figures]
    drawn = lines(verdict_table(OWN, standings(rows, "own"), "simulated without pruning: 1.0M input tokens"))
    assert max(map(len, drawn)) <= 80
    assert [line.split("  ")[0] for line in drawn if line and line[0] != " "][2:10] == [
        *("strategy", "keeps ≥ 97%:", "none", "window"),
        *("keeps < 90%:", "low_water", "knows the future:", "clairvoyant"),
    ]
    assert [line.split()[1:] for line in drawn if line.startswith("none")] == [["1.000", "+0.0", "100.0", "100.0", "–"]]
    assert " ".join(" ".join(drawn).split()).endswith("That is 2 sessions: too few to say much about others.")


def test_a_second_table_has_the_worst_bill_shell_edits_and_protected_content(found: list[SessionFigures]):
    rows = [row for each in found for row in each.figures]
    drawn = lines(
        details_table(
            standings([replace(row, strategy=LONG) if row.strategy == "window" else row for row in rows], "own")
        )
    )
    assert max(map(len, drawn)) <= 80
    assert drawn[2].split()[:6] == ["in", "view,", "%", "worst", "breaks", "edits"]
    assert [line.split() for line in drawn if line.startswith("none")] == [
        ["none", "1.00", "0", "–", "100.0", "–", "100.0", "–"]
    ]
    bare = lines(details_table(standings([replace(row, protected={}) for row in rows], "own")))
    assert [line.split() for line in bare if line.startswith("none")] == [["none", "1.00", "0", *"–––––"]]


def test_an_overview_of_the_sessions_comes_first(found: list[SessionFigures]):
    drawn = lines(overview_table(overview(found)))
    assert drawn[0] == "replayed      2 of 2 sessions: plain messages 2"
    assert drawn[1].startswith("size          56 requests in 2 conversations; 24k tokens, median 12k,")
    assert [line.split("  ")[0] for line in drawn if line and line[0] != " "] == [
        *("replayed", "size", "tool results", "files again", "pauses", "cache lives")
    ]


def test_skipped_files_are_listed_by_reason():
    reasons = {"a\x1b[2J.json": "it is bad", **{f"{number}.json": "it is empty" for number in range(12)}}
    drawn = lines(skipped_table(reasons))
    assert drawn[:3] == ["skipped 1 session: it is bad", "  a·[2J.json", "skipped 12 sessions: it is empty"]
    assert drawn[-1] == "  and 2 more; --json names all"
    drawn = lines(skipped_table({"trae.json": f"trae.json holds an object: give {READABLE}"}), width=120)
    assert drawn[-1] == (
        "benchmarks/prunebench has readers of OpenHands, SWE-agent, mini-swe-agent, Trae, Inspect and tau-bench"
    )


def test_outcomes_are_kept_in_a_cache_until_the_session_or_the_arguments_change(tmp_path: Path):
    paths = write_sessions(tmp_path, "one", "two")
    ran: list[str] = []

    def counted(do: Callable[[Task], object], tasks: Iterator[Task]) -> Iterator[tuple[Task, object]]:
        for task, done in one_by_one(do, tasks):
            ran.append(task.path)
            yield task, done

    engine = Cached(counted, tmp_path / "cache")
    first = replay_all(paths, ARGS, engine, with_curves=True)
    assert replay_all(paths, ARGS, engine, with_curves=True) == first
    assert ran == paths
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:-9])
    replay_all(paths[1:], ARGS, engine)  # from a damaged file
    Path(paths[0]).write_text("[]", encoding="utf-8")
    replay_all(paths[:1], ARGS, engine)
    replay_all(paths[1:], ReplayArgs(STRATEGIES, safe_zone=6_000), engine)
    assert ran == [*paths, *paths[::-1], paths[1]]


def test_outcomes_do_not_outlive_the_code_of_an_installed_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[autoprune.strategies]\nmine = mine_of_a_test:Mine\n", encoding="utf-8")
    before = installed_code()
    monkeypatch.syspath_prepend(str(tmp_path))
    missing = installed_code()
    (tmp_path / "mine_of_a_test.py").write_text("Mine = 1\n", encoding="utf-8")
    invalidate_caches()
    assert len({before, missing, installed_code()}) == 2  # a module that is missing has no code
    first = installed_code()
    (tmp_path / "mine_of_a_test.py").write_text("Mine = 22\n", encoding="utf-8")
    assert installed_code() != first


def test_details_are_kept_unless_they_have_texts(tmp_path: Path):
    paths = write_sessions(tmp_path, "one")
    engine = Cached(one_by_one, tmp_path / "cache")
    list(details_of_files(dict.fromkeys(paths, ()), ARGS, texts=True, engine=engine))
    assert not (tmp_path / "cache").exists()
    list(details_of_files(dict.fromkeys(paths, ()), ARGS, engine=engine))
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_an_interrupted_run_says_whether_the_next_one_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    paths = write_sessions(tmp_path, "one", "two")

    def engine(do: Callable[[Task], object], tasks: Iterator[Task]) -> Iterator[tuple[Task, object]]:
        yield next(iter(one_by_one(do, tasks)))
        raise KeyboardInterrupt

    cached = Cached(engine, tmp_path / "cache")
    for given, left in ((engine, "lost"), (cached, "kept; the same command continues from there")):
        with pytest.raises(KeyboardInterrupt):
            replay_all(paths, ARGS, given)
        assert capsys.readouterr().err == f"autoprune: 1 of 2 sessions are finished and {left}\n"


def test_a_folder_with_all_kinds_of_files_is_replayed(tmp_path: Path):
    paths = write_sessions(tmp_path, "one", "two")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "foreign.json").write_text('{"name": "autoprune"}', encoding="utf-8")
    (tmp_path / "notes.txt").write_text("passed over", encoding="utf-8")
    done = run("replay", str(tmp_path), *OPTIONS, "--json")
    found = json.loads(done.stdout)
    assert [each["path"] for each in found["sessions"] if each["figures"]] == sorted(paths)
    assert [Path(path).name for path in found["skipped"]] == ["empty.jsonl", "foreign.json"]
    assert (done.returncode, found["overview"]["sessions"], found["strategies"].keys()) == (0, 2, {"own"})


def test_without_paths_the_sessions_on_this_machine_are_replayed_as_run_would_prune_them(tmp_path: Path):
    folder = tmp_path / ".claude" / "projects" / "here"
    folder.mkdir(parents=True)
    write_sessions(folder, "one")
    (folder / "one.json").rename(folder / "one.jsonl")
    done = run("replay", "--jobs", "1", environ={"HOME": str(tmp_path), "COLUMNS": "80"})
    words = " ".join(done.stdout.decode().split())
    assert done.stderr.decode().startswith("found: claude-code 1 session\n")
    assert "That is 1 session: too few to say" in words
    assert ("cache_aware" in words, "low_water" in words) == (True, False)
    hints = "With session files or folders this command compares strategies.", "With --html FILE it writes a page"
    assert [each in words for each in hints] == [True, True]
    page = str(tmp_path / "report.html")
    done = run("replay", "--jobs", "1", "--html", page, environ={"HOME": str(tmp_path), "COLUMNS": "80"})
    words, progress = (" ".join(each.decode().split()) for each in (done.stdout, done.stderr))
    assert [each in words for each in hints] == [True, False]
    assert f"wrote {page}: open it in a browser" in progress


def test_recorded_usage_is_priced_before_the_replay_and_the_saving_is_in_dollars(tmp_path: Path):
    folder = tmp_path / ".claude" / "projects" / "here"
    folder.mkdir(parents=True)
    usage = {
        "input_tokens": 0,
        "cache_read_input_tokens": 400_000,
        "output_tokens": 5_600,
    }  # $0.24 and $0.126: above 200,000
    answers = [(f"2026-01-02T10:{minute}:00.000Z", "claude-sonnet-4-5", usage) for minute in range(10, 30)]
    write_claude_log(folder / "one.jsonl", *answers)
    (folder / "broken.jsonl").write_text("[1", encoding="utf-8")
    asked = {"type": "user", "uuid": "u", "parentUuid": None, "message": {"role": "user", "content": "Hi."}}
    (folder / "asked.jsonl").write_text(json.dumps(asked), encoding="utf-8")
    environ = {"HOME": str(tmp_path), "COLUMNS": "80"}
    words = " ".join(run("replay", "--jobs", "1", environ=environ).stdout.decode().split())
    assert "1 session cost $7.32 at API list prices, by the recorded usage" in words
    assert "1 other session recorded no requests, or only those of another session" in words
    assert "claude-code shop 2026-01-02 1 20/20 100% $7.32" in words
    assert "longest stretch between compactions, if it has 20 or more" in words
    assert "Fix the cart, please" in words
    assert "At API list prices $7.32 would have been " in words
    known = json.loads(run("replay", "--jobs", "1", "--json", environ=environ).stdout)
    assert [round(each["dollars"], 2) for each in known["spending"]] == [7.32]


def test_a_forecast_in_dollars_is_one_of_the_recorded_prices_and_cache(tmp_path: Path):
    usage = {"input_tokens": 0, "cache_read_input_tokens": 100_000, "output_tokens": 5_000}
    answers = [(f"2026-01-02T10:{minute}:00.000Z", "claude-sonnet-4-5", usage) for minute in range(10, 35)]
    path = write_claude_log(tmp_path / "one.jsonl", *answers)
    for given, is_forecast in (((), True), (("--prices", "deepseek"), False), (("--cache-life", "5m"), False)):
        done = run_text("replay", "--jobs", "1", *given, path)
        known = json.loads(run_text("replay", "--jobs", "1", "--json", *given, path).stdout)
        assert ("At API list prices $2.62 would have been" in " ".join(done.stdout.split())) == is_forecast
        assert ("(recorded: $2.62)" in " ".join(done.stdout.split())) == is_forecast
        assert (known["forecast"]["replayed"] > 0) == is_forecast
        assert [round(each["dollars"], 2) for each in known["spending"]] == [2.62]
        assert [round(each["dollars"], 2) for each in known["sessions"][0]["shapes"].values()] == [2.62]


def test_a_price_that_is_assumed_is_noted_for_short_sessions_too(tmp_path: Path):
    answers = [
        (f"2026-01-02T10:{minute}:00.000Z", "claude-opus-7-2", {"input_tokens": 9_000}) for minute in range(10, 15)
    ]
    done = run_text("replay", "--jobs", "1", write_claude_log(tmp_path / "one.jsonl", *answers))
    assert "claude-opus-5-5" in done.stderr
    assert "the limit is" not in done.stderr


def test_an_earlier_state_of_a_session_is_neither_paid_nor_replayed_twice(tmp_path: Path):
    usage = {"input_tokens": 0, "cache_read_input_tokens": 100_000, "output_tokens": 5_000}
    answers = [(f"2026-01-02T10:{minute}:00.000Z", "claude-sonnet-4-5", usage) for minute in range(10, 35)]
    write_claude_log(tmp_path / "earlier.jsonl", *answers[:20])
    write_claude_log(tmp_path / "newest.jsonl", *answers)
    known = json.loads(run("replay", "--jobs", "1", "--json", str(tmp_path)).stdout)
    sums = [(each["sessions"], each["requests"], each["replayed"]) for each in known["spending"]]
    assert sums == [(1, 25, 25)]
    assert (known["overview"]["episodes"], known["overview"]["requests"]) == (1, 25)
    why = {str(tmp_path / "earlier.jsonl"): "each of its requests is also in a newer session"}
    assert known["skipped"] == why
    done = run_text("tune", "--jobs", "1", str(tmp_path), "--strategy", "low_water")
    assert "1 setting on 1 session;" in done.stdout
    assert f"skipped 1 session: {why.popitem()[1]}" in done.stderr


def test_what_the_costs_lack_is_said_in_the_terminal_and_on_the_page(tmp_path: Path):
    folder = tmp_path / ".claude" / "projects" / "here"
    folder.mkdir(parents=True)
    kinds = [("mine", 300), *[("claude-sonnet-4-5", 1)] * 2, *[("claude-sonnet-4-5", 300)] * 17]
    answers = [
        (f"2026-01-02T10:{minute}:00.000Z", model, {"cache_read_input_tokens": 400_000, "output_tokens": output})
        for minute, (model, output) in enumerate(kinds, 10)
    ]
    write_claude_log(folder / "one.jsonl", *answers)
    page = tmp_path / "report.html"
    done = run_text("replay", "--jobs", "1", "--html", str(page), environ={"HOME": str(tmp_path), "COLUMNS": "80"})
    said = (
        "1 request without a cost: the price of mine is not known; give a similar one with --model",
        "the logs of 2 requests lack most of the output: they cost more than is shown. The replay counts the texts of "
        "these answers, but no thinking that is not in the log, so the percentage saved may be a little too high",
        "19 requests cost $2.32 more, because all tokens of a prompt of that size have a higher price: see "
        "`autoprune run --tier`",
    )
    notes = html.unescape(re.sub("</?code>", "`", page.read_text(encoding="utf-8").partition("<h3>Notes</h3>")[2]))
    assert [each for each in said if f"note: {each}" not in " ".join(done.stdout.split())] == []
    assert [each for each in said if f"<li>{each}</li>" not in notes] == []


def test_only_conversations_that_recorded_a_cache_of_an_hour_are_those_of_subscribers():
    agents, lives = {"claude-code": 2, "codex": 5}, {"1 h recorded": 2, "1 h assumed": 5}
    notes = assumptions(replace(overview([]), agents=agents, lives=lives), ReplayArgs())
    assert [each[:46] for each in notes if "subscription" in each] == ["2 conversations with a cache of one hour, whic"]


def test_words_of_the_user_are_no_markup_and_an_unknown_price_is_said(tmp_path: Path):
    folder = tmp_path / ".claude" / "projects" / "here"
    folder.mkdir(parents=True)
    answers = [(f"2026-01-02T10:{minute}:00.000Z", "mine", {"input_tokens": 9_000}) for minute in range(10, 30)]
    path = Path(write_claude_log(folder / "one.jsonl", *answers, folder="/home/me/[red]shop"))
    path.write_text(path.read_text(encoding="utf-8").replace("Fix the cart", "Fix [/b] the cart"), encoding="utf-8")
    done = run("replay", "--jobs", "1", environ={"HOME": str(tmp_path), "COLUMNS": "80"})
    words = " ".join(done.stdout.decode().split())
    assert done.returncode == 0, done.stderr
    assert "1 session whose cost is not known: the notes below say why" in words
    assert "[red]shop" in words
    known = json.loads(run("replay", "--jobs", "1", "--json", environ={"HOME": str(tmp_path)}).stdout)
    assert [each["unlisted"] for each in known["spending"]] == [{"mine": 20}]
    assert "Fix [/b] the cart" in words


@each_row(
    "arguments, code, said",
    [
        (("x.json", "--strategy", "best"), 2, "there is no strategy 'best'"),
        (("x.json", "--strategy", "low_water(target=5) @ 60k"), 2, "low_water: target is 5: give a share"),
        (("x.json", "--prices", "cheap"), 2, "there is no price list 'cheap'"),
        (("x.json", "--prices", "0.1,1"), 2, "prices of 0.1, 1"),
        (("x.json", "--safe-zone", "much"), 2, "the safe zone is 'much'"),
        (("x.json", "--style", "half"), 2, "there is no style 'half'; there are full, fed-back, both"),
        (("x.json", "--reader", "mine.py"), 2, "the reader is 'mine.py': write it as path/to/file.py:NAME"),
        (("x.json", "--engine", "rays"), 2, "there is no engine 'rays' (did you mean ray?)"),
    ],
)
def test_the_exit_code_says_who_must_act(arguments: tuple[str, ...], code: int, said: str):
    done = CliRunner().invoke(app, ["replay", *arguments])
    words = " ".join(done.stderr.split())
    assert (done.exit_code, said in words) == (code, True), words


@each_row("command", ["replay", "tune"])
def test_a_custom_reader_works_in_every_process(tmp_path: Path, command: str):
    mine = tmp_path / "mine.py"
    mine.write_text(READER, encoding="utf-8")
    (path,) = write_sessions(tmp_path, "one")
    held = json.loads(Path(path).read_text(encoding="utf-8"))
    Path(path).write_text(json.dumps({"mine": held}), encoding="utf-8")
    done = run(command, path, *OPTIONS[:2], "--jobs", "1", "--reader", f"{mine}:READER", "--json")
    found = json.loads(done.stdout)["sessions"]
    assert done.returncode == 0
    assert found == 1 if command == "tune" else [each["agent"] for each in found] == ["mine"]


def install_readers(folder: Path) -> dict[str, str]:
    """Put a package with a reader, and another one that cannot be imported, on the path of a process."""
    places = 'READER = Reader("mine-agent", detect, read, places=(".mine/*.log",))'
    (folder / "my_agent.py").write_text(READER.replace('READER = Reader("mine", detect, read)', places))
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: mine\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[autoprune.readers]\nmine = my_agent:READER\nbroken = missing_agent:READER\n"
    )
    return {"PYTHONPATH": os.pathsep.join((str(folder), *filter(None, (os.environ.get("PYTHONPATH"),))))}


def test_the_sessions_of_an_installed_reader_are_found_in_the_home_folder(tmp_path: Path):
    environ = install_readers(tmp_path)
    (path,) = write_sessions(tmp_path, "one")
    held = json.loads(Path(path).read_text(encoding="utf-8"))
    (tmp_path / ".mine").mkdir()
    (tmp_path / ".mine" / "one.log").write_text(json.dumps({"mine": held}), encoding="utf-8")
    environ |= {"HOME": str(tmp_path)}
    done = run_process("replay", *OPTIONS, "--json", environ=environ)
    words = done.stderr.decode()
    assert (done.returncode, [each["agent"] for each in json.loads(done.stdout)["sessions"]]) == (0, ["mine-agent"]), (
        words
    )
    assert "found: mine-agent 1 session\n" in words
    assert "note: cannot load 'broken', registered under the entry point group autoprune.readers" in words


def test_lines_of_a_report_in_a_pipe_have_at_most_100_columns(tmp_path: Path):
    done = run("replay", *write_sessions(tmp_path, "one"), *OPTIONS)
    report = done.stdout.decode()
    assert "bill " in report
    assert max(map(len, report.splitlines())) <= 100


@pytest.mark.full
def test_ctrl_c_ends_the_processes_and_the_next_run_continues(tmp_path: Path):
    mine = tmp_path / "slow.py"
    mine.write_text(SLOW, encoding="utf-8")
    paths = write_sessions(tmp_path, "one", "two", "three", "four")
    kept = tmp_path / "cache" / "autoprune" / "replay"
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "autoprune", "replay", *paths, "--jobs", "1", "--strategy", f"{mine}:Slow"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, env=environ) as process:
        while process.poll() is None and not len(list(kept.glob("?" * 64))) > len(
            paths
        ):  # one is figures; the others are costs
            time.sleep(0.05)
        while process.poll() is None:  # a signal is lost while a worker is being started
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
        words = process.communicate()[1].decode()
    first = {file.name: file.stat().st_mtime_ns for file in kept.glob("?" * 64)}
    assert process.returncode == 130
    assert "the same command continues from there" in words
    assert "Traceback" not in words
    assert subprocess.run(command, capture_output=True, check=True, env=environ).stdout
    assert first.items() <= {file.name: file.stat().st_mtime_ns for file in kept.iterdir()}.items()


@pytest.mark.full
def test_ray_gives_what_processes_give(tmp_path: Path):
    pytest.importorskip("ray")
    paths = write_sessions(tmp_path, "one", "two")
    first, second = (
        json.loads(run("replay", *paths, "missing.json", *OPTIONS, "--json", "--engine", engine).stdout)
        for engine in ("processes", "ray")
    )
    assert timeless({**first, "command": ""}) == timeless({**second, "command": ""})


# A row for each request


@pytest.mark.full
def test_parquet_rows_add_up_to_the_bills(tmp_path: Path):
    read = pytest.importorskip("pyarrow.parquet").read_table
    file = tmp_path / "requests.parquet"
    sessions = write_sessions(tmp_path, "one", "two")
    options = (*OPTIONS, "--model", "claude-sonnet-4-5", "--json", "--parquet", str(file))
    done = json.loads(run("replay", *sessions, *options).stdout)
    rows = read(file).to_pylist()
    figures = [(session, each) for session in done["sessions"] for each in session["figures"]]
    assert len({(row["session"], row["strategy"]) for row in rows}) == len(figures) == 4
    for session, each in figures:
        own = [row for row in rows if (row["session"], row["strategy"]) == (session["path"], each["strategy"])]
        (bill,) = each["bills"].values()
        assert [row["request"] for row in own] == list(range(each["requests"]))
        assert [row["prompt_tokens"] for row in own] == each["prompts"]
        assert sum(row["cost"] for row in own) == pytest.approx(bill["total"])
        assert sum(row["dollars"] for row in own) == pytest.approx(bill["total"] * bill["input_price"])


def test_without_pyarrow_a_replay_fails_before_it_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(request_table, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["replay", "missing.jsonl", "--parquet", str(tmp_path / "requests.parquet")])
    assert done.exit_code == 2
    assert "a Parquet file needs pyarrow: run pip install" in done.output


# What to do


def test_the_command_of_the_search_names_only_a_few_files():
    assert _tune_line(["a b", "c"], {"--model": "m", "--reader": None}) == "autoprune tune 'a b' c --model m"
    assert _tune_line([str(at) for at in range(9)], {}) == "autoprune tune FILE…"


@each_row(
    ("path", "said"),
    [
        (
            "fixtures/demo.jsonl",
            ["Prune, at 0.7 of the bill:", "    autoprune run pi", "", "Look for a cheaper setting:"],
        ),
        (
            "fixtures/sessions",
            [
                "",
                "Leave it as it is: no strategy that can be chosen is shown to be cheaper and to keep enough.",
                "",
                "Look for a cheaper setting:",
            ],
        ),
    ],
)
def test_a_replay_ends_with_what_to_do(path: str, said: list[str], tmp_path: Path):
    page = tmp_path / "report.html"
    options = ("--strategy", RUN_STRATEGY, "--cache-life", "5m", "--jobs", "2", "--html", str(page))
    done = run_text("replay", path, *options, folder=FIXTURES.parent)
    lines, text = (re.sub(r"(0\.\d)\d+", r"\1", each) for each in (done.stdout, page.read_text(encoding="utf-8")))
    assert lines.splitlines()[-5:] == [*said, f"    autoprune tune {path} --cache-life 5m"]
    assert [each for each in said if html.escape(each.strip(" :.")) not in text] == []


def test_sessions_of_no_assistant_are_pruned_in_the_loop_of_their_agent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replaying, "PROGRAMS", {})
    options = ("--strategy", RUN_STRATEGY, "--cache-life", "5m", "--jobs", "1")
    said = CliRunner().invoke(app, ["replay", str(FIXTURES / "demo.jsonl"), *options]).output
    where = r"Prune, at 0\.\d+ of the bill, in the agent's own loop with the strategy:"
    assert re.search(rf"\n{where}\n    {re.escape(RUN_STRATEGY)}\n", said)


def test_a_setting_is_run_with_the_assistant_of_the_sessions():
    assert [run_line(RUN_STRATEGY), run_line("low_water @ 60k", 50_000, ["mine", "codex"])] == [
        "autoprune run claude",
        "autoprune run --strategy low_water --safe-zone 60k codex",
    ]
    assert run_line("low_water(target=0.6)", 50_000) == (
        "autoprune run --strategy 'low_water(target=0.6)' --safe-zone 50000 claude"
    )


# Where there is nothing to replay


@pytest.mark.parametrize("command", ["replay", "tune"])
@each_row(
    ("paths", "code", "words"),
    [
        (("empty",), 3, ["there are no session files (*.json, *.jsonl, *.gz, *.traj) in empty"]),
        (("none here",), 3, ["there are no session files (*.json, *.jsonl, *.gz, *.traj) in none here"]),
        (("e*",), 3, ["there are no session files (*.json, *.jsonl, *.gz, *.traj) in e*"]),
        (("empty", "none here"), 3, ["session files (*.json, *.jsonl, *.gz, *.traj) in empty; there", "in none here"]),
        (("missing",), 3, ["No such file or directory", "missing", "nothing was replayed: the session was skipped"]),
        (("m*",), 3, ["No such file or directory", "m*", "nothing was replayed: the session was skipped"]),
        (("others",), 3, ["is empty", "broken JSON", "b.json", "nothing was replayed: all 2 sessions were skipped"]),
        (("empty", "others/b.json"), 3, ["note: there are no session", "in empty", "b.json", "nothing was replayed"]),
        (
            (),
            3,
            ["no agent has stored sessions in ~/.claude/projects", "~/.codex/sessions, ", "fixtures/demo.jsonl`"],
        ),
        (("",), 2, ["one of the paths is empty: give a session file, a folder or a glob"]),
        (("-",), 2, ["sessions are not read from standard input: give files, folders or globs"]),
    ],
)
def test_if_nothing_can_be_replayed_an_error_says_what_was_looked_for_and_where(
    command: str, paths: tuple[str, ...], code: int, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for folder in ("home", "empty", "none here", "others"):
        (tmp_path / folder).mkdir()
    (tmp_path / "none here" / "notes.txt").write_text("words", encoding="utf-8")
    (tmp_path / "others" / "a.json").write_text("", encoding="utf-8")
    (tmp_path / "others" / "b.json").write_text("{", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = run(command, *paths)
    assert (done.returncode, done.stdout) == (code, b"")
    assert [each for each in words if each not in done.stderr.decode()] == []


@each_row("command", ["replay", "tune"])
def test_a_home_with_only_short_sessions_is_no_error(command: str, tmp_path: Path):
    folder = tmp_path / ".claude" / "projects" / "here"
    folder.mkdir(parents=True)
    shutil.copy(FIXTURES / "readers" / "claude-code.jsonl", folder)
    (folder / "empty.jsonl").touch()
    done = run_text(command, "--jobs", "1", environ={"HOME": str(tmp_path)})
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1].startswith("Leave it as it is: no session here has 20 requests between")
    assert run_text(command, str(folder), "--jobs", "1").returncode == 3


def test_jobs_sets_the_number_of_processes_on_every_system(monkeypatch: pytest.MonkeyPatch):
    assert (Processes(3).jobs, Processes().jobs) == (3, cores())
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert (Processes(3).jobs, Processes().jobs) == (3, os.cpu_count())


def test_cache_life_is_validated(tmp_path: Path):
    write_sessions(tmp_path, "one")
    done = run("replay", str(tmp_path), *OPTIONS, "--cache-life", "1h")
    assert b"1 h given 1" in done.stdout
    refused = run("replay", str(tmp_path), *OPTIONS, "--cache-life", "soon")
    assert refused.returncode
    assert b"--cache-life is 'soon': write it as" in refused.stderr


@contextmanager
def as_nobody() -> Iterator[None]:
    """Give up the rights of root, for whom every folder can be read."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_folder_that_cannot_be_read_is_named():
    with TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        locked = Path(name, "locked")
        locked.mkdir(mode=0)
        for given in (name, str(locked)):
            with as_nobody(), pytest.raises(SessionError, match=f"^{locked} cannot be read: Permission denied$"):
                find_files([given])


def test_if_nothing_is_replayed_the_error_says_why(tmp_path: Path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(
            '{"role": "user", "content": "Go."}\n{"role": "assistant", "content": "Hm."}\n'
        )
    for command in ("replay", "tune"):
        done = run_text(command, str(tmp_path))
        why = "all 2 sessions were skipped (fewer than 20 requests between compactions)"
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.splitlines()[-1] == f"autoprune: nothing was replayed: {why}"
    missing = run_text("tune", "nosuch")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert missing.stderr.endswith("the session was skipped (it cannot be read: No such file or directory)\n")


def test_no_color_means_no_styles():
    for arguments in (("strategies",), ("prune", XML, "-s", "20k", "--dry-run")):
        plain = run_text(*arguments, environ={"NO_COLOR": "1", "FORCE_COLOR": "1"})
        assert "\x1b" not in plain.stdout + plain.stderr
        styled = run_text(*arguments, environ={"FORCE_COLOR": "1", "NO_COLOR": None})
        assert "\x1b" in styled.stdout + styled.stderr
