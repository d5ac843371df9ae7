"""`prunebench`: its tables, its JSON, policies in files, and that two runs write the same bytes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from autoprune.apps.replay.rows import Interval
from bench_command import run_process, run_text
from recorded_sessions import write_sessions

from prunebench.command import corpus_names, marked, sample, usable
from prunebench.figures import OURS, POLICY_NAMES, PRICE_LISTS, percentile, project
from prunebench.policies import POLICIES

FEW = ("--policy", "complexity_trap", "--policy", "cache_aware @ 20k", "--prices", "anthropic", "--prices", "no-cache")
MINE = '''
from autoprune.apps.policies import Changes

class Mine:
    """Shorten each result that is older than the newest `keep`."""

    def __init__(self, keep=5):
        self.keep = keep

    def changes(self, request):
        return Changes({result: "(old)" for result in request.results[: -self.keep]})

class Broken:
    pass
'''


def bench(folder: Path, *arguments: str, **options: Any) -> dict[str, Any]:
    """Run the command on the folder's sessions, and return what it writes as JSON."""
    done = run_text(str(folder), *arguments, "--json", "--jobs", "1", **options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_tables_fit_80_columns_and_show_each_policy_at_each_price_list(tmp_path: Path):
    write_sessions(tmp_path, "one", "two")
    done = run_text(str(tmp_path), *FEW, "--jobs", "1", environ={"COLUMNS": "80"})
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert f"{tmp_path.name}: 2 of 2 files, " in done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("prices: ")] == [
        "anthropic",
        "no-cache",
    ]
    rows = [line for line in done.stdout.splitlines() if line.startswith("complexity_trap")]
    assert len(rows) == 4  # two bills, the evidence, the prompts
    assert "decide by prices, at anthropic" in done.stdout


def test_two_runs_write_the_same_bytes(tmp_path: Path):
    write_sessions(tmp_path, "one", "two", "three")
    arguments = (str(tmp_path), "--json", "--jobs")
    first, second = (
        run_process(*arguments, jobs, environ={"PYTHONHASHSEED": seed}) for jobs, seed in (("1", "1"), ("3", "2"))
    )
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert list(json.loads(first.stdout)["policies"]) == list(usable(POLICY_NAMES)[0])


def test_the_page_has_each_corpus_with_each_policy_at_each_price_list(tmp_path: Path):
    corpus = tmp_path / "<b>&"
    corpus.mkdir()
    write_sessions(corpus, "one")
    done = run_text(str(corpus), *FEW, "--jobs", "1", "--html", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<b>&</h2>" not in text
    assert "&lt;b&gt;&amp;</h2>" in text
    for prices in ("anthropic", "no-cache"):
        table = text.partition(f"Strategies at {prices} prices")[2].partition("</table>")[0]
        assert "complexity_<wbr>trap" in table
        assert "cache_<wbr>aware @ 20k" in table
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert [len(points) for points in data] == [3, 3]


def test_ray_writes_what_processes_write(tmp_path: Path):
    pytest.importorskip("ray")
    write_sessions(tmp_path, "one", "two")
    first, second = (bench(tmp_path, *FEW, "--engine", engine) for engine in ("processes", "ray"))
    assert first == second


def test_a_policy_whose_package_is_missing_is_left_out_of_all_and_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "headroom", None)
    policies, missing = usable(POLICY_NAMES)
    assert {*policies, *missing} == {*POLICY_NAMES}
    assert list(missing) == ["headroom"]
    assert missing["headroom"].endswith("pip install headroom-ai==0.42.0")
    write_sessions(tmp_path, "one")
    done = run_text(str(tmp_path), "--policy", "headroom", "--jobs", "1")
    assert (done.returncode, "pip install headroom-ai" in done.stderr) == (2, True)


def test_a_strategy_that_decides_by_prices_is_replayed_for_each_list_and_a_policy_once(tmp_path: Path):
    write_sessions(tmp_path, "one", "two")
    (corpus,) = bench(tmp_path, *FEW)["corpora"]
    assert [(each["policy"], each["prices"]) for each in corpus["effects"] if each["policy"] != "none"] == [
        ("cache_aware @ 20k", "anthropic"),
        ("complexity_trap", None),
        ("cache_aware @ 20k", "no-cache"),
    ]
    assert {name: len(ranking) for name, ranking in corpus["bills"].items()} == {"anthropic": 3, "no-cache": 3}


def test_the_benchmark_has_all_policies_of_other_tools_and_ours():
    assert set(POLICY_NAMES) == {"none", "clairvoyant", *OURS, *POLICIES}
    assert len(PRICE_LISTS) == 6


def test_a_policy_in_a_file_is_replayed_like_the_same_one_that_ships(tmp_path: Path):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE, encoding="utf-8")
    folder = tmp_path / "logs"
    folder.mkdir()
    write_sessions(folder, "one")
    named = f"{mine}:Mine"
    (corpus,) = bench(folder, "--policy", named, "--policy", f"{named}(keep=100)", "--prices", "anthropic")["corpora"]
    ranks = {each["policy"]: each["bill"][0] for each in corpus["bills"]["anthropic"]}
    assert ranks[named] > 1.0 == ranks[f"{named}(keep=100)"]


def test_a_class_that_is_no_policy_is_an_error(tmp_path: Path):
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    done = run_text(str(tmp_path), "--policy", f"{tmp_path / 'mine.py'}:Broken")
    assert (done.returncode, "mine.py:Broken is not a strategy" in done.stderr) == (2, True), done.stderr


def test_a_folder_without_sessions_is_an_error(tmp_path: Path):
    done = run_text(str(tmp_path))
    assert (done.returncode, "there are no session files" in done.stderr) == (3, True)


def test_a_sample_is_evenly_spread():
    files = [str(number) for number in range(10)]
    assert sample(files, 3) == ["0", "3", "6"]
    assert sample(files, 20) == sample(files, None) == files


def test_corpora_of_the_same_name_are_named_by_their_paths():
    assert corpus_names({"/x/a": 0, "/y/b": 0}) == {"/x/a": "a", "/y/b": "b"}
    assert corpus_names({"/x/a": 0, "/y/a": 0}) == {"/x/a": "/x/a", "/y/a": "/y/a"}


def test_policies_are_marked_if_they_shorten_unseen_results_or_were_not_compared():
    for name, known in POLICIES.items():
        marks = marked(f"{name}(keep=3)").removeprefix(f"{name}(keep=3)")
        assert [mark in marks for mark in "*†§"] == [known.is_arrival, not known.checked, bool(known.outdated)]
    assert marked("cache_aware") == "cache_aware"


def test_intervals_are_over_projects_whose_names_are_in_those_of_files():
    assert project("logs/claude-code--entireio-cli--00dbbb51f1-0.jsonl") == "entireio-cli"
    assert project("django__django-11099.traj.json") == "django__django"
    assert project("logs/one.jsonl") == "logs/one.jsonl"


def test_a_percentile_is_over_all_values_and_its_interval_over_sessions():
    alike = [list(range(1, 101)) for _ in range(8)]
    assert percentile(alike, 0.95) == Interval(95, 95, 95)
    uneven = percentile([*alike, [1_000] * 50], 0.95)
    assert (uneven.value, uneven.low, uneven.high) == (1_000, 95, 1_000)
    assert percentile([], 0.95) == Interval(0, 0, 0)
    assert percentile([[7]] * 1_500, 0.95) == Interval(7, 7, 7)
