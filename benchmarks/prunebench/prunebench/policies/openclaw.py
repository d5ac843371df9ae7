"""OpenClaw's cache-TTL pruning: after a pause that outlives the prompt cache, trim old results, then clear them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Part, Speaker, ToolResult

from prunebench.policies._javascript import cut, json_text, units
from prunebench.policies._published import Published

CLEARED = "[Old tool result content cleared]"
TRIMMED = "{head}\n...\n{tail}\n\n[Tool result trimmed: kept first 1500 chars and last 1500 chars of {chars} chars.]"
LONG, SHOWN = 4_000, 1_500  # characters
TRIM_RATIO, CLEAR_RATIO = 0.3, 0.5  # of the context window, at 4 characters per token
LEAST_CLEARABLE = 50_000  # characters
KEPT_ANSWERS = 3
# Characters that count as more than one, and how many more: they are about a token each.
WEIGHTS = (
    (3, "·\u3000-\u319f\u4e00-\u9fa5\uac00-\ud7af\uff01-\uff60"),
    (11, "\u1100-\u11ff\u2e80-\u2fff\u31a0-\u4dff\u9fa6-\ua4ff\ua700-\ua707\ua960-\ua97f\ud7b0-\ud7ff\uf900-\ufaff"),
    (7, "\u02c7\u02c9\u02d9\u02ea\u02eb\u0305\u0323\ufe10-\ufe4f\uff65-\uffdc\uffe0-\uffe6"),
    (10, "\U0001d360-\U0001d371"),
    (14, "\U00016fe0-\U00016fff\U0001aff0-\U0001b16f\U0001f200-\U0001f2ff\U00020000-\U0002fa1f\U00030000-\U0003347f"),
)
WEIGHTED = tuple((more, re.compile(f"[{ranges}]")) for more, ranges in WEIGHTS)
SPOKEN = ("content", "parts", "text", "thinking", "output", "functionResponse", "response", "toolResult")


class OpenClawCacheTtl:
    """Trim and clear the results before the newest three answers, if the cache has expired. They stay so."""

    def __init__(self, minutes: float = 60) -> None:
        """Prune after a pause of `minutes`."""
        self._seconds = minutes * 60
        self._texts: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Prune after a pause."""
        if request.pause and request.pause >= self._seconds:
            self._prune(request)
        return Changes(dict(self._texts))

    def _prune(self, request: RequestView) -> None:
        old = list(self._old(request))
        window = request.window * 4
        total = sum(_message_chars(request, at) for at in range(len(request.entries)))
        total -= sum(_chars(result.text) - self._sent_chars(result) for result in request.results)
        if total < TRIM_RATIO * window:
            return
        for result in old:
            length = units(result.text)
            if result not in self._texts and length > LONG:
                head, tail = cut(result.text, 0, SHOWN, halves="ignore"), cut(result.text, -SHOWN, halves="ignore")
                self._texts[result] = TRIMMED.format(head=head, tail=tail, chars=length)
                total += self._sent_chars(result) - _chars(result.text)
        if sum(map(self._sent_chars, old)) >= LEAST_CLEARABLE:
            self._clear(old, total, CLEAR_RATIO * window)

    def _clear(self, old: Sequence[ToolResult], total: int, most: float) -> None:
        """Clear the oldest results until the prompt has less than `most` characters."""
        for result in old:
            if total < most:
                return
            total += len(CLEARED) - self._sent_chars(result)
            self._texts[result] = CLEARED

    def _old(self, request: RequestView) -> Iterator[ToolResult]:
        """Yield the results between the user's first message and the third newest answer that are not cleared."""
        speakers = [entry.speaker for entry in request.entries]
        answers = [at for at, (last, now) in enumerate(pairwise([None, *speakers])) if now is Speaker.MODEL != last]
        if len(answers) < KEPT_ANSWERS or Speaker.USER not in speakers:
            return
        for result in request.results:
            is_old = speakers.index(Speaker.USER) <= result.location.message < answers[-KEPT_ANSWERS]
            if is_old and self._texts.get(result) != CLEARED:
                yield result

    def _sent_chars(self, result: ToolResult) -> int:
        return _chars(self._texts.get(result, result.text))


def _message_chars(request: RequestView, at: int) -> int:
    """Return the characters of a message and of the arguments of its calls; 0 for the system's."""
    entry = request.entries[at]
    if entry.speaker is Speaker.SYSTEM:
        return 0
    native = [call.arguments for call in entry.calls if call.location.start is None]
    return sum(map(_chars, _spoken(fields_of(request.messages[at])))) + sum(map(_arguments_chars, native))


def _spoken(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name in SPOKEN:
            yield from _spoken(value.get(name))
    elif isinstance(value, Sequence):
        for item in value:
            yield from _spoken(item)


def _arguments_chars(arguments: object) -> int:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return units(str(arguments))
    return units(json_text(arguments))


def _chars(text: str) -> int:
    """Count characters; Chinese, Japanese and Korean ones count as several."""
    if text.isascii():
        return len(text)
    return units(text) + sum(more * len(pattern.findall(text)) for more, pattern in WEIGHTED)


_POLICY: type[ContextPolicy] = OpenClawCacheTtl
PUBLISHED = (
    Published(
        name="openclaw_cache_ttl",
        new=OpenClawCacheTtl,
        tool="OpenClaw",
        outdated="As of 2026.9.6 (2026-09-24); with an API key, OpenClaw has the server clear instead.",
        source="npm openclaw 2026.9.6 (2026-09-24), src/agents/embedded-agent-runner/tool-result-truncation.ts",
        decides="After a pause as long as the cache's lifetime, if the prompt fills 30 % of the window, the results "
        "before the newest three answers are cut to 1,500 characters at each end, if they have more than 4,000. If the "
        "prompt still fills 50 %, and they have 50,000 characters together, the oldest are cleared until it does not.",
        defaults="One hour; it is on for Anthropic's models. If it is turned on without a time, five minutes.",
        left_out="Images, the limits of results at arrival, and Anthropic's server-side clearing, which is used "
        "instead if it is enabled. The pause is counted from the previous answer, not from the start of its request.",
        idle="Without pauses of an hour, and in prompts below 30 % of the window.",
        checked="openclaw 2026.9.6",
    ),
)
