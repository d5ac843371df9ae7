"""The atoms of an action: what a model's calls, and the errors that it quotes, show that it must have seen."""

import json

from episodes import called
from tables import each_row

from autoprune.apps.replay.atoms import Kind, atoms, hunks, path_words, quoted_errors
from autoprune.facts.calls import identifiers

EDIT, PATH, IDENTIFIER, CODE, ERROR, *_ = Kind
ENVELOPE = """*** Begin Patch
*** Update File: src/app.py
@@ def run():
 def run():
-    old = first()
+    old = firstOf(rows)
     return old
*** Add File: src/new.py
+new_value = 1
*** End Patch"""
UNIFIED = """diff --git a/src/app.py b/src/app.py
index 83db48f..bf2a1c0 100644
--- a/src/app.py
+++ b/src/app.py
@@ -1,3 +1,3 @@ def run():
 context_line here
-removed_line
+added_line
@@ -9 +9 @@
-another old line
+another
"""
SEARCH = "<<<<<<< SEARCH\nold words here\n=======\nnew wordsHere\n>>>>>>> REPLACE"
APPLIED = [
    (PATH, "src/app.py"),
    (PATH, "src/new.py"),
    (EDIT, "def run():\n    old = first()\n    return old"),
    (CODE, "firstOf"),
    (CODE, "new_value"),
]


def found(arguments: object, words: str = "") -> list[tuple[Kind, str]]:
    return [(atom.kind, atom.text) for atom in atoms([called(arguments)], words)]


# Each agent's edit tools


@each_row(
    ("arguments", "expected"),
    [
        # Claude Code's Edit
        (
            {"file_path": "/repo/a_file.py", "old_string": "return total(1)", "new_string": "return grandTotal(1)"},
            [(PATH, "/repo/a_file.py"), (EDIT, "return total(1)"), (CODE, "grandTotal")],
        ),
        # Claude Code's MultiEdit
        (
            {
                "file_path": "/repo/a.py",
                "edits": [
                    {"old_string": "the first old text", "new_string": "x"},
                    {"old_string": "the second one", "new_string": "y"},
                ],
            },
            [(PATH, "/repo/a.py"), (EDIT, "the first old text"), (EDIT, "the second one")],
        ),
        # str_replace_based_edit_tool, OpenHands, SWE-agent, Trae
        ({"command": "str_replace", "path": "a.py", "old_str": "one line here"}, [(EDIT, "one line here")]),
        ({"path": "src/b.py", "insert_text": "call_me()"}, [(PATH, "src/b.py"), (CODE, "call_me")]),
        # pi, OpenCode
        (
            {"path": "a.py", "oldText": "the old text", "newText": "theNewText"},
            [(EDIT, "the old text"), (CODE, "theNewText")],
        ),
        ({"filePath": "src/c.ts", "oldString": "const old = 1"}, [(PATH, "src/c.ts"), (EDIT, "const old = 1")]),
        # aider's and others' search beside replace; a search alone is no edit
        ({"search": "the old text", "replace": "new_text"}, [(EDIT, "the old text"), (CODE, "new_text")]),
        ({"search": "the old text"}, []),
        # files that are written whole
        ({"file_path": "/tmp/new.py", "content": "class NewThing: pass"}, [(PATH, "/tmp/new.py"), (CODE, "NewThing")]),
        # what is too short, or white space alone
        ({"old_string": "a = 1234"}, []),
        ({"old_string": "ab = 1234"}, []),
        ({"old_string": "abc = 1234"}, [(EDIT, "abc = 1234")]),
        ({"old_string": " \n\t" * 9}, []),
        ({}, []),
    ],
)
def test_the_old_text_of_an_edit_is_an_atom_whole(arguments: dict[str, object], expected: list[tuple[Kind, str]]):
    assert found(arguments) == expected
    assert found(json.dumps(arguments)) == expected


# Patches


@each_row(
    "arguments",
    [
        {"input": ENVELOPE},
        ENVELOPE,
        {"command": ["apply_patch", ENVELOPE]},
        {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{ENVELOPE}\nEOF"]},
        {"cmd": f"apply_patch <<'EOF'\n{ENVELOPE}\nEOF"},
        {"patchText": ENVELOPE},
    ],
)
def test_a_patch_of_apply_patch_is_read_wherever_it_stands(arguments: object):
    assert found(arguments) == APPLIED


def test_hunks_of_a_unified_diff_are_context_and_removed_lines():
    assert list(hunks(UNIFIED)) == [
        ("context_line here\nremoved_line", "context_line here\nadded_line"),
        ("another old line", "another"),
    ]
    assert found({"patch": UNIFIED}) == [
        (PATH, "src/app.py"),
        (EDIT, "context_line here\nremoved_line"),
        (CODE, "context_line"),
        (CODE, "added_line"),
        (EDIT, "another old line"),
    ]


def test_several_blocks_are_several_edits():
    assert [text for kind, text in found({"diff": f"{SEARCH}\n{SEARCH.replace('old', 'other')}"}) if kind is EDIT] == [
        "old words here",
        "other words here",
    ]


def test_a_patch_that_only_adds_has_no_edit():
    assert found("*** Begin Patch\n*** Add File: src/new.py\n+new_value = 1\n*** End Patch") == [
        (PATH, "src/new.py"),
        (CODE, "new_value"),
    ]


# Names and paths


@each_row(
    ("text", "expected"),
    [
        (
            "snake_case camelCase PascalCase CONSTANT_NAME CONSTANT",
            ["snake_case", "camelCase", "PascalCase", "CONSTANT_NAME", "CONSTANT"],
        ),
        ("lowercase Capital _private trailing_ short_ aB", []),
        ("__init__ dunder_ x_y_z_w", ["__init__", "x_y_z_w"]),
        ("my_name.other_name(my_name)", ["my_name", "other_name"]),
        ("n42_abc 42_abcd", ["n42_abc"]),
        ("使用load_settings函数", ["load_settings"]),
        ("straßen_name", ["en_name"]),
    ],
)
def test_a_name_has_seven_characters_with_an_underscore_or_a_capital_inside(text: str, expected: list[str]):
    assert identifiers(text) == expected


@each_row(
    ("script", "expected"),
    [
        ("cat src/app.py | head", ["src/app.py"]),
        ("cd /repo/deep && ls ./abc/def.go", ["/repo/deep", "./abc/def.go"]),
        ("curl https://example.com/a/page", []),
        ("ls a/b; cat src/app.py src/app.py", ["src/app.py"]),
        ("sed -n '1,5p' ../lib/x.c", ["../lib/x.c"]),
        ("echo $HOME/file ${DIR}/name/x", []),
    ],
)
def test_words_of_a_command_that_look_like_paths(script: str, expected: list[str]):
    assert path_words(script) == expected


@each_row(
    ("arguments", "expected"),
    [
        ({"command": "grep -rn my_function src/app.py"}, [(PATH, "src/app.py"), (IDENTIFIER, "my_function")]),
        (
            {"command": ["bash", "-lc", "grep myFunction src/app.py"]},
            [(PATH, "src/app.py"), (IDENTIFIER, "myFunction")],
        ),
        ({"pattern": "my_function|OtherClass"}, [(IDENTIFIER, "my_function"), (IDENTIFIER, "OtherClass")]),
        ({"query": "where is parse_it"}, [(IDENTIFIER, "parse_it")]),
        ({"regex": r"def (my_function)\b"}, [(IDENTIFIER, "my_function")]),
        ({"description": "about my_function"}, []),
        ({"path": "a/b.c"}, []),
        ({"path": "aa/b.c"}, [(PATH, "aa/b.c")]),
        ({"paths": ["src/one.py", "src/two.py"]}, [(PATH, "src/one.py"), (PATH, "src/two.py")]),
    ],
)
def test_search_patterns_and_names_in_commands_are_atoms(
    arguments: dict[str, object], expected: list[tuple[Kind, str]]
):
    assert found(arguments) == expected


# Errors that the model quotes


@each_row(
    ("words", "expected"),
    [
        ("It says `cannot find module named foo`.", ["cannot find module named foo"]),
        ('The log: "TypeError: x is not a function"', ["TypeError: x is not a function"]),
        ("The log: “assertion failed in test_one.py”", ["assertion failed in test_one.py"]),
        ("`all is well with this long sentence`", []),
        ("`error: too short`", []),
        ("`AnErrorInOneLongWordIsNoMessage`", []),
        ("error: not quoted, however long it may be", []),
    ],
)
def test_errors_that_the_model_quotes(words: str, expected: list[str]):
    assert list(quoted_errors(words)) == expected
    assert found({}, words) == [(ERROR, text) for text in expected]
