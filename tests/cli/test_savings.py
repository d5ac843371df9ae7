"""`autoprune savings` and the ledger files that it sums up."""

import json
import os
import stat
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import run_text
from proxied import drive, proxied, recorded
from tables import each_row

from autoprune import AgenticConversationPruner, SessionError
from autoprune.apps.cli.ledgers import Ledgers, holdout_seed, keep_ledgers, read_ledgers
from autoprune.apps.cli.savings import Saving, _cells
from autoprune.apps.proxy import ClientSession
from autoprune.economics import Ledger, Prices

DAY = datetime(2026, 11, 20, 12).timestamp()
SECRET = "sk-live-0123456789"
CONVERSATION: list[Any] = [{"role": "user", "content": "Read."}]
for at in range(6):
    call = {"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    CONVERSATION.append({"role": "assistant", "content": "word " * 300, "tool_calls": [call]})
    CONVERSATION.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"{SECRET} {at}\n" * 20})


def session(
    name: str,
    *,
    client: str = "mini/2.4.6 (linux)",
    model: str = "m",
    price: float | None = 1e-3,
    pause: float = 0.0,
    life: float = 300,
) -> ClientSession:
    """A conversation in which pruning lost money: long messages after cleared results were cached again."""
    ledger = Ledger(Prices(1.25, 0.1, 5, input_price=price, life=life))
    pruner = AgenticConversationPruner("2k")
    for at in range(3, len(CONVERSATION) + 1, 2):
        ledger.add(pruner.prune(CONVERSATION[:at]), pauses={at: pause})
    return ClientSession(name, client, "/v1/chat/completions", DAY, model=model, requests=6, ledger=ledger)


def savings(folder: Path, *arguments: str):
    return run_text("savings", *arguments, environ={"XDG_STATE_HOME": str(folder), "COLUMNS": "100"})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def kept(state: Path) -> Ledgers:
    return Ledgers(state / "autoprune" / "ledgers")


def test_conversations_of_a_proxy_are_summed_up(state: Path, kept: Ledgers):
    with proxied() as proxy:
        drive(proxy, recorded()[:60], "opencode/1.18.33 (linux)")
        kept.write_changed(proxy.sessions)
    (known,) = proxy.sessions
    done = savings(state)
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("opencode"))
    total, share = known.ledger.total, known.ledger.total.net / known.ledger.unpruned
    assert row[:6] == ["opencode", "gpt-5.1", "1", f"{known.requests}", f"{total.net:,.0f}", f"{share:.0%}"]
    assert total.money is not None
    assert row[6] == f"{total.money:,.2f}"
    assert f"pruning has saved {total.net:,.0f} input tokens" in done.stdout


def in_arm(name: str, arm: str, prompt: int, requests: int = 4, price: float | None = 1e-6) -> ClientSession:
    """A conversation of a holdout whose requests have prompts of this size, all of them written."""
    ledger = Ledger(Prices(1.25, 0.1, 5, input_price=price))
    result = AgenticConversationPruner("100k").prune([{"role": "user", "content": "word " * prompt}])
    for at in range(requests):
        ledger.add(result, usage={"input_tokens": prompt} if at else None)
    return ClientSession(name, "mini", "/v1", DAY, model="m", requests=requests, ledger=ledger, arm=arm)


def holdout(pruned: int, unpruned: int, factor: float = 1.0, price: float | None = 1e-6) -> list[ClientSession]:
    """Conversations of a holdout; pruned ones cost `factor` times as much."""
    sizes = [200 + 37 * (at % 11) for at in range(pruned + unpruned)]
    first = [in_arm(f"p{at}", "pruned", round(size * factor), price=price) for at, size in enumerate(sizes[:pruned])]
    return first + [in_arm(f"u{at}", "unpruned", size, price=price) for at, size in enumerate(sizes[pruned:])]


def holdout_line(state: Path) -> str:
    done = run_text("savings", environ={"XDG_STATE_HOME": str(state), "COLUMNS": "1000"})
    return next((line for line in done.stdout.splitlines() if line.startswith("Holdout")), "")


@each_row(
    "pruned, unpruned, said",
    [(5, 2, "7 of 30 conversations"), (30, 3, "3 of 5 unpruned conversations"), (2, 28, "2 of 5 pruned conversations")],
)
def test_a_holdout_is_not_yet_known_with_few_conversations(tmp_path: Path, pruned: int, unpruned: int, said: str):
    kept = Ledgers(tmp_path / "autoprune" / "ledgers")
    titles = [in_arm(f"title {at}", "pruned", 50, requests=1) for at in range(40)]  # of one request: they do not count
    kept.write_changed([*holdout(pruned, unpruned), *titles, session("without a holdout")])
    assert holdout_line(tmp_path) == f"Holdout: whether pruned requests cost less is not yet known ({said})."


def test_equal_arms_have_zero_in_the_interval(state: Path, kept: Ledgers):
    kept.write_changed(holdout(24, 6))
    found = json.loads(savings(state, "--json").stdout)["holdout"]
    assert found["low"] <= 0 <= found["high"]
    assert "it contains zero" in holdout_line(state)


@each_row("price, unit", [(1e-6, "dollars"), (None, "input tokens")])
def test_a_holdout_shows_that_pruned_requests_cost_less(tmp_path: Path, price: float | None, unit: str):
    kept = Ledgers(tmp_path / "autoprune" / "ledgers")
    kept.write_changed(holdout(44, 11, 0.5, price))
    found = json.loads(savings(tmp_path, "--json").stdout)["holdout"]
    assert -0.75 < found["low"] < found["change"] < found["high"] < -0.2
    assert found["change"] == pytest.approx(-0.5, abs=0.01)
    cost = 385 * 1.25 * (price or 1)  # the mean of the sizes, written
    assert found["unpruned"] == {"conversations": 11, "requests": 33, "cost": pytest.approx(33 * cost)}
    assert found["unit"] == unit
    assert "zero" not in holdout_line(tmp_path)


def test_the_seed_of_the_holdout_is_created_once_and_private(state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    first = holdout_seed()
    (path,) = (state / "autoprune").iterdir()
    assert (holdout_seed(), path.read_text(), len(first)) == (first, first, 32)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_file_is_private_and_contains_no_text(kept: Ledgers):
    kept.write_changed([session(f"name-{SECRET}")])
    (path,) = kept.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.folder.stat().st_mode) == stat.S_IMODE(kept.folder.parent.stat().st_mode) == 0o700
    record = json.loads(path.read_text())
    assert (record["ledger"]["cleared"], record["ledger"]["before"]) == ({}, None)
    assert not any(word in path.name + path.read_text() for word in (SECRET, "word", "name-"))


def test_what_a_killed_proxy_left_is_removed(kept: Ledgers):
    kept.folder.mkdir(parents=True)
    left = kept.folder / f".autoprune-{'a' * 16}.tmp"
    left.touch()
    os.utime(left, (0, 0))
    kept.write_changed([session("one")])
    assert not left.exists()


def test_ledgers_are_written_while_a_proxy_runs_and_at_its_end(
    state: Path, kept: Ledgers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    known = [session("one")]
    with keep_ledgers(lambda: known, every=0.01):
        while not kept.folder.exists() or not read_ledgers(kept.folder)[0]:
            time.sleep(0.01)
    with keep_ledgers(lambda: [session("two")]):
        pass
    assert len(read_ledgers(kept.folder)[0]) == 2


def test_write_errors_are_printed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with keep_ledgers(lambda: [session("one")], every=0.01):
        time.sleep(0.05)
        assert capsys.readouterr() == ("", "")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: the ledger ")


def test_savings_are_listed_by_client_and_model_with_a_total(state: Path, kept: Ledgers):
    kept.write_changed([session("one"), session("two"), session("three", client="pi/1", model="other", price=None)])
    net = session("one").ledger.total.net
    found = json.loads(savings(state, "--json").stdout)
    rows = {(row["client"], row["model"]): row for row in found["by_client_and_model"]}
    assert {label: row["sessions"] for label, row in rows.items()} == {("mini", "m"): 2, ("pi", "other"): 1}
    assert rows["mini", "m"]["saved"] == pytest.approx(2 * net)
    assert rows["mini", "m"]["dollars"] == pytest.approx(2 * net * 1e-3)
    assert rows["pi", "other"]["dollars"] is None
    assert found["total"]["saved"] == pytest.approx(3 * net)
    assert (found["total"]["sessions"], found["total"]["requests"], found["total"]["unpriced"]) == (3, 18, 1)
    assert found["since"] == "2026-11-20T12:00:00"
    assert " ".join(savings(state).stdout.split()).endswith(
        f"Since 2026-11-20 pruning has lost {-3 * net:,.0f} input tokens (${-2 * net * 1e-3:,.2f}) in 3 sessions. "
        "The prices of 1 of them are not known."
    )


def test_the_words_for_a_gain_and_its_share_follow_the_dollars(state: Path, kept: Ledgers):
    """Tokens that a cheap model saved do not hide the dollars that an expensive one lost, nor the other way around."""
    lost = session("lost", model="large", price=1e-3)
    won = [session(f"won {at}", model="small", price=1e-9, pause=3_601.0) for at in range(9)]
    kept.write_changed([lost, *won])
    total = json.loads(savings(state, "--json").stdout)["total"]
    assert total["dollars"] < 0 < total["saved"]
    assert total["share"] == pytest.approx(lost.ledger.total.net / lost.ledger.unpruned, abs=0.01)
    assert (
        f"pruning has lost ${-total['dollars']:,.2f}, although it saved {total['saved']:,.0f} input tokens of several "
        "models in 10 sessions."
    ) in " ".join(savings(state).stdout.split())


def test_a_share_that_rounds_to_zero_has_no_sign():
    assert _cells(Saving("a", "m", 1, 20, -9.0, -0.001, None, 1, 0.0, 0)) == ("a", "m", "1", "20", "-9", "0%", "–")


def test_free_tokens_have_no_part_in_a_share_of_dollars(state: Path, kept: Ledgers):
    paid = session("paid", pause=3_601.0)
    kept.write_changed([session("free", model="free", price=0.0)])
    assert " input tokens ($0.00) in 1 session." in savings(state).stdout
    for known in (session("free"), paid):  # those of the free one alone count as tokens
        share = json.loads(savings(state, "--json").stdout)["total"]["share"]
        assert share == pytest.approx(known.ledger.total.net / known.ledger.unpruned)
        kept.write_changed([paid])


def test_unusual_cache_lifetimes_and_cold_requests_are_listed(state: Path, kept: Ledgers):
    long, short = session("long", pause=3_601.0, life=3_600), session("short")
    long.life_from = "as its answers say"
    kept.write_changed([long, short])
    found, shown = json.loads(savings(state, "--json").stdout), " ".join(savings(state).stdout.split())
    assert found["cache_lives"] == [{"life": 3_600, "from": "as its answers say", "sessions": 1}]
    assert "The cache lives 1 h in 1 session, as its answers say." in shown
    assert found["total"]["cold"] == pytest.approx(long.ledger.cold.net)
    assert long.ledger.cold.net > 0
    assert shown.endswith(
        f"Of this {long.ledger.cold.net:,.0f} were saved at cold requests: the rewrite was paid for anyway."
    )


def test_compactions_that_did_not_happen_are_summed_up(state: Path, kept: Ledgers):
    kept.write_changed([replace(session("long"), compact_at=50_000, seen=160_000, largest=49_000), session("short")])
    assert json.loads(savings(state, "--json").stdout)["total"]["avoided"] == 3
    assert " ".join(savings(state).stdout.split()).endswith("3 compactions did not happen, at least.")


def test_a_ledger_of_an_older_version_is_read(kept: Ledgers):
    kept.write_changed([session("one")])
    (path,) = kept.folder.iterdir()
    record = json.loads(path.read_text())
    del record["life_from"], record["compactions_avoided"], record["ledger"]["prices"]["life"]
    record["ledger"]["cache_life"] = 600
    for entry in record["ledger"]["entries"]:
        del entry["is_cold"]
    path.write_text(json.dumps(record))
    (file,), unread = read_ledgers(kept.folder)
    assert (file.ledger.prices.life, file.life_from, file.ledger.cold.net, unread) == (600, "", 0, {})


def test_a_ledger_is_written_again_when_its_last_request_was_refused(kept: Ledgers):
    known = session("one")
    kept.write_changed([known])
    known.refused, known.ledger = 1, Ledger()
    kept.write_changed([known])
    (file,), _ = read_ledgers(kept.folder)
    assert file.ledger.requests == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"autoprune_ledger": 1}',
        '{"autoprune_ledger": 9}',
        "\x00",
        "[" * 100_000,
        '{"autoprune_ledger": 1, "started": 1, "ended": 1, "client": "", "model": "", "requests": 1, "ledger": []}',
        '{"autoprune_ledger": 1, "started": 1, "ended": 1, "client": "", "model": "", "requests": 1e999, "ledger": {}}',
        '{"autoprune_ledger": 1, "started": 1e300, "ended": 1e300}',
        '{"autoprune_ledger": 1, "started": NaN, "ended": NaN}',
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_left_out(state: Path, kept: Ledgers, text: str):
    kept.write_changed([session("one")])
    (kept.folder / "broken.json").write_text(text)
    done = savings(state)
    assert done.returncode == 0
    assert done.stderr.startswith(f"note: {kept.folder / 'broken.json'} was left out: it ")
    assert "in 1 session." in done.stdout


def test_an_entry_that_holds_no_numbers_makes_the_file_unreadable(kept: Ledgers):
    kept.write_changed([session("one")])
    (path,) = kept.folder.iterdir()
    record = json.loads(path.read_text())
    record["ledger"]["entries"][0]["saved"] = "much"
    path.write_text(json.dumps(record))
    files, unread = read_ledgers(kept.folder)
    assert (files, [*unread]) == ([], [path])


def test_without_ledgers_savings_says_what_writes_them(state: Path):
    done = savings(state)
    assert done.returncode == 0
    assert done.stdout.startswith("There are no ledgers in ")


def test_a_folder_that_cannot_be_written_is_a_session_error(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SessionError, match=r"the ledger .* cannot be written: "):
        Ledgers(tmp_path / "file" / "ledgers").write_changed([session("one")])
