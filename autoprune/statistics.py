"""What became of one conversation in another: compared by content and position, whoever changed it."""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from autoprune.edits import Reason, Replace
from autoprune.formats.content import fields
from autoprune.rewriting import rewrite
from autoprune.transcript import Entry, Transcript

Pair = tuple[int | None, int | None]  # the index before, the index after; None: it is not there


def statistics(before: Transcript, after: Transcript) -> dict[str, int | float]:
    """Tokens, cleared results, dropped and summarized messages, from two transcripts."""
    cleaned = removed = summarized = 0
    for group in _groups(before, after):
        missing = sum(new is None for _, new in group)
        if any(old is None for old, _ in group):
            summarized += missing
        else:
            removed += missing
        pairs = ((before.entries[old], after.entries[new]) for old, new in group if old is not None and new is not None)
        cleaned += sum(_cleared(old, new) for old, new in pairs)
    return {
        "original_tokens": before.tokens,
        "pruned_tokens": after.tokens,
        "tokens_saved": before.tokens - after.tokens,
        "compression_ratio": after.tokens / before.tokens if before.tokens else 1.0,
        "tool_results_cleaned": cleaned,
        "tool_calls_cleaned": 0,
        "messages_removed": removed,
        "messages_summarized": summarized,
        "total_messages": len(before.entries),
    }


def _cleared(old: Entry, new: Entry) -> int:
    return sum(kept.tokens < was.tokens for was, kept in zip(old.results, new.results, strict=False))


def _groups(before: Transcript, after: Transcript) -> Iterator[list[Pair]]:
    """Pairs of messages, grouped so that what was dropped stands with what came in its place."""
    frames = _frames(before), _frames(after)
    if frames[0] == frames[1]:
        yield [(index, index) for index in range(len(frames[0]))]
        return
    matcher = SequenceMatcher(None, _fingerprints(before.messages), _fingerprints(after.messages), autojunk=False)
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        if kind == "equal":
            yield list(zip(range(start, stop), range(new_start, new_stop), strict=True))
        else:
            yield _gap(frames[0], range(start, stop), frames[1], range(new_start, new_stop))


def _gap(frames: list[str], old: range, new_frames: list[str], new: range) -> list[Pair]:
    """Pairs in a stretch that differs: a message whose frame comes again, in order, has only had results cleared."""
    pairs: list[Pair] = []
    at = old.start
    for index in new:
        match = next((other for other in range(at, old.stop) if frames[other] == new_frames[index]), None)
        if match is None:
            pairs.append((None, index))
            continue
        pairs.extend((other, None) for other in range(at, match))
        pairs.append((match, index))
        at = match + 1
    return [*pairs, *((other, None) for other in range(at, old.stop))]


def _frames(transcript: Transcript) -> list[str]:
    """Each message without what its results hold."""
    frames = []
    for message, entry in zip(transcript.messages, transcript.entries, strict=True):
        edits = [Replace(result, "", Reason.NOT_CHOSEN, 0) for result in entry.results]
        frames.append(rewrite(message, edits))
    return _fingerprints(frames)


def _fingerprints(messages: Sequence[object]) -> list[str]:
    return [_fingerprint(message) for message in messages]


def _fingerprint(message: object) -> str:
    """The same text for the same message, be it a mapping or an SDK's object; a field that is None is no field."""
    try:
        return json.dumps(_plain(message), sort_keys=True, default=repr)
    except RecursionError:  # nested too deeply to be written: known by identity alone
        return str(id(message))


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    known = fields(value)
    return value if known is None else {str(name): _plain(item) for name, item in known.items() if item is not None}
