"""Qwen Code's clearing of old tool results: after an hour's pause, or when the results are too large together."""

from collections.abc import Sequence

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Part, Speaker, ToolResult

from prunebench.policies._javascript import units
from prunebench.policies._published import Published
from prunebench.policies._tool_kinds import tool_kind

CLEARED = "[Old tool result content cleared]"
CLEARABLE = frozenset({"read", "shell", "grep", "glob", "web_fetch", "web_search", "edit", "write", "skill"})
CLEARABLE_TOOL = "read_mcp_resource"


class QwenClearing:
    """Clear all results but the newest after a pause, else the oldest of too many. Cleared results stay cleared."""

    def __init__(self, minutes: float = 60, keep: int = 5, chars: int = 500_000) -> None:
        """Keep the newest `keep` results after a pause of `minutes`, or if there are more than `chars` characters."""
        self._seconds, self._keep, self._chars = minutes * 60, keep, chars
        self._cleared: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Clear results of earlier requests. A pause counts only before a message of the user."""
        unseen = set(request.unseen)
        known = [result for result in request.results if self._can_clear(result)]
        if request.entries and request.entries[-1].speaker is not Speaker.MODEL:
            old = [result for result in known if result not in unseen]
            if request.pause >= self._seconds and not unseen:
                self._clear(old[: -self._keep])
            else:
                self._clear_oldest(old[: -self._keep], known)
        return Changes(dict(self._cleared))

    def _can_clear(self, result: ToolResult) -> bool:
        is_listed = tool_kind(result.tool) in CLEARABLE or result.tool.lower() == CLEARABLE_TOOL
        return is_listed and not result.is_error and result not in self._cleared and bool(result.text)

    def _clear_oldest(self, old: Sequence[ToolResult], known: Sequence[ToolResult]) -> None:
        """Clear the oldest results, until half of the limit is left, if all results are beyond the limit."""
        left = sum(units(result.text) for result in known)
        if left <= self._chars:
            return
        for result in old:
            if left <= self._chars // 2:
                return
            left -= units(result.text)
            self._clear([result])

    def _clear(self, results: Sequence[ToolResult]) -> None:
        self._cleared.update((result, CLEARED) for result in results)


_POLICY: type[ContextPolicy] = QwenClearing
PUBLISHED = (
    Published(
        name="qwen_clearing",
        new=QwenClearing,
        tool="Qwen Code",
        source="npm @qwen-code/qwen-code 0.24.4 (2026-09-22), services/microcompaction/microcompact.ts",
        decides="When the user writes after a pause of an hour, all results of its file, shell, search, web, edit and "
        "skill tools but the newest five are cleared. At other requests the oldest are cleared, down to 250,000 "
        "characters, if these results have more than 500,000.",
        defaults="60 minutes, 5 results kept, 500,000 characters; it is on.",
        left_out="The summary of a full conversation, images, and the exception for files of the agent's memory.",
        idle="Without long pauses in sessions of less than 500,000 characters of results.",
        checked="@qwen-code/qwen-code 0.24.4",
    ),
)
