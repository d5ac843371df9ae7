"""The conversation without what is gone, and with its summary: what stands where, and what is joined."""

from typing import Any

from tables import each_row

from autoprune.conversation.summary import AssembledMessage, assemble

SUMMARY = {"role": "user", "content": "[Summary]"}
ROLES = {"S": "system", "U": "user", "A": "assistant", "T": "tool"}


def chat(short: str) -> list[dict[str, str]]:
    return [{"role": ROLES[name[0]], "content": name} for name in short.split()]


def shown(pieces: list[AssembledMessage]) -> list[tuple[str, int | None]]:
    return [(piece.message["content"], piece.at) for piece in pieces]


CASES: dict[str, tuple[str, set[int], int, Any, list[tuple[str, int | None]]]] = {
    "nothing": ("", set(), 0, None, []),
    "nothing is gone": ("S U A", set(), 1, None, [("S", 0), ("U", 1), ("A", 2)]),
    "some are gone": ("S U1 A1 U2 A2", {1, 2}, 1, None, [("S", 0), ("U2", 3), ("A2", 4)]),
    "all are gone": ("U A", {0, 1}, 0, None, []),
    "a summary before the model's": ("S U A1 A2", {1, 2}, 1, SUMMARY, [("S", 0), ("[Summary]", None), ("A2", 3)]),
    "a summary before the user's": ("S U1 A U2", {1, 2}, 1, SUMMARY, [("S", 0), ("[Summary]\n\nU2", None)]),
    "a summary at the head": ("U1 A U2 A2", {0, 1}, 0, SUMMARY, [("[Summary]\n\nU2", None), ("A2", 3)]),
    "a summary of all": ("S U A", {1, 2}, 1, SUMMARY, [("S", 0), ("[Summary]", None)]),
    "system messages behind its place": (
        "S1 U S2 A",
        {1},
        1,
        SUMMARY,
        [("S1", 0), ("[Summary]", None), ("S2", 2), ("A", 3)],
    ),
    "system messages before its place that are gone": ("S U A", {0, 1}, 1, SUMMARY, [("[Summary]", None), ("A", 2)]),
    "the user's messages become neighbors": ("U1 A U2 A2", {1}, 0, None, [("U1\n\nU2", None), ("A2", 3)]),
    "three of them": ("U1 A1 U2 A2 U3", {1, 3}, 0, None, [("U1\n\nU2\n\nU3", None)]),
    "a summary and two of them": ("U1 A1 U2 A2 U3", {0, 1, 3}, 0, SUMMARY, [("[Summary]\n\nU2\n\nU3", None)]),
    "they were neighbors before": ("U1 U2 A", set(), 0, None, [("U1", 0), ("U2", 1), ("A", 2)]),
    "one joined and a neighbor of its end": ("U1 A U2 U3", {1}, 0, None, [("U1\n\nU2", None), ("U3", 3)]),
    "the model's messages become neighbors": ("A1 U A2", {1}, 0, None, [("A1", 0), ("A2", 2)]),
    "results of tools become neighbors": ("T1 U T2", {1}, 0, None, [("T1", 0), ("T2", 2)]),
}


@each_row(("short", "gone", "place", "summary", "wanted"), CASES.values(), ids=CASES)
def test_what_is_left(short: str, gone: set[int], place: int, summary: Any, wanted: list[tuple[str, int | None]]):
    assert shown(assemble(chat(short), gone, {} if summary is None else {place: summary})) == wanted


@each_row("place", [0, 1])
def test_what_else_the_users_message_says_of_itself_stays(place: int):
    (joined,) = assemble([{"role": "user", "name": "Ada", "content": "Go."}], (), {place: SUMMARY})
    content = ("[Summary]\n\nGo.", "Go.\n\n[Summary]")[place]
    assert joined.message == {"role": "user", "name": "Ada", "content": content}
