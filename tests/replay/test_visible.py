"""Whether an atom can be seen in a text."""

import json

from tables import each_row

from autoprune.apps.replay.atoms import Atom, Kind
from autoprune.apps.replay.visible import Text, Texts

EDIT, PATH, IDENTIFIER, CODE, ERROR, SHELL_EDIT, FACT, QUOTE, ROW = Kind
TWO = "def run():\n    return 1"


@each_row(
    ("raw", "kind", "text", "seen"),
    [
        # edits and errors, as they are
        (f"before\n{TWO}\nafter", EDIT, TWO, True),
        ("def run():\n  return 1", EDIT, TWO, False),
        ("Error: no such file here", ERROR, "no such file", True),
        # numbers before lines
        ("   1→def run():\n   2→    return 1", EDIT, TWO, True),
        ("1\tdef run():\n2\t    return 1", EDIT, TWO, True),
        ("10:def run():\n11:    return 1", EDIT, TWO, True),
        ("   1 |def run():\n   2 |    return 1", EDIT, TWO, True),
        ("file.py:10:def run():\nfile.py:11:    return 1", EDIT, TWO, False),
        # a text with numbers of its own stays visible as it is
        ("7: the first\n8: the second", EDIT, "7: the first\n8: the second", True),
        # carriage returns, on either side
        ("def run():\r\n    return 1\r\n", EDIT, TWO, True),
        (TWO, EDIT, TWO.replace("\n", "\r\n"), True),
        # strings of JSON, decoded, and the names of its fields
        (json.dumps({"output": f"{TWO}\n", "exit": 0}), EDIT, TWO, True),
        (json.dumps([{"deep": {"text": TWO}}]), EDIT, TWO, True),
        (json.dumps({"my_field": 1}), IDENTIFIER, "my_field", True),
        ('{"output": "def run():\\n    return 1"', EDIT, TWO, False),
        ("Output: " + json.dumps({"output": TWO}), EDIT, TWO, False),
        # names, as whole words
        ("call my_function(1)", IDENTIFIER, "my_function", True),
        ("call my_functions(1)", IDENTIFIER, "my_function", False),
        ("call not_my_function(1)", CODE, "my_function", False),
        ("self.my_function", CODE, "my_function", True),
        # paths, whole or by a base name of seven characters
        ("see src/deep/handlers.py", PATH, "/repo/src/deep/handlers.py", True),
        ("see handlers.py", PATH, "src/deep/handlers.py", True),
        ("see main.go", PATH, "cmd/main.go", True),
        ("see app.py", PATH, "src/app.py", False),
        ("see src/app.py", PATH, "src/app.py", True),
        ("handlers/", PATH, "src/handlers/", True),
        ("", EDIT, TWO, False),
        # edits by shell, as they are
        ("    1→x = first_of(rows)", SHELL_EDIT, "x = first_of(rows)", True),
        ("see src/settings.py", SHELL_EDIT, "settings.py", True),
        ("x = first_of( rows)", SHELL_EDIT, "x = first_of(rows)", False),
        # values, however they are written; numbers of lines are none
        ("a,12.345,b", FACT, "12345", True),
        ("a,12.346,b", FACT, "12345", False),
        (json.dumps({"sum": 12345.0}), FACT, "12345", True),
        (json.dumps({"text": "sum:\n12345"}), FACT, "12345", True),
        ("  12345→a\n  12346→b", FACT, "12345", False),
        ("12345:a\n12346:b\n12347:c", FACT, "12345", False),
        ("12345\ta\n23456\tb\n99999\tc", FACT, "12345", True),
        ("| 12345 | a |", ROW, "12345", True),
        # names, as whole words; quotes and runs by their letters
        ("by Ilse\n  Weber", FACT, "Ilse Weber", True),
        ("by IlseWeber", FACT, "Ilse Weber", False),
        ("all\n   orders are **shipped**", QUOTE, "all orders are shipped", True),
        ("All orders are shipped", QUOTE, "all orders are shipped", False),
        (json.dumps({"text": "客户尚未收到"}), FACT, "客户尚未收到", True),
        ("客户尚\n未收到", FACT, "客户尚未收到", True),
        ("客户尚未", FACT, "客户尚未收到", False),
    ],
)
def test_what_can_be_seen_in_a_text(raw: str, kind: Kind, text: str, seen: bool):
    atom = Atom(kind, text)
    assert Text(raw).shows(atom) == seen
    texts = Texts()
    for each in ("other", raw, "more"):
        texts.add_text(each)
    assert texts.find(atom) == ((1,) if seen else ())
