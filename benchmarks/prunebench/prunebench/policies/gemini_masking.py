"""Gemini CLI's tool output masking: keep the newest 50,000 tokens of outputs, and shorten the older ones in batches."""

import re

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Part, ToolResult

from prunebench.policies._javascript import cut, json_text, units
from prunebench.policies._published import Published
from prunebench.policies._tool_kinds import tool_kind

SNIPPET = "<tool_output_masked>\n{preview}\n\nOutput too large. Full output available at: {path}\n</tool_output_masked>"
MASKED = "<tool_output_masked"
# The file that would hold the output: of the user "user" in the project "project", with a session and a random ending.
PATH = (
    "/home/user/.gemini/tmp/project/tool-outputs/session-00000000-0000-4000-8000-000000000000/{tool}_{call}_abcdef.txt"
)
EXEMPT = frozenset({"skill", "question", "plan_mode"})
SHELL = "run_shell_command"
SECTIONS = re.compile(r"^(Output|Error|Exit Code|Signal|Background PIDs|Process Group PGID): ", re.MULTILINE)
FEW_LINES, SHOWN_LINES = 20, 10
SHORT, SHOWN = 500, 250  # characters of JSON


class GeminiToolOutputMasking:
    """Mask the outputs that are older than the newest `protect` tokens. Masked outputs stay masked.

    The messages that the request adds are not looked at: they are not in the history yet.
    """

    def __init__(self, protect: int = 50_000, minimum: int = 30_000) -> None:
        """Mask only if at least `minimum` tokens of outputs are not protected."""
        self._protect, self._minimum = protect, minimum
        self._masked: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Mask if enough has accumulated."""
        old, total, protected = [], 0, 0
        unseen = set(request.unseen)
        for result in reversed(request.results):
            if result in unseen or result in self._masked or tool_kind(result.tool) in EXEMPT or MASKED in result.text:
                continue
            tokens = _tokens(result, result.text)
            if protected <= self._protect:
                protected += tokens
            if protected > self._protect:
                old.append(result)
                total += tokens
        if total >= self._minimum:
            self._mask(old)
        return Changes(dict(self._masked))

    def _mask(self, results: list[ToolResult]) -> None:
        """Replace the outputs that are longer than their preview."""
        for result in results:
            name = re.sub(r"[^a-zA-Z0-9_-]", "_", _tool(result)).lower()
            call = re.sub(r"[^a-zA-Z0-9_-]", "_", (result.call and result.call.id) or "").lower()
            text = SNIPPET.format(preview=_preview(result), path=PATH.format(tool=name, call=call))
            if _tokens(result, text, is_masked=True) < _tokens(result, result.text):
                self._masked[result] = text


def _tool(result: ToolResult) -> str:
    return SHELL if tool_kind(result.tool) == "shell" else result.tool


def _response(result: ToolResult) -> dict[str, str]:
    return {"error" if result.is_error else "output": result.text}


def _tokens(result: ToolResult, text: str, *, is_masked: bool = False) -> int:
    """Estimate the tokens of an output: a quarter of the characters of the tool's name and of the response's JSON."""
    response = {"output": text} if is_masked else _response(result)
    return (units(_tool(result)) + units(json_text(response))) // 4


def _preview(result: ToolResult) -> str:
    if _tool(result) == SHELL:
        return _shell_preview(result)
    content = json_text(_response(result), indent=2)
    if units(content) <= SHORT:
        return content
    return f"{cut(content, 0, SHOWN)}\n... [TRUNCATED] ...\n{cut(content, -SHOWN)}"


def _shell_preview(result: ToolResult) -> str:
    """Shorten the output of a command, and keep its exit code and its other sections."""
    if result.is_error:
        return f"\n[Error: {result.text}]"
    before, *sections = SECTIONS.split(result.text)
    if not sections:
        return _few_lines(result.text)
    shown = [_few_lines(before.strip())] if before.strip() else []
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        shown.append(f"{name}: {_few_lines(text.strip()) if name == 'Output' else text.strip()}")
    return "\n".join(shown)


def _few_lines(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= FEW_LINES:
        return text
    head, tail = "\n".join(lines[:SHOWN_LINES]), "\n".join(lines[-SHOWN_LINES:])
    return f"{head}\n\n... [{len(lines) - 2 * SHOWN_LINES} lines omitted] ...\n\n{tail}"


_POLICY: type[ContextPolicy] = GeminiToolOutputMasking
PUBLISHED = (
    Published(
        name="gemini_tool_output_masking",
        new=GeminiToolOutputMasking,
        tool="Gemini CLI",
        source="npm @google/gemini-cli-core 0.61.0 (2026-09-25), dist/src/context/toolOutputMaskingService.js",
        decides="Before each request, the tool outputs that are older than the newest 50,000 tokens of unmasked ones "
        "are replaced by a preview and the path of a file, as soon as they have 30,000 tokens together. Of a command "
        "the preview has 10 lines at each end, of other tools 250 characters.",
        defaults="50,000 tokens protected, masked in batches of at least 30,000; it is on.",
        left_out="The summary at half of the context window, the limit of an output at arrival, thresholds that "
        "Google sets remotely, and that the model can read the file again. The file's path is a stand-in.",
        idle="Until about 80,000 tokens of outputs have accumulated.",
        checked="@google/gemini-cli-core 0.61.0",
    ),
)
