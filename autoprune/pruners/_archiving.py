"""Keep in an archive what the edits of a prune take away. Decides nothing: the same is sent where an archive fails."""

from collections.abc import Iterable, Sequence

from autoprune.archive import Archive
from autoprune.conversation import recall
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Part
from autoprune.pruners.result import Result


def archived(
    result: Result, archive: Archive | None, edits: Iterable[Replace], messages: Sequence[object], known: set[Part]
) -> Result:
    """Return the result of a prune after the payloads that its edits replace were kept; its report says what was not.

    `known` are the parts of which that was done before. What failed is tried again with the next prune.
    """
    failures: dict[str, dict[str, None]] = {}  # what the archive says, with the ids
    if archive is None:
        return result
    for edit in edits:
        if edit.part not in known:
            failed = _kept(archive, recall.content(edit.part, messages))
            for id, why in failed:
                failures.setdefault(why, {})[id] = None
            known.update(() if failed else (edit.part,))
    return result.noting([_told(why, ids) for why, ids in failures.items()])


def _kept(archive: Archive, content: str) -> list[tuple[str, str]]:
    """Keep one payload under its id, and under the one that it carries, where it was shortened before.

    Return the ids that failed, each with the reason: what the archive raised, or what stands in the way.
    """
    ids = dict.fromkeys((recall.recall_id(content), recall.content_id(content)))
    from autoprune.summarizers.driver import tried  # loaded with the first payload: few have an archive

    answers = [(id, tried(_put, archive, id, content)) for id in ids]
    return [(id, str(getattr(answer, "why", answer))) for id, answer in answers if answer is not None]


def _put(archive: Archive, id: str, content: str) -> str | None:
    """Keep a payload under an id, unless the payload whose id that is by its content is kept there.

    Return None, or what is in the way: a payload with the same id.
    """
    known = archive.setdefault(id, content)
    if known == content or id != recall.content_id(content):
        return None
    if isinstance(known, str) and recall.content_id(known) == id:
        return "another payload has the same id"
    archive[id] = content  # a file that was cut off or changed; what carried the id and came before what it stands for
    return None


def _told(why: str, ids: Iterable[str]) -> str:
    return f"the archive failed ({why}): what was cleared cannot be recalled by {', '.join(ids)}"
