"""Which identifiers of what a call made are named in placeholders, lines and digests."""

import json
from typing import Any

from tables import each_row
from utterances import result

from autoprune.conversation.transcript import Location, ToolCall
from autoprune.facts.actions import Action

LINK = "https://a.example/b"


def returned(value: Any, arguments: Any = None, tool: str = "book") -> list[str]:
    call = ToolCall(Location((0,)), 0, None, tool, arguments or {})
    return [*Action(call, result(call, value if isinstance(value, str) else json.dumps(value))).returned_ids]


@each_row(
    ("value", "ids"),
    [
        ({"booking_id": "X7", "issue": {"key": "A-1", "number": 4}}, ["booking_id X7", "key A-1", "number 4"]),
        ({"ticketUrl": f"{LINK}?id=3", "valid_id": True, "id": None, "status": [1]}, [f"ticketUrl {LINK}?id=3"]),
        ("[Cleared at request 9: book now, 40 tokens. Names in it: order_id 7, load_all]", ["order_id 7"]),
        ("[Cleared at request 9: book a, id 5, 40 tokens]", []),
        ({"api_key": "a1b2c3d4", "signingKey": "e5f6", "client_secret_id": "g7", "card_number": 4111}, []),
        ({"upload_url": f"{LINK}?X-Amz-Signature=a1", "url": "https://me:pw@a.example", "reset_url": "/?token=a1"}, []),
    ],
)
def test_what_a_call_made_is_known_by_its_identifiers_and_secrets_are_left_out(value: Any, ids: list[str]):
    assert returned(value) == ids


def test_the_key_that_a_tool_for_keys_made_is_left_out():
    assert returned({"id": 7, "key": "a1b2"}, tool="create_api_key") == ["id 7"]
    assert returned({"id": 7, "api_key": {"key": "a1b2"}}) == ["id 7"]


def test_identifiers_in_the_call_are_not_repeated():
    assert returned({"id": 42, "order_id": "W7", "item_id": "i1"}, {"number": 42, "all": [{"order": "W7"}]}) == [
        "item_id i1"
    ]


def test_a_call_is_named_by_short_arguments_without_passwords():
    given = {"user": "bob", "password": "hunter2", "seat_id": 7, "code": "sk-" + "a" * 20, "text": "x" * 99}
    assert Action(ToolCall(Location((0,)), 0, None, "login", given), None).name == "login(bob 7)"


def test_arguments_that_are_nested_very_deep_do_not_matter():
    deep: Any = "W7"
    for _ in range(50_000):
        deep = [deep]
    assert Action(ToolCall(Location((0,)), 0, None, "book", {"id": deep, "user": "bob"}), None).name == "book(bob)"
    assert returned({"id": "W7", "item_id": "i1"}, {"all": deep}) == ["item_id i1"]


@each_row(
    ("arguments", "files"),
    [
        (
            "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-a\n+b\n",
            [("moved", "a.py"), ("edited", "b.py")],
        ),
        ({"type": "delete_file", "path": "a.py"}, [("deleted", "a.py")]),
        ({"type": "update_file", "path": "a.py", "diff": "@@"}, [("edited", "a.py")]),
    ],
)
def test_a_patch_says_what_becomes_of_a_file(arguments: Any, files: list[tuple[str, str]]):
    assert [*Action(ToolCall(Location((0,)), 0, None, "apply_patch", arguments), None).files()] == files


@each_row(
    ("tool", "arguments", "files"),
    [
        ("delete_lines", {"relative_path": "a.py", "start_line": 1}, [("edited", "a.py")]),
        ("rename_symbol", {"relative_path": "a.py", "new_name": "b"}, [("edited", "a.py")]),
        ("delete_cell", {"notebook_path": "a.ipynb"}, [("edited", "a.ipynb")]),
        ("read_cell", {"notebook_path": "a.ipynb"}, [("read", "a.ipynb")]),
        ("delete_file", {"path": "a.py"}, [("deleted", "a.py")]),
        ("move_file", {"source_path": "a.py", "destination_path": "b.py"}, [("moved", "a.py"), ("created", "b.py")]),
        ("move_file", {"destination_path": "b.py", "source_path": "a.py"}, [("created", "b.py"), ("moved", "a.py")]),
        ("rename_file", {"path": "a.py", "new_name": "b.py"}, [("moved", "a.py")]),
        ("move", {"token": "t", "path": "a.py", "destination_path": "b.py"}, [("moved", "a.py"), ("created", "b.py")]),
        ("move_files", {"paths": ["a.py", "b.py"], "destination": "src"}, [("moved", "a.py"), ("moved", "b.py")]),
    ],
)
def test_a_tool_that_deletes_or_renames_a_part_of_a_file_edits_it(
    tool: str, arguments: Any, files: list[tuple[str, str]]
):
    assert [*Action(ToolCall(Location((0,)), 0, None, tool, arguments), None).files()] == files
