"""Find values in texts and normalize them, so that every spelling of a value has the same form.

A *value* is a number, date, time, address or code, of three digits or more, or a URL.

Some are ambiguous: 12,345 may be 12.345, and 03/04/2026 may be in March or in April. `values_in` returns the readings
of each value, the likeliest first; `all_readings` also those of parts, such as the cells of a CSV row.
"""

import re
import unicodedata
from collections.abc import Iterator

LEAST_DIGITS = 3  # shorter numbers match by chance
# Scripts without spaces: Chinese and Japanese; Thai, Lao, Burmese, Khmer.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
KANA = "\u3040-\u30ff\u31f0-\u31ff"
THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
UNSPACED = re.compile(f"[{HAN}{KANA}{THAI}]+")
LEAST_RUN = 6  # characters

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = rf"(?:{'|'.join(f'[{each[0].upper()}{each[0]}]{each[1:]}' for each in MONTHS)})[a-z]{{0,6}}"
VALUE = re.compile(
    rf"""
    (?:\b|(?<=\dT)) (?:
    (?P<url>https?://[^\s<>"'`\\|)\]}}\u3000-\u303f]+)
    | (?P<day>\d\d?)(?:st|nd|rd|th|\.)?[ /-](?P<month>{MONTH})\.?[ /,-]{{1,2}}(?P<year>(?:19|20)\d\d)(?!\d)
    | (?P<month_>{MONTH})\.?[ ](?P<day_>\d\d?)(?:st|nd|rd|th)?,?[ ](?P<year_>(?:19|20)\d\d)(?!\d)
    | (?P<code>[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}
        | [A-Za-z][A-Za-z0-9]{{0,9}}(?:-[A-Za-z0-9]{{1,12}}){{1,5}}) (?![\w-])
    | (?P<first_year>(?:19|20)\d\d)(?P<by>[-/.年])[ ]?(?P<first>\d\d?)(?:(?P=by)|[ ]?月)[ ]?(?P<second>\d\d?)(?!\d)
    | (?P<day_or_month>\d\d?)(?P<sign>[-/.])(?P<month_or_day>\d\d?)(?P=sign)(?P<last_year>(?:19|20)\d\d)(?!\d)
    | (?P<time>\d\d?:\d\d:\d\d)(?![\d:])
    | (?<!\.) (?:
        (?P<groups>[1-9]\d{{0,2}}(?P<mark>[.,'’_ ])\d{{3}}(?:(?P=mark)\d{{3}})*)
            (?:(?!(?P=mark))[.,](?P<rest>\d++))?(?![.'’_]?\d)
        | (?P<dotted>\d++(?:\.\d++){{2,}}+)
        | (?P<whole>\d++)[.,](?P<part>(?<=\.)\d++|\d{{1,3}})(?![.\w]?\d) )
    | (?P<word>\w*\d\w*) )
    """,
    re.ASCII | re.VERBOSE,
)
PART = re.compile(r"(?<![\d.])\d++\.\d++(?!\.?\d)|\b\w*\d\w*", re.ASCII)
WITH_UNIT = re.compile(r"(\d{2,})[a-z]{1,3}", re.ASCII | re.IGNORECASE)
ENDING_IN_NUMBER = re.compile(r"[A-Za-z_]++(\d{3,})", re.ASCII)
DIGITS = re.compile(r"(?:\D*+\d){3}")
FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
LETTERS = re.compile(r"[^\W_]+")


def normalize(text: str) -> str:
    """Replace full-width letters, ligatures and digits of other scripts by ASCII, and remove soft hyphens."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text).replace("\u00ad", "")
    return FOREIGN_DIGIT.sub(lambda digit: str(int(digit[0])), text)


def squeeze(text: str) -> str:
    """Keep only letters and digits, so that line breaks, hyphens and punctuation make no difference."""
    return "".join(LETTERS.findall(normalize(text)))


def values_in(text: str) -> list[tuple[str, ...]]:
    """Find the readings of each value in a text, the likeliest first. Values do not overlap."""
    found = (tuple(dict.fromkeys(_readings(match))) for match in VALUE.finditer(normalize(text)))
    return [readings for readings in found if readings]


def all_readings(text: str) -> set[str]:
    """Find all readings of all values in a text and of their parts: order_12345 shows 12345 as well."""
    text = normalize(text)
    readings = {reading for readings in values_in(text) for reading in readings}
    for part in set(PART.findall(text)):
        readings.update(_decimal(*part.split(".")) if "." in part else _word(part))
        if number := ENDING_IN_NUMBER.fullmatch(part):
            readings.add(number[1])
    return readings


def _readings(match: re.Match[str]) -> Iterator[str]:
    """Yield the readings of a match; none if it has too few digits."""
    if url := match["url"]:
        yield url.rstrip(".,;:!?*_/")
    elif month := match["month"] or match["month_"]:
        number = MONTHS.index(month[:3].lower()) + 1
        yield from _date(match["year"] or match["year_"], number, int(match["day"] or match["day_"]))
    elif year := match["first_year"]:
        yield from _date(year, int(match["first"]), int(match["second"]))
    elif year := match["last_year"]:
        first, second = int(match["day_or_month"]), int(match["month_or_day"])
        yield from (*_date(year, second, first), *_date(year, first, second))
    elif groups := match["groups"]:
        whole, *others = groups.split(match["mark"])
        yield from _decimal("".join((whole, *others)), match["rest"] or "")
        if match["mark"] in ".," and len(others) == 1 and not match["rest"]:
            yield from _decimal(whole, others[0])
    elif whole := match["whole"]:
        yield from _decimal(whole, match["part"])
    else:
        yield from _word(match["word"] or match["code"] or match["time"] or match["dotted"])


def _date(year: str, month: int, day: int) -> Iterator[str]:
    if 1 <= month <= 12 and 1 <= day <= 31:
        yield f"{year}-{month:02}-{day:02}"


def _decimal(whole: str, part: str = "") -> Iterator[str]:
    """Yield a number if it has enough digits: 1234.50 is "1234.5", but 0.5 has only one digit."""
    part = part.rstrip("0")
    number = f"{whole.lstrip('0') or '0'}.{part}" if part else whole
    if len((number.replace(".", "").lstrip("0")) if part else number) >= LEAST_DIGITS:
        yield number


def _word(word: str) -> Iterator[str]:
    if unit := WITH_UNIT.fullmatch(word):
        yield from _decimal(unit[1])
    elif DIGITS.match(word):
        yield word.lower()
