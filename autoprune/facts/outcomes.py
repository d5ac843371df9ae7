"""Find out whether a result says that its call failed, and which lines tell of it. Reads a bounded part of a text."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice

from autoprune.conversation.placeholders import parted
from autoprune.conversation.transcript import ToolCall
from autoprune.facts._outcome_patterns import (
    BACKGROUND,
    BEGINS_REFUSED,
    CAMEL,
    CANCELLED,
    CLEARED,
    CLEARED_FAILURE,
    CLOSING,
    COLORS,
    DATA,
    DONE,
    ERROR_LINE,
    EXCEPTION,
    FAINT,
    FIGURES,
    FIRST_WORDS,
    FOOTERS,
    FRAME,
    HEADERS,
    LAST_LINE,
    LAST_MEMBERS,
    OPENING,
    PASSED,
    SUMMARY,
    TELLING,
    TRACEBACK,
    VERDICT,
    WORDS,
)
from autoprune.facts.commands import command, has_other_way, hides_failures, shows

HEAD = 4_000  # characters that are read: a harness's header, with the command that it ran
TAIL = 4_000  # characters that are read: a harness's footer, or the last frames of a traceback
LONGEST_JSON = 8_000  # characters; of a longer document only the end is read
MESSAGE_LINES = 8  # that an exception may have
LONGEST_LINE = 400  # characters; a longer line is data, and no error message
MOST_LINES = 20_000  # with a telling word, that are looked at


def failed(text: str, is_error: bool | None, call: ToolCall | None = None) -> bool | None:
    """Return whether a result says that its call failed; None where nothing certain is said.

    `is_error` is the format's own flag. One that says failed is believed. One that says fine, like an exit code of 0,
    is weaker than what the text certainly says, and worth nothing for a command that hides its failures, such as
    `pytest | tail`. Of a result that was cleared the flag is left, and what its placeholder says.
    """
    if is_error or is_cleared(text):
        return True if is_error or CLEARED_FAILURE.match(text) else None
    text = parted(text)[0]
    code = exit_code(text)
    is_fine = is_error is False or code == 0
    says = code != 0 if code else _says_failed(text, call)
    if not is_fine:
        return says
    if says:
        return None if is_data(call) else True  # an error message may be what was looked for
    return says if _is_open(text, call) else False


def is_cleared(text: str) -> bool:
    """Return whether a text stands in place of a result that was cleared, as far as its words tell."""
    return CLEARED.match(text) is not None


def is_data(call: ToolCall | None) -> bool:
    """Return whether a call looks for a text that is not the tool's own: a file, a page, a log."""
    if call is None:
        return False
    script = command(call)
    return shows(script) if script else not DATA.isdisjoint(WORDS.findall(CAMEL.sub("_", call.name).lower()))


def refused(text: str) -> bool:
    """Return whether a text begins by saying that a person did not want the call."""
    return BEGINS_REFUSED.match(text[:HEAD]) is not None


def cancelled(text: str) -> bool:
    """Return whether a text begins by saying that the call was not made, because another one had failed."""
    return CANCELLED.match(text[:HEAD]) is not None


def background(text: str) -> str:
    """Return what a command is known by that goes on in the background when its result comes; "" for any other."""
    match = BACKGROUND.match(text[:HEAD])
    return next(name for name in match.groups() if name) if match else ""


def _is_open(text: str, call: ToolCall | None) -> bool:
    """Return whether an exit code of 0 says nothing: the command hides it, or has not ended."""
    return hides_failures(command(call)) or bool(background(text))


def _says_failed(text: str, call: ToolCall | None) -> bool | None:
    """Return what the text alone says; None where it says nothing certain."""
    if text[:1] == "{":
        return _document_failed(_document(text))
    head, tail = _inside(text)
    script = command(call)
    is_made_up_for = has_other_way(script)
    begins_badly = FIRST_WORDS.match(head) or FIRST_WORDS.match(text[:HEAD])
    if (begins_badly and not is_made_up_for) or _ends_badly(tail):
        return True
    if not is_data(call):
        is_anywhere = hides_failures(script) and not is_made_up_for
        last = tail[tail.rfind("\n") + 1 :]
        if SUMMARY.search(last) or (is_anywhere and (SUMMARY.search(head) or SUMMARY.search(tail))):
            return True
        if not is_made_up_for and _verdict_failed(head, tail):
            return True
        if PASSED.fullmatch(last):
            return False
    return False if DONE.match(head) else None


def _verdict_failed(head: str, tail: str) -> bool:
    """Return whether the last verdict in the two ends of a text, on a line of its own, is that something failed."""
    verdicts = [*VERDICT.finditer(head), *VERDICT.finditer(tail)]
    return bool(verdicts) and verdicts[-1]["failed"] is not None


def _inside(text: str) -> tuple[str, str]:
    """Return the beginning and the end of what a tool wrote, without a dialect's tags and colors."""
    start = match.end() if (match := OPENING.match(text)) else 0
    head, tail = text[start : start + HEAD], CLOSING.sub("", text[max(start, len(text) - TAIL) :]).rstrip()
    while (last := tail.rpartition("\n"))[0] and FAINT.fullmatch(last[2]):
        tail = last[0].rstrip()
    return (COLORS.sub("", head), COLORS.sub("", tail)) if "\x1b" in text else (head, tail)


def exit_code(text: str) -> int | None:
    """Return the exit code that a harness wrote at the head or the foot of a result; None where it wrote none."""
    tail = text[-TAIL:]
    match = HEADERS.match(text[:HEAD]) or (FOOTERS.search(tail) if "xit" in tail.lower() else None)
    if match:
        return next(int(code) for name, code in match.groupdict().items() if code is not None)
    if text[:1] != "{":
        return None
    match = LAST_MEMBERS.search(tail)
    return int(match[1]) if match else _member_code(_document(text))


def _document(text: str) -> object:
    """Return what a short JSON text holds; None for a long one, and for any other text."""
    try:
        return json.loads(text) if len(text) <= LONGEST_JSON else None
    except (ValueError, RecursionError):
        return None


def _member_code(document: object) -> int | None:
    """Return the exit code in a JSON document; None where there is none."""
    match document:
        case (
            {"exit_code": int(code)} | {"exitCode": int(code)} | {"returncode": int(code)} | {"return_code": int(code)}
        ):
            return code
        case {"metadata": {"exit_code": int(code)}}:
            return code
    return None


def _document_failed(document: object) -> bool | None:
    """Return whether a JSON document says that the call failed; None where it does not say."""
    match document:
        case {"success": bool(success)}:
            return not success
        case {"isError": bool(is_error)} | {"is_error": bool(is_error)}:
            return is_error
        case {"ok": False} | {"status": "error" | "denied"}:
            return True
        case {"error": str() | Mapping() as error} if error:
            return True
    return None


def _ends_badly(tail: str) -> bool:
    last = tail[tail.rfind("\n") + 1 :]
    return bool(len(last) <= LONGEST_LINE and LAST_LINE.fullmatch(last)) or _ends_in_traceback(tail)


def _ends_in_traceback(tail: str) -> bool:
    """Return whether a text ends in a traceback of Python's, with the message of its exception."""
    frames = [match.end() for match in FRAME.finditer("\n" + tail)]
    if not frames:
        return False
    lines = tail[frames[-1] - 1 :].split("\n")[1:]
    # What is indented belongs to the frame; the first line that is not is the exception.
    message = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), None)
    if message is None or len(lines) - message > MESSAGE_LINES:
        return False
    return bool(EXCEPTION.match(lines[message]))


def error_lines(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the whole lines between two offsets that tell of a failure, as spans, the most telling ones first.

    That is the end of the last traceback (its last two frames and the exception), then lines with an error or an exit
    status from the first on; of lines that differ in figures alone, only the first.
    """
    if start and text[start - 1] != "\n":
        start = text.find("\n", start, stop) + 1 or stop
    if stop < len(text):
        stop = text.rfind("\n", start, stop) + 1 or start
    yield from _last_traceback(text, start, stop)
    seen: set[str] = set()
    for begin, end in islice(_telling_lines(text, start, stop), MOST_LINES):
        line = text[begin:end]
        shape = FIGURES.sub("", line)
        if shape not in seen and ERROR_LINE.match(line):
            seen.add(shape)
            yield begin, end


def _last_traceback(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    at = text.rfind("Traceback (most recent call last):", start, stop)
    match = TRACEBACK.match(text, at, stop) if at >= 0 and (at == start or text[at - 1] == "\n") else None
    if match:
        before = match.start("frames") - 1  # a frame is found by the line break before it
        frames = [found.start() + 1 for found in FRAME.finditer(text, before, match.end("frames"))]
        yield (frames[-2] if len(frames) > 2 else at), match.end()


def _telling_lines(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the lines with a telling word in them; a line that is too long is passed over."""
    at = start
    while match := TELLING.search(text, at, stop):
        begin = text.rfind("\n", at, match.start()) + 1 or at
        at = text.find("\n", match.end(), stop) + 1 or stop
        if at - begin <= LONGEST_LINE:
            yield begin, at
