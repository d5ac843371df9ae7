"""What a clamp leaves of a giant result, and that it keeps its bound for any text and any counter."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, size
from tables import each_row

from autoprune import SettingsError
from autoprune.planning.clamping import Clamp, plain_text
from autoprune.tokens import exact

MARKER = re.compile(r"\[… ([\d,]+) (line|character)s? (?:left out|\().*…\]")


def words(text: str) -> int:
    return len(text.split())


COUNTERS: dict[str, Callable[[str], int]] = {"o200k": exact(), "characters": len, "words": words}
every_counter = each_row("counter", COUNTERS)
many_examples = examples(150)


def numbered(first: int, last: int) -> str:
    return "".join(f"line {number} of a log\n" for number in range(first, last + 1))


def kept_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if not MARKER.fullmatch(line)]


# Where it cuts


def test_the_head_and_the_tail_stay_in_whole_lines_and_a_line_says_what_is_missing():
    text = numbered(1, 1_000)
    expected = f"{numbered(1, 4)}[… 992 lines (4,960 tokens) left out …]\n{numbered(997, 1_000)}"
    assert Clamp(50, evidence_tokens=0).shortened(text, words) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (0.0, f"[… 992 lines (4,960 tokens) left out …]\n{numbered(993, 1_000)}"),
        (0.25, f"{numbered(1, 2)}[… 992 lines (4,960 tokens) left out …]\n{numbered(995, 1_000)}"),
        (1.0, f"{numbered(1, 8)}[… 992 lines (4,960 tokens) left out …]"),
        (1, f"{numbered(1, 8)}[… 992 lines (4,960 tokens) left out …]"),
    ],
)
def test_the_head_gets_its_share_of_the_room(head: float, expected: str):
    assert Clamp(50, head=head).shortened(numbered(1, 1_000), words) == expected


def test_a_giant_line_is_cut_inside():
    text = "0123456789" * 1_000
    expected = "012345678901\n[… 9,976 characters (9,976 tokens) left out …]\n890123456789"
    assert Clamp(80).shortened(text, len) == expected


def test_a_giant_line_between_short_ones_leaves_them_whole():
    text = "first\nsecond\n" + "x" * 10_000 + "\nlast but one\nlast\n"
    expected = "first\nsecond\n[… 1 line (10,001 tokens) left out …]\nlast but one\nlast\n"
    assert Clamp(105).shortened(text, len) == expected


def test_blank_lines_do_not_make_a_head():
    result = Clamp(20, head=0.0).shortened("  " + "word " * 1_000, words)
    assert result == "[… 4,951 characters (990 tokens) left out …]\n " + "word " * 10


@every_counter
@each_row("limit", [500, 5_000, 50_000])
def test_the_room_is_used(counter: str, limit: int):
    result = Clamp(limit).shortened(numbered(1, 100_000), COUNTERS[counter])
    assert result is not None
    assert 0.9 * limit < COUNTERS[counter](result) <= limit


@each_row("more", [*range(12), 100, 300])
def test_a_whole_that_counts_more_than_its_pieces_fits_as_well(more: int):
    def count(text: str) -> int:
        return len(text) + (more if "line 1 of" in text and "…" in text else 0)

    result = Clamp(500).shortened(f"line 1 of {'x' * 10_000}", count)
    assert result is not None
    assert "left out" in result
    assert count(result) <= 500


@each_row("limit", range(90, 100))
def test_no_cut_splits_a_surrogate_pair_or_a_line_end(limit: int):
    for pair in ("\ud83d\ude00", "\udbff\udfff"):
        pairs = Clamp(limit).shortened(pair * 500, len)
        assert pairs is not None
        assert not re.search(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]", pairs)
    assert Clamp(3).shortened("\ud83d\ude00" * 500, len) == "\ud83d\ude00"
    rows = Clamp(limit).shortened("word" + "\r\n" * 100 + "x\r\n" * 500, len)
    assert rows is not None
    assert not re.search(r"\r(?!\n)|…\]\n\n", rows)


def test_a_text_is_left_alone_if_no_part_fits():
    assert Clamp(5).shortened("one two three", lambda text: 100 * len(text)) is None
    assert Clamp(5).shortened("one two three", lambda text: 100) is None


@pytest.mark.parametrize(
    ("text", "limit", "becomes"),
    [
        (" \n" * 5_000, 60, "[… 10,000 characters (10,000 tokens) left out …]"),
        (" \n" * 5_000, 20, None),
        (" \n" * 5, 20, None),
        ("", 20, None),
    ],
)
def test_a_cut_text_is_never_blank(text: str, limit: int, becomes: str | None):
    assert Clamp(limit).shortened(text, len) == becomes


# Error lines of the part that is left out


TRACEBACK = """Traceback (most recent call last):
  File "run.py", line 9, in <module>
    main()
  File "app.py", line 5, in main
    load(path)
  File "io.py", line 2, in load
    return open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'x'
"""


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (200, TRACEBACK[TRACEBACK.index('  File "app.py"') :]),
        (90, "FileNotFoundError: [Errno 2] No such file or directory: 'x'\n"),
    ],
)
def test_the_end_of_a_traceback_is_kept(limit: int, kept: str):
    result = Clamp(limit).shortened(numbered(1, 500) + TRACEBACK + numbered(501, 1_000), words)
    assert result is not None
    assert f" …]\n{kept}[… " in result


def test_the_kept_part_of_a_traceback_is_counted_once():
    before, after = "error: bad\n", "error: worse\n"
    text = numbered(1, 500) + before + numbered(501, 600) + TRACEBACK + after + numbered(601, 1_000)
    kept = TRACEBACK[TRACEBACK.index('  File "app.py"') :]
    marker = words("[… 1,000 lines left out …]")
    allowance = words(before + kept + after) + 3 * marker + 8  # too little for the exception a second time
    result = Clamp(500, evidence_tokens=allowance).shortened(text, words)
    assert result is not None
    assert f" …]\n{before}[… 103 lines left out …]\n{kept}{after}[… " in result


@pytest.mark.parametrize("evidence", [0, 10, 100])
def test_error_lines_take_no_more_than_their_allowance(evidence: int):
    errors = "".join(f"error: {'very ' * number}bad\na line\n" for number in range(50))
    text = numbered(1, 500) + errors + numbered(501, 1_000)
    result = Clamp(1_000, evidence_tokens=evidence).shortened(text, words)
    assert result is not None
    told = [line for line in result.split("\n") if line.startswith("error")]
    assert bool(told) == (evidence > 0)
    assert words(" ".join(f"{line} [… 1 line left out …]" for line in told)) <= evidence


def test_an_error_line_that_repeats_is_kept_once():
    text = numbered(1, 500) + "".join(f"error: attempt {number} failed\n" for number in range(100)) + numbered(501, 999)
    result = Clamp(200).shortened(text, words)
    assert result is not None
    assert [line for line in result.split("\n") if "error" in line] == ["error: attempt 0 failed"]


@pytest.mark.parametrize(
    "line", ["    return fmt.Errorf(err)", "the error is known", "errors = []", "x" * 900 + " error: y"]
)
def test_code_prose_and_data_are_not_error_lines(line: str):
    text = f"{numbered(1, 500)}{line}\n{numbered(501, 1_000)}"
    result = Clamp(200).shortened(text, words)
    assert result is not None
    assert line not in result


# Plain text


@each_row(
    ("text", "becomes"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m and \x1b[1;38;5;12mblue\x1b[m", "red and blue"),
        ("\x1b[2K\x1b[1Aup\x1b[?25l", "up"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\ text", "link text"),
        ("\x1bPq#0;2;0;0;0#0~~\x1b\\image", "image"),
        ("\x1b(Bset\x1b7save\x1b8", "setsave"),
        ("cut off \x1b[31", "cut off [31"),
        ("stray \x1b", "stray "),
        ("[31m is no sequence", "[31m is no sequence"),
        ("a\rbb\rccc\n", "ccc\n"),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("10%\r50%\r", "50%"),
        ("long line\rok\n", "ok\n"),
        ("\x1b[2K10%\r\x1b[2K\n", "10%\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo\r\n"),
        ("one\r\r\ntwo", "one\r\ntwo"),
        ("a\rb\r\nc\n", "b\r\nc\n"),
        ("\r", ""),
        ("", ""),
    ],
)
def test_plain_text_is_the_terminals_view(text: str, becomes: str):
    assert plain_text(text) == becomes
    assert plain_text(becomes) == becomes


def test_a_text_that_cleaning_makes_larger_is_left_alone():
    assert Clamp(plain=True).shortened("\x1b[1mtext", lambda text: 20 - len(text)) is None


def test_a_text_is_counted_as_it_is_shown():
    bar = "".join(f"\r{percent}%" for percent in range(1_000)) + "\ndone\n"
    assert Clamp(20, plain=True).shortened(bar, exact()) == "999%\ndone\n"


# Promises


PIECES = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(codec=None), max_size=30),
    st.sampled_from(
        ["word ", "line of a log\n", "\r\n", "\n", "\r", "😀", "👩‍👩‍👧", "\ud83d", "\ude00", "\ud83d\ude00", "   "]
    ),
    st.sampled_from(
        ["\x1b[31m", "\x1b]0;t\x07", "\x1b", "\x1b[", "error: bad\n", TRACEBACK, "make: *** [x] Error 1\n"]
    ),
)
TEXTS = st.lists(st.tuples(PIECES, st.integers(1, 300)), max_size=12).map(
    lambda pieces: "".join(piece * times for piece, times in pieces)
)
CLAMPS = st.builds(
    Clamp,
    st.one_of(st.none(), st.integers(1, 60), st.integers(1, 2_000)),
    head=st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)),
    evidence_tokens=st.sampled_from([0, 20, 200, 5_000]),
    plain=st.booleans(),
)


@pytest.mark.full
@every_counter
@each_row("unit", ["error ", "a line of text, error: 1\n", "x", "é\n", "\x1b[1m", "\r", "%\r\n"])
def test_a_long_text_is_counted_about_once(counter: str, unit: str):
    text = unit * (size(1_000_000) // len(unit))
    seen = 0

    def count(piece: str) -> int:
        nonlocal seen
        seen += len(piece)
        return COUNTERS[counter](piece)

    Clamp(1_000, plain=True).shortened(text, count)
    assert seen <= 1.3 * len(text)


def _is_reducible(text: str, limit: int, count: Callable[[str], int]) -> bool:
    """Whether a text is above a limit that its first character, or pair of surrogates, is within."""
    begins = [shown.lstrip()[:2] for shown in (text, plain_text(text))]
    return count(text) > limit and all(begin and max(count(begin), count(begin[0])) <= limit for begin in begins)


@every_counter
@given(text=TEXTS, clamp=CLAMPS)
@many_examples
def test_the_output_fits_is_smaller_and_is_not_cut_again(counter: str, text: str, clamp: Clamp):
    count = COUNTERS[counter]
    result = clamp.shortened(text, count)
    assert clamp.shortened(text, count) == result
    if result is None:
        assert clamp.max_result_tokens is None or not _is_reducible(text, clamp.max_result_tokens, count)
        return
    assert result != text
    assert result.strip()
    assert count(result) <= count(text)
    assert clamp.max_result_tokens is None or count(result) <= clamp.max_result_tokens
    assert clamp.shortened(result, count) is None


@given(lines=st.lists(st.text("ab é", max_size=8), min_size=60, max_size=90), limit=st.integers(100, 200))
@many_examples
def test_short_lines_are_never_cut_and_none_is_unaccounted_for(lines: list[str], limit: int):
    text = "\n".join((*lines, "end"))
    result = Clamp(limit).shortened(text, len)
    if result is None:
        return
    missing = [MARKER.fullmatch(line) for line in result.split("\n")]
    assert {match[2] for match in missing if match} == {"line"}
    assert len(kept_lines(result)) + sum(int(match[1].replace(",", "")) for match in missing if match) == len(lines) + 1
    assert set(kept_lines(result)) <= {*lines, "end"}


# Settings


@each_row(
    "clamp",
    [
        *(Clamp(limit) for limit in (0, -1, True, 1.5, "100")),
        *(Clamp(9, head=head) for head in (-0.1, 1.1, float("nan"), "0.5", None, True)),
        *(Clamp(9, evidence_tokens=tokens) for tokens in (-1, 0.5, None, True)),
        *(Clamp(9, plain=plain) for plain in (1, None, "yes")),
    ],
    ids=repr,
)
def test_a_setting_that_cannot_be_used_is_refused_when_it_is_used(clamp: Clamp):
    with pytest.raises(SettingsError, match=r" is .*: give "):
        clamp.shortened("text", words)
