"""opencode's prune: after each turn, clear tool results that are older than the newest 40,000 tokens of them."""

from collections.abc import Sequence

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Entry, Part, Speaker, ToolResult

from prunebench.policies._javascript import chars_to_tokens
from prunebench.policies._published import Published
from prunebench.policies._tool_kinds import tool_kind

CLEARED = "[Old tool result content cleared]"
KEPT_TURNS = 2  # the turn that ends, and the one before


class OpencodePrune:
    """Clear old results when the model has answered without a call, which ends a turn. Cleared results stay cleared."""

    def __init__(self, protect: int = 40_000, minimum: int = 20_000) -> None:
        """Protect the newest `protect` tokens of results, and clear only if more than `minimum` tokens can be."""
        self._protect, self._minimum = protect, minimum
        self._read = 0
        self._cleared: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Prune if a turn has ended since the previous request."""
        new = range(self._read, len(request.entries))
        answers = [at for at in new if request.entries[at].speaker is Speaker.MODEL]
        if answers and not any(request.entries[at].calls for at in new):
            self._prune(request.entries[: answers[-1] + 1])
        self._read = len(request.entries)
        return Changes(dict(self._cleared))

    def _prune(self, entries: Sequence[Entry]) -> None:
        total = turns = 0
        old: list[tuple[ToolResult, int]] = []
        for entry in reversed(entries):
            turns += entry.speaker is Speaker.USER and not entry.results
            for result in reversed(entry.results) if turns >= KEPT_TURNS else ():
                if result.is_error or tool_kind(result.tool) == "skill":
                    continue
                if result in self._cleared:
                    return self._clear(old)
                tokens = chars_to_tokens(result.text)
                total += tokens
                if total > self._protect:
                    old.append((result, tokens))
        return self._clear(old)

    def _clear(self, old: list[tuple[ToolResult, int]]) -> None:
        if sum(tokens for _, tokens in old) > self._minimum:
            self._cleared.update((result, CLEARED) for result, _ in old)


_POLICY: type[ContextPolicy] = OpencodePrune
PUBLISHED = (
    Published(
        name="opencode_prune",
        new=OpencodePrune,
        tool="opencode",
        source="github.com/anomalyco/opencode, packages/opencode/src/session/compaction.ts, 1.18.33 (2026-09-28)",
        decides="When a turn of the user ends, the tool results that are older than the newest 40,000 tokens of them "
        "(characters / 4) are cleared, if they have more than 20,000 tokens. Results of the last two turns, of failed "
        "calls and of skills are kept, and not counted.",
        defaults="40,000 tokens protected, at least 20,000 cleared. It is off unless compaction.prune is set.",
        left_out="The summary that replaces a full conversation, and the truncation of long outputs at arrival.",
        idle="With fewer than three turns of the user, so in every task that runs without further messages.",
        checked="opencode-linux-x64 1.18.33, its compiled function",
    ),
)
