"""Session files in the home folder, and in the files, folders and globs that a user names."""

import os
from pathlib import Path

import pytest
from tables import each_row

from autoprune.apps.sessions import Reader, places


def files(folder: Path, *names: str) -> list[Path]:
    """Write empty files, each a second newer than the previous one."""
    made = [folder / name for name in names]
    for second, file in enumerate(made):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (second, second))
    return made


def test_session_files_in_the_home_folder_are_listed_newest_first(tmp_path: Path):
    old, new, agents, archived, rollout, chat, event, pi, own = files(
        tmp_path,
        ".claude/projects/-home-shop/old.jsonl",
        ".claude/projects/-home-shop/new.jsonl",
        ".claude/projects/-home-shop/new/subagents/agent-1.jsonl",
        ".codex/archived_sessions/rollout-1.jsonl",
        ".codex/sessions/2026/01/02/rollout-2.jsonl",
        ".gemini/tmp/shop/chats/session-1.json",
        ".copilot/session-state/1/events.jsonl",
        ".pi/agent/sessions/--home-shop--/1.jsonl",
        ".mine/1.log",
    )
    files(
        tmp_path,
        ".claude/history.jsonl",
        ".claude/projects/-home-shop/new/subagents/journal.jsonl",
        ".codex/history.jsonl",
        ".gemini/tmp/shop/logs.json",
        ".copilot/session-state/1/files/data.jsonl",
    )
    (tmp_path / ".pi/agent/sessions/folder.jsonl").mkdir()
    mine = Reader("mine", bool, lambda values: [], places=(".mine/*.log",))
    assert places.at_home(tmp_path, [mine], environ={}) == {
        "mine": [own],
        "claude-code": [agents, new, old],
        "codex": [rollout, archived],
        "gemini-cli": [chat],
        "copilot-cli": [event],
        "pi": [pi],
    }


def test_folders_that_the_variables_of_agents_name_are_searched_too(tmp_path: Path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    usual, xdg = files(home, ".claude/projects/-shop/1.jsonl", ".config/claude/projects/-shop/2.jsonl")
    claude, codex, copilot, gemini, pi = files(
        elsewhere,
        "work/projects/-shop/3.jsonl",
        "codex/sessions/2026/01/02/rollout-1.jsonl",
        "copilot/session-state/1/events.jsonl",
        ".gemini/tmp/shop/chats/session-1.json",
        "pi/sessions/--shop--/1.jsonl",
    )
    environ = {
        "CLAUDE_CONFIG_DIR": str(elsewhere / "work"),
        "CODEX_HOME": str(elsewhere / "codex"),
        "COPILOT_HOME": str(elsewhere / "copilot"),
        "GEMINI_CLI_HOME": str(elsewhere),
        "PI_CODING_AGENT_DIR": str(elsewhere / "pi"),
    }
    found = places.at_home(home, environ=environ)
    assert {agent: set(each) for agent, each in found.items()} == {
        "claude-code": {usual, xdg, claude},
        "codex": {codex},
        "copilot-cli": {copilot},
        "gemini-cli": {gemini},
        "pi": {pi},
    }


def test_a_home_folder_without_session_files_gives_nothing(tmp_path: Path):
    assert places.at_home(tmp_path, environ={}) == places.at_home(tmp_path / "nowhere", environ={}) == {}


@each_row(
    "names, found",
    [
        (["a.json"], ["a.json"]),
        (["a.json", "sub", "a.json"], ["a.json", "sub/b.jsonl", "sub/c.json.gz", "sub/deep/d.traj"]),
        (["."], ["a.json", "sub/b.jsonl", "sub/c.json.gz", "sub/deep/d.traj"]),
        (["*.json"], ["a.json"]),
        (["sub/**/*.traj", "*.txt"], ["sub/deep/d.traj", "e.txt"]),
        (["s*"], ["sub/b.jsonl", "sub/c.json.gz", "sub/deep/d.traj"]),
        (["[x].json"], ["[x].json"]),
        (["nowhere.json", "no*thing"], ["nowhere.json", "no*thing"]),
        (["~/a.json"], ["a.json"]),
        ([], []),
    ],
)
def test_names_are_expanded_to_files_folders_and_globs(
    names: list[str], found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files(tmp_path, "a.json", "sub/b.jsonl", "sub/c.json.gz", "sub/deep/d.traj", "sub/e.md", "e.txt")
    if "[x].json" in names:
        files(tmp_path, "[x].json", "x.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", ".")
    assert [os.path.normpath(file) for file in places.expand_names(names)] == found


def test_in_a_folder_of_harbors_jobs_only_its_trajectories_are_sessions(tmp_path: Path):
    logs = ("agent/gemini-cli.trajectory.json", "agent/sessions/projects/app/s.jsonl")
    trial = ("config.json", "result.json", "agent/trajectory.json", *logs)
    files(tmp_path, "config.json", "job/config.json", "job/result.json", *(f"job/trial/{name}" for name in trial))
    found = [str(file.relative_to(tmp_path)) for file in places.expand_names([str(tmp_path)])]
    assert found == ["config.json", "job/trial/agent/trajectory.json"]
    assert places.expand_names(str(tmp_path / "job" / "result.json")) == [tmp_path / "job" / "result.json"]
