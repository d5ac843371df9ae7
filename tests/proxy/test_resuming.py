"""A session that is resumed behind another proxy goes on as it was pruned before, and is cleared if it is cold."""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxied import drive, recorded
from raw_upstream import Upstream, always, answer, serving

from autoprune.apps.proxy import Settings, running
from autoprune.apps.proxy._resuming import Past, PastFiles
from autoprune.economics import Invoice

DAY = 86_400.0
SESSION = "0a6c0c4e-one"


def sent(upstream: Upstream) -> list[list[Any]]:
    return [json.loads(body)["messages"] for _, body in upstream.requests]


def in_parts(
    ends: Sequence[int],
    folder: Path | None,
    session: str = SESSION,
    *,
    pauses: Mapping[int, float] | None = None,
    zone: str = "200k",
) -> list[list[Any]]:
    """Send the recorded session, behind a new proxy after each of these numbers of messages; return what was sent."""
    whole, now = recorded(), 1_000.0
    with serving(always(answer())) as upstream:
        for start, end in zip([0, *ends], [*ends, len(whole)], strict=True):
            known = Settings(upstream.url, zone, memory=folder and str(folder))
            with running(known, lambda: now) as proxy:  # noqa: B023 - called before the next turn
                drive(proxy, whole[:end], session=session, done=start)
            now += (pauses or {}).get(end, 0.0)
        return sent(upstream)


@pytest.mark.parametrize("session", [SESSION, ""])
def test_a_session_resumed_after_its_cache_has_expired_is_cleared_at_once(session: str, tmp_path: Path):
    first, again = (in_parts([90], each, session, pauses={90: DAY}) for each in (None, tmp_path / "kept" / "one"))
    whole = [recorded()[: len(each)] for each in first]
    assert first == whole
    resumed = [len(each) > 90 for each in first].index(True)
    assert again[:resumed] == whole[:resumed]
    for messages, unpruned in zip(again[resumed:], whole[resumed:], strict=True):
        assert len(json.dumps(messages)) < 0.9 * len(json.dumps(unpruned))


@pytest.mark.full
@settings(max_examples=8)
@given(ends=st.lists(st.integers(1, 103), max_size=3, unique=True).map(sorted), zone=st.sampled_from(["20k", "200k"]))
def test_what_a_pause_has_cleared_stays_cleared_however_often_the_proxy_starts_again(
    ends: list[int], zone: str, tmp_path_factory: pytest.TempPathFactory
):
    folder = tmp_path_factory.mktemp("kept") / "one"
    once = in_parts([50], folder.with_name("another"), pauses={50: DAY}, zone=zone)
    again = in_parts(sorted({50, *ends}), folder, pauses={50: DAY}, zone=zone)
    assert once == again


@pytest.mark.parametrize(
    ("written", "is_cleared"),
    [
        ({f"rollout-2026-11-02-{SESSION}": -DAY}, True),
        ({f"rollout-2026-11-02-{SESSION}": -9.0}, False),
        ({"rollout-2026-11-02-another": -DAY}, False),
        ({}, False),
    ],
)
def test_a_session_that_no_proxy_has_seen_is_as_old_as_the_clients_own_file(
    written: dict[str, float], is_cleared: bool
):
    with serving(always(answer())) as upstream, running(Settings(upstream.url, written=written), lambda: 0.0) as proxy:
        drive(proxy, recorded(), session=SESSION, done=100)
        assert [each.is_cold for each in proxy.sessions[0].points] == [is_cleared]
        assert (sent(upstream)[0] != recorded()[: len(sent(upstream)[0])]) == is_cleared


def test_a_session_that_was_forked_behind_an_earlier_proxy_goes_on_as_its_conversation_was_sent(tmp_path: Path):
    """Under another id, and again under its own: what the provider holds of the shared requests stays as it is."""
    folder, whole, parts = str(tmp_path / "kept"), recorded(), []
    turns = (SESSION, 0, 90, 0.0), (SESSION, 90, 96, DAY), ("a fork", 96, 104, DAY + 9.0)
    with serving(always(answer())) as upstream:
        for session, start, end, now in turns:
            with running(Settings(upstream.url, memory=folder), lambda now=now: now) as proxy:
                drive(proxy, whole[:end], session=session, done=start)
                parts.append(proxy.sessions[0].points)
        requests = sent(upstream)
    later = [*parts[1], *parts[2]]
    assert [each.is_cold for each in later] == [True] + [False] * (len(later) - 1)
    cleared = [each for each in requests if each != whole[: len(each)]]
    assert len(cleared) == len(later)
    for before, after in pairwise(cleared):
        assert after[: len(before)] == before


@pytest.mark.parametrize("alike", [1, 2])
def test_another_session_that_begins_alike_is_not_resumed(alike: int, tmp_path: Path):
    """It has the first messages, or the first answer too, but none of the requests that followed."""
    other = [*recorded()[:alike], *([{**each, "content": f"{each['content']}."} for each in recorded()[alike:]])]
    with serving(always(answer())) as upstream:
        for name, whole, clock in ((SESSION, recorded(), 0.0), ("0a6c0c4e-two", other, DAY)):
            with running(Settings(upstream.url, memory=str(tmp_path)), lambda now=clock: now) as proxy:
                drive(proxy, whole, session=name, done=100)
                assert [each.is_cold for each in proxy.sessions[0].points] == [False]


@pytest.mark.parametrize(("direct", "is_cleared"), [((), True), ((94,), False), ((94, 96), False)])
def test_a_session_that_was_continued_without_autoprune_meanwhile_is_not_taken_to_be_cold(
    direct: tuple[int, ...], is_cleared: bool, tmp_path: Path
):
    whole, folder = recorded(), str(tmp_path / "kept" / "one")
    ends = [at for at, message in enumerate(whole) if message["role"] == "assistant"]
    before = next(at for at in ends if at >= 90)
    at = next(each for each in ends if each > max(direct, default=before))
    with serving(always(answer())) as upstream:
        with running(Settings(upstream.url, memory=folder), lambda: 0.0) as proxy:
            drive(proxy, whole[: before + 1], session=SESSION)
        with running(Settings(upstream.url, memory=folder), lambda: DAY) as proxy:
            drive(proxy, whole[: at + 1], session=SESSION, done=at)
            assert [each.is_cold for each in proxy.sessions[0].points] == [is_cleared]
            assert (sent(upstream)[-1] != whole[:at]) == is_cleared


def test_a_session_that_was_held_out_is_pruned_when_it_is_resumed_without_a_holdout(tmp_path: Path):
    folder = str(tmp_path / "kept" / "one")
    with serving(always(answer())) as upstream:
        for holdout, start, end in ((1.0, 0, 90), (0.0, 90, 104)):
            with running(Settings(upstream.url, "20k", memory=folder, holdout=holdout)) as proxy:
                drive(proxy, recorded()[:end], session=SESSION, done=start)
                assert bool(proxy.sessions[0].cleared) == (holdout == 0.0)


def test_what_is_kept_is_private_and_holds_no_text(tmp_path: Path):
    folder = tmp_path / "kept" / "project"
    in_parts([], folder)
    [within] = folder.iterdir()
    files = sorted(within.iterdir())
    assert len(files) == 1
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert {each.stat().st_mode & 0o777 for each in (within, folder, folder.parent)} == {0o700}
    kept = "".join(file.read_text(encoding="utf-8") for file in files)
    assert SESSION not in kept
    words = {word for message in recorded() for word in str(message["content"]).split() if len(word) > 12}
    assert [word for word in words if word in kept] == []


BEGIN = "1a", "2b"


def past_of(history: dict[int, dict[str, Any]]) -> Past:
    return Past(history=history, seen_at=12.5, calibration=1.2, begin=BEGIN, session="name")


def test_a_past_survives_its_file(tmp_path: Path):
    past = past_of({0: {"model": None}, 3: {}})
    past.pauses, past.invoices = {3: 0.0, 5: 40.5}, {5: Invoice(900, 800, 100, 7)}
    past.note_request(5, "3e")
    past.note_answer({"prompt_tokens": 1_000, "prompt_tokens_details": {"cached_tokens": 900}}, 5)
    files = PastFiles(str(tmp_path))
    files.save(past)
    [found] = files.load(BEGIN)
    assert (found.id, found.to_dict()) == (past.id, past.to_dict())
    assert [files.load(BEGIN, {past.id}), files.load(("1a", "4f"))] == [[], []]
    files.remove(past)
    assert files.load(BEGIN) == []


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"asked_at": 1}', '"\\ud800"', "[" * 9_000])
def test_a_file_that_cannot_be_read_counts_as_missing(text: str, tmp_path: Path):
    files = PastFiles(str(tmp_path))
    files.save(past_of({}))
    [file] = (tmp_path / BEGIN[1]).iterdir()
    file.write_text(text, encoding="utf-8")
    assert files.load(BEGIN) == []


def test_a_setting_that_this_version_does_not_know_makes_a_file_missing(tmp_path: Path):
    files = PastFiles(str(tmp_path))
    files.save(past_of({0: {"a_setting_of_tomorrow": 1}}))
    assert len([*(tmp_path / BEGIN[1]).iterdir()]) == 1
    assert files.load(BEGIN) == []


def test_a_folder_that_cannot_be_written_stops_no_request(tmp_path: Path):
    (tmp_path / "kept").write_text("a file", encoding="utf-8")
    assert in_parts([90], tmp_path / "kept" / "project") == in_parts([90], None)
    assert os.listdir(tmp_path) == ["kept"]
