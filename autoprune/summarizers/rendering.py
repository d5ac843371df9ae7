"""Write utterances as one text for a summarizer."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from autoprune.conversation.messages import sendable
from autoprune.conversation.transcript import Speaker, ToolCall
from autoprune.facts.calls import arguments, target
from autoprune.facts.outcomes import has_failed
from autoprune.facts.utterances import Utterance
from autoprune.planning.clamping import Clamp
from autoprune.tokens import Count, Memo

RESULT_TOKENS = 500  # of one result: a summarizer needs its gist, not all of it
LEAST_RESULT_TOKENS = 60  # below which the oldest messages are left out instead
LONGEST_ARGUMENT = 300  # characters
LONGEST_CALL = 1_000
LONGEST_TARGET = 100
LARGEST_SHARE = 3  # one message may take at most a third of the tokens
NAMES = {Speaker.MODEL: "assistant"}
MARK, NO_MARK = "▶", ">"  # the start of each heading, and its replacement in texts
JOINT_TOKENS = 2  # for the blank line between two messages, and for a token that a cut splits


def render(
    utterances: Sequence[Utterance],
    count: Count,
    max_tokens: int,
    *,
    result_tokens: int = RESULT_TOKENS,
    delimiter: str = "",
) -> str:
    """Write messages as plain text for a summarizer, in at most `max_tokens` tokens by `count`; "" for no messages.

    Each message has headings that begin with "▶", which occurs nowhere else in the text: "▶ 3. user", "▶ 4. call" and
    "▶ 5. result of bash, failed". Long arguments are shortened, and results cut to `result_tokens`. If the whole is too
    long, results get fewer tokens, then the oldest messages are left out, except for the user's first request. The text
    never contains `delimiter`, in upper or lower case, and can be encoded as UTF-8.
    """
    if not utterances:
        return ""
    memo = Memo(count)
    first = next((at for at, one in enumerate(utterances) if one.user_request), 0)
    limit = result_tokens
    blocks = _message_blocks(utterances, memo, limit, delimiter)
    while limit // 2 >= LEAST_RESULT_TOKENS and sum(map(memo, blocks)) + JOINT_TOKENS * len(blocks) > max_tokens:
        limit //= 2
        blocks = _message_blocks(utterances, memo, limit, delimiter)
    text = _without_delimiter(_fit(blocks, first, memo, max_tokens), delimiter)
    while text and count(text) > max_tokens:  # a delimiter across two messages, or one of a single character
        text = text[: len(text) * 3 // 4]
    return text


def _fit(blocks: Sequence[str], first: int, count: Count, max_tokens: int) -> str:
    """Join the blocks that fit: the first request, and the newest of the others."""
    share = max_tokens // LARGEST_SHARE
    cut = [_cut_text(block, share, count) for block in blocks] if sum(map(count, blocks)) > max_tokens else blocks
    sizes = accumulate(count(block) + JOINT_TOKENS for block in reversed(cut[first + 1 :]))
    room = max_tokens - sum(map(count, cut[first : first + 1]))
    for kept in range(bisect_right([*sizes], room), -1, -1):
        text = "\n\n".join(_keep_from(cut, first, len(cut) - kept))
        if count(text) <= max_tokens:
            return text
    return _cut_text("\n\n".join(cut), max_tokens, count)


def _keep_from(blocks: Sequence[str], first: int, start: int) -> Iterator[str]:
    """Yield the first request and all blocks from `start` on; if there is a gap, a heading marks it."""
    if start == first + 1:
        yield from blocks
        return
    yield blocks[first]
    yield f"{MARK} {first + 2}. to {start}. left out"
    yield from blocks[start:]


def _message_blocks(utterances: Sequence[Utterance], count: Count, limit: int, delimiter: str) -> list[str]:
    return [
        _without_delimiter("\n".join(_message_lines(one, number, count, limit)), delimiter)
        for number, one in enumerate(utterances, 1)
    ]


def _message_lines(utterance: Utterance, number: int, count: Count, limit: int) -> Iterator[str]:
    """Yield a message: its words, its calls and its results, each under a heading."""
    if utterance.after_request:
        yield f"{MARK} the user's next request, which stays in the conversation and is not shown here"
    if utterance.words or not (utterance.calls or utterance.results):
        yield f"{MARK} {number}. {NAMES.get(utterance.speaker, utterance.speaker.value)}"
        yield _quote(utterance.words or "[no words]")
    for call in utterance.calls:
        yield f"{MARK} {number}. call"
        yield _quote(describe_call(call))
    for result in utterance.results:
        touched = _shorten(target(result.call), LONGEST_TARGET)
        about = f" ({touched})" if touched else ""
        how = ", failed" if has_failed(result.text, result.is_error, result.call) else ""
        yield f"{MARK} {number}. result of {_one_line(result.tool)}{about}{how}"
        yield _quote(
            _cut_text(result.text, limit, count) or ("[empty]" if result.is_plain else "[image or other media]")
        )


def describe_call(call: ToolCall) -> str:
    """Write a call on one line, as in `read_file(path="a.py")`; long arguments are cut."""
    by_name = arguments(call)
    shown = [f"{_one_line(str(name))}={_argument(value)}" for name, value in by_name.items()]
    if not by_name and call.arguments not in (None, "", {}, "{}"):
        shown = [_argument(call.arguments)]
    return f"{_one_line(call.name)}({_shorten(', '.join(shown), LONGEST_CALL)})"


def _argument(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(_shorten(value, LONGEST_ARGUMENT), ensure_ascii=False)
    try:
        return _shorten(json.dumps(value, ensure_ascii=False, default=_jsonable), LONGEST_ARGUMENT)
    except (TypeError, ValueError, RecursionError):  # a name that is no string, a value that holds itself
        return f"[{type(value).__name__}]"


def _jsonable(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else f"[{type(value).__name__}]"


def _shorten(text: str, longest: int) -> str:
    """Cut a text to `longest` characters, with a mark that says how many more characters there were."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}… [{len(text) - longest:,} characters more]"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quote(text: str) -> str:
    """Replace the heading mark, so that no text can look like a heading."""
    return text.replace(MARK, NO_MARK)


def _cut_text(text: str, limit: int, count: Count) -> str:
    """Cut a text to its head and tail, in at most `limit` tokens; "" if nothing fits."""
    if limit < 1 or not text.strip():
        return ""
    return text if count(text) <= limit else Clamp(limit).shortened(text, count) or ""


def _without_delimiter(text: str, delimiter: str) -> str:
    """Remove the delimiter, and lone surrogates, which no provider accepts."""
    pattern = re.compile(re.escape(delimiter), re.IGNORECASE)
    if delimiter and pattern.search(text):
        text = pattern.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        while pattern.search(text):  # a delimiter of one character, say
            text = pattern.sub("", text)
    return sendable(text)
