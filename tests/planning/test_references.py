"""A tool that shows an unchanged file only once: the text that its later answers refer to is in the prompt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from reading_tasks import strings
from rounds import WIRE, Round, Step
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp
from autoprune.facts.actions import refers_to_earlier_read
from autoprune.pruners.requests import prune_request
from autoprune.strategies import LowWater
from autoprune.tokens import exact

STRATEGIES = ("tool_output_cleanup", "cache_aware", "low_water")
STUB = "Wasted call — file unchanged since your last Read. Refer to that earlier tool_result instead of re-reading."
LONG_STUB = f"{STUB} {'It is still in this conversation. ' * 4}"  # larger than a placeholder
SOURCE = "".join(f"def part_{at}(): return {at}\n" for at in range(200))


def read(path: str, text: str = SOURCE) -> Step:
    return Step("Read", {"file_path": path}, text)


OTHERS: list[Round] = [[read(f"{at}.log", f"{at} worker took a job\n" * 300)] for at in range(6)]


def shown(messages: list[Any]) -> int:
    """Return in how many places the file's text is."""
    return sum(SOURCE in text for text in strings(messages))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("format", WIRE)
def test_a_refused_read_gets_the_text_of_the_read_that_was_cleared(format: str, strategy: str):
    write, pruner = WIRE[format], AgenticConversationPruner(5_000)
    before = pruner.prune(write([[read("app.py")], *OTHERS]), strategy)
    assert shown(before.conversation) == 0
    after = pruner.prune(write([[read("app.py")], *OTHERS, [read("app.py", STUB)]]), strategy)
    assert shown(after.conversation) == 1
    assert [str(edit.reason) for edit in after.plan.edits if edit.saved < 0] == ["restored"]
    again = [[read("app.py")], *OTHERS, [read("app.py", STUB)], *OTHERS, [read("app.py", STUB)]]
    later = pruner.prune(write(again), strategy)
    assert shown(later.conversation) == 1
    fresh = AgenticConversationPruner(5_000).prune(later.conversation, strategy)
    assert fresh.conversation == later.conversation
    twice = pruner.prune(write([*again[:8], [read("app.py", STUB)]]), strategy)
    assert shown(twice.conversation) == 1


def test_a_text_that_comes_back_is_cut_like_any_other_result():
    messages, clamp = WIRE["openai_chat"]([[read("app.py")], *OTHERS, [read("app.py", STUB)]]), Clamp(500)
    sent = AgenticConversationPruner(3_000).prune(messages, LowWater(clamp=clamp)).conversation
    assert sent[-1]["content"] == clamp.shortened(SOURCE, exact())


def test_a_read_that_the_newest_answer_refers_to_is_not_cleared():
    rounds: list[Round] = [[read("app.py")], [read("app.py", STUB)], *OTHERS, [read("b.py", "x")]]
    pruned = AgenticConversationPruner(3_000).prune(WIRE["anthropic"](rounds), "tool_output_cleanup")
    assert shown(pruned.conversation) == 1
    kept = {str(why) for result, why in pruned.plan.kept.items() if SOURCE in result.text}
    assert kept == {"referred_to"}
    changed = WIRE["anthropic"]([*rounds[:2], [read("app.py", "changed\n" * 50)], *rounds[2:]])
    assert shown(AgenticConversationPruner(3_000).prune(changed, "tool_output_cleanup").conversation) == 0


@st.composite
def sessions(draw: st.DrawFn) -> list[Round]:
    """Reads of four files by a tool that shows an unchanged file once, with edits and other reads in between."""
    stub = draw(st.sampled_from((STUB, LONG_STUB)))
    made: list[Round] = []
    versions: dict[str, int] = {}
    seen: dict[str, int] = {}
    for _ in range(draw(st.integers(3, 25))):
        name = draw(st.sampled_from(("a.py", "b.py", "c.py", "d.py")))
        version = versions.setdefault(name, 0)
        if draw(st.integers(0, 5)) == 0:
            versions[name] += 1
            made.append([Step("Edit", {"file_path": name, "old_string": "a", "new_string": "b" * 80}, "ok")])
            continue
        made.append([read(name, stub if seen.get(name) == version else f"{name} {version}\n{SOURCE[:2_000]}")])
        seen[name] = version
    return made


@examples(60)
@given(sessions(), st.sampled_from((600, 2_000, 6_000)), st.sampled_from(tuple(WIRE)), st.sampled_from(STRATEGIES))
def test_what_a_read_refers_to_is_in_each_prompt(made: list[Round], zone: int, format: str, strategy: str):
    write, pruner = WIRE[format], AgenticConversationPruner(zone)
    for stop in range(1, len(made) + 1):
        result = pruner.prune(write(made[:stop]), strategy, validate=True)
        assert pruner.prune(result.conversation, strategy).conversation == result.conversation
        (step,) = made[stop - 1]
        if step.text in (STUB, LONG_STUB):
            start = next(
                text
                for (each,) in reversed(made[:stop])
                if each.arguments == step.arguments and (text := each.text) not in (STUB, LONG_STUB)
            )
            assert any(start in text for text in strings(result.conversation))


@examples(40)
@given(sessions(), st.sampled_from((600, 2_000, 6_000)), st.sampled_from(tuple(WIRE)), st.sampled_from(STRATEGIES))
def test_output_that_is_passed_back_leads_to_the_same_prompts(made: list[Round], zone: int, format: str, strategy: str):
    """Until a text is restored, which only the full history holds."""
    full, fed_back = (AgenticConversationPruner(zone, strategy=strategy) for _ in range(2))
    history: list[Any] = []
    sent: list[Any] = []
    for stop in range(1, len(made) + 1):
        now = WIRE[format](made[:stop])
        sent = fed_back.prune([*sent, *now[len(history) :]]).conversation
        history, result = now, full.prune(now)
        if any(edit.saved < 0 for edit in result.plan.edits):
            break
        assert result.conversation == sent


def test_a_read_of_another_part_refers_to_the_whole_file():
    part = Step("Read", {"file_path": "app.py", "offset": 1, "limit": 9}, STUB)
    messages = WIRE["anthropic"]([[read("app.py")], *OTHERS, [part]])
    assert shown(AgenticConversationPruner(5_000).prune(messages, "low_water").conversation) == 1


def test_a_proxied_client_gets_the_text_back():
    messages = WIRE["anthropic"]([[read("app.py")], *OTHERS, [read("app.py", STUB)]])
    body = {"model": "claude-opus-5", "max_tokens": 99, "messages": messages}
    pruned = prune_request(AgenticConversationPruner(5_000, strategy="low_water"), body, "/v1/messages")
    assert shown(pruned.body["messages"]) == 1


@each_row(
    ("text", "refers"),
    [
        (STUB, True),
        ("File unchanged since last read. The content from the earlier Read tool_result is still current.", True),
        ('{"status": "unchanged", "message": "File unchanged since last read.", "dedup": true}', True),
        ("[File unchanged since last read in this session: a.py]", True),
        ("The file has not been modified since it was last read.", True),
        ("File has been modified since last read, either by the user or by a linter.", False),
        (f"{STUB}\n{SOURCE}", False),
    ],
)
def test_which_answers_refer_to_an_earlier_read(text: str, refers: bool):
    messages = WIRE["anthropic"]([[read("app.py", text)]])
    (result,) = AgenticConversationPruner(10**9).plan(messages).transcript.results
    assert refers_to_earlier_read(result) is refers
