"""What is cleared can be recalled: the promises with an archive, over conversations of every format."""

import asyncio
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from every_format import EACH, Case, again, as_bytes, cases, every_format, requests, shape
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, ArchiveError, Clamp, Result, SettingsError, ToolInputs
from autoprune.conversation.archive import recall
from autoprune.conversation.edits import content_id, split_mark, text_to_archive
from autoprune.conversation.transcript import ToolResult
from autoprune.planning.view import Strategy
from autoprune.pruners.conversation import ConversationPruner
from autoprune.strategies import CacheAware
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.strategies.per_result import PerResult

LONG = "a line of text\n" * 60
EAGER = CacheAware(threshold=1_000, patience=0.5, prices=(1.25, 0.1), stay=0, start_at=0, never_dearer=None)


class Broken(MutableMapping[str, str]):
    """An archive on a disk that is full, or gone."""

    def __getitem__(self, key: str) -> str:
        raise OSError("no such device")

    def __setitem__(self, key: str, value: str) -> None:
        raise OSError("no space left")

    def __delitem__(self, key: str) -> None:
        raise OSError("read-only")

    def __iter__(self) -> Iterator[str]:
        raise OSError("no such device")

    def __len__(self) -> int:
        raise OSError("no such device")


def pruner(case: Case, archive: MutableMapping[str, str] | None) -> AgenticConversationPruner:
    return AgenticConversationPruner(case.safe_zone, archive=archive)


def variants(case: Case) -> list[Case]:
    """The case, and one with a strategy that writes placeholders of its own."""
    return [case, replace(case, strategy=EAGER)]


def carried(result: Result) -> dict[str, str]:
    """The ids in the texts that were put in place of results, each with the payload that it stands for."""
    ids = ((split_mark(edit.text)[1], text_to_archive(edit.part)) for edit in result.plan.edits)
    return {id: payload for id, payload in ids if id}


def failures(result: Result) -> list[str]:
    """What the report says of an archive that failed."""
    return [note for note in result.report.fallbacks if note.startswith("the archive failed")]


@every_format
def test_every_payload_that_an_edit_replaces_can_be_recalled_to_the_letter(case: Case):
    for each in variants(case):
        archive: dict[str, str] = {}
        ours = pruner(each, archive)
        result = ours.prune(each.messages, each.strategy)
        for edit in result.plan.edits:
            payload = text_to_archive(edit.part)
            assert ours.recall(content_id(payload)) == payload
            if isinstance(edit.part, ToolResult):
                assert split_mark(edit.text)[1] or edit.reason == "clamped"
                assert payload == edit.part.text or not edit.part.is_plain
            assert edit.saved > 0
        assert {id: ours.recall(id) for id in carried(result)} == carried(result)
        assert failures(result) == []


@every_format
def test_an_archive_that_fails_changes_no_byte_and_is_reported(case: Case):
    for each in variants(case):
        kept, lost = (pruner(each, archive).prune(each.messages, each.strategy) for archive in ({}, Broken()))
        assert shape(lost.conversation) == shape(kept.conversation)
        assert bool(failures(lost)) == bool(lost.plan.edits)
        assert failures(kept) == []


@every_format
def test_pruning_twice_is_pruning_once_with_an_archive(case: Case):
    for each in variants(case):
        archive: dict[str, str] = {}
        result = pruner(each, archive).prune(each.messages, each.strategy)
        known = dict(archive)
        for second in ({}, archive):
            assert pruner(each, second).prune(result.conversation, each.strategy).conversation is result.conversation
        assert archive == known


def both_ways(case: Case) -> None:
    full_archive, fed_archive = {}, {}  # type: ignore[var-annotated]
    keeping, feeding = pruner(case, full_archive), pruner(case, fed_archive)
    fed: list[Any] = []
    for at in requests(case.messages):
        full = keeping.prune(case.messages[:at], case.strategy)
        fed = feeding.prune(fed + again(case.messages[len(fed) : at]), case.strategy).conversation
        assert shape(fed) == shape(full.conversation)
        assert {id: feeding.recall(id) for id in carried(full)} == carried(full)


@pytest.mark.parametrize("format", EACH)
@examples(8)
@given(data=st.data())
def test_the_full_history_and_output_that_is_fed_back_come_to_the_same_prompts_and_payloads(
    format: str, data: st.DataObject
):
    for case in data.draw(cases(format)):
        if not isinstance(getattr(case.strategy, "minimum_reclaim", None), float):
            both_ways(case)
        both_ways(replace(case, strategy=EAGER))


# Cases


def chat(*texts: str) -> list[Any]:
    return WIRE["openai_chat"]([[Step("read_file", {"path": f"{at}.py"}, text)] for at, text in enumerate(texts)])


def contents(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


PLACEHOLDERS: list[tuple[Strategy, str]] = [
    (ToolOutputCleanup(), "you can call the tool again to retrieve it. [autoprune recall {}]"),
    (EAGER, "read_file, 300 tokens] [autoprune recall {}]"),
]


@each_row(("strategy", "ends"), PLACEHOLDERS)
def test_the_placeholder_carries_the_id_and_without_an_archive_none(strategy: Strategy, ends: str):
    messages = chat(LONG, LONG + "2", LONG + "3")
    plain, archived = (AgenticConversationPruner(250, archive=each) for each in (None, {}))
    text = contents(archived.prune_conversations(messages, strategy))[0]
    assert text.endswith(ends.format(content_id(LONG)))
    assert archived.recall(content_id(LONG)) == LONG
    assert (
        text.replace(f" [autoprune recall {content_id(LONG)}]", "")
        == contents(plain.prune_conversations(messages, strategy))[0]
    )


def test_a_giant_that_was_cut_and_then_cleared_is_recalled_whole_by_the_id_of_its_placeholder():
    strategy, archive = ToolOutputCleanup(clamp=Clamp(100)), {}  # type: ignore[var-annotated]
    ours = AgenticConversationPruner(300, archive=archive)
    cut = ours.prune_conversations(chat(LONG), strategy)
    assert contents(cut)[0].endswith(f"\n[autoprune recall {content_id(LONG)}]\n")
    assert ours.count_tokens([{"role": "user", "content": contents(cut)[0]}]) <= 100 + 10
    later = chat(LONG, LONG + "2", LONG + "3", LONG + "4")
    other = AgenticConversationPruner(300, archive=archive)
    fed = other.prune_conversations([*cut, *later[len(cut) :]], strategy)
    full_archive: dict[str, str] = {}
    full = AgenticConversationPruner(300, archive=full_archive).prune_conversations(later, strategy)
    assert as_bytes(fed) == as_bytes(ours.prune_conversations(later, strategy)) == as_bytes(full)
    assert contents(fed)[0].startswith("This message has been cleared.")
    told = split_mark(contents(fed)[0])[1]
    assert told == content_id(contents(cut)[0])
    for known in (archive, full_archive):
        assert recall(known, told) == recall(known, content_id(LONG)) == LONG


def test_what_was_changed_in_the_archive_is_not_recalled_and_is_mended_by_the_next_pruner():
    archive = {content_id(LONG): "something else"}
    ours = AgenticConversationPruner(300, archive=archive)
    with pytest.raises(ArchiveError, match="was changed since"):
        ours.recall(content_id(LONG))
    ours.prune(chat(LONG, LONG + "2"))
    assert ours.recall(content_id(LONG)) == LONG


class Full(dict[str, str]):
    is_full = True

    def setdefault(self, key: str, default: str = "", /) -> str:
        if self.is_full:
            raise OSError("no space left")
        return super().setdefault(key, default)


def test_what_is_gone_from_the_archive_is_archived_again():
    archive: dict[str, str] = {}
    ours, texts = AgenticConversationPruner(300, archive=archive), [f"{LONG}{number}" for number in range(4)]
    ours.prune(chat(*texts[:3]))
    archive.clear()
    ours.prune(chat(*texts))
    assert [ours.recall(content_id(text)) for text in texts[:3]] == texts[:3]


def test_a_failed_payload_is_archived_by_the_next_prune():
    archive = Full()
    ours = AgenticConversationPruner(300, archive=archive)
    messages = chat(LONG, LONG + "2")
    assert failures(ours.prune(messages))
    archive.is_full = False
    assert failures(ours.prune(messages)) == []
    assert ours.recall(content_id(LONG)) == LONG


class Written(dict[str, str]):
    """Keeps the newest texts, and notes what is written."""

    most = 9

    def __init__(self) -> None:
        self.written: list[str] = []

    def __setitem__(self, key: str, text: str) -> None:
        if not self.most:
            raise OSError("no space left")
        super().__setitem__(key, text)
        self.written.append(key)
        while len(self) > self.most:
            del self[next(iter(self))]


class WrittenDefault(Written):
    def setdefault(self, key: str, text: str = "", /) -> str:
        return super().setdefault(key, text)


def test_a_dict_with_its_own_setitem_gets_every_payload_through_it():
    archive, messages = Written(), chat(LONG, LONG + "2", LONG + "3")
    assert failures(AgenticConversationPruner(300, archive=archive).prune(messages)) == []
    assert archive.written == [*archive] == [content_id(LONG), content_id(LONG + "2")]
    bounded, full, default = Written(), Written(), WrittenDefault()
    bounded.most, full.most = 1, 0
    AgenticConversationPruner(300, archive=bounded).prune(messages)
    assert [*bounded] == [content_id(LONG + "2")]
    (note,) = failures(AgenticConversationPruner(300, archive=full).prune(messages))
    assert "OSError: no space left" in note
    AgenticConversationPruner(300, archive=default).prune(messages)
    assert (default, default.written) == (archive, [])


def test_a_store_with_its_own_setitem_gets_every_summary_through_it():
    store = Written()
    ConversationPruner(300, lambda brief: "Three files were read.", store=store).prune(chat(LONG, LONG + "2", LONG))
    assert store.written == [*store] != []


def test_of_a_result_with_an_image_its_json_is_kept():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    messages = WIRE["anthropic"]([[Step("shot", {}, LONG)], [Step("shot", {}, LONG)]])
    messages[2]["content"][0]["content"] = [{"type": "text", "text": LONG}, image]
    ours = AgenticConversationPruner(300, archive={})
    result = ours.prune(messages)
    (id,) = carried(result)
    assert '"data": "aGVsbG8="' in ours.recall(id)


def test_arguments_of_a_call_are_recalled_whole():
    step = Step("write_file", {"path": "a.py", "content": LONG}, "The file a.py has been updated.")
    messages = WIRE["openai_chat"]([[step], [step], [step]])
    ours = AgenticConversationPruner(500, archive={})
    pruned = ours.prune_conversations(messages, ToolOutputCleanup(clear_tool_inputs=ToolInputs()))
    given = messages[1]["tool_calls"][0]["function"]["arguments"]
    written = pruned[1]["tool_calls"][0]["function"]["arguments"]
    assert f"the call succeeded] [autoprune recall {content_id(given)}]" in written
    assert ours.recall(content_id(given)) == given
    assert ours.prune_conversations(pruned, ToolOutputCleanup(clear_tool_inputs=ToolInputs())) is pruned


@each_row("strategy", [ToolOutputCleanup(), EAGER])
def test_a_pruner_without_an_archive_leaves_placeholders_with_ids(strategy: Strategy):
    """Though one without an id would be smaller."""
    many = [" ".join(f"name_{number}_{at}" for number in range(900)) for at in range(3)]
    ours = AgenticConversationPruner(300, archive={})
    pruned = ours.prune_conversations(chat(*many), strategy)
    assert [text[-35:-16] for text in contents(pruned)[:2]] == [" [autoprune recall "] * 2
    again = AgenticConversationPruner(300).prune(pruned, strategy)
    assert again.conversation is pruned


def test_a_vetoed_edit_archives_nothing():
    archive: dict[str, str] = {}
    ours = AgenticConversationPruner(300, archive=archive, before_prune=lambda event: False)
    messages = chat(LONG, LONG + "2")
    assert ours.prune_conversations(messages) is messages
    assert ours.plan(messages).edits
    assert archive == {}


@each_row("mode", ["simple", "auto", "custom"])
def test_what_is_shortened_carries_the_id_of_the_whole_within_the_threshold(mode: str):
    strategy = PerResult(mode=mode, threshold=100, function=lambda text: f"{len(text)} characters")
    ours, lost = (ConversationPruner(10_000, lambda brief: "sixty lines", archive=each) for each in ({}, Broken()))
    result = asyncio.run(ours.aprune(chat(LONG, LONG + "2"), strategy))
    text = contents(result.conversation)[0]
    assert text.rstrip().endswith(f"\n[autoprune recall {content_id(LONG)}]")
    assert ours.recall(content_id(LONG)) == LONG
    assert ours.prune_conversations(result.conversation, strategy) is result.conversation
    failed = lost.prune(chat(LONG, LONG + "2"), strategy)
    assert as_bytes(failed.conversation) == as_bytes(result.conversation)
    assert len(failures(failed)) == 1


def test_payloads_that_an_archive_could_not_keep_for_the_same_reason_are_named_in_one_note():
    (note,) = failures(AgenticConversationPruner(300, archive=Full()).prune(chat(LONG, LONG + "2", LONG + "3")))
    assert note.endswith(f"cannot be recalled by {content_id(LONG)}, {content_id(LONG + '2')}")


@each_row("given", [5, [], ""])
def test_an_object_that_cannot_store_a_text_is_refused_by_the_constructor(given: Any):
    for kind in (AgenticConversationPruner, ConversationPruner):
        with pytest.raises(SettingsError, match="archive"):
            kind(300, archive=given)
    with pytest.raises(SettingsError, match="archive"):
        recall(given, content_id(LONG))


def test_a_path_is_an_archive_of_files(tmp_path: Path):
    for archive in (tmp_path / "cleared", str(tmp_path / "cleared")):
        pruner = AgenticConversationPruner(300, archive=archive)
        (edit,) = pruner.prune(chat(LONG, LONG + "2")).plan.edits
        assert edit.recall_id == content_id(LONG)
        assert pruner.recall(edit.recall_id) == recall(archive, edit.recall_id) == LONG
    assert [path.name for path in (tmp_path / "cleared").iterdir()] == [f"{content_id(LONG)}.txt"]
