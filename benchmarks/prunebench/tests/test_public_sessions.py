"""The manifest of public recorded sessions, and the program that takes them out of local clones."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / "sessions.json"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
LOG = b"{}\r\n\xff"
SHA256 = hashlib.sha256(LOG).hexdigest()


def test_the_manifest_names_each_session_of_a_corpus_once_and_holds_no_text():
    known = json.loads(MANIFEST.read_text(encoding="utf-8"))
    names: dict[str, list[str]] = {corpus: [] for corpus in known["corpora"]}
    digests: dict[str, list[str]] = {corpus: [] for corpus in known["corpora"]}
    for source in known["sources"]:
        assert source["license"] in ("MIT", "Apache-2.0")
        assert re.fullmatch(r"[0-9a-f]{40}", source["commit"])
        for key, digest in source["sessions"].items():
            assert re.fullmatch(r"[0-9a-f]{64}", digest)
            assert re.fullmatch(r"[\w./-]{1,200}", source["path"].format(*key.split("/"), key=key))
            name = source["name"].format(*key.split("/"), key=key)
            assert re.fullmatch(r"[\w.-]{1,200}", name)
            names[source["corpus"]].append(name)
            digests[source["corpus"]].append(digest)
    counts = {corpus: len({*each}) for corpus, each in names.items()}
    assert counts == {"assistants": 61, "mini-swe-agent": 500, "one-hour-cache": 42, "others": 134, "tau-bench": 1}
    assert all(counts[corpus] == len(names[corpus]) == len({*each}) for corpus, each in digests.items())
    assert not {*digests["assistants"]} & {*digests["others"]}


def a_source(corpus: str, **changed: Any) -> dict[str, Any]:
    return {
        "corpus": corpus,
        "repository": "owner/name",
        "branch": "main",
        "commit": "0" * 40,
        "license": "MIT",
        "path": "{key}/log.jsonl",
        "name": "{1}.jsonl",
        "sessions": {"logs/one": SHA256},
        **changed,
    }


@pytest.fixture
def run(tmp_path: Path):
    """Run a copy of the program with two corpora, and a clone of a repository with one log."""
    log = tmp_path / "clones" / "owner" / "name" / "logs" / "one" / "log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(LOG)
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "One")):
        subprocess.run([*GIT, *command], cwd=tmp_path / "clones" / "owner" / "name", check=True)
    sources = [
        a_source("good"),
        a_source("bad", sessions={"logs/one": "0" * 64, "logs/two": SHA256}),
        a_source("bad", repository="no/such", name="other-{1}.jsonl"),
    ]
    manifest = {"corpora": {"good": "Whole.", "bad": "Not whole."}, "sources": sources}
    (tmp_path / "sessions.py").write_bytes(MANIFEST.with_suffix(".py").read_bytes())
    (tmp_path / "sessions.json").write_text(json.dumps(manifest))

    def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "sessions.py", *arguments]
        return subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)

    return run_program


def test_a_corpus_is_written_from_local_clones(run, tmp_path: Path):
    done = run("clones", "out", "--corpus", "good")
    assert (done.returncode, done.stdout, done.stderr) == (0, "good: 1 file (MIT), complete in out/good\n", "")
    assert [path.relative_to(tmp_path) for path in (tmp_path / "out").rglob("*")] == [
        Path("out/good"),
        Path("out/good/one.jsonl"),
    ]
    assert (tmp_path / "out" / "good" / "one.jsonl").read_bytes() == LOG


def test_what_differs_from_its_sha256_is_not_written_and_what_is_missing_is_named_with_its_command(run, tmp_path: Path):
    done = run("clones", "out")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "good: 1 file (MIT), complete in out/good",
        "bad: 3 files (MIT), NOT complete in out/bad",
    ]
    assert done.stderr.splitlines() == [
        "not found: 2 of 2 of owner/name: logs/one/log.jsonl, logs/two/log.jsonl; first run",
        f"    git --git-dir=clones/owner/name/.git fetch https://github.com/owner/name {'0' * 40}",
        "not found: 1 of 1 of no/such: logs/one/log.jsonl; first run",
        "    git clone --mirror https://github.com/no/such clones/no/such",
    ]
    assert list((tmp_path / "out" / "bad").iterdir()) == []


def test_a_written_corpus_is_verified_even_without_clones(run, tmp_path: Path):
    run("clones", "out", "--corpus", "good")
    written = tmp_path / "out" / "good" / "one.jsonl"
    assert run("nowhere", "out", "--corpus", "good").returncode == 0
    (written.parent / "mine.jsonl").write_text("{}")
    strange = run("nowhere", "out", "--corpus", "good")
    assert (strange.returncode, strange.stderr) == (1, "not part of this corpus: out/good/mine.jsonl\n")
    (written.parent / "mine.jsonl").unlink()
    written.write_bytes(LOG + b"\n")
    assert run("clones", "out", "--corpus", "good").returncode == 0
    assert written.read_bytes() == LOG
    written.write_bytes(LOG + b"\n")
    assert run("nowhere", "out", "--corpus", "good").returncode == 1
    assert not written.exists()


def test_without_arguments_the_corpora_are_listed_with_the_commands_that_clone_them(run):
    assert run().stdout.splitlines() == [
        "good: 1 file (MIT)",
        "    Whole.",
        "    git clone --mirror https://github.com/owner/name clones/owner/name",
        "bad: 3 files (MIT)",
        "    Not whole.",
        "    git clone --mirror https://github.com/owner/name clones/owner/name",
        "    git clone --mirror https://github.com/no/such clones/no/such",
    ]
