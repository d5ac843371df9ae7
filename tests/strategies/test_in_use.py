"""Which results are in use: the newest read of a file that it edited lately, and the newest failure."""

from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.strategies.worth import LATELY, InUse

OTHER = Step("read", {"path": "other.txt"}, "x")


def read(path: str, text: str = "def f(): pass") -> Step:
    return Step("read", {"path": path}, text)


def edit(path: str) -> Step:
    return Step("edit", {"path": path, "old_string": "a", "new_string": "b"}, "ok")


def held(*steps: Step, later: int = 0) -> dict[int, str]:
    """The numbers of the results that are held at the request of the last one, or later, each with its reason."""
    transcript = AgenticConversationPruner(10**9).plan(WIRE["openai_chat"]([[each] for each in steps])).transcript
    in_use = InUse()
    for entry in transcript.entries:
        in_use.observe(entry)
    found = in_use.in_use(transcript.results[-1].request + later)
    return {number: found[result] for number, result in enumerate(transcript.results) if result in found}


@each_row(
    ("shown", "edited", "is_held"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "/home/me/src/a.py", True),
        ("/home/me/src/a.py", "src/a.py", True),
        ("./src/a.py", "src/a.py", True),
        ("src\\a.py", "src/a.py", True),
        ("lib/a.py", "src/a.py", False),
        ("src/b.py", "src/a.py", False),
        ("ssrc/a.py", "src/a.py", False),
    ],
)
def test_the_read_of_an_edited_file_is_in_use_by_any_spelling_of_its_path(shown: str, edited: str, is_held: bool):
    assert held(read(shown), edit(edited), OTHER) == ({0: "file being edited"} if is_held else {})


def test_the_newest_of_two_reads_is_in_use_until_the_edit_is_long_ago():
    steps = (read("a.py"), read("src/a.py"), edit("src/a.py"), edit("a.py"))
    assert held(*steps) == {1: "file being edited"}
    assert held(*steps, later=LATELY) == {1: "file being edited"}
    assert held(*steps, later=LATELY + 1) == {}


def run(command: str, text: str = "Exit code 1\nfailed") -> Step:
    return Step("bash", {"command": command}, text, failed=True)


CANCELLED = "<tool_use_error>Cancelled: parallel tool call Bash(ls) errored</tool_use_error>"


@each_row(
    ("steps", "number"),
    [
        ([run("pytest"), run("rg old_name src")], 0),  # no match
        ([run("pytest"), run("cat gone.py"), run("make")], 2),
        ([run("cat gone.py"), run("rg old_name src")], 1),
        ([run("cat gone.py"), run("pytest"), read("a.py")], 1),
        ([run("pytest"), run("make", CANCELLED)], 0),
    ],
)
def test_a_call_that_only_reads_does_not_take_the_place_of_another_failure(steps: list[Step], number: int):
    assert held(*steps, OTHER) == {number: "newest failure"}
