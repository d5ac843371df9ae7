"""Dynamic Context Pruning for opencode: clear repeated calls, and the inputs of calls that failed some requests ago."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from autoprune.apps.policies import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Part, ToolCall, ToolResult

from prunebench.policies._published import Published
from prunebench.policies._tool_kinds import call_kind

REMOVED = "[Output removed to save context - information superseded or no longer needed]"
FAILED_INPUT = "[input removed due to failed tool call]"
QUESTIONS = "[questions removed - see output for user's answers]"
KEPT_OUTPUTS = frozenset({"edit", "write", "question"})
OTHER_EDITS = frozenset({"apply_patch", "multiedit"})  # opencode has them, and their outputs are removed


class DynamicContextPruning:
    """Keep only the newest of equal calls, and shorten failed calls. What is removed stays removed."""

    def __init__(self, turns: int = 4) -> None:
        """Shorten failed calls after `turns` further answers of the model."""
        self._turns = turns
        self._marked: set[ToolResult] = set()
        self._texts: dict[Part, str] = {}

    def changes(self, request: RequestView) -> Changes:
        """Mark repeated and failed calls, and remove what they no longer need."""
        newest: dict[str, ToolResult] = {}
        for result in request.results:
            if result not in self._marked and result.call:
                same = newest.get(_signature(result.call))
                if same:
                    self._mark(same)
                newest[_signature(result.call)] = result
        for result in newest.values():
            if result.is_error and request.number - 1 - result.request >= self._turns:
                self._mark(result)
        return Changes(dict(self._texts))

    def _mark(self, result: ToolResult) -> None:
        self._marked.add(result)
        if result.is_error:
            self._texts.update(_new_inputs(result.call, FAILED_INPUT, lambda _, value: isinstance(value, str)))
        elif _kind(result) == "question":
            self._texts.update(_new_inputs(result.call, QUESTIONS, lambda name, _: name == "questions"))
        elif _kind(result) not in KEPT_OUTPUTS or result.tool.lower() in OTHER_EDITS:
            self._texts[result] = REMOVED


def _kind(result: ToolResult) -> str:
    return call_kind(result.tool, _arguments(result.call) if result.call else None)


def _signature(call: ToolCall) -> str:
    """Return the tool and its arguments, whatever their order, without those that are null."""
    arguments = _arguments(call)
    if isinstance(arguments, Mapping):
        arguments = {name: value for name, value in arguments.items() if value is not None}
    return f"{call.name}::{json.dumps(arguments, sort_keys=True, default=str)}"


def _arguments(call: ToolCall) -> object:
    try:
        return json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
    except ValueError:
        return call.arguments


def _new_inputs(call: ToolCall | None, text: str, is_replaced: Callable[[str, Any], bool]) -> Mapping[Part, str]:
    """Return the inputs of a call in which a text replaces some of the arguments."""
    arguments = _arguments(call) if call else None
    if not call or not isinstance(arguments, Mapping):
        return {}
    shorter = {name: text if is_replaced(name, value) else value for name, value in arguments.items()}
    if shorter == arguments:
        return {}
    return {
        part: json.dumps(shorter, ensure_ascii=False) if part.is_json else text
        for part in call.inputs
        if not part.is_fixed
    }


_POLICY: type[ContextPolicy] = DynamicContextPruning
PUBLISHED = (
    Published(
        name="opencode_dcp",
        new=DynamicContextPruning,
        tool="Dynamic Context Pruning (opencode)",
        outdated="As before version 3.0. As of 3.1.14 (2026-08-24) nothing is edited until the model calls its "
        "compress tool.",
        source="npm @tarquinen/opencode-dcp 3.1.14 (2026-08-24), lib/strategies/deduplication.ts and purge-errors.ts",
        decides="At each request, the output of a call is replaced by one line if a later call has the same tool and "
        "arguments. Of calls that failed four answers ago, the text arguments are replaced; the error stays.",
        defaults="Both on, errors after four answers. Since version 3.0 both run only when the model calls the "
        "plugin's compress tool; here they run at each request, as before.",
        left_out="The compress tool, with which the model replaces ranges by its summaries, and its instructions, "
        "reminders and message identifiers in the prompt.",
        idle="Without calls that are repeated exactly and without errors.",
        checked="@tarquinen/opencode-dcp 3.1.14",
    ),
)
