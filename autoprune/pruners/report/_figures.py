"""Compute the figures of a report: rows of results, tools and folds, and statistics of two conversations."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from autoprune.conversation.edits import (
    AnyReason,
    Fold,
    Placeholder,
    Reason,
    Replace,
    remove_thinking,
    rewrite,
    without_payloads,
)
from autoprune.conversation.folded_steps import split_blocks
from autoprune.conversation.messages import canonical, fields_of, items_of, with_item
from autoprune.conversation.summary import GAP, content_of, with_separate_summary
from autoprune.conversation.transcript import Entry, Part, Speaker, Thought, ToolCall, ToolResult, Transcript
from autoprune.facts.calls import target
from autoprune.facts.outcomes import is_cleared
from autoprune.planning.plan import Plan
from autoprune.pruners.memory import Reading
from autoprune.wire import roles_in

FLOOR = {
    "system": "system and developer messages",
    "summary": "what replaces folded messages",
    "user": "the user's words",
    "assistant": "the assistant's words and calls",
    "frames": "what stands around the tools' results",
    "other": "messages of other roles",
    "answers": "what the user said through tools",
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


def floor(plan: Plan) -> dict[str, int]:
    """Count the tokens of each part of the prompt; the parts add up to the whole.

    Tokens that a provider reported beyond the count belong to "sent beside", such as a system prompt or tool schemas.
    """
    parts = dict.fromkeys(FLOOR, 0)
    parts["sent beside"] = plan.transcript.fixed_tokens + plan.beyond
    kept = [entry for at, entry in enumerate(plan.transcript.entries) if at not in plan.gone]
    for entry in kept:
        parts[PARTS[entry.speaker]] += entry.tokens - sum(result.tokens for result in entry.results)
        for result in entry.results:
            edit = plan.results.get(result)
            parts[_part(plan, result)] += result.tokens - (edit.saved if edit else 0)
    parts["assistant"] -= sum(edit.saved for edit in plan.inputs.values())
    parts["assistant"] -= sum(thought.tokens for thought in plan.stripped)
    if plan.running and plan.running.at not in plan.gone:
        parts["user"] -= plan.running.tokens
    # The rest is the summary or the lines of folded steps, or without them, of user messages that were joined.
    rest = plan.tokens - sum(parts.values())
    parts["summary" if plan.summarized or plan.running else "user"] += rest
    return parts


def _part(plan: Plan, result: ToolResult) -> str:
    why = reason(plan, result)
    if why in (Reason.ALREADY_CLEARED, Reason.USER_ANSWER):
        return "cleared" if why is Reason.ALREADY_CLEARED else "answers"
    return "unseen" if plan.is_unseen(result) else "kept"


def reason(plan: Plan, result: ToolResult) -> AnyReason:
    """Return the reason for a result's state after the prune."""
    if result in plan.kept:
        return plan.kept[result]
    edit = plan.results.get(result)
    if edit is None:
        return plan.gone[result.location.message].reason
    return edit.reason if edit.reason in (Reason.CLAMPED, Reason.SHORTENED, Reason.RESTORED) else Reason.ALREADY_CLEARED


def compaction_notes(plan: Plan) -> tuple[str, ...]:
    """Return what a compaction by the provider, done or asked for, means for the prune."""
    entries, notes = plan.transcript.entries, []
    if entries and entries[0].is_replaced:
        at = next(at for at, entry in enumerate(entries) if not entry.is_replaced)
        notes.append(
            f"the provider replaced all messages before message {at} by the compaction in it: they are not in the "
            "prompt, so they are neither counted nor changed"
        )
    if entries and entries[-1].asks_to_compact:
        notes.append("the last item asks the provider for a compaction, so the conversation is sent whole")
    return tuple(notes)


def tools(plan: Plan) -> Mapping[str, Mapping[str, int]]:
    """Count the results of each tool, their tokens, the edited results and the tokens saved, largest saving first."""
    table: dict[str, dict[str, int]] = {}
    for result in plan.transcript.results:
        edit = plan.results.get(result)
        row = table.setdefault(result.tool, dict.fromkeys(("results", "tokens", "cleared", "saved"), 0))
        row["results"] += 1
        row["tokens"] += result.tokens
        row["cleared"] += edit is not None
        row["saved"] += edit.saved if edit else 0
    for part, edit in plan.inputs.items():
        table[plan.answers[part].tool]["saved"] += edit.saved
    return dict(sorted(table.items(), key=lambda item: (-item[1]["saved"], -item[1]["tokens"], item[0])))


def result_row(plan: Plan, result: ToolResult) -> dict[str, object]:
    """Create the row of a result: its location, tokens before and after, state and reason."""
    edit = plan.results.get(result)
    fold = plan.gone.get(result.location.message)
    why = fold.reason if fold else edit.reason if edit else plan.kept[result]
    row = part_row(plan, result, edit, why)
    tokens_after = 0 if fold else row["tokens_after"]
    state = {"folded": not fold.is_drop, "dropped": fold.is_drop} if fold else {}
    return {**row, **state, "tokens_after": tokens_after, "target": target(result.call), "failed": result.is_error}


def part_row(plan: Plan, part: Part, edit: Replace | None, why: AnyReason) -> dict[str, object]:
    """Create the row of a result or of a call's argument, with the columns that both have."""
    return {
        "message": part.location.message,
        "turn": plan.transcript.turns[part.location.message],
        "request": part.request,
        "tool": part.tool,
        "tokens": part.tokens,
        "tokens_after": part.tokens - (edit.saved if edit else 0),
        "cleared": edit is not None,
        "reason": str(why),
        "why": why.sentence,
    }


def fold_row(fold: Fold) -> dict[str, object]:
    """Create the row of a fold or drop: its messages, tokens and reason."""
    return {
        "messages": list(fold.messages),
        "request": fold.request,
        "tokens": fold.saved,
        "dropped": fold.is_drop,
        "room": fold.room,
        "reason": str(fold.reason),
        "why": fold.reason.sentence,
    }


# A provider's prompt cache holds a prompt up to its first changed message.


def tokens_lost(plan: Plan) -> int:
    """Count the tokens of the previous prompt from the first edit of this request on."""
    transcript = plan.transcript
    last = len(transcript.requests) - 1
    fresh = [edit.part.location.message for edit in plan.edits if edit.request == last]
    folds = [fold for fold in plan.folds if fold.request == last]
    fresh += map(plan.start, folds)
    if not fresh or last == 0:
        return 0
    first = min(fresh)
    earlier = [fold for fold in plan.folds if fold.request < last]
    before = {at for fold in earlier for at in fold.messages}
    still = (at for at in range(first, transcript.requests[last - 1]) if at not in before)
    texts = sum(fold.room for fold in earlier if fold.text and plan.start(fold) >= first)
    cached = texts + sum(transcript.entries[at].tokens for at in still)
    # Earlier edits already saved their tokens in the previous prompt.
    after = [edit for edit in plan.edits if edit.part.location.message >= first]
    return cached - sum(edit.saved if edit.request < last else edit.saved_before for edit in after)


def stable_boundary(plan: Plan) -> int | None:
    """Find the boundary that `Report.stable_boundary` describes.

    If finished steps may be folded, the message before the first answer may get their text.
    """
    if plan.head is not None:
        return plan.head - 1 if plan.head else None
    entries = plan.transcript.entries
    answered = (at for at, entry in enumerate(entries) if plan.folds_steps and entry.speaker is Speaker.MODEL)
    results = (result for result in plan.transcript.results if not reason(plan, result).lasts)
    may_change: tuple[Part | Thought, ...] = (*results, *plan.open_inputs, *plan.stripped_later)
    first = min((part.location.message for part in may_change), default=len(entries))
    first = min(first, next(answered, len(entries)) - 1) if plan.folds_steps else first
    return first - 1 if first > 0 else None


def cleanup_statistics(
    original: list[Any], pruned: list[Any], reading: Reading, overhead: int, placeholder: Placeholder
) -> dict[str, int | float]:
    """Compute the statistics of two versions of a conversation, even if other code dropped or changed messages.

    `placeholder` recognizes cleared results. `overhead` are the tokens that are sent beside the messages.
    """
    before, after = (_with_separate_texts(messages, reading) for messages in (original, pruned))
    cleaned, calls, removed, summarized = _count_changes(before, after, placeholder)
    if now := reading.summary(pruned):
        # The summary's mark records the number of messages that it replaces.
        was = reading.summary(original)
        is_new = was and (was.text, was.messages, was.room) != (now.text, now.messages, now.room)
        gone = removed + summarized - bool(is_new)  # the old summary is gone too, but is not counted
        summarized = min(gone, max(0, now.messages - (was.messages if was else 0)))
        removed = gone - summarized
    tokens = (reading.transcript(messages, overhead).tokens for messages in (original, pruned))
    return {
        **token_figures(*tokens),
        "tool_results_cleaned": cleaned,
        "tool_calls_cleaned": calls,
        "messages_removed": removed,
        "messages_summarized": summarized,
        "total_messages": len(original),
    }


def token_figures(original: int, pruned: int) -> dict[str, int | float]:
    """Compute the statistics about tokens."""
    return {
        "original_tokens": original,
        "pruned_tokens": pruned,
        "tokens_saved": original - pruned,
        "compression_ratio": pruned / original if original else 1.0,
    }


def _count_changes(before: Transcript, after: Transcript, placeholder: Placeholder) -> tuple[int, int, int, int]:
    """Count cleared results, shortened calls, removed messages and summarized messages from two transcripts.

    A result counts as cleared if its payload differs and is smaller, or is a placeholder. A missing message counts as
    summarized if a new message is in its place or its step was folded, else as removed.
    """
    cleaned = calls = removed = summarized = 0
    changes = list(_opcodes(before, after))
    in_steps = _folded_since(before, after)
    new = [after.entries[at] for _, new_stretch, is_same in changes if in_steps and not is_same for at in new_stretch]
    joined = _Joined(new)
    for stretch, new_stretch, is_same in changes:
        if not is_same:
            gone = [at for at in stretch if not (before.entries[at].folded or joined.holds(before.entries[at]))]
            counted = len(gone) if new_stretch else len(in_steps.intersection(gone))
            summarized += counted
            removed += len(gone) - counted
            continue
        for old, now in zip(stretch, new_stretch, strict=True):
            results = zip(before.entries[old].results, after.entries[now].results, strict=False)
            cleaned += sum(_is_cleared(was, now, placeholder) for was, now in results)
            both = zip(before.entries[old].calls, after.entries[now].calls, strict=False)
            calls += sum(_is_shorter(was, now) for was, now in both)
    return cleaned, calls, removed, summarized


def _folded_since(before: Transcript, after: Transcript) -> set[int]:
    """Return the messages of the steps that are folded in `after`, and not in `before`."""
    known = {each.text for entry in before.entries for each in entry.folded}
    new = [each for entry in after.entries for each in entry.folded if each.text not in known]
    numbers = {number for each in new for number in range(each.first, each.last + 1)}
    found, number = set(), -1  # of the newest step
    for at, entry in enumerate(before.entries):
        number += entry.begins_request + entry.skipped
        if number in numbers:
            found.add(at)
    return found


class _Joined:
    """The new messages, which may hold several old ones of the user and of tools."""

    def __init__(self, new: Sequence[Entry]) -> None:
        said = (text for entry in new if entry.speaker is not Speaker.MODEL for text in entry.texts)
        self._words = GAP.join(("", *said, ""))
        self._answered = {result.call.id for entry in new for result in entry.results if result.call}

    def holds(self, entry: Entry) -> bool:
        """Return whether the new messages hold all texts and results of an old one."""
        ids = {result.call and result.call.id for result in entry.results}
        if entry.speaker is Speaker.MODEL or not (ids or entry.texts):
            return False
        return ids <= self._answered - {None} and all(f"{GAP}{text}{GAP}" in self._words for text in entry.texts)


def _is_shorter(was: ToolCall, now: ToolCall) -> bool:
    """Return whether any of a call's arguments has become shorter."""
    pairs = zip(was.inputs, now.inputs, strict=False)
    return any(old.text != new.text and new.tokens < old.tokens for old, new in pairs)


def _is_cleared(was: ToolResult, now: ToolResult, placeholder: Placeholder) -> bool:
    is_same = was.text == now.text and was.tokens == now.tokens
    return not is_same and (now.tokens < was.tokens or placeholder.has_replaced(now) or is_cleared(now.text))


def _with_separate_texts(messages: Sequence[Any], reading: Reading) -> Transcript:
    """Read a conversation to compare it, with the summary and the blocks of folded steps in separate messages."""
    known = reading.transcript_to_compare([*with_separate_summary(messages, roles_in(reading.formats))])
    if not any(entry.folded for entry in known.entries):
        return known
    apart: list[Any] = []
    for message, entry in zip(known.messages, known.entries, strict=True):
        rest = _without_steps(message, entry.folded[0].first) if entry.folded else message
        apart += [rest] if content_of(rest)[1] or not entry.folded else []
        apart += [{"role": "user", "content": each.text} for each in entry.folded]
    return reading.transcript_to_compare(apart)


def _without_steps(message: Any, number: int) -> Any:
    """Remove the blocks of folded steps from a message, the first of which begins with step `number`."""
    name, content = content_of(message)
    if isinstance(content, str):
        return with_item(message, name, split_blocks(content, number)[0])
    kept: list[object] = []
    for part in items_of(content):
        text = fields_of(part).get("text")
        left, found = split_blocks(text, number) if isinstance(text, str) else ("", ())
        number = found[-1].last + 1 if found else number
        kept += [part] if not found else [with_item(part, "text", left)] if left else []
    return with_item(message, name, kept)


def _opcodes(before: Transcript, after: Transcript) -> Iterator[tuple[range, range, bool]]:
    """Yield stretches of both conversations, and whether their messages are the same apart from what was cleared."""
    kinds, new_kinds = _kinds(before), _kinds(after)
    if kinds == new_kinds:
        yield range(len(kinds)), range(len(new_kinds)), True
        return
    # Calls may look alike, so unique messages that stayed the same show first which ones belong together.
    at = new_at = 0
    for first, new_first in (*_same(before.messages, after.messages), (len(kinds), len(new_kinds))):
        matcher = SequenceMatcher(None, kinds[at:first], new_kinds[new_at:new_first], autojunk=False)
        for tag, start, stop, new_start, new_stop in matcher.get_opcodes():
            yield range(at + start, at + stop), range(new_at + new_start, new_at + new_stop), tag == "equal"
        at, new_at = first + 1, new_first + 1
        yield range(first, min(at, len(kinds))), range(new_first, min(new_at, len(new_kinds))), True


def _same(before: Sequence[object], after: Sequence[object]) -> Iterator[tuple[int, int]]:
    """Yield the indexes of messages that occur once in each conversation and stayed in order."""
    known, new = _unique(before), _unique(after)
    texts, new_texts = [text for text in known if text in new], [text for text in new if text in known]
    for first, _, length in SequenceMatcher(None, texts, new_texts, autojunk=False).get_matching_blocks():
        yield from ((known[text], new[text]) for text in texts[first : first + length])


def _unique(messages: Sequence[object]) -> dict[str, int]:
    """Return the index of each message that occurs once, by its fingerprint, in order."""
    texts = [*map(_fingerprint, messages)]
    counts = Counter(texts)
    return {text: at for at, text in enumerate(texts) if counts[text] == 1}


def _kinds(transcript: Transcript) -> list[Hashable]:
    """Find the kind of each message: its content without everything that can be cleared, and its results' tools.

    Only a result inside a text has its tool there; a native result names only its call.
    """
    return [
        (
            _fingerprint(_without_parts(message, entry)),
            *("" if result.location.start is None else result.tool for result in entry.results),
        )
        for message, entry in zip(transcript.messages, transcript.entries, strict=True)
    ]


def _without_parts(message: object, entry: Entry) -> object:
    """Remove the payloads of results, the arguments of calls and the thinking from a message."""
    inputs = [part for call in entry.calls for part in call.inputs]
    in_text = [Replace(part, "", Reason.NOT_CHOSEN, 0) for part in inputs if part.location.start is not None]
    native = [part for part in inputs if part.location.start is None]
    return remove_thinking(without_payloads(rewrite(message, in_text), [*entry.results, *native]), entry.thinking)


def _fingerprint(message: object) -> str:
    try:
        return canonical(message)
    except RecursionError:  # nested too deeply to serialize, so only the same object matches
        return str(id(message))
