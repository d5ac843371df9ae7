"""The values of a transcript are frozen, and can be pickled."""

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from autoprune.conversation.transcript import (
    Entry,
    Location,
    Speaker,
    ToolCall,
    ToolResult,
    as_text,
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


@pytest.mark.parametrize("value", [PLACE, CALL, Entry(Speaker.USER, 7), ToolResult(**VALUES)], ids=type)
def test_a_value_is_frozen(value: Any):
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, None)
        with pytest.raises(FrozenInstanceError):
            delattr(value, field.name)


def test_results_are_told_apart_by_identity_and_places_by_value():
    one, other = ToolResult(**VALUES), ToolResult(**VALUES)
    assert one != other
    assert len({one, other}) == 2
    assert {Location((1, "content"))} == {PLACE}
    assert one.put is as_text


def test_a_call_can_be_pickled():
    assert pickle.loads(pickle.dumps(CALL)) == CALL
