"""Archives: the folder, recalling by an id, the tool for the model."""

import json
import os
import re
import stat
from hashlib import sha256
from pathlib import Path
from threading import Thread

import pytest
from tables import each_row

from autoprune import ArchiveError, SettingsError
from autoprune.conversation.archive import Directory, handle, pointer, recall, tool_definition
from autoprune.conversation.edits import append_mark, content_id, mark, split_mark

TEXT = "one\ntwo\r\n見 \ud800\x00\n"
ID = content_id(TEXT)


def test_a_folder_keeps_texts_to_the_letter_and_for_the_user_alone(tmp_path: Path):
    folder = Directory(tmp_path / "kept")
    assert (len(folder), list(folder), folder.get(ID)) == (0, [], None)
    folder[ID] = "another"
    folder[ID] = TEXT
    assert folder[ID] == recall(folder, ID) == TEXT
    assert list(Directory(tmp_path / "kept")) == [ID]
    assert os.listdir(folder.path) == [f"{ID}.txt"]
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "kept" / f"{ID}.txt").st_mode) == 0o600
    del folder[ID]
    assert len(folder) == 0
    with pytest.raises(KeyError):
        del folder[ID]


@each_row(
    "key", ["../../etc/passwd", "/etc/passwd", "", ID[:-1] + "x", ID[:-1], ID + "00", ID + "\n", "a/" + ID, "..", "\0"]
)
def test_a_key_that_is_no_id_is_never_a_path(key: str, tmp_path: Path):
    folder = Directory(tmp_path / "kept")
    for attempt in (lambda: folder[key], lambda: folder.__setitem__(key, "x"), lambda: folder.__delitem__(key)):
        with pytest.raises(KeyError):
            attempt()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ArchiveError, match="is not a recall id: use the 15 digits"):
        recall(folder, key)


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path):
    folder = Directory(tmp_path)
    (tmp_path / f"{ID}.txt").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OSError, match="directory"):
        folder[ID] = TEXT
    assert sorted(os.listdir(tmp_path)) == sorted([f"{ID}.txt", "notes.txt"])


def test_a_payload_that_cannot_be_read_is_an_error_for_the_model(tmp_path: Path):
    (tmp_path / f"{ID}.txt").mkdir()
    said = rf"{ID}.txt cannot be read \(Is a directory\): get the content again"
    with pytest.raises(ArchiveError, match=said):
        recall(Directory(tmp_path), ID)
    assert re.match(f"Error: .*{said}", handle(Directory(tmp_path), {"id": ID}))


def test_several_writers_of_one_folder_are_never_seen_half_done(tmp_path: Path):
    texts = [f"{number} " * 20_000 for number in range(4)]
    seen: list[str] = []

    def write(text: str) -> None:
        folder = Directory(tmp_path)
        for _ in range(20):
            folder[ID] = text
            seen.append(folder[ID])

    threads = [Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert set(seen) <= set(texts)
    assert os.listdir(tmp_path) == [f"{ID}.txt"]


# The model's tool


@each_row("format", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
def test_each_api_gets_its_definition(format: str):
    made = tool_definition(format)
    named = made.get("function") or made.get("toolSpec") or made
    schemas = (named.get("parameters"), named.get("input_schema"), named.get("inputSchema", {}).get("json"))
    (schema,) = filter(None, schemas)
    assert named["name"] == "recall"
    assert (schema["required"], [*schema["properties"]]) == (["id"], ["id", "first_line", "last_line"])
    assert made == json.loads(json.dumps(tool_definition(format)))
    schema.clear()
    assert tool_definition(format) != made


def test_the_shapes_are_those_of_the_apis():
    assert [*tool_definition()] == ["type", "function"]
    assert [*tool_definition("openai_responses")] == ["type", "name", "description", "parameters"]
    assert [*tool_definition("anthropic")] == ["name", "description", "input_schema"]
    with pytest.raises(SettingsError, match=r"for 'antropic' \(did you mean anthropic\?\); there are openai_chat, "):
        tool_definition("antropic")
    with pytest.raises(SettingsError, match="there is no tool definition for \\[\\]; there are openai_chat, "):
        tool_definition([])  # type: ignore[arg-type]


LINES = "one\ntwo\nthree\nfour"
OF_LINES = content_id(LINES)


@each_row(
    ("arguments", "answer"),
    [
        ({"id": OF_LINES}, LINES),
        ({"id": int(OF_LINES)}, LINES),
        ({"id": f"[autoprune recall {OF_LINES}]"}, LINES),
        (json.dumps({"id": OF_LINES}), LINES),
        ({"id": OF_LINES, "first_line": 2, "last_line": 3}, "two\nthree"),
        ({"id": OF_LINES, "first_line": 3}, "three\nfour"),
        ({"id": OF_LINES, "last_line": 1}, "one"),
        ({"id": OF_LINES, "last_line": 99}, LINES),
        ({"id": OF_LINES, "first_line": 5}, "Error: there are no lines 5 to 4: it has 4 lines, from 1"),
        ({"id": OF_LINES, "first_line": 0}, "Error: 0 is no line: give a whole number, 1 or more"),
        ({"id": OF_LINES, "last_line": "2"}, "Error: '2' is no line: give a whole number, 1 or more"),
        (
            {"id": "abc"},
            "Error: 'abc' is not a recall id: use the 15 digits after 'recall' in the placeholder",
        ),
        ({}, "Error: '' is not a recall id: use the 15 digits after 'recall' in the placeholder"),
        ({"id": 7}, "Error: 7 is not a recall id: use the 15 digits after 'recall' in the placeholder"),
        ([], 'Error: the arguments are no object: give {"id": "…"}'),
        ("null", 'Error: the arguments are no object: give {"id": "…"}'),
        ("[1", "Error: the arguments are no JSON: Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ],
)
def test_the_tool_answers_the_model_and_tells_it_what_was_wrong(arguments: object, answer: str):
    assert handle({OF_LINES: LINES}, arguments) == answer


def test_what_is_not_the_models_doing_is_raised():
    with pytest.raises(SettingsError, match="there is no archive"):
        handle(None, {"id": OF_LINES})


# Marks


@each_row(
    "text",
    [
        "cleared",
        "",
        "\n<message>m</message>\n<content>cleared</content>\n",
        "a\nb\n\n",
        "</content>",
        '["a"]',
        "a [autoprune recall x]",
    ],
)
def test_a_mark_is_found_at_the_end_of_a_text_and_taken_off_again(text: str):
    for gap in (" ", "\n"):
        carrying = append_mark(text, mark(TEXT), gap)
        assert split_mark(carrying) == (text, ID)
        assert append_mark(carrying, mark(TEXT)) == carrying
        assert split_mark(json.dumps(carrying)) == (json.dumps(text), ID)
    assert split_mark(text) == (text, "")
    assert append_mark(text, "") == text


@each_row(
    "text",
    [
        f"[autoprune recall {ID}] and more",
        f"x [autoprune recall {ID[1:]}]",
        f"x [autoprune recall {ID[:-1]}x]",
        f"x [autoprune recall {ID}",
    ],
)
def test_what_is_no_mark_at_the_end_carries_no_id(text: str):
    assert split_mark(text) == (text, "")


def test_a_mark_is_looked_for_in_linear_time():
    text = f"[autoprune recall {ID}]" + " " * 1_000_000 + "x"
    assert split_mark(text) == (text, "")


@pytest.mark.parametrize("path", ["", None, 5])
def test_a_directory_is_a_path(path: object):
    with pytest.raises(SettingsError, match="give the path of a folder"):
        Directory(path)  # type: ignore[arg-type]


# Pointers


def test_a_pointer_leads_to_the_payload_over_others_and_never_in_a_circle():
    one, other = content_id("one"), content_id("other")
    archive = {ID: TEXT, one: pointer(one, ID), other: pointer(other, one)}
    assert recall(archive, one) == recall(archive, other) == TEXT
    assert handle(archive, {"id": other}) == TEXT
    archive[ID] = pointer(ID, other)
    with pytest.raises(ArchiveError, match="was changed since"):
        recall(archive, one)
    del archive[ID]
    with pytest.raises(ArchiveError, match=f"nothing is kept under {ID}"):
        recall(archive, one)


def test_a_pointer_that_a_tool_printed_is_a_payload_like_any_other():
    printed = pointer(content_id("cut"), ID)
    assert recall({ID: TEXT, content_id(printed): printed}, content_id(printed)) == printed
    with pytest.raises(ArchiveError, match="was changed since"):
        recall({ID: TEXT, content_id("other"): printed}, content_id("other"))


OLD_ID = "7e3b3c0a6c1f4d52"


def test_ids_and_marks_of_earlier_versions_are_read(tmp_path: Path):
    old = sha256(TEXT.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    folder = Directory(tmp_path)
    folder[old] = TEXT
    folder[OLD_ID] = pointer(OLD_ID, old)
    assert recall(folder, old) == recall(folder, OLD_ID) == TEXT
    assert [*folder] == sorted([old, OLD_ID])
    assert split_mark(f"cleared [recall id {old}]") == ("cleared", old)
