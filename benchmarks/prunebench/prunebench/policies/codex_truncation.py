"""Codex's truncation: the middle of an output of more than 10,000 tokens is removed before the model sees it."""

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Part

from prunebench.policies._published import Published

TEXT = "Warning: truncated output (original token count: {tokens})\n{about}\n\n{head}…{removed} tokens truncated…{tail}"
LINES, OMITTED = "Total output lines: {lines}", "... {removed} bytes omitted ..."
BYTES_PER_TOKEN = 4
MOST = 1 << 20  # bytes of an output that Codex holds


class CodexTruncation:
    """Cut each output to its first and last bytes, in equal parts."""

    def __init__(self, tokens: int = 10_000) -> None:
        """Keep `tokens` tokens of four bytes."""
        self._limit = tokens * BYTES_PER_TOKEN
        self._read = 0
        self._texts: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Cut the outputs that are new."""
        for result in request.results[self._read :]:
            output = result.text.encode("utf-8", "replace")
            if len(output) > self._limit:
                self._texts[result] = self._cut(output)
        self._read = len(request.results)
        return Changes(dict(self._texts))

    def _cut(self, output: bytes) -> str:
        size = len(output)
        about = LINES.format(lines=output.count(b"\n") + (not output.endswith(b"\n")))
        if size > MOST:
            about = OMITTED.format(removed=size - MOST)
            ends = (output[: MOST // 2], output[-MOST // 2 :])
            output = f"\n{about}\n".join(end.decode("utf-8", "replace") for end in ends).encode()
        head, tail = self._limit // 2, self._limit - self._limit // 2
        return TEXT.format(
            tokens=_tokens(size),
            about=about,
            head=output[:head].decode("utf-8", "ignore"),
            removed=_tokens(len(output) - self._limit),
            tail=output[len(output) - tail :].decode("utf-8", "ignore"),
        )


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


_POLICY: type[ContextPolicy] = CodexTruncation
PUBLISHED = (
    Published(
        name="codex_truncation",
        new=CodexTruncation,
        tool="Codex",
        source="npm @openai/codex 0.169.0 (2026-11-13), codex-rs/utils/output-truncation/src/lib.rs",
        decides="At arrival, an output of more than 10,000 tokens (of four bytes) keeps 20,000 bytes at each end, with "
        "a warning above them and the number of removed tokens between them.",
        defaults="10,000 tokens, for all models that the program knows; it is on.",
        left_out="The summary of a full conversation, limits that the model asks for in a call, the lines on time and "
        "exit code that Codex writes above an output. All results are cut like those of commands.",
        idle="If no output has more than 40,000 bytes, which is rare in recorded sessions: they were limited already.",
        checked="@openai/codex 0.169.0, its program",
        is_arrival=True,
    ),
)
