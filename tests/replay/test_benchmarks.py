"""The programs in `benchmarks/` that compute figures of the documentation, on sessions with known figures."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorded_sessions import session, write_sessions

ROOT = Path(__file__).parents[2]
REQUESTS, STEP = 24, 600  # tokens by which each prompt grows


def printed(program: str, *arguments: object) -> list[str]:
    command = [sys.executable, f"benchmarks/{program}.py", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def claude_code() -> Iterator[dict[str, Any]]:
    """The lines of a Claude Code log with a cache of one hour, and ten minutes between requests."""
    shared = {"sessionId": "s", "version": "2.1.0", "isSidechain": False}
    parent = None
    for at in range(REQUESTS):
        read = STEP * at
        usage = {
            "input_tokens": 0,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": STEP * (at + 1) - read,
            "cache_creation": {"ephemeral_1h_input_tokens": STEP * (at + 1) - read, "ephemeral_5m_input_tokens": 0},
            "output_tokens": 10,
        }
        call = {"type": "tool_use", "id": f"c{at}", "name": "Read", "input": {"file_path": f"/src/part_{at}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": f"value_{at} " * (STEP // 3 - 20)}
        said = {"id": f"m{at}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [call], "usage": usage}
        for kind, message in (
            ("user", {"role": "user", "content": [result] if at else "Read it."}),
            ("assistant", said),
        ):
            if kind == "user" and at:
                result["tool_use_id"] = f"c{at - 1}"
            line = {"uuid": f"{kind}-{at}", "parentUuid": parent, "type": kind, "message": message}
            yield shared | line | {"timestamp": f"2026-01-01T{at // 6:02}:{at % 6}0:00.000Z"}
            parent = line["uuid"]


def test_invoices_compares_replayed_and_recorded_shares_and_costs(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(each) for each in claude_code()), encoding="utf-8")
    count, *_, row = printed("invoices", log)
    assert count == "1 sessions with recorded usage in 1 files"
    assert row.split() == ["claude-code", "1", "0.00", "0.00", "100.0%", "0.0", "0.0", "100.0%"]
    # As if the cache had lived for five minutes: each pause of ten would have emptied it.
    *_, row, _, _, farthest = printed("invoices", log, "--cache-life", 300)
    assert row.split()[4::3] == ["0.0%", "0.0%"]
    assert farthest.split()[:4] == [log.name, str(REQUESTS - 1), "0.0%", "(91.7%)"]


def test_atoms_counts_matches_by_chance_in_results_of_other_sessions(tmp_path: Path):
    apart = write_sessions(tmp_path, "alpha", "beta")
    assert row_of("edit", tmp_path) == ["8", "0.0 %"]
    Path(apart[1]).write_bytes(Path(apart[0]).read_bytes())  # the same results under another name
    count, chance = row_of("edit", tmp_path)
    assert count == "8"
    assert float(chance.removesuffix(" %")) > 10


def row_of(kind: str, folder: Path) -> list[str]:
    """How many atoms of a kind count, and the share that is found by chance."""
    cells = next(line.split(" | ") for line in printed("atoms", folder) if line.startswith(f"| {kind} |"))
    return [cells[1], cells[-1].removesuffix(" |")]


def test_ablations_separates_groups_of_sessions(tmp_path: Path):
    write_sessions(tmp_path, "alpha", "beta")
    lines = [line for line in printed("ablations", tmp_path, "--frontier") if line]
    groups = [line for line in lines if not line.startswith("|")]
    assert groups == [
        "all: 2 conversations",
        "one half: 1 conversations",
        "the other half: 1 conversations",
        "under 100k: 2 conversations",
        "that edit files: 2 conversations",
    ]
    table = [row.split(" | ") for row in lines[3 : lines.index(groups[1])]]
    bills = {name.strip("| "): float(bill) for name, bill, *_ in table}
    assert bills["clairvoyant"] <= bills["autoprune run"] <= 1.0


def test_resuming_cuts_a_session_at_a_pause_in_which_its_cache_has_expired():
    count, first, soon, *kept = [
        line.split() for line in printed("resuming", "fixtures/demo.jsonl", "fixtures/sessions")
    ]
    assert count[0] == "1"  # only the demo has such a pause
    assert [float(each[2]) < 0.6 for each in (first, soon)] == [True, True]
    assert [line[:2] for line in kept] == [[name, "1.000"] for name in ("code", "edits", "facts")]


def test_recalling_finds_what_was_cleared_and_used_later(tmp_path: Path):
    write_sessions(tmp_path, "alpha", "beta")
    heading, *rows = printed("recalling", tmp_path, "--strategy", "tool_output_cleanup @ 5k")
    assert heading == "found among the first 3 results, tool_output_cleanup @ 5k:"
    assert [row.split()[:2] for row in rows if row.startswith("edits")] == [["edits", "1.000"]]
    assert rows[0].endswith("n = 8")


def test_arrival_finds_repeated_blocks_and_tables(tmp_path: Path):
    again = ["\n".join(f"value_{line} = compute({line})" for line in range(40))] * 24
    tables = [json.dumps([{"name": f"n{at}_{row}", "size_in_bytes": row} for row in range(30)]) for at in range(24)]
    for name, texts, shape in (("again", again, "repeated blocks"), ("tables", tables, "tables")):
        messages = session(name)
        results = [message for message in messages if message["role"] == "tool" and message["content"] != "done"]
        for message, text in zip(results, texts, strict=True):
            message["content"] = text
        (file := tmp_path / f"{name}.json").write_text(json.dumps(messages), encoding="utf-8")
        heading, *rows = printed("arrival", file)
        assert heading == "of the bill of 1 conversations, at most:"
        shares = {row[:16].strip(): float(row[16:].split("%")[0]) for row in rows}
        assert shares[shape] > 5
        assert {share for name, share in shares.items() if name != shape} == {0.0}
