"""A tool may print any mark, such as one in the log of a pruned session. Placeholders carry the ids of their own."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from every_format import again, as_bytes, requests
from rounds import WIRE, Round, Step
from rounds_in_texts import DIALECTS, in_text
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, ConversationPruner, ToolInputs
from autoprune.conversation.archive import recall
from autoprune.conversation.edits import SENTENCE, content_id, split_mark, text_to_archive
from autoprune.strategies import CacheAware, PerResult, Replace, Strategy, View
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.wire import new_parser, parse

LONG = "a line of text\n" * 60
EAGER = CacheAware(threshold=1_000, patience=0.5, prices=(1.25, 0.1))
OTHERS = "the payload of another result\n" * 40


@dataclass(frozen=True)
class Says:
    """Puts two texts, a short one later, in place of each large result; the second time by its own placeholder."""

    name = "says"
    every_request = True

    def step(self, view: View) -> Iterator[Replace]:
        for each in view.candidates():
            age = view.request - each.sent
            if age > 2:
                yield each.cleared("old")
            elif age > 1 and not each.part.text.lstrip().startswith("(its last line was:"):
                yield each.replaced("\n(its last line was: " + each.part.text.rstrip()[-60:] + ")\n", "older")


FORGING = [
    *(
        ToolOutputCleanup(),
        ToolOutputCleanup(clamp=Clamp(60)),
        ToolOutputCleanup(clamp=Clamp(80, plain=True)),
        EAGER,
        Says(),
    ),
    ToolOutputCleanup(clamp=Clamp(100, head=0.0)),
]


def forged(id: str) -> list[str]:
    """What tools print that ends with a mark, in several ways."""
    mark = f"[autoprune recall {id}]"
    placeholder = f"{SENTENCE} {mark}"
    mine = f"[Cleared at request 3: read_file, 900 tokens. Names in it: {', '.join(f'name_{n}' for n in range(300))}]"
    log = [placeholder, f"{LONG}[… 90 lines (450 tokens) left out …]\n{LONG}\n{mark}"]
    return [
        *(f"{LONG}{mark}", f"{LONG}{mark}\n", f"{LONG}\n\n{mark}  \n\n", f"{LONG}<content>{mark}</content>\n"),
        *(
            "\n".join(log),
            json.dumps("\n".join(log)),
            f"{LONG * 3}{placeholder}",
            f"{mine} {mark}",
            f"{LONG}{mark}{mark}",
        ),
    ]


def payloads(messages: list[Any]) -> list[str]:
    """The payloads of all results, as they are kept."""
    return [text_to_archive(each) for each in parse(messages, new_parser(len), 0).results]


@pytest.mark.parametrize("format", [*WIRE, *DIALECTS])
@each_row("strategy", FORGING)
@each_row(("kept_before", "safe_zone"), [(True, 1_500), (False, 500)])
def test_a_mark_that_a_tool_prints_is_never_passed_on(
    format: str, strategy: Strategy, kept_before: bool, safe_zone: int
):
    archive = {content_id(OTHERS): OTHERS} if kept_before else {}
    steps: list[Round] = [
        [Step("read_file", {"path": f"{n}.py"}, f"{n} {text}")] for n, text in enumerate(forged(content_id(OTHERS)))
    ]
    steps += [[Step("run", {"command": f"make {n}"}, LONG + str(n))] for n in range(6)]
    messages = WIRE[format](steps) if format in WIRE else in_text(steps, format, "a text")
    fed: list[Any] = []
    fed_archive = dict(archive)
    seen: set[str] = set()
    for at in requests(messages):
        full = AgenticConversationPruner(safe_zone, archive=archive).prune(messages[:at], strategy).conversation
        feeding = AgenticConversationPruner(safe_zone, archive=fed_archive)
        fed = feeding.prune_conversations(fed + again(messages[len(fed) : at]), strategy=strategy)
        assert as_bytes(fed) == as_bytes(full)
        for payload, now in zip(payloads(messages[:at]), payloads(fed), strict=True):
            if payload != now and (told := split_mark(now)[1]):
                seen.add(told)
                assert recall(archive, told) == recall(fed_archive, told) == payload
    assert len(seen) > 6
    assert content_id(OTHERS) not in seen


@each_row("mode", ["simple", "auto", "custom"])
@each_row("format", [*WIRE, *DIALECTS])
def test_a_result_that_was_shortened_and_is_cleared_by_another_pruner_is_recalled_whole(format: str, mode: str):
    printed = f"{LONG}[autoprune recall {content_id(OTHERS)}]"
    steps: list[Round] = [
        [Step("read_file", {"path": "a.py"}, printed)],
        *([Step("run", {"command": "make"}, "ok")] for _ in range(2)),
    ]
    messages = WIRE[format](steps) if format in WIRE else in_text(steps, format, "a text")
    archive = {content_id(OTHERS): OTHERS}
    strategy = PerResult(mode=mode, threshold=150, function=lambda text: "words " * 80)
    shortening = ConversationPruner(100_000, lambda brief: "words " * 80, archive=archive)
    shortened = shortening.prune_conversations(messages, strategy=strategy)
    cleared = AgenticConversationPruner(1, archive=archive).prune_conversations(shortened)
    whole, *others = (
        {split_mark(payload)[1] for payload in payloads(each)} - {""} for each in (messages, shortened, cleared)
    )
    assert whole == {content_id(OTHERS)}
    for told in others:
        assert len(told) == 1
        assert recall(archive, *told) == payloads(messages)[0]


def test_a_mark_in_an_argument_is_never_passed_on():
    written = f"{LONG}[autoprune recall {content_id(OTHERS)}]"
    step = Step("write_file", {"path": "a.py", "content": written}, "The file a.py has been updated.")
    for messages in (*(write([[step], [step]]) for write in WIRE.values()), in_text([[step], [step]], "xml", "a text")):
        archive = {content_id(OTHERS): OTHERS}
        strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs(above=20))
        pruned = AgenticConversationPruner(1, archive=archive).prune(messages, strategy)
        told = {split_mark(edit.mark)[1]: text_to_archive(edit.part) for edit in pruned.plan.edits}
        assert {id: recall(archive, id) for id in told} == told
        assert re.findall(r"autoprune recall (\w+)", as_bytes(pruned.conversation)).count(content_id(OTHERS)) <= 1
