"""Which lines of a Claude Code log the next request is made of: the newest branch, back to the last compaction.

The log is a tree by `uuid` and `parentUuid`. The rules are those of the Claude Agent SDK (its `sessions` module) and of
its `SDKCompactBoundaryMessage` type, which says how messages kept by a compaction are linked again.
"""

from collections.abc import Iterator, Mapping, Sequence

from autoprune.sessions.json_values import fields, listed, text

Line = Mapping[str, object]
SPOKEN = ("user", "assistant")


def is_boundary(line: Line) -> bool:
    """Whether a compaction ends here: nothing before it is sent any more but what it names."""
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary"


def thread(lines: dict[str, Line]) -> list[Line]:
    """The lines of the conversation in its order; `lines` are those of one agent by uuid, in the order of the log."""
    parents = _parents(lines)
    last = at = next((uuid for uuid in reversed(lines) if lines[uuid].get("type") in SPOKEN), "")
    chain: list[Line] = []
    seen: set[str] = set()
    while at in lines and at not in seen:
        seen.add(at)
        chain.append(lines[at])
        at = "" if is_boundary(lines[at]) else parents[at]
    return [*chain[::-1], *_waiting(lines, parents, last)]


def _waiting(lines: dict[str, Line], parents: Mapping[str, str], last: str) -> Iterator[Line]:
    """What hangs on the last message said: reminders, and what the user typed meanwhile."""
    uuids = iter(lines)
    for uuid in uuids:
        if uuid == last:
            break
    for uuid in uuids:
        if parents[uuid] == last:
            yield lines[uuid]
            last = uuid


def _parents(lines: dict[str, Line]) -> dict[str, str]:
    """The parent of each line, with the messages that the last compaction kept put behind its summary."""
    parents = {uuid: text(line.get("parentUuid")) for uuid, line in lines.items()}
    boundary = next((lines[uuid] for uuid in reversed(lines) if is_boundary(lines[uuid])), {})
    anchor, kept = _kept(fields(boundary.get("compactMetadata")), parents)
    if not kept or anchor not in lines or not all(uuid in lines for uuid in kept):
        return parents
    behind = {uuid: kept[-1] for uuid, parent in parents.items() if parent == anchor}
    return {**parents, **behind, **dict(zip(kept, [anchor, *kept], strict=False))}


def _kept(metadata: Line, parents: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """The summary's uuid and the messages kept, as a list or as the first and the last of a chain."""
    named, segment = fields(metadata.get("preservedMessages")), fields(metadata.get("preservedSegment"))
    if named:
        return text(named.get("anchorUuid")), [text(uuid) for uuid in listed(named.get("uuids"))]
    head, at = text(segment.get("headUuid")), text(segment.get("tailUuid"))
    chain: dict[str, None] = {}
    while at in parents and at not in chain and head not in chain:
        chain[at] = None
        at = parents[at]
    return text(segment.get("anchorUuid")), list(chain)[::-1] if head in chain else []
