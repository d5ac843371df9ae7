"""deepagents' eviction of large tool results: the result is written to a file, and the model gets a preview."""

from collections.abc import Collection, Sequence

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Part, ToolResult

from prunebench.policies._published import Published

CHARACTERS_PER_TOKEN = 4
SHOWN_LINES = 5  # at each end
LONGEST_LINE = 1_000  # characters
LONGEST_ID = 32  # characters of a call id that the model reads
# Tools that shorten their results themselves, or whose results are short.
EXCLUDED_TOOLS = ("ls", "glob", "grep", "read_file", "edit_file", "write_file", "delete")
STUB = """\
Tool result too large, the result of this tool call {known} was saved in the filesystem at this path: {path}

You can read the result from the filesystem by using the read_file tool, but make sure to only read part of the result \
at a time.

You can do this by specifying an offset and limit in the read_file tool call. For example, to read the first 100 lines,\
 you can use the read_file tool with offset=0 and limit=100.

{note}:

{preview}
"""
WHOLE, ENDS = "Here is a preview of the result", "Here is a preview showing the head and tail of the result"
OMITTED = "... [{count} lines truncated] ..."
OMITTED_NOTE = f"lines of the form `{OMITTED.format(count='N')}` indicate omitted lines in the middle of the content"
CLIPPED_NOTE = (
    f"the output contains lines longer than {LONGEST_LINE} characters; this preview shows only their first "
    f"{LONGEST_LINE} characters"
)


class LargeResultEviction:
    """Replace results of more than `limit` estimated tokens by a preview, before the model sees them."""

    def __init__(self, limit: int = 20_000, exclude_tools: Collection[str] = EXCLUDED_TOOLS) -> None:
        """Set `tool_token_limit_before_evict`, and the tools whose results are never evicted."""
        self._limit = limit * CHARACTERS_PER_TOKEN
        self._exclude_tools = exclude_tools
        self._texts: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Evict the large results of this request and of all earlier ones."""
        for result in request.unseen:
            if len(result.text) > self._limit and result.tool not in self._exclude_tools:
                self._texts[result] = _stub(result)
        return Changes(dict(self._texts))


def _stub(result: ToolResult) -> str:
    known = (result.call and result.call.id) or "unknown"
    lines = result.text.splitlines()
    is_whole = len(lines) <= 2 * SHOWN_LINES
    shown = lines if is_whole else [*lines[:SHOWN_LINES], *lines[-SHOWN_LINES:]]
    preview = _numbered(shown, 1)
    if not is_whole:
        head, tail = _numbered(shown[:SHOWN_LINES], 1), _numbered(shown[SHOWN_LINES:], len(lines) - SHOWN_LINES + 1)
        preview = f"{head}\n{OMITTED.format(count=len(lines) - 2 * SHOWN_LINES)}\n{tail}"
    is_clipped = any(len(line) > LONGEST_LINE for line in shown)
    losses = [note for note, applies in ((OMITTED_NOTE, not is_whole), (CLIPPED_NOTE, is_clipped)) if applies]
    return STUB.format(
        known=known if len(known) <= LONGEST_ID else f"{known[:LONGEST_ID]}...",
        path=f"/large_tool_results/{known.replace('.', '_').replace('/', '_').replace(chr(92), '_')}",
        note=(WHOLE if is_whole else ENDS) + (f" ({'; '.join(losses)})" if losses else ""),
        preview=preview,
    )


def _numbered(lines: Sequence[str], first: int) -> str:
    width = len(str(first + len(lines) - 1))
    return "\n".join(f"{number:>{width}}  {line[:LONGEST_LINE]}" for number, line in enumerate(lines, first))


PUBLISHED = (
    Published(
        name="deepagents_eviction",
        new=LargeResultEviction,
        tool="deepagents",
        source=(
            "github.com/langchain-ai/deepagents, libs/deepagents/deepagents/middleware/filesystem.py and "
            "_message_eviction.py, deepagents 0.7.32 (2026-10-23): FilesystemMiddleware"
        ),
        decides=(
            "A tool result of more than 80,000 characters (20,000 estimated tokens) is written to a file before the "
            "model sees it. The model gets the path and the first and last 5 lines, each cut at 1,000 characters."
        ),
        defaults=(
            "tool_token_limit_before_evict 20,000; never results of ls, glob, grep, read_file, edit_file, write_file "
            "and delete, by these names"
        ),
        left_out=(
            "User messages of more than 50,000 estimated tokens, which are evicted too; the summaries that deepagents "
            "writes near the end of the context window; shorter previews of commands in some sandboxes."
        ),
        idle="With results of up to 80,000 characters: most agents cut their results at less.",
        checked="deepagents 0.7.32",
        is_arrival=True,
    ),
)
