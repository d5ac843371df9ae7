"""Find what is wrong with the changes that a policy answers, before they are applied."""

from collections.abc import Collection, Iterator, Mapping
from traceback import extract_tb

from autoprune.apps.policies._policy import Changes, ContextPolicy, RequestView
from autoprune.conversation.transcript import Part, ToolCall
from autoprune.errors import SettingsError


def checked_changes(policy: ContextPolicy, request: RequestView) -> Changes:
    """Ask a policy for its changes. Raises SettingsError if it fails, or if they cannot be applied."""
    try:
        changes = policy.changes(request)
    except SettingsError:
        raise
    except Exception as error:
        at = extract_tb(error.__traceback__)[-1]
        place = f"{at.filename}, line {at.lineno}"
        raise _complaint(policy, request, f"failed with {type(error).__name__}: {error} ({place})") from error
    for problem in _problems(changes, len(request.messages)):
        raise _complaint(policy, request, problem)
    return changes


def _complaint(policy: ContextPolicy, request: RequestView, problem: str) -> SettingsError:
    return SettingsError(f"{type(policy).__name__}.changes at request {request.number}: {problem}")


def _problems(changes: object, start: int) -> Iterator[str]:
    if not isinstance(changes, Changes):
        yield f"it must return Changes, not {type(changes).__name__}; NOTHING if nothing changes"
        return
    if not isinstance(changes.texts, Mapping):
        yield f"texts must map results and inputs of calls to their new texts, and are a {type(changes.texts).__name__}"
        return
    for part, text in changes.texts.items():
        yield from _problems_of_text(part, text, start)
    places = (*changes.dropped, *(at for known in changes.repeated.values() for at in known))
    yield from _problems_of_places("dropped and repeated", places, start - 1)
    yield from _problems_of_places("added and repeated before", (*changes.added, *changes.repeated), start)
    if texts := [text for text in changes.added.values() if not isinstance(text, str)]:
        yield f"added messages must be str, not {type(texts[0]).__name__}"
    if start and not changes.added and not changes.repeated and len({*changes.dropped}) == start:
        yield "it drops all messages, and no provider takes an empty prompt; keep one, or add one"


def _problems_of_text(part: object, text: object, start: int) -> Iterator[str]:
    if isinstance(part, ToolCall):
        yield "a text is given for a call: give it for one of call.inputs"
    elif not isinstance(part, Part):
        yield f"a text is given for {part!r}: give it for one of request.results, or of a call's inputs"
    elif not isinstance(text, str):
        yield f"the new text of a part must be str, not {type(text).__name__}"
    elif part.location.message >= start:
        yield f"it changes message {part.location.message}, which is not sent yet: use the request's own parts"


def _problems_of_places(what: str, places: Collection[object], last: int) -> Iterator[str]:
    for at in places:
        if not isinstance(at, int):
            yield f"{what} messages are indexes of request.messages, not {type(at).__name__}"
        elif not 0 <= at <= last:
            yield f"there is no message {at} to be {what}: the indexes are 0 to {last}"
