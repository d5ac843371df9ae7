"""Each client behind `autoprune run` and `autoprune doctor`: a program of its name, and a user who has them all."""

import json
import re
import tempfile
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import run_text
from fake_clients import asking, install
from raw_upstream import always, answer, serving

from autoprune.apps.clients import CLIENTS

full = partial(pytest.param, marks=pytest.mark.full)
ELSEWHERE = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
USUAL = {  # files of a user of all nine
    ".claude.json": {"numStartups": 3},
    ".claude/settings.json": {"env": {"ANTHROPIC_BASE_URL": "https://lab.example"}},
    ".codex/auth.json": {"OPENAI_API_KEY": "sk-1"},
    ".codex/config.toml": 'model = "gpt-5"',
    ".gemini/.env": "GEMINI_API_KEY=sk-2",
    ".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    ".config/opencode/opencode.json": {"provider": {"anthropic": {"options": {"baseURL": "https://lab.example/v1"}}}},
    ".local/share/opencode/auth.json": {"anthropic": {"type": "api", "key": "sk-3"}},
    ".qwen/settings.json": {"security": {"auth": {"selectedType": "openai", "baseUrl": "https://lab.example/v1"}}},
    ".copilot/config.json": {"banner": "never"},
    ".cline/data/settings/providers.json": {
        "lastUsedProvider": "openai-native",
        "providers": {"openai-native": {"settings": {"apiKey": "sk-4", "baseUrl": "https://lab.example/v1"}}},
    },
    ".pi/agent/models.json": {"providers": {"anthropic": {"baseUrl": "https://lab.example"}}},
    ".pi/agent/settings.json": {"defaultProvider": "anthropic"},
    ".config/mini-swe-agent/.env": "OPENAI_API_BASE=https://lab.example/v1",
    "project/.claude/settings.local.json": {"env": {"A": "1"}},
    "project/opencode.json": {"theme": "dark"},
    "project/.env": "A=1",
}


def living(folder: Path, client: str) -> tuple[Path, dict[str, str | None]]:
    """A user of all nine clients, with a fake program of this one. Returns the home folder and the variables."""
    home, programs = folder / "home", folder / "programs"
    for name, content in USUAL.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    programs.mkdir()
    return home, {"HOME": str(home), "PATH": install(programs, asking(client), client), **dict.fromkeys(ELSEWHERE)}


def contents(home: Path) -> dict[str, tuple[str, int, int]]:
    """The digest, mode and modification time of each file in a home, and the mode of each folder, without ledgers."""
    own = home / ".local" / "state" / "autoprune" / "ledgers"
    return {
        str(path): (sha256(path.read_bytes()).hexdigest(), path.stat().st_mode, path.stat().st_mtime_ns)
        if path.is_file()
        else ("", path.stat().st_mode, 0)
        for path in home.rglob("*")
        if not path.is_relative_to(own) and not own.is_relative_to(path)
    }


@pytest.mark.parametrize("client", [client.name for client in CLIENTS])
def test_user_files_are_not_changed_and_no_copy_is_left(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home, variables = living(tmp_path, client)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = contents(home)
    with serving(always(answer())) as upstream:
        done = run_text("run", "--upstream", upstream.url, client, environ=variables, folder=home / "project")
    assert (done.returncode, len(upstream.requests)) == (0, 1), done.stderr
    assert contents(home) == before
    assert not [*(tmp_path / "temporary").iterdir()]


@pytest.mark.parametrize(
    ("client", "set"),
    [
        (
            "codex",
            "RUST_LOG=error,codex_api::endpoint::responses_websocket=off "
            """codex -c 'openai_base_url="http://127.0.0.1:PORT/v1"' exec --skip-git-repo-check 'Say """,
        ),
        full("gemini", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:PORT gemini -p 'Say "),
        full(
            "opencode",
            """OPENCODE_CONFIG_CONTENT='{"provider": {"anthropic": {"options": {"baseURL": """
            """"http://127.0.0.1:PORT/v1"}}}}' opencode run 'Say """,
        ),
        full(
            "qwen",
            "OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 qwen --openai-base-url http://127.0.0.1:PORT/v1 -p 'Say ",
        ),
        full(
            "copilot",
            "COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:PORT/v1 COPILOT_PROVIDER_MAX_PROMPT_TOKENS=900000 "
            "copilot -p 'Say ",
        ),
        (
            "cline",
            "CLINE_PROVIDER_SETTINGS_PATH=FOLDER/providers.json CLINE_SESSION_BACKEND_MODE=local cline --json 'Say ",
        ),
        full("pi", "pi --extension FOLDER/proxy.ts -p 'Say "),
        full("mini", "OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_API_BASE=http://127.0.0.1:PORT/v1 mini -t 'Say "),
    ],
)
def test_doctor_routes_each_other_client_to_the_proxy(client: str, set: str, tmp_path: Path):
    home, variables = living(tmp_path, client)
    with serving(always(answer())) as upstream:
        done = run_text("doctor", "--upstream", upstream.url, client, environ=variables, folder=home / "project")
    installed, _, command, *others = done.stdout.splitlines()
    assert installed.startswith(f"installed     {tmp_path / 'programs' / client}, 1.2.3 (tried with ")
    assert command.startswith(f"  {set}")
    assert re.search(r"^requests      arrive: /\S+, [\w.-]+, \d+ tokens$", done.stdout, re.MULTILINE)
    assert f"upstream      answers (200 to a request without a key): {upstream.url}" in others
    assert done.returncode == 0
