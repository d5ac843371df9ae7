"""What recorded actions rested on: which results show it, what somebody had said, and what stood nowhere."""

from episodes import DONE, USER, call, episode, reading, result
from tables import each_row

from autoprune.apps.replay.atoms import Atom, Kind
from autoprune.apps.replay.evidence import Evidence, Need

ONE = "def first_of(rows):\n    return rows[0]"


def needs(messages: list[dict[str, object]]) -> Evidence:
    return episode(messages).evidence


def test_all_earlier_results_that_show_an_atom_are_its_sources_and_the_lag_is_from_the_newest():
    found = needs(reading(ONE, "nothing", f"1→{ONE.splitlines()[0]}\n2→{ONE.splitlines()[1]}", "else", old_string=ONE))
    assert found == Evidence((Need(4, Atom(Kind.EDIT, ONE), (0, 2), 2),))


@each_row(
    "before",
    [
        [{"role": "user", "content": f"Look at {ONE}."}],
        [{"role": "system", "content": ONE}, USER],
    ],
)
def test_an_atom_that_the_user_or_the_system_said_before_is_free(before: list[dict[str, object]]):
    reads = [call("r", {}, "read"), result("r", ONE)]
    edits = call("e", {"old_string": ONE})
    assert needs([*before, *reads, edits]).needs == ()
    assert needs([*before, *reads, edits]).free == {Kind.EDIT: 1}


PATCH = "".join(f"+{line}\n" for line in ONE.splitlines())


@each_row(
    ("before", "request", "sources"),
    [
        ([{"role": "assistant", "content": f"I mean\n{ONE}"}, {"role": "user", "content": "Yes."}], 2, (0,)),
        ([call("w", {"content": ONE}, "write"), result("w", "written")], 2, (1,)),
        ([call("w", f"*** Begin Patch\n*** Add File: a\n{PATCH}*** End Patch"), result("w", "Done")], 2, (1,)),
    ],
)
def test_what_the_model_said_or_wrote_is_a_source_too(
    before: list[dict[str, object]], request: int, sources: tuple[int, ...]
):
    reads = [call("r", {}, "read"), result("r", ONE)]
    edits = call("e", {"old_string": ONE})
    found = needs([USER, *before, *reads, edits])
    assert found.needs == (Need(request, Atom(Kind.EDIT, ONE), sources, 1, (1,)),)
    alone = needs([USER, *before, edits])
    assert alone.needs == (Need(request - 1, Atom(Kind.EDIT, ONE), (), 1, (1,)),)


def test_an_atom_that_nothing_shows_is_unsupported():
    assert needs(reading("something", old_string=ONE)) == Evidence((), unsupported={Kind.EDIT: 1})


def test_the_errors_that_the_model_quotes_are_atoms_of_its_action():
    error = "TypeError: rows is not subscriptable"
    messages = [
        USER,
        call("r", {}, "run"),
        result("r", f"Traceback\n{error}"),
        {**DONE, "content": f"It says `{error}`."},
    ]
    assert needs(messages).needs == (Need(1, Atom(Kind.ERROR, error), (0,), 1),)


def test_calls_in_a_row_of_one_answer_are_one_action():
    messages = [
        USER,
        call("r", {}),
        result("r", ONE),
        call("a", {"pattern": "first_of"}),
        call("b", {"old_string": ONE}),
    ]
    assert [(need.request, need.atom.kind) for need in needs(messages).needs] == [(1, Kind.IDENTIFIER), (1, Kind.EDIT)]
