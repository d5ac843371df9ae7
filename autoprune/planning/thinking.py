"""Policies for thinking blocks after an edit, on models that bind each block to everything before it. Edits nothing.

Source: Anthropic's documentation, "Preserved thinking" and "Prefix checks on thinking blocks". On newer Claude models a
thinking block is valid only while the system prompt, the tools and the messages before it are unchanged; otherwise the
API answers with status 400. A model or family that is not known here is taken to be new. Claude Mythos 5.1 signs its
blocks too, but does not check them.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

from autoprune.conversation.edits import Placeholder, Reason, Replace
from autoprune.conversation.transcript import Entry, Path, Thought, ToolResult
from autoprune.errors import SettingsError, did_you_mean
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.tool_inputs import ToolInputs

# The first version of each family that binds thinking.
FIRST_BINDING = {"opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5), "fable": (5, 1), "mythos": (5, 2)}
# Names of older models, after "claude", in which no version follows the family: claude-v2, claude-3-opus.
OLD_NAMES = re.compile(r"[^a-z\d]*(?:v?[1-4](?!\d)|instant|mythos-preview)")
# The first version in a name: 5-5 or 5.5, but not a date, Bedrock's -v1:0, or 1m for a long window.
VERSION = re.compile(r"(?<![a-z\d])\d{1,2}(?:[-._]\d{1,2})*(?![a-z\d])")
BETA = "thinking-binding-controls-2026-08-01"
BETA_HEADER = "anthropic-beta"
BETA_FIELD = "anthropic_beta"  # Bedrock's: a list in the body of a request, since no header can be sent
CONTROLLED = ("adaptive", "enabled")  # the types of `thinking` that accept `block_binding`


def policy(wanted: str | None, model: str | None) -> ThinkingPolicy:
    """Look up a policy by its name. The default is `drop_block` for models that bind thinking, `report` for others.

    Raises SettingsError for an unknown policy.
    """
    if wanted is None:
        return ThinkingPolicy.DROP_BLOCK if model and _binds(model) else ThinkingPolicy.REPORT
    try:
        return ThinkingPolicy(wanted)
    except ValueError as error:
        near = did_you_mean(wanted, ThinkingPolicy)
        raise SettingsError(f"thinking_policy is {wanted!r}{near}: give one of {', '.join(ThinkingPolicy)}") from error


def _binds(model: str) -> bool:
    """Return whether a model binds thinking: any Claude except those known to be older.

    Providers spell names differently: "anthropic/claude-opus-5.5", "us.anthropic.claude-opus-5-5-v1:0".
    """
    _, claude, name = model.lower().rpartition("claude")
    if not claude or OLD_NAMES.match(name):
        return False
    first = next((first for family, first in FIRST_BINDING.items() if family in name), ())
    found = VERSION.search(name)
    return found is None or tuple(map(int, re.findall(r"\d+", found[0]))) >= first


@dataclass(frozen=True)
class PolicyOutcome:
    """The result of a policy for a plan: API parameters, notes, and the thinking to remove now and later."""

    parameters: Mapping[str, object]
    stripped: tuple[Thought, ...] = ()
    stripped_later: tuple[Thought, ...] = ()
    notes: tuple[str, ...] = ()


NO_OUTCOME = PolicyOutcome({})


def outcome(chosen: ThinkingPolicy, plan: Plan) -> PolicyOutcome:
    """Apply a policy to the thinking blocks after an edit, or after a result that was cleared earlier."""
    end: Path = (len(plan.transcript.entries),)
    edited = plan.first_changed or end
    if chosen is ThinkingPolicy.STRIP:
        return _report_stripped(plan, _thoughts_after(plan, plan.changed or end))
    unchanged = PolicyOutcome({}, plan.stripped)
    if chosen is ThinkingPolicy.DROP_BLOCK:
        behind = _thoughts_after(plan, min(edited, plan.changed or end))
        return replace(unchanged, parameters=drop_block(behind)) if behind else unchanged
    if chosen is ThinkingPolicy.REFUSE:
        return replace(_report_refused(plan), stripped=plan.stripped)
    behind = _thoughts_after(plan, edited)
    if not behind:
        return unchanged
    number = f"{len(behind)} thinking block{'s stand' if len(behind) > 1 else ' stands'} behind the first edit"
    note = f"{number}; models that bind thinking to its prefix refuse it: see thinking_policy"
    return replace(unchanged, notes=(note,))


def _report_refused(plan: Plan) -> PolicyOutcome:
    """Note how many results were kept because thinking follows them, if the prompt is over its limit.

    The walk edited only results that no thinking followed at that time; later thinking is bound to the edited messages.
    """
    bound = sum(reason is Reason.BOUND for reason in plan.kept.values())
    note = f"{bound} tool results were kept for the thinking behind them (thinking_policy 'refuse')"
    return PolicyOutcome({}, notes=(note,)) if bound and plan.tokens > plan.limit else NO_OUTCOME


def drop_block(thoughts: Sequence[Thought] = ()) -> dict[str, object]:
    """Return the request parameters that make the API drop thinking blocks whose prefix has changed.

    The parameters are for Anthropic's SDK or, if the thoughts are Bedrock's, for `converse`, which passes unknown
    fields to the model. `thinking` needs a type: adaptive is the default of the models that bind.
    """
    setting = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    if thoughts and thoughts[-1].kind == "bedrock":
        return {"additionalModelRequestFields": {BETA_FIELD: [BETA], "thinking": setting}}
    return {"extra_headers": {BETA_HEADER: BETA}, "thinking": setting}


def _thoughts_after(plan: Plan, first: Path) -> list[Thought]:
    """Return the thinking blocks after the first change, in messages that are not removed."""
    entries = plan.transcript.entries[int(first[0]) :]
    behind = (thought for entry in entries for thought in entry.thinking if thought.location.path > first)
    return [thought for thought in behind if thought.location.message not in plan.gone]


def _report_stripped(plan: Plan, behind: Sequence[Thought]) -> PolicyOutcome:
    """Report the thinking that the walk removed, and note the thinking that remains behind an edit."""
    out = set(plan.stripped)
    left = [thought for thought in behind if thought not in out]
    number = f"{len(left)} thinking block{'s stay' if len(left) > 1 else ' stays'} behind an edit"
    note = f"{number} (of the latest turn, or alone in a message): models that bind thinking refuse them"
    stripped_later = tuple(thought for thought in left if not thought.is_alone)
    return PolicyOutcome({}, plan.stripped, stripped_later, notes=(note,) if left else ())


def thinking_lost(plan: Plan) -> Sequence[Thought]:
    """Find the thinking blocks that were stripped, or that the API refuses because of an edit.

    A block is valid with the prompt that the model had when it wrote the block, so an edit invalidates only the blocks
    after it that were written before its request. This assumes that every request was pruned.
    """
    if plan.changed is None:
        return ()
    requests = plan.transcript.requests
    changes = [(edit.part.location.path, requests[edit.request]) for edit in plan.edits]
    changes += [((plan.start(fold),), requests[fold.request]) for fold in plan.folds]
    changes.sort()
    first = [path for path, _ in changes]
    # For each number of changes, the message before which all thinking after these changes is older than one of them.
    older = list(accumulate((end for _, end in changes), max, initial=0))
    stripped = set(plan.stripped)
    sent = (entry for at, entry in enumerate(plan.transcript.entries) if at not in plan.gone)
    return [
        thought
        for thought in chain.from_iterable(entry.thinking for entry in sent)
        if thought in stripped or thought.location.message < older[bisect_left(first, thought.location.path)]
    ]


def merged(parameters: Mapping[str, object], into: Mapping[str, object]) -> dict[str, Any]:
    """Merge parameters into the arguments of a request: mappings are merged, beta headers are joined.

    The `betas` of Anthropic's SDK are joined too, since a header overrides them. In `additionalModelRequestFields` of
    Bedrock's `converse`, lists of betas are joined. The request's type of `thinking` is kept. If the request turns
    thinking off, thinking remains off: the API then accepts no `block_binding`, and earlier thinking should be removed
    (thinking_policy "strip").
    """
    both = dict(into)
    for name, value in parameters.items():
        present = _beta_headers(both) if name == "extra_headers" else both.get(name)
        if name == "thinking" and isinstance(present, Mapping) and isinstance(value, Mapping):
            both[name] = _merge_thinking(value, present)
        elif isinstance(present, Mapping) and isinstance(value, Mapping):
            both[name] = merged(value, present)
        elif name == BETA_HEADER:
            both[name] = ",".join(dict.fromkeys((*_split_betas(present), *_split_betas(value))))
        elif name == BETA_FIELD and isinstance(present, list | tuple) and isinstance(value, list | tuple):
            both[name] = list(dict.fromkeys((*present, *value)))
        else:
            both[name] = value
    return both


def _merge_thinking(setting: Mapping[str, object], known: Mapping[str, object]) -> Mapping[str, object]:
    """Merge a setting into a request's `thinking`, if the type of thinking accepts settings."""
    kind = known.get("type", setting.get("type"))
    return merged({**setting, "type": kind}, known) if kind in CONTROLLED else known


def _beta_headers(request: Mapping[str, object]) -> Mapping[str, object]:
    """Return the headers of a request, including its `betas` as a header. Names of headers are not case-sensitive."""
    betas, extra = request.get("betas"), request.get("extra_headers")
    headers: dict[str, object] = {BETA_HEADER: ",".join(map(str, betas))} if isinstance(betas, list | tuple) else {}
    for name, value in extra.items() if isinstance(extra, Mapping) else ():
        headers[BETA_HEADER if str(name).lower() == BETA_HEADER else name] = value
    return headers


def _split_betas(header: object) -> list[str]:
    return [word.strip() for word in header.split(",") if word.strip()] if isinstance(header, str) else []


# Edits that keep part of the result, so that only a marker in their text shows them.
CUT_REASONS = (Reason.CLAMPED, Reason.SHORTENED)


class Stripping:
    """Track the first change in a conversation and the thinking blocks after it.

    A thinking block is only valid with the messages that preceded it, so blocks after a change are stripped once their
    turn is over. Changes are permanent, so later thinking comes after the first change too. In pruned output that is
    passed back, placeholders, cut results, folded steps and the summary show what was changed. A dropped message leaves
    no trace, so with a strategy that drops messages, all thinking counts as after a change.
    """

    def __init__(
        self,
        placeholder: Placeholder,
        tool_inputs: ToolInputs | None,
        is_ours: Callable[[ToolResult], bool],
        *,
        strips: bool,
    ) -> None:
        """Start before the first message. Without `strips`, only the first change is tracked.

        `is_ours` recognizes texts that the strategy or its clamp wrote.
        """
        self.first: Path | None = None
        self.stripped: list[Thought] = []
        self._placeholder = placeholder
        self._tool_inputs = tool_inputs
        self._is_ours = is_ours
        self._strips = strips
        self._finished: list[Thought] = []  # in turns that are over
        self._latest: list[Thought] = []  # in the current turn
        self._has_alone = False

    def append(self, at: int, entry: Entry) -> None:
        """Add message number `at`, the next one."""
        if entry.is_users:
            self._finished += self._latest
            self._latest = []
        # Providers reject empty messages, so thinking that is alone in its message stays.
        self._has_alone = self._has_alone or any(thought.is_alone for thought in entry.thinking)
        self._latest += (thought for thought in entry.thinking if self._strips and not thought.is_alone)
        if self.first is None:
            self.first = min(self._earlier_changes(at, entry), default=None)

    def _earlier_changes(self, at: int, entry: Entry) -> list[Path]:
        """Return the paths of the parts of a message that an earlier prune changed."""
        results = (each for each in entry.results if self._placeholder.has_replaced(each) or self._is_ours(each))
        inputs = (part for call in entry.calls for part in call.inputs)
        shortened = (part for part in inputs if self._tool_inputs and self._tool_inputs.was_made(part))
        folded: list[Path] = [(at,)] if entry.folded else []
        return [*folded, *(part.location.path for part in (*results, *shortened))]

    def record_edit(self, edit: Replace) -> None:
        """Record an edit if its text shows that the part was edited."""
        # A walk over pruned output that is passed back could not find an edit without a trace.
        part = edit.part
        if isinstance(part, ToolResult) and edit.reason in CUT_REASONS:
            stop = part.start + len(edit.text)
            if not self._is_ours(replace(part, piece=part.with_text(edit.text), stop=stop)):
                return
        self.record_change(part.location.path)

    def record_change(self, path: Path) -> None:
        """Record the path of a permanent change."""
        self.first = path if self.first is None else min(path, self.first)

    def remove_messages(self, gone: Collection[int]) -> None:
        """Forget the thinking in removed messages."""
        for thoughts in (self.stripped, self._finished, self._latest):
            thoughts[:] = (thought for thought in thoughts if thought.location.message not in gone)

    def strip_finished(self) -> list[Thought]:
        """Strip all thinking if none has to stay, which may be bound to it; return these blocks."""
        if self._latest or self._has_alone:
            return []
        due, self._finished = self._finished, []
        self.stripped += due
        return due

    def strip_due(self) -> list[Thought]:
        """Strip the thinking blocks after the first change whose turns are over, and return these blocks."""
        first = self.first
        if first is None or not self._finished:
            return []
        due = [thought for thought in self._finished if thought.location.path > first]
        if due:
            self._finished = [thought for thought in self._finished if thought.location.path < first]
            self.stripped += due
        return due
