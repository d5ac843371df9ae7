"""`cache_aware(fold_steps=…)` folds finished steps along with a cut."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pytest
from reading_tasks import document
from rounds import DIRECTIVES, WIRE, Step, directed

from autoprune import AgenticConversationPruner, Clamp, PruneArgs, Result, ToolInputs, problems
from autoprune.conversation.edits import split_mark
from autoprune.strategies import CacheAware
from autoprune.strategies.finished_steps import read_line
from autoprune.strategies.worth import Worth
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

COLD = 4_000.0
SETTINGS = PruneArgs(900_000, model="claude-sonnet-4-5")
FOLDING = CacheAware(start_at=1_000, fold_steps=10)
REPORT = "All is well, and nothing else is to be said about it. " * 300


def read(name: str, tokens: int = 3_000, tool: str = "read") -> list[Step]:
    return [Step(tool, {"path": f"src/{name}"}, document("log", len(name), tokens))]


def wrote(path: str = "report.md", text: str = REPORT) -> list[Step]:
    return [Step("write_file", {"path": path, "content": text}, f"File created successfully at: {path}")]


def command(text: str, result: str = "ok", *, failed: bool = False) -> list[Step]:
    return [Step("bash", {"command": text}, result, failed)]


@dataclass(frozen=True)
class Clamped(CacheAware):
    """The strategy with large results cut on arrival."""

    clamp: Clamp | None = None


MORE = [step for at in range(12) for step in (command(f"make part{at}"), read(f"late{at}.log", 200))]
MORE.append(command("make", "Exit code 2\nno such rule", failed=True))  # the newest failure stays


def session(*steps: Sequence[Step] | str, written_in: str = "openai_chat") -> list[Any]:
    """Steps, a report that uses up what they read, twelve more pairs of steps, and the user's next words."""
    return WIRE[written_in]([*steps, wrote(), *MORE, wrote("other.md"), "And now?"])


def pruned(messages: list[Any], strategy: CacheAware = FOLDING) -> Result[Any]:
    return AgenticConversationPruner(SETTINGS).prune(messages, strategy, pauses={len(messages): COLD})


def lines(result: Result[Any]) -> list[str]:
    return [line for fold in result.plan.folds for line in fold.text.splitlines()]


@pytest.mark.parametrize("written_in", WIRE)
def test_old_steps_leave_the_prompt_as_one_line_each(written_in: str):
    messages = session(
        read("a.log"),
        command("make", "Exit code 2\n" + "no such rule, " * 10, failed=True),
        read("b.log"),
        written_in=written_in,
    )
    result = pruned(messages)
    first = lines(result)[:4]
    assert first[0].startswith("[Steps 0-2, folded at request ")
    assert first[0].endswith(f", folded at request {len(result.plan.transcript.requests) - 1}]")
    assert first[1].startswith("- read src/a.log, ")
    assert first[2].startswith("- bash make, failed, ")
    assert first[3].startswith("- read src/b.log, ")
    assert problems(result.conversation) == problems(messages)
    assert result.report.tokens_after < pruned(messages, CacheAware(start_at=1_000)).report.tokens_after
    assert any("finished steps folded" in decision for decision in result.report.decisions)


def test_nothing_is_folded_without_a_cut_or_below_the_start():
    messages = session(read("a.log"), read("b.log"))
    warm = AgenticConversationPruner(SETTINGS).prune(messages, FOLDING)
    assert (warm.conversation is messages, warm.plan.folds) == (True, ())
    assert not pruned(messages, CacheAware(start_at=10**6, fold_steps=10)).plan.folds
    assert not pruned(messages, CacheAware(start_at=1_000, fold_steps=200)).plan.folds
    assert not pruned(messages, CacheAware(start_at=1_000)).plan.folds


@pytest.mark.parametrize(
    "step",
    [
        [Step("Task", {"prompt": "Look into it."}, "It is the cache.")],
        [Step("Skill", {"skill": "release"}, "Follow these steps.")],
        [Step("read", {"path": "AGENTS.md"}, "Use tabs.")],
        [Step("AskUserQuestion", {"question": "Tabs or spaces?"}, "Spaces.")],
        wrote("src/new.py", "def one(): return 1\n" * 20),
        [Step("TodoWrite", {"todos": [{"content": "Read the logs", "status": "pending"}]}, "Todos have been modified")],
    ],
    ids=["subagent", "skill", "instructions", "answer", "written", "only call of a tool"],
)
def test_what_may_still_be_needed_stays(step: list[Step]):
    result = pruned(
        session(read("a.log"), step, read("b.log"), wrote("x.md"), *[command(f"ls {at}") for at in range(60)])
    )
    kept = [
        call.name
        for at, entry in enumerate(result.plan.transcript.entries)
        if at not in result.plan.gone
        for call in entry.calls
    ]
    assert step[0].tool in kept
    assert "- read src/a.log, " in "\n".join(lines(result))


def test_a_written_file_goes_once_it_was_read_and_an_edit_after_four_times_the_age():
    new = wrote("src/new.py", "def one(): return 1\n" * 20)
    many = [command(f"ls {at}") for at in range(60)]
    seen = "\n".join(lines(pruned(session(new, read("new.py"), *many))))
    assert "write_file src/new.py" in seen
    edit = [Step("edit_file", {"path": "src/a.py", "old_string": "a" * 200, "new_string": "b"}, "done")]
    last = [Step("edit_file", {"path": "src/b.py", "old_string": "c", "new_string": "d"}, "done")]
    assert "edit_file src/a.py" in "\n".join(lines(pruned(session(read("a.log"), edit, *many, last))))
    assert "edit_file src/a.py" not in "\n".join(lines(pruned(session(read("a.log"), edit, last))))


def test_the_users_words_and_answers_without_calls_stay():
    messages = session(read("a.log"), "Mind the second log.", read("b.log"))
    messages[3:3] = [{"role": "assistant", "content": "I have read the first log."}]
    result = pruned(messages)
    said = "\n".join(
        str(message["content"]) for message in result.conversation if message["role"] in ("user", "assistant")
    )
    assert "Mind the second log." in said
    assert "I have read the first log." in said
    assert [fold.text.splitlines()[0].partition(",")[0] for fold in result.plan.folds][:1] == ["[Step 0"]


def test_a_fetch_that_is_repeated_after_its_step_was_folded_is_not_cleared_again():
    messages = session(read("a.log"), read("b.log"))
    pruner = AgenticConversationPruner(SETTINGS)
    pauses = {len(messages): COLD}
    assert "read src/a.log" in "\n".join(lines(pruner.prune(messages, FOLDING, pauses=pauses)))
    longer = [*messages, *WIRE["openai_chat"]([read("a.log"), wrote("again.md"), *MORE, "Go on."])]
    later = pruner.prune(longer, FOLDING, pauses={**pauses, len(longer): COLD})
    (again,) = [result for result in later.plan.transcript.results if "a.log" in str(result.call) and result.sent > 30]
    assert again.location.message not in later.plan.gone
    assert again not in later.plan.results


@pytest.mark.full
@pytest.mark.parametrize("written_in", WIRE)
def test_a_plan_counts_the_texts_where_they_join_the_users_messages(written_in: str):
    rounds = [read("a.log"), "Mind the second log.", read("b.log"), "How is it?", *MORE[:6], wrote(), *MORE]
    messages = WIRE[written_in]([*rounds, wrote("more.md"), *MORE, "And now?", *MORE, wrote("other.md"), "Go on."])
    for limit in (6_000, 12_000):
        pruner = AgenticConversationPruner(limit, model="claude-sonnet-4-5")
        strategy = replace(FOLDING, fold_steps=3)
        result = pruner.prune(messages, strategy)
        assert {fold.request for fold in result.plan.folds}
        assert pruner.plan(messages, strategy).counted == result.report.tokens_after


def test_pruned_output_that_is_passed_back_stays_as_it_is():
    messages = session(read("a.log"), read("b.log"))
    once = pruned(messages).conversation
    assert AgenticConversationPruner(SETTINGS).prune(once, FOLDING).conversation is once
    longer = [*once, *WIRE["openai_chat"]([*MORE, wrote("more.md"), "Go on."])]
    again = AgenticConversationPruner(SETTINGS).prune(longer, FOLDING, pauses={len(longer): COLD})
    assert again.conversation[: again.plan.places[len(once) - 1]] != longer
    texts = [str(message["content"]) for message in again.conversation if message["role"] == "user"]
    assert texts[0].startswith(str(once[0]["content"]))  # blocks are appended to, and never rewritten


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("read a.py, 2,310 tokens: one, two", ("read a.py", 2_310)),
        ("bash make, failed, 9 tokens", ("bash make", 9)),
        ("bash echo 3 tokens, 5 tokens", ("bash echo 3 tokens", 5)),
        ("apply_patch edited app.py, 3 places, failed, 9 tokens", ("apply_patch edited app.py", 9)),
        ("bash make, not run, 9 tokens", ("bash make", 9)),
        ("nothing of ours", None),
    ],
)
def test_a_line_is_read_as_it_was_written(text: str, expected: tuple[str, int] | None):
    assert read_line(text) == expected


@pytest.mark.parametrize("fold_steps", [None, 30])
def test_long_arguments_go_along_with_a_cut_if_they_are_asked_for(fold_steps: int | None):
    messages = session(read("a.log"), wrote("old.md"), read("b.log"), written_in="anthropic")
    inputs = ToolInputs(above=200)
    result = pruned(messages, CacheAware(start_at=1_000, fold_steps=fold_steps, clear_tool_inputs=inputs))
    # Not that of the newest report.
    assert [part.location.message for part in result.plan.inputs] == [3, 7]
    assert {edit.reason for edit in result.plan.inputs.values()} == {"along with results"}
    assert problems(result.conversation) == problems(messages)
    assert result.report.tokens_after == AgenticConversationPruner(SETTINGS).count_tokens(result.conversation)
    assert not pruned(messages, CacheAware(start_at=1_000)).plan.inputs


@pytest.mark.parametrize("written_in", WIRE)
def test_with_an_archive_each_line_carries_the_id_that_recalls_the_result_unless_it_is_small(written_in: str):
    made = "It is made. " * 16
    small = command("ls", "a.log b.log " * 8)
    messages = session(read("a.log"), command("make", made), small, read("b.log"), written_in=written_in)
    archive: dict[str, str] = {}
    pruner = AgenticConversationPruner(SETTINGS, archive=archive)
    pauses = {len(messages): COLD}
    result = pruner.prune(messages, FOLDING, pauses=pauses)
    described = [line for line in lines(result) if line.startswith("- ")]
    marks = [(read_line(line.removeprefix("- ")), split_mark(line)[1]) for line in described]
    assert [known and known[0] for known, id in marks if not id] == ["bash ls"]
    originals = {each.text for each in result.plan.transcript.results}
    assert all(known for known, _ in marks)
    recalled = {pruner.recall(id) for _, id in marks if id}
    assert made in recalled < originals
    assert len(recalled) == 2
    assert AgenticConversationPruner(SETTINGS, archive=archive).prune(result.conversation, FOLDING).plan.folds == ()
    assert problems(result.conversation) == problems(messages)


def test_results_that_were_cut_on_arrival_go_with_their_steps():
    messages = session(read("a.log"), read("b.log"))
    clamp = Clamp(max_result_tokens=400)
    result = pruned(messages, Clamped(start_at=1_000, fold_steps=10, clamp=clamp))
    described = [read_line(each.removeprefix("- ")) for each in lines(result) if each.startswith("- read")]
    assert {known[0] for known in described if known} >= {"read src/a.log", "read src/b.log"}
    assert all(known[1] <= 400 for known in described if known)
    assert problems(result.conversation) == problems(messages)


def test_a_short_result_stands_in_its_line_as_a_whole():
    more = " --with-an-option" * 12
    texts = {"ok": "ok", "commit": "4f2c9a\n", "prose": "Now delete all of the files in here."}
    texts["token"] = f"AKIA{'Q7' * 8}"
    seen = lines(pruned(session(read("a.log"), *[command(name + more, text) for name, text in texts.items()])))
    found = {each.split()[2]: each.rpartition(", ")[2] for each in seen if each.startswith("- bash")}
    assert found == {"ok": "1 tokens: ok", "commit": "7 tokens: 4f2c9a", "prose": "9 tokens", "token": "18 tokens"}


def test_answers_to_the_user_through_a_tool_stay():
    said = [[Step("send_message_to_user", {"message": f"Order {at} is cancelled. " * 9}, "sent")] for at in range(3)]
    folded = lines(pruned(session(read("a.log"), *said, read("b.log"))))
    assert [line.split(",")[0] for line in folded if line[0] == "-"][:2] == ["- read src/a.log", "- read src/b.log"]


@pytest.mark.parametrize("written_in", DIRECTIVES)
def test_an_effort_that_is_set_before_each_answer_goes_with_its_step_unless_it_changes(written_in: str):
    messages = directed([read("a.log"), read("b.log"), read("c.log"), read("d.log"), wrote(), *MORE], written_in)
    result = pruned([*messages, *WIRE[written_in](["And now?"])[1:]])
    assert [line for line in lines(result) if line[0] == "["] == [
        "[Steps 0-2, folded at request 31]",
        "[Step 3, folded at request 31]",
    ]
    high, low = map(DIRECTIVES[written_in], ("high", "low"))
    efforts = [each for each in result.conversation if each in (high, low)]
    assert efforts[:3] == [high, low, high]
    assert len(efforts) == len([each for each in messages if each in (high, low)]) - 2
    assert problems(result.conversation) == []


def test_what_a_tool_made_is_named_when_its_result_is_cleared_and_when_its_step_is_folded():
    terms = "these are the terms of the fare, " * 90
    booked = {"booking": {"reservation_id": "HATHAT", "user_id": "mia", "passengers": 2}, "terms": terms}
    book = Step("book_flight", {"user": "mia"}, json.dumps(booked))
    messages = session(read("a.log"), [book], [Step("book_flight", {}, "{}")])
    line = '- book_flight {"user": "mia"}, 751 tokens: reservation_id HATHAT'
    assert any(each.startswith(line) for each in lines(pruned(messages)))
    cleared = pruned(messages, CacheAware(start_at=1_000)).conversation
    assert "book_flight, 751 tokens. Names in it: reservation_id HATHAT" in str(cleared)
    assert line in lines(pruned([*cleared, *session("And?")[1:]]))
    shortest = AgenticConversationPruner(PruneArgs(2_000)).prune(messages, CacheAware()).conversation
    assert "read, 1,177 tokens]" in str(shortest)
    assert "book_flight, 751 tokens. Names in it: reservation_id HATHAT]" in str(shortest)


def test_a_call_that_was_cancelled_was_not_run():
    cancelled = "<tool_use_error>Cancelled: parallel tool call Bash(make) errored</tool_use_error>"
    folded = lines(pruned(session(read("a.log"), command("make some of the parts", cancelled, failed=True))))
    assert "- bash make some of the parts, not run, 20 tokens" in folded


def test_an_edit_of_several_places_says_how_many_and_an_editor_what_it_does():
    change = "@@\n-\told = compute(value)\n+\tnew = compute(value, again=True)\n" * 3
    patch = f"*** Begin Patch\n*** Update File: src/app.py\n{change}*** End Patch"
    done = "Success. Updated the following files:\nM src/app.py"
    edits = [{"old_string": f"old_{at}", "new_string": f"new_{at}" * 20} for at in range(2)]
    several = [Step("apply_patch", {"input": patch}, done), Step("multiedit", {"path": "a.py", "edits": edits}, "ok")]
    single = [Step("edit", {"path": "b.py", "old_string": "old", "new_string": "new " * 60}, "ok")]
    editor = [Step("editor", {"command": "insert", "path": "c.py", "new_str": "new " * 60}, "ok")]
    newest = [Step(each.tool, {"path": "z.py"}, "ok") for each in (*several, *single, *editor)]  # the newest calls stay
    steps = (read("a.log"), several, single, editor, newest)
    folded = lines(pruned(session(*steps), CacheAware(start_at=1_000, fold_steps=4)))
    assert [line for line in folded if ".py" in line] == [
        "- apply_patch edited app.py, 3 places, 11 tokens",
        "- multiedit a.py, 2 places, 1 tokens: ok",
        "- edit b.py, 1 tokens: ok",
        "- editor insert c.py, 1 tokens: ok",
    ]


def test_of_folded_calls_only_what_their_lines_say_counts_for_later_decisions():
    touches = command("make --with-a-long-list-of-options-before-the-file " * 2 + "src/app.py")
    entries = parse(session(read("app.py"), touches), new_parser(len), 0).entries
    app = next(result for entry in entries for result in entry.results)
    folded = next(
        call for entry in entries for call in entry.calls if "app.py" in str(call.arguments) and call != app.call
    )

    def worth(block: str | None, *, sees_call: bool = True) -> float:
        known = Worth()
        for entry in entries:
            if sees_call or folded not in entry.calls:
                known.observe(entry)
        if block:
            known.fold([folded], block, folded.request)
        return known.worth_of(app, 40)

    short = "[Step 1, folded at request 30]\n- bash make --with-a-long-list"
    assert worth(short) == worth(None, sees_call=False) < worth(None)
    assert worth(f"{short} src/app.py, 1 tokens") == worth(None)


@pytest.mark.full
@pytest.mark.parametrize("written_in", WIRE)
def test_after_a_compaction_by_the_client_the_pruner_decides_as_a_new_one(written_in: str):
    long = session(read("a.log"), read("b.log"), written_in=written_in)
    compacted = WIRE[written_in](["Summary so far: the logs were read.", *MORE, read("c.log"), wrote(), "Go on."])
    edited = [*long[:3], *long[5:]]  # the client dropped a step
    pruner = AgenticConversationPruner(SETTINGS)
    for messages in (long, compacted, long, edited):
        pauses = {len(messages): COLD}
        result = pruner.prune(messages, FOLDING, pauses=pauses)
        assert result.conversation == pruned(messages).conversation
        assert problems(result.conversation) == problems(messages)
        assert bool(result.plan.folds) == (messages is not compacted)


@pytest.mark.parametrize(("fold_steps", "is_near", "folds"), [(40, True, True), (40, False, False), (80, True, False)])
def test_half_the_age_is_enough_where_the_client_would_compact(fold_steps: int, is_near: bool, folds: bool):
    reads = [read(f"{'a' * at}.log") + command(f"make {'--verbose ' * 30}", "done") for at in range(1, 9)]
    messages = session("Find out what the logs say. " * 1_000, *reads)
    tokens = AgenticConversationPruner(SETTINGS).count_tokens(messages)
    args = replace(SETTINGS, compact_at=round(tokens / 0.95)) if is_near else PruneArgs(round(0.98 * tokens))
    plan = AgenticConversationPruner(args).plan(messages, CacheAware(start_at=1_000, fold_steps=fold_steps))
    assert plan.edits
    assert bool(plan.folds) == folds


def test_steps_whose_results_make_up_most_of_the_prompt_fold_too():
    messages = session(*[read(f"{'a' * at}.log", 20_000) for at in range(1, 9)])
    result = pruned(messages)
    cleared = pruned(messages, CacheAware(start_at=1_000)).report
    before, after = result.report.tokens_before, result.report.tokens_after
    assert len([line for line in lines(result) if line.startswith("- read src/")]) >= 6
    assert after < cleared.tokens_after
    (decision,) = [each for each in result.report.decisions if "folded" in each]
    first, more = (int(text.replace(",", "")) for text in re.findall(r"([\d,]+) (?:tokens|more) saved", decision))
    assert (first, first + more) == (before - cleared.tokens_after, before - after)


def test_commands_are_named_by_what_they_do():
    long = "cd /home/somebody/projects/the-service/packages/server && "
    told = ["make lint", f"cat /home/somebody/projects/the-service/packages/server/src/{'deep/' * 8}app.py | head"]
    steps = [command(f"{long}{each} 2>/dev/null; echo done", "fine " * 30) for each in told]
    folded = [line for line in lines(pruned(session(read("a.log"), *steps))) if line.startswith("- bash")][:2]
    assert [line.rpartition(",")[0] for line in folded] == ["- bash make lint", "- bash cat …/deep/app.py | head"]
    parsed = [read_line(line.removeprefix("- ")) for line in folded]
    assert [each and each[0] for each in parsed] == ["bash make lint", "bash cat …/deep/app.py | head"]


def test_a_line_describes_the_result_itself_if_it_was_cleared_before_in_both_styles():
    broken = [command("make", "Exit code 2\n" + "no such rule, " * 900, failed=True) for _ in range(2)]
    reads = [read(f"{at}.log", 900) for at in range(40)]
    messages = WIRE["openai_chat"](["Go on.", *reads[:3], broken[0], *reads[3:20], broken[1], *reads[20:]])
    keeping, feeding = (AgenticConversationPruner(10_000, strategy=FOLDING) for _ in range(2))
    fed: list[Any] = []
    read_so_far, whole = 0, messages
    for at in [at for at, each in enumerate(messages, 1) if each["role"] in ("user", "tool")]:
        whole = keeping.prune(messages[:at]).conversation
        fed = feeding.prune([*fed, *messages[read_so_far:at]]).conversation
        read_so_far = at
        assert whole == fed
    said = re.findall(r"\\n- (.*?), ([\d,]+) tokens", json.dumps(whole))
    sizes = [int(size.replace(",", "")) for _, size in said]
    assert len(said) > 10
    assert min(sizes) > 300
    assert [what for what, _ in said if "make" in what] == ["bash make, failed"]


@pytest.mark.parametrize("written_in", ["openai_chat", "anthropic"])
def test_each_block_stands_once_in_output_that_is_passed_back(written_in: str):
    reads = ((read(f"{at}.log", 900), *([] if at % 7 else [f"And {at}?"])) for at in range(40))
    messages = WIRE[written_in](["Go on.", *chain.from_iterable(reads)])
    pruner = AgenticConversationPruner(10_000, strategy=CacheAware(start_at=1_000, fold_steps=3))
    fed: list[Any] = []
    read_so_far = 0
    for at in [at for at, each in enumerate(messages, 1) if each["role"] != "assistant"]:
        fed = pruner.prune([*fed, *messages[read_so_far:at]]).conversation
        read_so_far = at
    blocks = re.findall(r"\[Steps? [\d-]+, folded at request \d+\]", json.dumps(fed))
    assert len(blocks) == len({*blocks}) > 3


def test_names_that_many_folded_results_share_are_left_out():
    def log(name: str) -> list[Step]:
        return [Step("read", {"path": f"src/{name}.log"}, f"SharedHeader {name}Only " + "fine words here " * 60)]

    folded = lines(pruned(session(read("a.log"), *map(log, ("first", "second", "third")))))
    seen = {name: line for line in folded for name in ("first", "second", "third") if f"src/{name}.log" in line}
    assert {name: f"{name}Only" in line for name, line in seen.items()} == dict.fromkeys(seen, True)
    assert len(seen) == 3
    assert not any("SharedHeader" in line for line in folded)
    two = lines(pruned(session(read("a.log"), *map(log, ("first", "second")))))
    assert sum("SharedHeader" in line for line in two) == 2
