"""Protected content: what is needed at a request, and whether it is whole in view."""

from typing import Any

from episodes import DONE, USER, Sends, call, episode, in_words, result
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.choices import NoPruning, Policy
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.evidence import ProtectedKind
from autoprune.apps.replay.play import Run, play
from autoprune.economics import LISTS
from autoprune.strategies import ObservationMasking

WORDS, FAILURE, FILES, MATERIAL = ProtectedKind
OTHER = "other words " * 40
Messages = list[dict[str, Any]]


def done(id: str, arguments: object, text: str, tool: str = "tool") -> Messages:
    return [call(id, arguments, tool), result(id, text)]


def read(id: str, path: str, text: str) -> Messages:
    return done(id, {"path": path}, text, "read_file")


def edit(id: str, path: str) -> Messages:
    return done(id, {"path": path, "old_string": "a", "new_string": "b"}, "done", "edit_file")


def needed(messages: Messages, kind: ProtectedKind) -> list[list[str]]:
    """The protected texts of a kind at each request, as they would stand elsewhere."""
    return [[" ".join(item.forms[-1]) for item in each if item.kind is kind] for each in episode(messages).protected]


def run(known: Episode, strategy: Any, *, fed_back: bool = False) -> Run:
    return play(known, lambda: AgenticConversationPruner(10**9), strategy, count=in_words, fed_back=fed_back)


# What is needed


def test_the_users_words_are_protected_without_text_that_a_program_added():
    reminder = "<system-reminder>\nNobody said this.\n</system-reminder>"
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": f"Fix it.\n{reminder}"},
        *done("a", {}, "x"),
        {"role": "user", "content": reminder},
        *done("b", {"question": "Which one?"}, "The second.", "ask_user"),
        {"role": "user", "content": "Now the tests."},
        DONE,
    ]
    answer = "[answered ask_user] Which one? The second."
    found = [[" ".join(text.split()) for text in each] for each in needed(messages, WORDS)]
    assert found == [["Fix it."], ["Fix it."], ["Fix it.", answer, "Now the tests."]]


def test_the_newest_failure_is_protected_but_no_refusal():
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    messages = [
        USER,
        *done("a", {"command": "make"}, "Exit code 2\nno rule"),
        *done("b", {"command": "ls"}, "a.py"),
        *done("c", {"command": "pytest"}, "Exit code 1\n1 failed"),
        *done("d", {"command": "rm -r ."}, refusal),
        DONE,
    ]
    first, second = ["Exit code 2\nno rule"], ["Exit code 1\n1 failed"]
    assert needed(messages, FAILURE) == [[], first, first, second, second]


@each_row(
    ("edited", "expected"),
    [
        ("src/a.py", ["two"]),
        ("./src/a.py", ["two"]),
        ("/work/src/a.py", ["two"]),
        ("a.py", ["two"]),
        ("tests/a.py", []),
        ("b.py", []),
    ],
)
def test_the_newest_read_of_an_edited_file_is_needed(edited: str, expected: list[str]):
    reads = [*read("a", "src/a.py", "one"), *read("b", "src/a.py", "two"), *read("c", "src/c.py", "three")]
    messages = [USER, *reads, *edit("d", edited), DONE]
    assert needed(messages, FILES) == [[], [], [], [], expected]


def test_shell_commands_read_and_edit_too_and_what_failed_was_not_read():
    messages = [
        USER,
        *done("a", {"command": "cat src/a.py"}, "one"),
        *done("b", {"command": "cat src/a.py"}, "cat: src/a.py: No such file or directory\nExit code 1"),
        *done("c", {"command": "sed -i s/a/b/ src/a.py"}, ""),
        DONE,
    ]
    assert needed(messages, FILES) == [[], [], [], ["one"]]


def test_a_file_is_being_edited_for_twenty_requests():
    others = [message for at in range(24) for message in done(f"o{at}", {}, "x")]
    messages = [USER, *read("a", "a.py", "one"), *edit("b", "a.py"), *others, DONE]
    found = needed(messages, FILES)
    assert [at for at, texts in enumerate(found) if texts] == [*range(2, 22)]


def written(text: str) -> Messages:
    return done("w", {"path": "report.md", "content": text}, "written", "write_file")


def test_what_was_read_for_a_long_text_is_needed_when_it_is_written():
    report = "The quarterly turnover of Heidelberg was 48151 and of Mannheim 62342. " * 20
    read_for = [*read("a", "a.md", "Heidelberg 48151"), *read("b", "b.md", "Mannheim 62342"), *read("c", "c.md", OTHER)]
    texts = needed([USER, *read_for, *written(report), DONE], MATERIAL)
    assert [*map(sorted, texts)] == [[], [], [], ["Heidelberg 48151", "Mannheim 62342"], []]
    assert not any(needed([USER, *read_for, *written(report[:900]), DONE], MATERIAL))
    later = [USER, *read_for, DONE, {"role": "user", "content": "Now write."}, *written(report), DONE]
    assert not any(needed(later, MATERIAL))
    answer = {"role": "assistant", "content": report}
    assert sorted(needed([USER, *read_for, answer], MATERIAL)[-1]) == ["Heidelberg 48151", "Mannheim 62342"]


# What is whole in view

SESSION = [
    USER,
    *read("a", "a.py", OTHER),
    *done("b", {"command": "make"}, f"Exit code 2\n{OTHER}"),
    *edit("c", "a.py"),
    {"role": "user", "content": "Go on.\n\nTake your time."},
    *read("d", "b.py", OTHER.upper()),
    *read("e", "c.py", OTHER.title()),
    DONE,
]


def test_messages_that_are_dropped_take_the_words_along():
    more = [message for at in range(20) for message in done(f"x{at}", {}, OTHER)]
    known = episode([*SESSION[:-1], *more, DONE], safe_zone=1_000)
    strategy, new_pruner = Policy("keep_last(n=4)").for_episode(known, LISTS["anthropic"])
    whole, lost = play(known, new_pruner, strategy, count=in_words).protected[WORDS]
    assert whole + lost == sum(len(each) for each in needed(known.messages, WORDS))
    assert lost > 0


@each_row(
    ("told", "is_whole"),
    [
        ("Go on.\n\nTake your time.", True),
        ("They said:\n\nGo on.\n\nTake your time.\n\nThen they left.", True),
        ("They said: Go on.", False),
    ],
)
def test_words_can_be_whole_in_a_new_message(told: str, is_whole: bool):
    first = {"role": "user", "content": "Fix it."}  # equal to the user's first message, and another object
    known = episode(SESSION)
    pruner = Sends(lambda given, number: [first, {"role": "user", "content": told}] if number == 6 else given)
    found = play(known, lambda: pruner, NoPruning(), count=in_words)
    assert found.protected[WORDS] == ((9, 0) if is_whole else (8, 1))


def test_words_beside_a_cleared_result_are_whole():
    """Words and results in one message, as Anthropic takes them."""
    calls = [{"type": "tool_use", "id": id, "name": "read", "input": {}} for id in ("a", "b")]
    results = [{"type": "tool_result", "tool_use_id": each["id"], "content": OTHER} for each in calls]
    messages: Messages = [
        USER,
        {"role": "assistant", "content": calls[:1]},
        {"role": "user", "content": [results[0], {"type": "text", "text": "Be quick."}]},
        {"role": "assistant", "content": calls[1:]},
        {"role": "user", "content": [results[1]]},
        DONE,
    ]
    found = run(episode(messages), ObservationMasking(1))
    assert found.prompts[2].held < found.prompts[1].tokens  # the first result is cleared
    assert found.protected[WORDS] == (5, 0)
