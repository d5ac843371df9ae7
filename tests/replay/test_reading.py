"""Agents that read documents and then write one report: what the report rests on stands in the documents."""

import json

import pytest
from episodes import USER, call, episode, result
from profiles import sample_cases
from reading_tasks import SAID, document, report
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.atoms import GROUPS, AtomGroup, Kind
from autoprune.apps.replay.episode_figures import figures
from autoprune.apps.replay.evidence import Need
from autoprune.apps.replay.play import play
from autoprune.strategies import CacheAware, ObservationMasking
from autoprune.tokens import exact

COUNT = 4  # documents
Message = dict[str, object]


def read(texts: list[str]) -> list[Message]:
    """A conversation in which each text is read at a request of its own."""
    messages: list[Message] = [USER]
    for number, text in enumerate(texts):
        messages += [call(f"c{number}", {"path": f"data/{number}.txt"}, "read_file"), result(f"c{number}", text)]
    return messages


def said(words: str) -> Message:
    return {"role": "assistant", "content": words}


def rests(messages: list[Message]) -> list[Need]:
    """What the last answer rests on."""
    return [need for need in episode(messages).evidence.needs if need.request == COUNT]


@pytest.mark.full
@pytest.mark.parametrize("kind", SAID)
def test_a_report_rests_on_each_document(kind: str):
    texts = [document(kind, number) for number in range(COUNT)]
    words = report(kind, texts)
    script = f"cat > report.md <<'EOF'\n{words}\nEOF"
    answers = (
        said(words),
        call("w", {"path": "report.md", "content": words}, "write_file"),
        call("w", {"command": script}, "bash"),
        call("w", {"report": words}, "submit"),
        call("w", f"*** Begin Patch\n*** Add File: report.md\n+{words}\n*** End Patch", "apply_patch"),
    )
    for answer in answers:
        found = [need for need in rests([*read(texts), answer]) if need.atom.kind in GROUPS[AtomGroup.FACTS]]
        assert {need.sources for need in found} >= {(number,) for number in range(COUNT)}


@pytest.mark.parametrize("kind", ["pdf", "markdown", "russian"])
def test_a_report_quotes_documents(kind: str):
    texts = [document(kind, number) for number in range(COUNT)]
    found = rests([*read(texts), said(report(kind, texts))])
    assert {need.sources for need in found if need.atom.kind is Kind.QUOTE} == {(number,) for number in range(COUNT)}


@each_row(
    ("kind", "column"),
    [("markdown table", "order"), ("log", "job"), ("json rows", "id"), ("access log", "host"), ("csv", "amount")],
)
def test_calls_use_keys_of_rows(kind: str, column: str):
    texts = [document(kind, number) for number in range(COUNT)]
    for number, text in enumerate(texts):
        line = text.split("\n")[7]
        key = {
            "order": lambda line: line.split("|")[1].strip(),
            "job": lambda line: int(line.split()[6]),
            "id": lambda line: json.loads(line)["id"],
            "host": lambda line: line.split()[0],
            "amount": lambda line: line.rpartition(",")[2],
        }[column](line)
        found = rests([*read(texts), call("k", {column: key}, "get_row")])
        assert [(need.atom.kind, need.sources) for need in found] == [(Kind.ROW, (number,))]


@pytest.mark.parametrize("kind", sample_cases(SAID, 4))
def test_facts_cleared_before_the_report_are_lost(kind: str):
    texts = [document(kind, number) for number in range(COUNT)]
    known = episode([*read(texts), said(report(kind, texts))])
    run = play(known, lambda: AgenticConversationPruner(10**9), ObservationMasking(2), count=exact())
    facts = figures(run, "window", [], style="full history").evidence["facts"]
    assert 0 < facts.kept < facts.needed


@pytest.mark.parametrize("kind", sample_cases(SAID, 4))
def test_below_the_safe_zone_cache_aware_keeps_all_that_a_report_rests_on(kind: str):
    texts = [document(kind, number) for number in range(12)]
    pauses = {2 * number + 1: 4_000.0 for number in range(1, 13)}
    known = episode([*read(texts), said(report(kind, texts))], pauses=pauses)
    run = play(known, lambda: AgenticConversationPruner("1m"), CacheAware(threshold=1_000, start_at=0), count=exact())
    assert len(run.retained) >= len(texts)
    assert all(run.in_results)
