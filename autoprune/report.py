"""What a prune did, and why. Decides nothing; counts only what is asked for."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from autoprune.edits import Plan, Reason
from autoprune.statistics import figures
from autoprune.targets import target
from autoprune.tokens import scaled
from autoprune.transcript import Speaker, ToolResult


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The outcome of one prune. Tokens are the provider's where a calibration was given, else counted ones.

    `tokens_before` and `tokens_after` are what the safe zone is compared with. `fallbacks` says in words whatever was
    not done as asked. `seconds` is the time the prune took. Where the bytes of the messages alone showed that there is
    nothing to do, the report counts when it is first asked.
    """

    strategy: str
    safe_zone: int
    calibration: float
    fallbacks: tuple[str, ...]
    seconds: float
    plan_of: Callable[[], Plan]

    @cached_property
    def plan(self) -> Plan:
        """What was decided for each result."""
        return self.plan_of()

    @cached_property
    def tokens_before(self) -> int:
        """Tokens of the next prompt as it was given."""
        return scaled(self.plan.transcript.tokens, self.calibration)

    @cached_property
    def tokens_after(self) -> int:
        """Tokens of the next prompt as it was returned."""
        return scaled(self.plan.tokens, self.calibration)

    @property
    def tokens_saved(self) -> int:
        """Tokens that were saved; never below zero."""
        return self.tokens_before - self.tokens_after

    @property
    def compression_ratio(self) -> float:
        """Tokens after / tokens before; 1.0 for an empty conversation."""
        return self.tokens_after / self.tokens_before if self.tokens_before else 1.0

    @property
    def within_safe_zone(self) -> bool:
        """Whether the budget is met. If not, `floor` says what stands in the way."""
        return self.tokens_after <= self.safe_zone

    @property
    def results(self) -> int:
        """The number of tool results in the conversation."""
        return len(self.plan.transcript.results)

    @property
    def results_cleared(self) -> int:
        """The number of tool results that this prune replaced by placeholders."""
        return len(self.plan.edits)

    @property
    def first_changed_message(self) -> int | None:
        """The index of the first message that differs from the caller's; None where none does."""
        return min((edit.part.location.message for edit in self.plan.edits), default=None)

    @cached_property
    def cache_tokens_lost(self) -> int:
        """Tokens of the previous prompt, perhaps cached by the provider, that stand after this request's first edit."""
        transcript = self.plan.transcript
        last = len(transcript.requests) - 1
        fresh = [edit.part.location.message for edit in self.plan.edits if edit.request == last]
        if not fresh or last == 0:
            return 0
        cached = sum(entry.tokens for entry in transcript.entries[min(fresh) : transcript.requests[last - 1]])
        older = (edit for edit in self.plan.edits if edit.request < last and edit.part.location.message >= min(fresh))
        return scaled(cached - sum(edit.saved for edit in older), self.calibration)

    @cached_property
    def floor(self) -> Mapping[str, int]:
        """What the prompt consists of after the prune, in counted tokens; the parts add up to the whole.

        `frames` is what stands around the results in a tool's messages.
        `unseen` results may not be cleared yet, `cleared` ones are placeholders, `kept` ones are all others.
        `sent beside` is the overhead and what primes the reply.
        """
        parts = dict.fromkeys(
            ("system", "user", "assistant", "frames", "other", "unseen", "kept", "cleared", "sent beside"), 0
        )
        parts["sent beside"] = self.plan.transcript.fixed_tokens
        for entry in self.plan.transcript.entries:
            frame = entry.tokens - sum(result.tokens for result in entry.results)
            parts[PARTS[entry.speaker]] += frame
        saved = {edit.part: edit.saved for edit in self.plan.edits}
        for result in self.plan.transcript.results:
            parts[self._part(result)] += result.tokens - saved.get(result, 0)
        return parts

    def _part(self, result: ToolResult) -> str:
        reason = self.plan.kept.get(result, Reason.ALREADY_CLEARED)
        return {Reason.UNSEEN: "unseen", Reason.ALREADY_CLEARED: "cleared"}.get(reason, "kept")

    @cached_property
    def tools(self) -> Mapping[str, Mapping[str, int]]:
        """Per tool, largest saving first: its results, their tokens, how many were cleared, the tokens saved."""
        table: dict[str, dict[str, int]] = {}
        saved = {edit.part: edit.saved for edit in self.plan.edits}
        for result in self.plan.transcript.results:
            row = table.setdefault(result.tool, dict.fromkeys(("results", "tokens", "cleared", "saved"), 0))
            row["results"] += 1
            row["tokens"] += result.tokens
            row["cleared"] += result in saved
            row["saved"] += saved.get(result, 0)
        return dict(sorted(table.items(), key=lambda item: (-item[1]["saved"], -item[1]["tokens"], item[0])))

    @cached_property
    def rows(self) -> tuple[Mapping[str, object], ...]:
        """Per tool result, oldest first: where it stands, what it is, whether it was cleared, and why."""
        edits = {edit.part: edit for edit in self.plan.edits}
        turns = self.plan.transcript.turns
        rows = []
        for result in self.plan.transcript.results:
            edit = edits.get(result)
            reason = edit.reason if edit else self.plan.kept[result]
            rows.append(
                {
                    "message": result.location.message,
                    "turn": turns[result.location.message],
                    "request": result.request,
                    "tool": result.tool,
                    "target": target(result.call),
                    "failed": result.is_error,
                    "tokens": result.tokens,
                    "tokens_after": result.tokens - (edit.saved if edit else 0),
                    "cleared": edit is not None,
                    "reason": reason.value,
                    "why": reason.sentence,
                }
            )
        return tuple(rows)

    @property
    def statistics(self) -> dict[str, int | float]:
        """The statistics of `get_cleanup_statistics`, for this prune."""
        messages = len(self.plan.transcript.entries)
        return figures(self.tokens_before, self.tokens_after, messages, self.results_cleared)

    @property
    def fields(self) -> dict[str, object]:
        """What a log line carries besides its text."""
        return {
            "strategy": self.strategy,
            "safe_zone": self.safe_zone,
            "within_safe_zone": self.within_safe_zone,
            "calibration": self.calibration,
            **self.statistics,
            "seconds": self.seconds,
            "fallbacks": list(self.fallbacks),
        }

    def to_dict(self) -> dict[str, object]:
        """Everything as plain JSON values."""
        return {
            **self.fields,
            "tool_results": self.results,
            "first_changed_message": self.first_changed_message,
            "cache_tokens_lost": self.cache_tokens_lost,
            "floor": dict(self.floor),
            "tools": {tool: dict(row) for tool, row in self.tools.items()},
            "results": [dict(row) for row in self.rows],
        }

    def to_json(self, **options: object) -> str:
        """`to_dict` as JSON text; `options` are those of `json.dumps`."""
        return json.dumps(self.to_dict(), **{"ensure_ascii": False, **options})  # type: ignore[arg-type]

    def __str__(self) -> str:
        """One line for a person."""
        state = "within" if self.within_safe_zone else "over"
        line = (
            f"{self.strategy}: {self.tokens_before:,} → {self.tokens_after:,} tokens, {self.results_cleared} of "
            f"{self.results} tool results cleared, {state} the safe zone of {self.safe_zone:,}"
        )
        if not self.within_safe_zone:
            part, tokens = max(self.floor.items(), key=lambda item: item[1])
            line += f" ({part}: {tokens:,})"
        return "; ".join((line, *self.fallbacks))

    __repr__ = __str__

    def __rich__(self) -> object:
        """What `rich.print` shows."""
        from autoprune.tables import summary

        return summary(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the line, the tools, and what is left where that is still too much."""
        tools = [[tool, *(f"{figure:,}" for figure in row.values())] for tool, row in self.tools.items()]
        page = f"<p><b>autoprune</b> {escape(str(self))}</p>"
        page += _html(("tool", "results", "tokens", "cleared", "saved"), tools)
        if not self.within_safe_zone:
            left = [[FLOOR[part], f"{tokens:,}"] for part, tokens in self.floor.items() if tokens]
            page += _html(("what is left", "tokens"), left)
        return page


def _html(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


FLOOR = {
    "system": "system and developer messages",
    "user": "the user's words",
    "assistant": "the assistant's words and calls",
    "frames": "what stands around the tools' results",
    "other": "messages of other roles",
    "unseen": "results that the model has not seen yet",
    "kept": "results that were kept",
    "cleared": "placeholders",
    "sent beside": "sent beside the messages",
}
PARTS = {
    Speaker.SYSTEM: "system",
    Speaker.USER: "user",
    Speaker.MODEL: "assistant",
    Speaker.TOOL: "frames",
    Speaker.OTHER: "other",
}
