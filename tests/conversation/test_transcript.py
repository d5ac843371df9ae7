"""The values of a transcript: frozen, however they are made."""

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from autoprune.conversation.transcript import (
    Entry,
    Location,
    Speaker,
    ToolCall,
    ToolResult,
    as_text,
    new_call,
    new_entry,
    new_location,
    new_result,
)

PLACE = Location((1, "content"))
CALL = ToolCall(PLACE, 0, "a", "read", "{}")
VALUES: dict[str, Any] = {
    "location": PLACE,
    "request": 3,
    "tool": "read",
    "piece": "text",
    "start": 0,
    "stop": 4,
    "piece_tokens": 1,
    "count": len,
    "sent": 4,
    "kind": "xml",
    "is_error": None,
    "call": CALL,
}
EVERY_KIND = pytest.mark.parametrize(
    ("make", "arguments", "plain"),
    [
        (new_location, ((1, "content"), 2, 9), Location((1, "content"), 2, 9)),
        (new_location, ((1, "content"),), PLACE),
        (new_call, (PLACE, 0, "a", "read", "{}"), CALL),
        (new_entry, (Speaker.USER, 7), Entry(Speaker.USER, 7)),
        (new_entry, (Speaker.MODEL, 7, (), (CALL,)), Entry(Speaker.MODEL, 7, calls=(CALL,))),
        (new_result, tuple(VALUES.values()), ToolResult(**VALUES)),
        (
            new_result,
            (*VALUES.values(), str, True, False),
            ToolResult(**VALUES, put=str, is_fixed=True, is_plain=False),
        ),
    ],
    ids=["span", "place", "call", "words", "answer", "result", "fixed result"],
)


def held(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


@EVERY_KIND
def test_what_is_made_quickly_is_what_the_class_makes(make: Callable[..., Any], arguments: Any, plain: Any):
    made = make(*arguments)
    assert type(made) is type(plain)
    assert held(made) == held(plain)
    assert repr(made) == repr(plain)
    assert held(replace(made)) == held(plain)


@EVERY_KIND
def test_and_it_is_frozen_too(make: Callable[..., Any], arguments: Any, plain: Any):
    made = make(*arguments)
    for field in fields(plain):
        with pytest.raises(FrozenInstanceError):
            setattr(made, field.name, None)
        with pytest.raises(FrozenInstanceError):
            delattr(made, field.name)


def test_results_are_told_apart_by_identity_and_places_by_value():
    one, other = new_result(*VALUES.values()), new_result(*VALUES.values())
    assert one != other
    assert len({one, other}) == 2
    assert {new_location((1, "content"))} == {PLACE}
    assert one.put is as_text


def test_a_value_that_was_made_quickly_can_be_pickled():
    made = new_call(PLACE, 0, "a", "read", "{}")
    assert pickle.loads(pickle.dumps(made)) == CALL
