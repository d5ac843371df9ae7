"""Claude Code's time-based microcompact: old tool results are cleared at a request that follows a long pause."""

from collections.abc import Iterator

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Part, Speaker, ToolResult

from prunebench.policies._javascript import chars_to_tokens
from prunebench.policies._published import Published
from prunebench.policies._tool_kinds import tool_kind

CLEARED = "[Old tool result content cleared]"
CLEARABLE = frozenset({"read", "shell", "grep", "glob", "web_search", "web_fetch", "edit", "write"})
NOT_CLEARABLE = "multiedit"  # an older tool of Claude Code, of the kind "edit"


class ClaudeCodeMicrocompact:
    """Clear all results but the newest after a pause, for the requests of one turn of the user.

    Claude Code does not edit its session, so its next turn begins with all results in full.
    """

    def __init__(self, minutes: float = 60, keep: int = 5) -> None:
        """Keep the results of the newest `keep` calls, of at least one, after a pause of `minutes`."""
        self._seconds, self._keep = minutes * 60, max(1, keep)
        self._cleared: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Clear old results after a pause, and restore all of them when the user writes."""
        if request.entries and request.entries[-1].speaker is Speaker.USER and not request.unseen:
            self._cleared = {}
        if request.pause and request.pause >= self._seconds:
            old = [result for result in self._old(request) if result not in self._cleared]
            if any(chars_to_tokens(result.text) for result in old):
                self._cleared.update((result, CLEARED) for result in old)
        return Changes(dict(self._cleared))

    def _old(self, request: RequestView) -> Iterator[ToolResult]:
        """Yield the results of all calls of its tools but the newest."""
        known = [call.location for call in request.calls if _is_clearable(call.name)]
        old = frozenset(known[: -self._keep])
        for result in request.results:
            if result.call is not None and result.call.location in old:
                yield result


def _is_clearable(tool: str) -> bool:
    return tool_kind(tool) in CLEARABLE and tool.lower() != NOT_CLEARABLE


_POLICY: type[ContextPolicy] = ClaudeCodeMicrocompact
PUBLISHED = (
    Published(
        name="claude_code_microcompact",
        new=ClaudeCodeMicrocompact,
        tool="Claude Code",
        outdated="As of 2.1.104 (2026-04-12); not in the current release: it is gone since 2.1.112.",
        source="npm @anthropic-ai/claude-code 2.1.104 (2026-04-12), cli.js; it is in 2.1.85 to 2.1.104, not in 2.1.112",
        decides="At a request of the main conversation that comes an hour or more after the last answer, it clears all "
        "results of its file, shell, search, web, edit and write tools but those of the newest five calls. They stay "
        "cleared until the user writes again, and are then sent in full.",
        defaults="60 minutes, the results of 5 calls kept. It is off unless a flag of Anthropic's servers turns it on; "
        "here it is on.",
        left_out="Images, and that the original never clears in subagents and non-interactive sessions. Later versions "
        "are not replayed: 2.1.112 clears on a hint of the API, 2.1.330 can have the API clear after 65 minutes.",
        idle="Without pauses of an hour, or with at most five calls of these tools.",
        checked="@anthropic-ai/claude-code 2.1.104",
    ),
)
