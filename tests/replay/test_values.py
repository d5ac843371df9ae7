"""Values in texts: what counts as one, and which ways to write it are the same."""

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune.apps.replay.stated_values import all_readings, squeeze, values_in

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


@each_row(
    ("text", "expected"),
    [
        # numbers, however their digits are grouped
        *(
            (text, "12345")
            for text in ("12345", "12,345", "12.345", "12 345", "12\u202f345", "12'345", "12’345", "12_345")
        ),
        *(
            (text, "12345")
            for text in ("１２３４５", "１２，３４５", "१२३४५", "๑๒๓๔๕", "12345ms", "12345 kg", "-12345", "#12345")
        ),
        *((text, "1234.5") for text in ("1,234.50", "1.234,5", "1 234.50", "1234.5", "$1,234.50", "1.234,50 €")),
        *((text, "1234567") for text in ("1,234,567", "1.234.567", "1 234 567", "1'234'567.00")),
        ("订单12345已发货", "12345"),
        ("99.9 %", "99.9"),
        ("007", "007"),
        # dates
        *((text, "2026-03-14") for text in ("2026-03-14", "2026/3/14", "14.03.2026", "14/03/2026", "03/14/2026")),
        *((text, "2026-03-14") for text in ("March 14, 2026", "14 March 2026", "Mar. 14th, 2026", "14-Mar-2026")),
        *((text, "2026-03-14") for text in ("2026年3月14日", "14/Mar/2026:10:22:07 +0000", "2026-03-14T10:00")),
        # times, addresses, codes
        ("at 10:23:45", "10:23:45"),
        ("(https://example.com/a?b=1).", "https://example.com/a?b=1"),
        ("10.0.12.7", "10.0.12.7"),
        ("W2378156", "w2378156"),
        ("INV-2026-00017", "inv-2026-00017"),
        ("mia_li_3668", "mia_li_3668"),
        ("550E8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"),
        ("9b2c4e1f", "9b2c4e1f"),
    ],
)
def test_a_value_is_the_same_however_it_is_written(text: str, expected: str):
    (readings, *_) = values_in(f"It is {text}, they say.")
    assert readings[0] == expected
    assert expected in all_readings(f"a;{text};b\n")


@each_row(
    "text",
    ["12", "1.5", "0.05", "1.50", "3.00", "10:23", "3 of 12", "v1.2", "utf8", "$1", "x" * 40, "", "1 2 3", "45 %"],
)
def test_texts_without_values(text: str):
    assert values_in(text) == []


@each_row(
    ("text", "expected"),
    [
        ("12.345", [("12345", "12.345")]),
        ("03/04/2026", [("2026-04-03", "2026-03-04")]),
        ("2026-03-14,Weber,45,1234.50", [("2026-03-14",), ("1234.5",)]),
        ("0.005 and 1,2,3", []),
        ("sed -n 1200,1300p", [("1200",), ("1300",)]),
        ("1200, 1300 and 2026", [("1200",), ("1300",), ("2026",)]),
        ("from 1.2.3.400 at 10:00:01", [("1.2.3.400",), ("10:00:01",)]),
    ],
)
def test_each_value_of_a_statement_has_its_readings(text: str, expected: list[tuple[str, ...]]):
    assert values_in(text) == expected


@each_row(
    ("text", "found"),
    [
        ("2026-03-14,Weber,45,1234.50", {"2026-03-14", "1234.5"}),
        ("12.345", {"12345", "12.345"}),
        ("03/04/2026", {"2026-04-03", "2026-03-04"}),
        ("order_12345 took 120ms", {"order_12345", "12345", "120"}),
        ("| W1031434 | 15.08.2026 | 1,021.21 € |", {"w1031434", "2026-08-15", "1021.21"}),
        ("123,456,789", {"123", "456", "789", "123456789"}),
    ],
)
def test_a_source_shows_every_reading(text: str, found: set[str]):
    assert found <= all_readings(text)


@examples(200)
@given(st.integers(100, 10**9), st.sampled_from(",. '\u202f_"), st.integers(0, 99), st.data())
def test_every_way_to_group_a_number_is_the_same_value(number: int, by: str, cents: int, data: st.DataObject):
    grouped = f"{number:,}".replace(",", by)
    point = data.draw(st.sampled_from([sign for sign in ",." if sign != by]))
    written = f"{grouped}{point}{cents:02}" if cents and by != "_" else grouped
    plain = f"{number}.{cents:02}".rstrip("0") if cents and by != "_" else str(number)
    (readings,) = values_in(written)
    assert plain in readings
    assert plain in all_readings(f"total;{written};x")
    assert set(readings) & all_readings(f"total;{plain};x")


@examples(100)
@given(st.dates())
def test_every_way_to_write_a_date_is_the_same_value(day):  # type: ignore[no-untyped-def]
    day = day.replace(year=1900 + day.year % 200)
    name = MONTHS[day.month - 1]
    ways = (
        *(f"{day:%Y-%m-%d}", f"{day:%d.%m.%Y}", f"{day.day} {name} {day.year}", f"{name} {day.day}, {day.year}"),
        *(f"{name[:3]} {day.day} {day.year}", f"{day.year}年{day.month}月{day.day}日", f"{day:%Y/%m/%d}"),
    )
    for way in ways:
        assert day.isoformat() in values_in(way)[0]
        assert day.isoformat() in all_readings(f"on {way}: x")


def test_line_breaks_hyphens_and_marks_make_no_difference_to_letters():
    assert (
        squeeze("the ware-\nhouse,\n “well-known”")
        == squeeze("the ware\u00adhouse well known")
        == "thewarehousewellknown"
    )
    assert squeeze("eﬃcient ＡＢＣ") == "efficientABC"
