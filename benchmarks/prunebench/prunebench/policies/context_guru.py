"""context-guru's mask: old results are masked only outside the cached prefix, or after the cache has expired."""

import re
from hashlib import sha256

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Part, ToolResult

from prunebench.policies._published import Published

SMALLEST = 100  # tokens: smaller results stay
PEEK = 96  # characters of a masked result that stay
LIFETIME = 300.0  # seconds of Anthropic's default cache
MARGIN = 60.0  # seconds after which an expired cache is certain
SENTINEL = "⟪cg⟫"
MARKER = re.compile("<<cg:[A-Za-z0-9_-]{1,64}>>")


class ContextGuruMask:
    """Mask all but the newest results that are new in the request, or all of them if the cache has expired.

    What was masked once stays masked, and so does every other result with the same text.
    """

    def __init__(self, keep: int = 3, lifetime: float = LIFETIME) -> None:
        """Keep the newest `keep` results; the cache lives for `lifetime` seconds."""
        self._keep = keep
        self._cold = lifetime + MARGIN
        self._masked: dict[str, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Mask results outside the cached prefix."""
        is_cold = request.pause >= self._cold or request.number == 0
        texts: dict[Part, str] = {}
        for result in request.results[: -self._keep or None]:
            key = " ".join(MARKER.sub("", result.text).split())
            is_new = is_cold or result.sent >= request.number
            if result.is_plain and key not in self._masked and is_new and (text := _mask(result)):
                self._masked[key] = text
            if result.is_plain and key in self._masked:
                texts[result] = self._masked[key]
        return Changes(texts)


def _mask(result: ToolResult) -> str:
    """Return the mask of a result, "" if the result is too small or holds a marker."""
    text, size = result.text, result.count(result.text)
    if not text or size < SMALLEST or SENTINEL in text or MARKER.search(text):
        return ""
    start = " ".join(text.encode()[: PEEK * 4].decode(errors="ignore").split()).replace("<<cg:", "<< cg:")
    peek = start if len(start) <= PEEK else start[:PEEK] + "…"
    told = f"; starts: {peek}" if peek else ""
    name = sha256(text.encode()).hexdigest()[:16]
    mask = f"[older tool output masked{told}] <<cg:{name}>> [full output: call context_guru_expand]"
    return mask if result.count(mask) < size else ""


PUBLISHED = (
    Published(
        name="context_guru_mask",
        new=ContextGuruMask,
        tool="context-guru",
        outdated="As of commit da73fed (2026-08-22); not a default: the default preset has no mask.",
        source=(
            "github.com/rossoctl/context-guru, components/offload/mask.go with apply/apply.go for the cached prefix,"
            " commit da73fed, 2026-08-22"
        ),
        decides=(
            "All results but the newest 3 are masked, if they have at least 100 tokens and no earlier request has sent"
            " them. A cache that has expired (6 minutes without a request) has no prefix to protect: then all older"
            " results are masked. What is masked stays masked."
        ),
        defaults="keep_recent = 3, min_tokens = 100, keep_head_chars = 96, cold_cache = true.",
        left_out=(
            "The other components of its presets; the hour that it waits for providers other than Anthropic, unless"
            " lifetime=3600; its context_guru_expand tool. Pauses are counted from the previous answer."
        ),
        idle="Without pauses of six minutes, and with at most three new results in a request, as in most requests.",
        unchecked="context-guru is a Go module whose dependencies could not be downloaded for a recording.",
    ),
)
