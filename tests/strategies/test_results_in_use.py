"""`cache_aware` leaves results in view until the agent has had time to use them."""

import random
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, sample_cases
from reading_tasks import KINDS, Reader, document, written
from rounds import WIRE, Round, Step, Words
from strict_provider.tools import PICTURE
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.strategies import CacheAware
from autoprune.tokens import exact

ZONE = 980_000  # tokens, as `autoprune run` takes it for a window of a million
NO_FLOOR = CacheAware(start_at=0, never_dearer=None)
EAGER = CacheAware(threshold=1_000, patience=0.1, start_at=0, never_dearer=None)  # clears whatever it may
LOG = "10:07 INFO worker 3 took a job in 120 ms\n"
SMALL = Step("list", {"path": "docs"}, "a.md")
EDIT = Step("edit", {"path": "src/app.py", "old": "a", "new": "b"}, "ok")
ALL_IS_WELL = "All is well. " * 300
REPORT = Step("write", {"path": "report.md", "content": ALL_IS_WELL}, "ok")


def reader(
    kind: str, count: int, strategy: Any, format: str = "anthropic", characters: int = 6_000, *, fed_back: bool = False
) -> Reader:
    pruner = AgenticConversationPruner(ZONE)
    documents = [document(kind, number, characters) for number in range(count)]
    return Reader(lambda given: pruner.prune(given, strategy).conversation, WIRE[format], documents, fed_back=fed_back)


@pytest.mark.parametrize("strategy", ["cache_aware", NO_FLOOR], ids=["default", "no floor"])
@pytest.mark.parametrize("kind", sample_cases(KINDS, 5))
def test_documents_needed_together_are_in_view_together(kind: str, strategy: Any):
    """Each is read once: two, three or five that are compared, and twenty for one report."""
    assert [reader(kind, count, strategy).compare() for count in (2, 3, 5, 20)] == [3, 4, 6, 21]


@pytest.mark.parametrize(("count", "characters"), [(25, 800), (6, 25_000)], ids=["short", "long"])
@pytest.mark.parametrize("kind", sample_cases(KINDS, 5))
def test_no_document_is_cleared_before_the_report_is_written(kind: str, count: int, characters: int):
    assert reader(kind, count, EAGER, characters=characters).compare() == count + 1


def kept(rounds: list[Round], strategy: CacheAware = EAGER, zone: int = ZONE, **more: Any) -> list[str]:
    """The paths of the results in view at the next request."""
    plan = AgenticConversationPruner(zone).plan(WIRE["openai_chat"](rounds), strategy, **more)
    calls = [result.call for result in plan.kept]
    return [call.arguments.split('"')[3] for call in calls if call and isinstance(call.arguments, str)]


def read(*names: str, text: str = LOG * 100) -> list[Round]:
    return [[Step("read", {"path": name}, text)] for name in names]


def test_a_result_goes_some_requests_after_the_agent_has_written():
    reading = read("a.log", "b.log", *[f"{at}.log" for at in range(20)])
    assert kept(reading)[:2] == ["a.log", "b.log"]
    assert kept([*reading, [REPORT], *[[SMALL]] * 3])[:2] == ["a.log", "b.log"]
    assert kept([*reading, [REPORT], *[[SMALL]] * 8])[0] == "report.md"


@pytest.mark.parametrize(
    "writing",
    [
        [[REPORT]],
        [[Step("bash", {"command": f"cat > report.md <<'EOF'\n{ALL_IS_WELL}\nEOF"}, "")]],
        [[Step("send_report", {"body": ALL_IS_WELL}, "sent")]],
        [Words("assistant", ALL_IS_WELL), Words("user", "Thank you. Now look at something else.")],
        [[Step("write", {"path": f"{at}.md", "content": ALL_IS_WELL[:400]}, "ok")] for at in range(2)],
    ],
    ids=["a file", "a shell command that writes", "a long text in a call", "an answer to the user", "two short texts"],
)
def test_kinds_of_writing(writing: list[Round]):
    begin: list[Round] = [Words("user", "Read the log.")]
    assert kept([*begin, *read("a.log"), *writing, *[[SMALL]] * 8])[0] != "a.log"


# A report after small acts


PYTHON = "def load_rows(path):\n    with open(path) as source:\n        return [row.split(',') for row in source]\n"
KOREAN = (
    "주문은",
    "어제",
    "창고에서",
    "출발했지만",
    "고객에게",
    "아직",
    "통보되지",
    "않았습니다",
    "재고를",
    "확인하십시오",
)
ARABIC = ("غادر", "الطلب", "المستودع", "أمس", "ولكن", "العميل", "لم", "يستلم", "الإشعار", "المخزون")
TODOS = {"todos": "".join(f"{at}. Read document {at} and note its amounts. " for at in range(13))}
SCRIPT = ("total = sum(float(row[4]) for row in rows if row[2] == 'N')\nprint(total)\n" * 20)[:1_200]
ACTS: dict[str, list[Round]] = {
    "a todo list": [[Step("TodoWrite", TODOS, "ok")], [Step("update_plan", {"plan": TODOS["todos"] * 10}, "ok")]],
    "a checklist": [[Step("update_checklist", {"items": TODOS["todos"] * 10}, "ok")]],
    "a note": [[Step("write", {"path": "notes.md", "content": "The first amounts differ. " * 5}, "ok")]],
    "a script in a file": [[Step("write", {"path": "total.py", "content": SCRIPT}, "ok")]],
    "a script": [[Step("bash", {"command": f"python - <<'EOF'\n{SCRIPT}EOF"}, "812.5")]],
    "a commit": [[Step("bash", {"command": "git commit -m 'Add the first documents of the year'"}, "1 file changed")]],
    "an edit": [[EDIT]],
    "a question": [
        Words("assistant", "Which year?"),
        Words("user", "The last one."),
    ],
}


def _code(source: random.Random) -> Iterator[str]:
    while True:
        yield f"def load_{source.randint(1, 999)}(rows):\n    return rows[{source.randint(1, 9_999)}]"


def _ini(source: random.Random) -> Iterator[str]:
    while True:
        yield f"[section.{source.randint(1, 999)}]\nlimit = {source.randint(1, 9_999)}"


def phase(kind: str, count: int, tokens: int) -> list[Round]:
    """Reads of documents with at least so many tokens together."""
    more = {
        "korean": ("txt", written(KOREAN, " ")),
        "arabic": ("txt", written(ARABIC, " ")),
        "code": ("py", _code),
        "ini": ("ini", _ini),
    }
    ending, lines = more.get(kind) or (kind.split()[0], KINDS[kind])
    made: list[Round] = []
    for number in range(count):
        source, text = lines(random.Random(f"{kind} {number}")), ""
        while exact()(text) < tokens / count:
            text += "".join(f"{next(source)}\n" for _ in range(10))
        made.append([Step("read", {"path": f"data/{number:03}.{ending}"}, text)])
    return made


@pytest.mark.full
@pytest.mark.parametrize("kind", sample_cases((*KINDS, "korean", "arabic", "code", "ini"), 5))
@pytest.mark.parametrize("act", sample_cases(ACTS, 3))
def test_documents_stay_through_small_acts_until_the_report(kind: str, act: str):
    for count in (3, 12, 30):
        documents = phase(kind, count, 21_000)
        half = count // 2
        made = [*documents[:half], *ACTS[act], *documents[half:], *ACTS["a note"], *[[SMALL]] * 15]
        names = [step.arguments["path"] for made in documents for step in made]
        assert set(names) <= set(kept([Words("user", "Write a report."), *made]))
        after = kept([Words("user", "Write a report."), *made, [REPORT], *[[SMALL]] * 8])
        assert not set(names) & set(after)


def test_what_a_report_is_not_about_waits_for_the_next_report():
    """Two reports in turn, on the first and the second half of what was read."""
    documents = phase("csv", 12, 40_000)
    names = [step.arguments["path"] for made in documents for step in made]
    lines = [step.text.split("\n")[3:14] for made in documents for step in made]
    first, second = ("\n".join(line for each in half for line in each) for half in (lines[:6], lines[6:]))
    made: list[Round] = [*documents, [Step("write", {"path": "first.md", "content": first}, "ok")], *[[SMALL]] * 15]
    assert set(names[6:]) <= set(kept(made))
    assert not set(names[:3]) & set(kept(made))
    after = [*made, [Step("write", {"path": "second.md", "content": second}, "ok")], *[[SMALL]] * 8]
    assert not set(names[6:]) & set(kept(after))


def test_a_pause_clears_nothing_that_the_agent_has_not_used():
    given = [*read("a.log", "b.log"), [SMALL]]
    at = len(WIRE["openai_chat"](given))
    assert kept(given, pauses={at: 4_000.0}) == ["a.log", "b.log", "docs"]


def at_a_pause(made: list[Round]) -> list[str]:
    return kept(made, CacheAware(start_at=0, never_dearer=None), pauses={len(WIRE["openai_chat"](made)): 4_000.0})


@pytest.mark.parametrize("command", ["git diff main", "git -C app show HEAD", "gh issue view 12", "gh pr diff 7"])
def test_a_pause_does_not_clear_what_the_task_is_about_before_the_answer(command: str):
    begin: list[Round] = [Words("user", "Review it."), [Step("bash", {"command": command}, PYTHON * 600)]]
    scripts: list[Round] = [[Step("write", {"path": f"{at}.py", "content": SCRIPT}, "ok")] for at in range(3)]
    made = [*begin, *scripts, *[[SMALL]] * 12]
    assert command in at_a_pause(made)
    answer: list[Round] = [Words("assistant", ALL_IS_WELL), Words("user", "Thank you.")]
    assert command not in at_a_pause([*made, *answer, *[[SMALL]] * 12])


def test_a_result_fetched_again_is_not_cleared_twice():
    before = [*read("a.log"), [REPORT], *[[SMALL]] * 8]
    again = [*before, *read("a.log"), [REPORT], *[[SMALL]] * 30]
    assert "a.log" not in kept(before)
    assert kept(again)[0] == "report.md"
    assert "a.log" in kept(again)


def test_a_result_that_was_recalled_is_not_cleared_again():
    for name, stays in (("autoprune recall 104839926617352", True), ("grep -rn 'autoprune recall' docs", False)):
        recalled: Round = [Step("bash", {"command": name}, LOG * 100)]
        assert (name in kept([recalled, [REPORT], *[[SMALL]] * 30])) is stays


PICTURES = 30


def screens(tool: str, argument: str, caption: str = "") -> list[Any]:
    """A session of Anthropic's API: a call for each picture, with an argument of its own."""
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(PICTURE).decode()}
    messages: list[Any] = [{"role": "user", "content": "Order what is on the list."}]
    for number in range(PICTURES):
        call = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": {argument: f"{number}.png"}}
        words = [{"type": "text", "text": caption}] if caption else []
        blocks = [*words, {"type": "image", "source": source}]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": blocks}
        messages += ({"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})
    return messages


@each_row(
    ("tool", "argument", "goes"),
    [
        ("computer", "text", True),
        ("mcp__playwright__browser_click", "ref", True),
        ("Read", "file_path", False),  # each of another file: drafts that are compared
        ("mcp__figma__get_screenshot", "nodeId", False),
        ("browser_open", "path", False),
        ("computer_use", "tabId", False),
    ],
)
def test_a_picture_is_out_of_date_once_three_newer_ones_of_the_same_screen_have_come(
    tool: str, argument: str, goes: bool
):
    messages = screens(tool, argument)
    pruner = AgenticConversationPruner(PruneArgs(ZONE, model="claude-opus-5-5"), strategy=EAGER)
    result = pruner.prune(messages)
    cleared = [at for at in range(PICTURES) if result.conversation[2 * at + 2] != messages[2 * at + 2]]
    assert cleared == [*range(len(cleared))]
    assert (len(cleared) > PICTURES / 2) is goes
    assert len(cleared) <= PICTURES - 3 - EAGER.stay
    assert pruner.prune(result.conversation).conversation == result.conversation


@pytest.mark.parametrize(
    ("tool", "id", "stays"),
    [
        ("recall", "104839926617352", True),
        ("mcp__autoprune__recall", "0123456789abcdef", True),  # an id of an earlier version
        ("mcp__autoprune__recall", "note 7", False),
        ("recall_all", "104839926617352", False),
    ],
)
def test_a_result_that_a_tool_recalled_is_not_cleared_again(tool: str, id: str, stays: bool):
    recalled: Round = [Step(tool, {"id": id}, LOG * 100)]
    assert (id in kept([recalled, [REPORT], *[[SMALL]] * 30])) is stays


def test_a_page_of_text_with_a_picture_is_a_document_that_may_still_be_reported_on():
    messages = screens("browser_click", "ref", "Prices of the second page, in euros. " * 20)
    pruner = AgenticConversationPruner(PruneArgs(ZONE, model="claude-opus-5-5"), strategy=EAGER)
    assert pruner.prune(messages).conversation == messages


@each_row(
    ("caption", "shown"),
    [
        ("The order page,\nwith row 3 selected", ". It showed: The order page, with row 3 selected"),
        ("", ""),
        ("A bill for 3, 12 tokens. It showed: nothing", ""),  # would be read as the end of a placeholder
        ("load_settings is selected. " * 15, ". Names in it: load_settings"),
    ],
)
def test_the_words_beside_a_picture_stay_in_its_placeholder_if_they_are_few(caption: str, shown: str):
    pruner = AgenticConversationPruner(PruneArgs(ZONE, model="claude-opus-5-5"), strategy=EAGER)
    result = pruner.prune(screens("computer", "text", caption)).conversation
    (block,) = result[2]["content"]
    (text,) = block["content"]
    figures = re.compile(r"(?<=request )\d+|[\d,]+(?= tokens)")
    assert figures.sub("N", text["text"]) == f"[Cleared at request N: computer, N tokens{shown}]"
    assert pruner.prune(result).conversation == result


def test_a_plan_says_that_a_result_is_not_used_yet_or_was_fetched_again():
    fetched = [
        *read("a.log"),
        [REPORT],
        *[[SMALL]] * 8,
        *read("a.log"),
        [REPORT],
        *[[SMALL]] * 30,
        *read("b.log"),
        [SMALL],
    ]
    plan = AgenticConversationPruner(ZONE).plan(WIRE["openai_chat"](fetched), EAGER)
    reasons = {result.call.arguments: why for result, why in plan.kept.items() if result.call and result.tool == "read"}
    assert reasons == {'{"path": "a.log"}': "fetched again", '{"path": "b.log"}': "not used yet"}


# Above the safe zone


FAILURE = Step("bash", {"command": "pytest -x"}, "E   KeyError: 'name'\n" * 40 + "=== 1 failed in 0.12s ===\n")
OLD_LOGS = read(*[f"{at}.log" for at in range(12)], text=LOG * 60)


def working(*rounds: Round) -> list[Round]:
    """An agent that reads logs, then edits a file whose test fails."""
    source = [Step("read", {"path": "src/app.py"}, "def load(rows):\n    return rows[0]\n" * 60)]
    return [*OLD_LOGS, source, [EDIT], [FAILURE], *rounds]


def test_above_the_safe_zone_results_in_use_go_last():
    given = working(*[[SMALL]] * 20)
    in_view = kept(given, CacheAware(), zone=5_000)
    assert "0.log" not in in_view
    assert {"src/app.py", "pytest -x"} <= set(in_view)


# In any order


@st.composite
def rounds(draw: st.DrawFn) -> list[Round]:
    """Reads of a few files in any order, with writing and words between them."""
    made: list[Round] = []
    for _ in range(draw(st.integers(3, 25))):
        does = draw(st.sampled_from(("read", "read", "read", "small", "edit", "say")))
        name = draw(st.sampled_from("abc"))
        made += {
            "read": read(f"{name}.log", text=f"{name}\n{LOG * draw(st.sampled_from((20, 100)))}"),
            "small": [[SMALL]],
            "edit": [[REPORT]],
            "say": ["Go on."],
        }[does]
    return made


@examples(150)
@given(rounds(), st.integers(1, 6), st.booleans())
def test_below_the_safe_zone_no_result_goes_before_it_could_be_used_and_no_fetch_goes_twice(
    made: list[Round], stay: int, is_paused: bool
):
    messages = WIRE["openai_chat"](made)
    pauses = dict.fromkeys(range(1, len(messages) + 1), 400.0) if is_paused else {}
    strategy = CacheAware(threshold=1_000, patience=0.1, stay=stay, start_at=0, never_dearer=None)
    plan = AgenticConversationPruner(ZONE).plan(messages, strategy, pauses=pauses)
    cleared_at: dict[str, int] = {}
    for edit in sorted(plan.edits, key=lambda each: (each.request, each.part.location.path)):
        result: Any = edit.part
        assert edit.request >= result.sent + stay
        assert result.request < cleared_at.setdefault(result.call.arguments, edit.request)


# Above 0.9 of the point where the client compacts


def soft(rounds: list[Round], share: float, zone: int = 100_000) -> Any:
    """The plan of a prompt that has this share of the size at which the client compacts."""
    messages = WIRE["openai_chat"](rounds)
    tokens = AgenticConversationPruner(ZONE).count_tokens(messages)
    args = PruneArgs(zone, compact_at=round(tokens / share))
    return AgenticConversationPruner(args).plan(messages, CacheAware())


def paths_of(plan: Any) -> set[str]:
    return {edit.part.call.arguments.split('"')[3] for edit in plan.edits}


def test_what_was_used_goes_before_the_client_compacts():
    used = [*OLD_LOGS, [REPORT], *[[SMALL]] * 12]
    assert soft(used, 0.89).edits == ()
    assert len(soft(used, 0.91).edits) == 9


def test_just_before_a_compaction_unused_results_go_too():
    logs = {f"{at}.log" for at in range(12)}
    unused = working(*[[SMALL]] * 6)
    assert soft(unused, 0.905).edits == ()
    assert paths_of(soft(unused, 0.93)) < logs


def test_a_compaction_is_better_than_clearing_what_has_just_arrived_or_is_in_use():
    source = [Step("read", {"path": "src/app.py"}, "def load(rows):\n    return rows[0]\n" * 600)]
    given = [source, [EDIT], *read("a.log", "b.log", text=LOG * 200)]
    plan = soft(given, 0.95)
    assert plan.edits == ()
    assert plan.rationale.decisions[-1].endswith(
        "the conversation will be compacted, since only results that have just arrived or that are in use "
        "could be cleared"
    )
    assert soft(given, 0.95, zone=8_000).edits


# Cleared results


def reports(rng: random.Random) -> Iterator[Round]:
    """An agent that reads more than its texts use up; a text has lines of a few documents so far."""
    yield Words("user", "Write the reports.")
    lines: list[str] = []
    for at in range(3):
        for number in rng.sample(range(30), 8):
            text = document("csv", number, rng.choice((6_000, 12_000)))
            lines += rng.sample(text.split("\n"), 4)
            yield [Step("read", {"path": f"{at}/{number}.{rng.choice(('csv', 'py'))}"}, text)]
        name = rng.choice(("report.md", "script.py"))
        yield [Step("write", {"path": f"{at}/{name}", "content": "\n".join(rng.sample(lines, 32))}, "ok")]
        yield from [[SMALL]] * 6


@examples(30)
@given(st.integers(0, 10**6), st.sampled_from((16_000, 24_000, 40_000)), st.booleans())
def test_what_was_used_is_the_same_in_pruned_output_that_is_passed_back(seed: int, zone: int, is_soft: bool):
    """The texts of cleared results are gone there, so nothing may depend on their words."""
    messages = WIRE["openai_chat"]([*reports(random.Random(seed))])
    args = PruneArgs(ZONE, compact_at=round(zone / 0.9)) if is_soft else PruneArgs(zone)
    full, feeding = AgenticConversationPruner(args), AgenticConversationPruner(args)
    fed: list[Any] = []
    for stop in range(1, len(messages) + 1):
        if messages[stop - 1]["role"] != "assistant":
            fed = feeding.prune([*fed, *messages[len(fed) : stop]], EAGER).conversation
            assert fed == full.prune(messages[:stop], EAGER).conversation
