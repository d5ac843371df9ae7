"""Sessions of tests, replayed: a recorded one of the fixtures, and one whose tools say what would hurt a page."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autoprune.apps.replay import ReplayArgs, SessionFigures, replay_session
from autoprune.apps.replay.detail import SessionDetail, session_details
from autoprune.apps.replay.verdict import RUN_COMMAND, Standing, standings
from autoprune.economics import LISTS

RECORDED = Path(__file__).parents[2] / "fixtures" / "sessions" / "edit_loop_openai.jsonl"
STRATEGIES = ("none", "low_water", "window(keep=4)", "clairvoyant")
ARGS = ReplayArgs(STRATEGIES, (LISTS["anthropic"], LISTS["deepseek"]), safe_zone=20_000)
MARKUP = "</pre></details><script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">"
UNFIT = "\x00\x07\x1b[31mred\x1b[0m \u202egnorw\u202c \ud800"
SECRET = "sk-live-0123456789"


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a page is made of."""

    found: tuple[SessionFigures, ...]
    details: tuple[SessionDetail, ...]


def replayed(name: str, data: bytes, args: ReplayArgs = ARGS, *, texts: bool = False) -> Replayed:
    """Return a session's figures and details."""
    return Replayed((replay_session(name, data, args),), tuple(session_details(name, data, args, texts=texts)))


def ranking(found: Sequence[SessionFigures], run: str = RUN_COMMAND) -> dict[str, list[Standing]]:
    """Rank the strategies of sessions at each of their prices."""
    figures = [each for session in found for each in session.figures]
    return {name: standings(figures, name, run) for name in figures[0].bills} if figures else {}


@cache
def recorded(*, texts: bool = False) -> Replayed:
    """Return the recorded session of the fixtures, replayed."""
    return replayed(RECORDED.name, RECORDED.read_bytes(), texts=texts)


@cache
def hostile(*, texts: bool = False) -> Replayed:
    """Return a session whose tools are called and say what would hurt a page, replayed."""
    return replayed(f"{MARKUP}.json", hostile_session(), texts=texts)


def hostile_session() -> bytes:
    """Return a session of 24 requests: markup, formulas, unfit characters and a secret wherever a tool may put them."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Go on. {MARKUP}"}]
    for number in range(24):
        text = f"{MARKUP} {UNFIT} {SECRET} $\\frac{{1}}$ " + f"needed_name_{number} " * 200
        messages += call(number, f"$_{MARKUP}", {"path": f"/src/{MARKUP}{number}.py"}, text)
        script = f"TOKEN={SECRET} grep '{SECRET}' needed_name_{max(0, number - 9)}"
        messages += call(100 + number, "bash", {"command": script}, f"{SECRET} " * 50)
    return json.dumps(messages).encode()


def call(number: int, tool: str, arguments: dict[str, str], text: str) -> list[dict[str, Any]]:
    """Return a call of a tool and its result, as messages of Chat Completions."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    calls = [{"id": f"c{number}", "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]
