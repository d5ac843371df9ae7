"""Keep in an archive what the edits of a prune take away. Decides nothing: the same is sent where an archive fails."""

from collections.abc import Iterable, Iterator, Sequence

from autoprune.conversation import recall
from autoprune.conversation.archive import Archive
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Part
from autoprune.pruners.result import Result


def archived(
    result: Result,
    archive: Archive | None,
    edits: Iterable[Replace],
    messages: Sequence[object],
    known: dict[Part, str],
) -> Result:
    """Return the result of a prune after the payloads that its edits replace were kept; its report says what was not.

    `known` are the parts for which that was done before, with the texts that were put in their place. What failed is
    tried again with the next prune.
    """
    failures: dict[str, dict[str, None]] = {}  # what the archive says, with the ids
    if archive is None:
        return result
    for edit in edits:
        if known.get(edit.part) == edit.text:
            continue
        failed = [*_kept(archive, edit, recall.content(edit.part, messages))]
        for id, why in failed:
            failures.setdefault(why, {})[id] = None
        if not failed:
            known[edit.part] = edit.text
    return result.noting([_told(why, ids) for why, ids in failures.items()])


def _kept(archive: Archive, edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Keep the payload that an edit replaces, and the pointers to it.

    Yield the ids that failed, each with the reason: what the archive raised, or what stands in the way.
    """
    from autoprune.summarizers.driver import call_safely  # loaded with the first payload: few have an archive

    for id, text in _records(edit, content):
        if (answer := call_safely(_put, archive, id, text)) is not None:
            yield id, str(getattr(answer, "why", answer))


def _records(edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Yield what is to be kept for an edit, by ids: the payload, and pointers to it.

    Say that the payload P was cut to C, and C is cleared, in one prune or in two. The placeholder carries C's id, so
    that points to P. A cut points to P in advance, since a later prune over pruned output knows C alone.
    """
    whole, told = recall.content_id(content), recall.parted(edit.mark)[1]
    yield whole, content
    if told not in ("", whole, recall.parted(content)[1]):
        yield told, recall.pointer(told, whole)
    if edit.may_change and (later := recall.recall_id(edit.text)) != told:
        yield later, recall.pointer(later, told or whole)


def _put(archive: Archive, id: str, text: str) -> str | None:
    """Keep a payload or a pointer under an id. Return None, or what is in the way.

    A pointer takes the place of the text whose id it has, and stays there while its payload is kept.
    """
    known = archive.setdefault(id, text)
    if known == text:
        return None
    is_pointer, whole = recall.content_id(text) != id, recall.pointed_to(known, id) if isinstance(known, str) else None
    if whole and is_pointer:
        return "another payload was cut to the same text"
    if whole and archive.get(whole) is not None:
        return None
    if not is_pointer and isinstance(known, str) and recall.content_id(known) == id:
        return "another payload has the same id"
    archive[id] = text  # what is there was cut off or changed, or the text itself is kept in place of a pointer
    return None


def _told(why: str, ids: Iterable[str]) -> str:
    return f"the archive failed ({why}): what was cleared cannot be recalled by {', '.join(ids)}"
