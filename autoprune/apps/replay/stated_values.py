"""Find values in texts and normalize them, so that every spelling of a value has the same form.

A *value* is one of

Some values are ambiguous: 12,345 may be 12.345, and 03/04/2026 may be in March or in April. `all_readings` returns
every reading, so that a value is found with either meaning; `values_in` returns the readings of each value, the
likeliest first.

Some are ambiguous: 12,345 may be 12.345, and 03/04/2026 may be in March or in April. `all_readings` returns every
reading, so that a value is found with either meaning; `values_in` the readings of each value, the likeliest first.
"""

import re
from collections.abc import Callable, Iterable, Iterator

LEAST_DIGITS = 3  # shorter numbers match by chance
MOST_GROUPS = 5  # of three digits in a number

FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
FOREIGN_SIGN = re.compile("[\u00ad\uff01-\uff0f\uff1a-\uff5e\ufb00-\ufb04]")
# Full-width characters, ligatures of PDF files, and soft hyphens.
SIGNS: dict[int, str | int | None] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
SIGNS |= dict(zip(range(0xFB00, 0xFB05), ("ff", "fi", "fl", "ffi", "ffl"), strict=True))
SIGNS[0xAD] = None

CURRENCIES = "$€£¥₩₽₹฿₴₺"
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("jan ene gen янв", "feb fév fev fév фев", "mar mär мар", "apr avr abr апр", "may mai mag мая май"),
            *("jun juin giu июн", "jul juil lug июл", "aug aoû ago авг", "sep set сен", "oct okt out ott окт"),
            *("nov ноя", "dec dez déc dic дек"),
        ),
        1,
    )
    for name in names.split()
}
# Each pattern starts with its first character, so that the search is fast; the lookbehind follows that character.
YEARS = ("19", "20", "25")  # 25: Thailand counts from the Buddha
URL = re.compile(r"https?://[^\s<>\"'`\\|)\]}\u3000-\u303f]+")
UUID = re.compile(r"[0-9A-Fa-f](?<![\w-].)[0-9A-Fa-f]{7}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])", re.ASCII)
CODE = re.compile(r"[A-Z](?<![\w-].)[A-Za-z0-9]{0,9}(?:-[A-Za-z0-9]{1,12}){1,5}(?![\w-])", re.ASCII)
YEAR_FIRST = re.compile(r"([12](?<!\d.)\d{3})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)", re.ASCII)
IN_CHINESE = re.compile(r"([12](?<!\d.)[0-9]{3})\s?[年년]\s?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日일]")
YEAR_LAST = re.compile(r"(\d(?<!\d.)\d?)([-/.])(\d{1,2})\2([12]\d{3})(?!\d)", re.ASCII)
DAY_MONTH = re.compile(
    r"(\d(?<!\d.)\d?)(?:st|nd|rd|th|\.|º)?[ /-](?:de )?([^\W\d_]{3,10})\.?[ /,-]{1,2}(?:de )?([12]\d{3})(?!\d)"
)
MONTH_DAY = re.compile(r" (\d{1,2})(?:st|nd|rd|th)?,? ([12]\d{3})(?!\d)")  # after a month
LAST_WORD = re.compile(r"([^\W\d_]{3,10})\.?\Z")
TIME = re.compile(r"\d(?<![\d:].)\d?:\d\d:\d\d(?![\d:])", re.ASCII)
DOTTED = re.compile(r"\d(?<![\w.].)\d*+(?:\.\d++){2,}+(?!\.*+\w)", re.ASCII)
BEHIND_SIGN = re.compile(rf"[{CURRENCIES}][ \u00a0]?(\d\d)(?![\d.,]*\d)", re.ASCII)
BEFORE_SIGN = re.compile(rf"(\d(?<![\d.,].)\d)[ \u00a0]?[{CURRENCIES}元円]", re.ASCII)
SPACES = " \u00a0\u2009\u202f"
IN_GROUPS = re.compile(
    rf"(?<![\w.,:/-])[1-9]\d{{0,2}}(?P<by>[{SPACES}])\d{{3}}(?:(?P=by)\d{{3}})*(?:[.,]\d+)?(?![\w.,/-]*\d)", re.ASCII
)
NUMBER = re.compile(r"\d(?<!\d.)\d*+(?:[.,'’]\d++)++", re.ASCII)
DECIMAL = re.compile(r"(?<![\d.])\d++\.\d++(?!\.)", re.ASCII)  # among commas: 45,1234.50
CHUNK = re.compile(rf"\d(?<!\d.)\d*+(?:[.,'’{SPACES}]\d++)++", re.ASCII)  # perhaps of several numbers
ONE_NUMBER = re.compile(
    rf"(?P<groups>[1-9]\d{{0,2}}(?P<by>[.,'’{SPACES}])\d{{3}}(?:(?P=by)\d{{3}})*)(?:(?!(?P=by))[.,](?P<rest>\d+))?"
    r"|(?P<whole>\d+)(?:\.(?P<part>\d+)|,(?P<short>\d{1,3}))",
    re.ASCII,
)
PARTS = re.compile(r"(\D)", re.ASCII)
TOKEN = re.compile(r"\w+")
WORD = re.compile(r"\w+", re.ASCII)
WITH_DIGIT = re.compile(r"\b\w*\d\w*", re.ASCII)
DIGITS = re.compile(r"(?:\D*+\d){3}")  # of any script
GROUPED = re.compile(r"\d{1,3}(?:_\d{3})+", re.ASCII)
WITH_UNIT = re.compile(r"(\d{2,})[A-Za-z]{1,3}", re.ASCII)
WITH_NUMBER = re.compile(  # order_12345, 120ms, 12_345
    r"[A-Za-z_]++(?P<behind>\d{3,})|(?P<before>\d{2,})[A-Za-z]{1,3}|(?P<grouped>\d{1,3}(?:_\d{3})+)", re.ASCII
)
# Scripts without spaces: Chinese and Japanese; Thai, Lao, Burmese, Khmer.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
KANA = "\u3040-\u30ff\u31f0-\u31ff"
THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
UNSPACED = re.compile(f"[{HAN}{KANA}{THAI}]+")
LEAST_RUN = 6  # characters
LETTERS = re.compile(r"[^\W_]+")
HIDDEN = "\0"  # replaces a value that was read; it ends words and numbers


def normalize(text: str) -> str:
    """Replace foreign digits, full-width letters and ligatures by ASCII, and remove soft hyphens."""
    if text.isascii():
        return text
    if FOREIGN_SIGN.search(text):
        text = text.translate(SIGNS)
    return FOREIGN_DIGIT.sub(lambda digit: str(int(digit[0])), text)


def squeeze(text: str) -> str:
    """Keep only letters and digits, so that line breaks, hyphens and punctuation make no difference."""
    return "".join(LETTERS.findall(normalize(text)))


def all_readings(text: str, words: Iterable[str] | None = None) -> set[str]:
    """Find all readings of all values in a text.

    `words` are all words of the text, if they are known.
    """
    text = normalize(text)
    readings = _word_values(_words_with_digits(words or set(TOKEN.findall(text))))
    for chunk in set(CHUNK.findall(text)):
        readings.update(_readings(chunk))
    for pattern, read in _READERS:
        for match in pattern.finditer(text):
            readings.update(read(match) or ())
    return readings


def values_in(text: str) -> list[tuple[str, ...]]:
    """Find the readings of each value in a text, the likeliest first. Values do not overlap."""
    values: list[tuple[str, ...]] = []

    def collect(read: "_Read") -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            readings = read(match)
            if readings:
                values.append(readings)
            return match[0] if readings is None else HIDDEN

        return replace

    text = normalize(text)
    for pattern, read in (
        *_READERS,
        (IN_GROUPS, _number_readings),
        (NUMBER, _number_readings),
        (DECIMAL, _number_readings),
        (WITH_DIGIT, _word_readings),
    ):
        text = pattern.sub(collect(read), text)
    return values


def _words_with_digits(words: Iterable[str]) -> list[str]:
    """Select the words with three digits or more. Letters of other scripts end a word."""
    candidates = list(filter(DIGITS.match, words))
    if all(map(str.isascii, candidates)):
        return candidates
    pieces = (piece for word in candidates for piece in WORD.findall(normalize(word)))
    return list(filter(DIGITS.match, pieces))


# The readings of a match: () if it is not a value, None if another pattern may match it.
_Read = Callable[[re.Match[str]], tuple[str, ...] | None]


def _url(match: re.Match[str]) -> tuple[str, ...]:
    return (match[0].rstrip(".,;:!?*_/"),)


def _code(match: re.Match[str]) -> tuple[str, ...] | None:
    return (match[0].lower(),) if DIGITS.match(match[0]) else None


def _verbatim(match: re.Match[str]) -> tuple[str, ...]:
    return (match[0].lower(),)


def _dotted_readings(match: re.Match[str]) -> tuple[str, ...] | None:
    """Return the digits with their dots, unless they are the groups of one number: 1.234.567."""
    return None if ONE_NUMBER.fullmatch(match[0]) else (match[0],) if DIGITS.match(match[0]) else ()


def _amount(match: re.Match[str]) -> tuple[str, ...]:
    return (f"¤{match[1]}",)


def _date(year: str, month: int, day: str) -> Iterator[str]:
    if year.startswith(YEARS) and 1 <= month <= 12 and 1 <= int(day) <= 31:
        yield f"{year}-{month:02}-{int(day):02}"


def _year_first(match: re.Match[str]) -> tuple[str, ...] | None:
    return tuple(_date(match[1], int(match[3]), match[4])) or None


def _in_chinese(match: re.Match[str]) -> tuple[str, ...] | None:
    return tuple(_date(match[1], int(match[2]), match[3])) or None


def _year_last(match: re.Match[str]) -> tuple[str, ...] | None:
    first, second, year = match[1], match[3], match[4]
    return tuple(dict.fromkeys((*_date(year, int(second), first), *_date(year, int(first), second)))) or None


def _day_month(match: re.Match[str]) -> tuple[str, ...] | None:
    return tuple(_date(match[3], _month(match[2]), match[1])) or None


def _month_day(match: re.Match[str]) -> tuple[str, ...] | None:
    before = LAST_WORD.search(match.string, max(0, match.start() - 12), match.start())
    return tuple(_date(match[2], _month(before[1]), match[1])) or None if before else None


def _month(name: str) -> int:
    """Return the number of a month by the first letters of its name; 0 for other words."""
    low = name.lower()
    return MONTHS.get(low[:4]) or MONTHS.get(low[:3]) or 0


_READERS: tuple[tuple[re.Pattern[str], _Read], ...] = (
    (URL, _url),
    (UUID, _verbatim),
    (CODE, _code),
    (YEAR_FIRST, _year_first),
    (IN_CHINESE, _in_chinese),
    (YEAR_LAST, _year_last),
    (DAY_MONTH, _day_month),
    (MONTH_DAY, _month_day),
    (TIME, _verbatim),
    (DOTTED, _dotted_readings),
    (BEHIND_SIGN, _amount),
    (BEFORE_SIGN, _amount),
)


# Numbers and words


def _number_readings(match: re.Match[str]) -> tuple[str, ...] | None:
    """Return the readings of digits with separators, if they are one number."""
    one = ONE_NUMBER.fullmatch(match[0])
    return tuple(_one_number(one)) if one else None


def _one_number(match: re.Match[str]) -> Iterator[str]:
    if groups := match["groups"]:
        whole = "".join(PARTS.split(groups)[::2])
        yield from _decimal(whole, match["rest"] or "")
        if match["by"] in ".," and len(groups) <= 7 and not match["rest"]:
            yield from _decimal(*PARTS.split(groups)[::2])
    else:
        yield from _decimal(match["whole"], match["part"] or match["short"])


def _decimal(whole: str, part: str) -> Iterator[str]:
    """Yield a number if it has enough digits: 1234.50 is "1234.5", but 0.5 has only one digit."""
    part = part.rstrip("0")
    if not part:
        yield from (whole,) if len(whole) >= LEAST_DIGITS else ()
        return
    number = f"{whole.lstrip('0') or '0'}.{part}"
    if len(number.replace(".", "").lstrip("0")) >= LEAST_DIGITS:
        yield number


def _readings(chunk: str) -> Iterator[str]:
    """Yield the readings of digits with separators from each group on: grouped by thousands, or decimal."""
    pieces = PARTS.split(chunk)
    parts, between = pieces[::2], pieces[1::2]
    for at in range(len(between)):
        whole, by = parts[at], between[at]
        if by == "." or (by == "," and len(parts[at + 1]) <= 3):
            yield from _decimal(whole, parts[at + 1])
        if len(whole) > 3 or whole[0] == "0":
            continue
        for to in range(at, min(at + MOST_GROUPS, len(between))):
            if between[to] != by or len(parts[to + 1]) != 3:
                if to > at and between[to] in ".,":
                    yield from _decimal(whole, parts[to + 1])
                break
            whole += parts[to + 1]
            yield whole


def _word_readings(match: re.Match[str]) -> tuple[str, ...]:
    word = match[0]
    if unit := WITH_UNIT.fullmatch(word):
        return tuple(_decimal(unit[1], ""))
    if GROUPED.fullmatch(word):
        return tuple(_decimal(word.replace("_", ""), ""))
    return (word.lower(),) if DIGITS.match(word) else ()


def _word_values(words: Iterable[str]) -> set[str]:
    """Find the values of words with three digits or more: the words, and the number in each."""
    values = {word for word in words if word.isdecimal()}
    for word in words:
        if not word.isdecimal():
            values.add(word.lower())
            if part := WITH_NUMBER.fullmatch(word):
                values.add((part["behind"] or part["before"] or part["grouped"]).replace("_", ""))
    return values
