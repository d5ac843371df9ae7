"""The manifest of public recorded sessions, and the program that takes them out of local clones."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / "benchmarks" / "sessions.json"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")


def test_the_manifest_names_each_session_once_and_holds_no_text():
    entries = json.loads(MANIFEST.read_text(encoding="utf-8"))
    assert (
        len(entries) == len({entry["name"] for entry in entries}) == len({entry["sha256"] for entry in entries}) == 61
    )
    for entry in entries:
        assert list(entry) == ["name", "repository", "branch", "commit", "path", "licence", "sha256"]
        assert re.fullmatch(r"[0-9a-f]{40}", entry["commit"])
        assert re.fullmatch(r"[0-9a-f]{64}", entry["sha256"])
        assert re.fullmatch(r"[\w.-]+", entry["name"])
        assert max(map(len, entry.values())) < 200


def test_sessions_are_written_from_local_clones_if_they_are_what_the_manifest_says(tmp_path: Path):
    clone, program = tmp_path / "clones" / "owner" / "name", tmp_path / "sessions.py"
    clone.mkdir(parents=True)
    (clone / "log.jsonl").write_bytes(b"{}\r\n\xff")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "One")):
        subprocess.run([*GIT, *command], cwd=clone, check=True)
    digest = hashlib.sha256(b"{}\r\n\xff").hexdigest()
    right = {
        "name": "a.jsonl",
        "repository": "owner/name",
        "branch": "main",
        "commit": "0" * 40,
        "path": "log.jsonl",
        "sha256": digest,
    }
    wrong = [{**right, "name": "b.jsonl", "sha256": "0" * 64}, {**right, "name": "c.jsonl", "repository": "no/such"}]
    program.write_bytes((MANIFEST.with_suffix(".py")).read_bytes())
    program.with_suffix(".json").write_text(json.dumps([right, *wrong]))
    done = subprocess.run(
        [sys.executable, program, tmp_path / "clones", tmp_path / "out"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout == f"1 of 3 sessions written to {tmp_path / 'out'}\n"
    assert done.stderr.splitlines() == ["not found: log.jsonl of owner/name", "not found: log.jsonl of no/such"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.jsonl"]
    assert (tmp_path / "out" / "a.jsonl").read_bytes() == b"{}\r\n\xff"
