"""What an agent states, and the keys of rows that its calls use: what counts, and what does not."""

from time import process_time

import pytest
from episodes import USER, call, called, episode, reading, result
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, size
from tables import each_row

from autoprune.apps.replay.atoms import Atom, Kind, names_in, stated_atoms, statements
from autoprune.apps.replay.evidence import MOST_SOURCES, Evidence
from autoprune.apps.replay.stated_values import squeeze
from autoprune.apps.replay.visible import Text

FACT, QUOTE, ROW = Kind.FACT, Kind.QUOTE, Kind.ROW
SENTENCE = "The order of Ilse Weber was 12,345 units"
Message = dict[str, object]


def found(words: str, source: str) -> list[tuple[Kind, str]]:
    """What of some words rests on a text."""
    shows = Text(source).shows
    return [(atom.kind, atom.text) for atom in stated_atoms([], words, shows) if shows(atom)]


# Facts


@each_row(
    ("words", "source", "expected"),
    [
        # numbers, dates and codes, however either side writes them
        ("It took 12.345 ms.", "took,12345,ms", ["12345"]),
        ("It took 12.345 ms.", "took 12.345 ms", ["12345"]),
        ("It took 12,345 ms.", "took １２３４５ ms", ["12345"]),
        ("On March 14, 2026 it was $1,234.50.", "2026-03-14;1234.5", ["2026-03-14", "1234.5"]),
        ("See https://example.com/a.", '<a href="https://example.com/a">', ["https://example.com/a"]),
        ("Order W2378156.", '{"order": "W2378156"}', ["w2378156"]),
        ("Line 120 is long.", "   119→a\n   120→b\n", []),  # a line number is no fact
        ("It was 120.", "119\t120\n121\t9\n", ["120"]),
        ("It was 500.", "1500 and 5000", []),
        ("There are 45.", "45 and 45", []),
        # names
        ("Ilse Weber has called.", "id,name\n7,Ilse Weber", ["Ilse Weber"]),
        ("Then Ilse Weber called.", "Ilse\nWeber", ["Ilse Weber"]),
        ("I asked Ludwig van Beethoven.", "LUDWIG, Ludwig van Beethoven", ["Ludwig van Beethoven"]),
        ("In Ilse Weber's view", "first,last\nIlse,Weber", ["Ilse Weber"]),
        ("Вчера звонила Анна Орлова.", "имя: Анна Орлова", ["Анна Орлова"]),
        ("J. Smith and O. O'Brien-Lee agree.", "O'Brien-Lee, J. Smith", []),  # initials make no name
        ("Ilse Weber has called.", "ilse weber, IlseWeber, Ilse Weberman", []),
        ("Weber has called. Then he left.", "Weber has called. Then", []),
        # runs of scripts without spaces
        ("报告说：客户尚未收到通知。", "订单已发，客户尚未\n收到通知请核对", ["客户尚未收到"]),
        ("客户尚未联系。", "客户尚未收到通知", []),
        ("報告：在庫と配送記録を確認し、", "まずは在庫と配送記録を確認してから", ["在庫と配送記録を"]),
        ("รายงาน ลูกค้ายังไม่ได้รับแจ้งเรื่องนี้เลย", "ว่าลูกค้ายังไม่ได้รับแจ้งเรื่องนี้เลยครับ", [squeeze("ลูกค้ายังไม่ได้รับแจ้งเรื่อง")[:16]]),
    ],
)
def test_facts(words: str, source: str, expected: list[str]):
    assert found(words, source) == [(FACT, text) for text in expected]


@each_row(
    ("text", "expected"),
    [
        ("Ilse Weber", [["Ilse", "Weber"]]),
        ("The Ilse Weber", [["Ilse", "Weber"]]),
        ("Ilse, Weber", []),
        ("Ilse weber and Ada", []),
        ("Ilse Weber. Ada Lind", [["Ilse", "Weber"], ["Ada", "Lind"]]),
        ("HTTP Error SELECT Name", []),
        ("Banco de Portugal de", [["Banco", "de", "Portugal"]]),
        ("Jean-Luc O'Neill", [["Jean-Luc", "O'Neill"]]),
        ("订单 Ilse Weber", [["Ilse", "Weber"]]),
    ],
)
def test_names_are_capitalized_words_in_a_row(text: str, expected: list[list[str]]):
    assert list(names_in(text)) == expected


# Quotes


PHRASE = "all orders are shipped"
QUOTES = ("“{}”", '"{}"', "`{}`", "'{}'", "«{}»", "„{}“", "‹{}›", "‘{}’", "「{}」", "“{}.”", "> {}")


@each_row(
    ("words", "source"),
    [
        *((f"It says:\n{quote.format(PHRASE)}\n", f"so {PHRASE} today, and") for quote in QUOTES),
        ("It says “All orders are shipped”.", "all orders\nare shipped today"),
        ("It says “all orders are shipped”.", '{"text": "all *orders* are\\nshipped"}'),
        ("It says “all orders are shipped … on Monday or Tuesday”.", "all orders are shipped. Not on Friday"),
    ],
)
def test_quoted_spans(words: str, source: str):
    assert found(words, source) == [(QUOTE, PHRASE)]


@each_row(
    ("words", "source", "expected"),
    [
        ("它说「客户尚未收到通知」。", "说客户尚未收到通知了", "客户尚未收到通知"),
        ("それは『在庫を確認し』と", "在庫を確認した", "在庫を確認し"),
        ("Она: «все заказы уже отправлены»", "все заказы уже\nотправлены", "все заказы уже отправлены"),
    ],
)
def test_quotes_in_other_scripts(words: str, source: str, expected: str):
    assert (QUOTE, expected) in found(words, source)


@each_row(
    "words",
    [
        "It says “orders shipped”.",  # two words
        "It says “it is all ok”.",  # 12 letters
        "The file `packages/core/orders/shipped.py`.",  # no spaces
        "All orders are shipped.",  # not quoted
        "It says “all orders were shipped”.",
        "I don't say all orders aren't shipped.",
    ],
)
def test_spans_that_are_no_quotes(words: str):
    source = (
        "orders shipped, it is all ok, packages/core/orders/shipped.py All orders are shipped. t say all orders aren"
    )
    assert found(words, source) == []


def test_a_figure_within_a_quote_that_was_found_is_no_atom_of_its_own():
    source = "all 12,345 orders are shipped today"
    assert found("It says “all 12,345 orders are shipped”.", source) == [(QUOTE, "all 12 345 orders are shipped")]
    assert found("It says “all 12,345 orders were shipped”.", source) == [(FACT, "12345")]


def test_a_quoted_error_message_is_an_atom_of_another_kind():
    assert found('The log: "TypeError: x is not a function 12345"', "TypeError: x is not a function 12345") == []


# Statements


@each_row(
    ("arguments", "is_stated"),
    [
        ({"path": "a.md", "content": SENTENCE}, True),
        ({"file_path": "a.md", "file_text": "12,345"}, True),
        ({"body": SENTENCE}, True),
        ({"answers": [{"text": SENTENCE}]}, True),
        ({"message": "订单12,345已于昨日发往仓库但客户尚未收到"}, True),
        ({"command": f"cat > a.md <<'EOF'\n{SENTENCE}\nEOF"}, True),
        ({"command": f"git commit -m \"$(cat <<'EOF'\n{SENTENCE}\nEOF\n)\""}, True),
        ({"command": f"gh pr create --body '{SENTENCE}'"}, True),
        ({"cmd": ["bash", "-lc", f"echo '{SENTENCE}' >> a.md"]}, True),
        (f"*** Begin Patch\n*** Add File: a.md\n+{SENTENCE}\n*** End Patch", True),
        # edits, searches, scripts and short arguments are no statements
        ({"old_string": SENTENCE, "new_string": SENTENCE}, False),
        ({"query": SENTENCE}, False),
        ({"pattern": SENTENCE}, False),
        ({"command": f"python - <<'EOF'\n# {SENTENCE}\nEOF"}, False),
        ({"command": f"grep -rn '{SENTENCE}' ."}, False),
        ({"title": "The 12,345 units"}, False),
        (f"*** Begin Patch\n*** Update File: a.md\n@@\n {SENTENCE}\n-a\n+b\n*** End Patch", False),
    ],
)
def test_texts_that_a_call_carries_are_statements(arguments: object, is_stated: bool):
    assert any("12,345" in text for text in statements([called(arguments)], "")) == is_stated


# Rows


@each_row(
    ("arguments", "expected"),
    [
        ({"order_id": "#W2378156"}, ["w2378156"]),
        ({"order_id": 2378156}, ["2378156"]),
        ({"items": [{"sku": "AB-1234"}, {"sku": "AB-1299"}]}, ["ab-1234", "ab-1299"]),
        ({"user": "mia_li_3668", "day": "2026-03-14"}, ["mia_li_3668", "2026-03-14"]),
        ({"url": "https://example.com/items/77"}, ["https://example.com/items/77"]),
        ({"command": "git show 9b2c4e1f && grep 23781 orders.csv"}, ["9b2c4e1f", "23781"]),
        ({"query": "order 2378156"}, ["2378156"]),
        # names and paths are atoms of other kinds; places and sizes are no keys
        ({"command": "grep test_case_1234 src/case_1234.py"}, []),
        ({"pattern": "test_case_1234"}, []),
        ({"path": "data/2026/12345.csv"}, []),
        ({"path": "a.py", "offset": 1200, "limit": 300, "view_range": [1200, 1500]}, []),
        ({"timeout": 600000, "maxTokens": 12345, "yield_time_ms": 1000}, []),
        ({"command": "sed -n '1200,1300p' a.py; sleep 600; head -200 b.py"}, []),
        ({"session_id": 12345, "chars": ""}, []),
        ({"name": "Weber", "count": 3}, []),
    ],
)
def test_keys_in_the_arguments_of_calls(arguments: object, expected: list[str]):
    atoms = stated_atoms([called(arguments)], "", lambda atom: True)
    assert [atom.text for atom in atoms if atom.kind is ROW] == expected


def test_a_key_that_is_also_named_in_words_counts_once():
    atoms = stated_atoms([called({"order_id": "W2378156"})], "I look at W2378156.", lambda atom: True)
    assert atoms == (Atom(ROW, "w2378156"),)


# What counts


def said(words: str) -> Message:
    return {"role": "assistant", "content": words}


def rests(messages: list[Message]) -> Evidence:
    return episode(messages).evidence


def test_a_fact_counts_with_the_result_that_shows_it():
    known = rests([*reading("a: 12345", "b: 99999", "c: none")[:-1], said("The sum was 12,345.")])
    assert [(need.request, need.atom, need.sources, need.lag) for need in known.needs] == [
        (3, Atom(FACT, "12345"), (0,), 3)
    ]


@each_row(
    "before",
    [
        [{"role": "user", "content": "Is it 12.345?"}],
        [{"role": "system", "content": "Mind 12345."}, USER],
    ],
)
def test_a_fact_in_the_words_of_the_user_or_the_system_does_not_count(before: list[Message]):
    known = rests([*before, call("r", {}, "read"), result("r", "the sum: 12,345"), said("The sum was 12345.")])
    assert known.needs == ()
    assert known.free[FACT] == 1


@each_row(
    "before",
    [
        [said("I guess 12 345."), {"role": "user", "content": "Yes."}],
        [call("q", {"order": 12345}), result("q", "none")],
        [call("q", {"deep": [{"order": "12345"}]}), result("q", "none")],
    ],
)
def test_the_models_words_and_arguments_are_a_source_of_a_fact(before: list[Message]):
    known = rests([USER, *before, call("r", {}, "read"), result("r", "the sum: 12,345"), said("The sum was 12345.")])
    assert [need.written for need in known.needs if need.atom.kind is FACT] == [(1,)]


def test_a_fact_that_the_model_states_again_rests_on_its_first_statement_too():
    messages = [*reading("a: 12345")[:-1], said("12345!"), {"role": "user", "content": "Go on."}, said("12,345.")]
    known = rests(messages)
    assert [(need.request, need.sources, need.written) for need in known.needs] == [(1, (0,), ()), (2, (0,), (3,))]


def test_a_fact_in_many_results_is_common_and_does_not_count():
    for count in (MOST_SOURCES, MOST_SOURCES + 1):
        known = rests([*reading(*["a: 12345"] * count)[:-1], said("It was 12345.")])
        is_scarce = count <= MOST_SOURCES
        assert (len(known.needs), dict(known.common)) == ((1, {}) if is_scarce else (0, {FACT: 1}))


def test_a_statement_that_no_result_shows_is_unsupported():
    known = rests([*reading("a: 1")[:-1], said("It was 12345 on “a very fine day”, says Ilse Weber.")])
    assert (known.needs, known.unsupported) == ((), {FACT: 2})


@examples(200)
@given(st.text(alphabet="ab Z1290.,'’`\"“”«»「」客户尚未收到通のกขค年月日/:-\n…>", max_size=120))
def test_any_text_can_be_read_and_its_own_statements_are_found_in_it(text: str):
    """All but quotes, whose first letter may be written either way."""
    written = f"{text}\n\nOf 48151 rows."
    shows = Text(written).shows
    found = list(stated_atoms([called({"content": written, "id": text[:20]})], written, shows))
    assert "48151" in [atom.text for atom in found]
    assert [atom for atom in found if not shows(atom) and atom.kind is FACT and " " not in atom.text] == []


@pytest.mark.full
@pytest.mark.parametrize("text", [each * size(30_000) for each in ("“““", "`a b c ", "Ab Ab ", "客客客", "> a\n")])
def test_long_texts_take_no_more_than_linear_time(text: str):
    began = process_time()
    stated_atoms([], text, lambda atom: False)
    assert process_time() - began < 8
