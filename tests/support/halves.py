"""Which calls have their results, by the messages that they stand in: what a cut must not part."""

from collections.abc import Sequence

from autoprune.conversation.transcript import Entry, ToolCall


def halves(found: Sequence[Entry]) -> list[tuple[int | None, int | None]]:
    """Return each call with its result, by their messages; None for the half that is missing."""
    made = {place(call): at for at, entry in enumerate(found) for call in entry.calls}
    answers: list[tuple[int | None, int | None]] = []
    for at, entry in enumerate(found):
        for result in entry.results:
            call_at = made.get(place(result.call)) if result.call else None
            # A call that stands behind its result is another one.
            answers.append((call_at if call_at is not None and call_at <= at else None, at))
    answered = {place(result.call) for entry in found for result in entry.results if result.call}
    unanswered = [(at, None) for at, entry in enumerate(found) for call in entry.calls if place(call) not in answered]
    return sorted([*answers, *unanswered], key=lambda pair: pair[1] if pair[0] is None else pair[0])


def broken(found: Sequence[Entry]) -> list[tuple[int | None, int | None]]:
    """Return the calls without a result, and the results without a call."""
    return [pair for pair in halves(found) if None in pair]


def place(call: ToolCall) -> tuple[object, ...]:
    return call.location.path, call.location.start
