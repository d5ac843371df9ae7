"""A snapshot of the work: read from a model's JSON, checked, shortened and written as text.

A model may have been talked into forgetting the user's request by a tool result. So the first request is kept verbatim,
constraints are only ever added, and the goal changes only if the user has spoken. Tool results can add neither a goal
nor a constraint, except for what the user said through a tool.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from autoprune.conversation.messages import sendable
from autoprune.conversation.transcript import Speaker
from autoprune.summarizers import sections
from autoprune.summarizers.brief import Brief
from autoprune.tokens import Count

TITLES: Mapping[str, str] = {
    "request": sections.GOAL,
    "goal": "Goal now",
    "constraints": "Constraints",
    "done": "Done",
    "decisions": "Decisions",
    "files": "Files",
    "current_state": "Current state",
    "next": "Next",
    "open_questions": "Open questions",
    "landmines": "Landmines",
}
TEXTS = ("goal", "current_state")
LISTS = ("constraints", "done", "decisions", "files", "next", "open_questions", "landmines")
GIVEN_UP = ("done", "files", "open_questions", "decisions", "landmines", "next", "current_state", "constraints", "goal")
SHARES = (2, 4, 8, 0)  # a field is shortened to a half, a quarter, an eighth, then to nothing
FIRST_ITEMS = ("constraints", "next")  # lists whose first items matter most
REQUEST_SHARE = 2  # the first request takes at most half of the room, or all that the rest leaves
LEFT_OUT = re.compile(r"\[… ([0-9]{1,9}) items? left out …\]")
BRACES = 50  # positions that are tried as the start of the JSON in an answer


class SnapshotError(ValueError):
    """The model's answer is not a snapshot; the message tells the model what to fix."""


@dataclass(frozen=True)
class Snapshot:
    """The state of the work. `request` is the user's first request, verbatim; `goal` is what it has become since."""

    request: str = ""
    goal: str = ""
    constraints: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    current_state: str = ""
    next: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    landmines: tuple[str, ...] = ()


# For servers that accept it. OpenAI's strict mode requires every field and allows no others.
RESPONSE_FORMAT: Mapping[str, object] = {
    "type": "json_schema",
    "json_schema": {
        "name": "snapshot",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                name: {"type": "string"} if name in TEXTS else {"type": "array", "items": {"type": "string"}}
                for name in TITLES
                if name != "request"
            },
            "required": [name for name in TITLES if name != "request"],
            "additionalProperties": False,
        },
    },
}


def summary_of(answer: str, brief: Brief) -> tuple[str, tuple[str, ...]]:
    """Write the summary from a model's answer, with notes for the report. Raises SnapshotError."""
    whole = keep_user_words(parse_answer(answer), brief)
    text = shorten_snapshot(whole, brief.max_tokens, brief.count)
    if text == write_snapshot(whole):
        return text, ()
    size = brief.count(write_snapshot(whole))
    shown = parse_text(text)
    missing = sum(_item_number(getattr(whole, name)) - _item_number(getattr(shown, name)) for name in LISTS)
    what = f": {sections.quantity(missing, 'item')} left out" if missing else ""
    return text, (f"a snapshot had {size} tokens and was shortened to {brief.max_tokens}{what}",)


def parse_answer(answer: str) -> Snapshot:
    """Parse the snapshot in an answer, even with a code fence or words around it. Raises SnapshotError."""
    document = _answer_object(answer)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name in (*TEXTS, *LISTS):
        try:
            values[name] = _text_field(document.get(name)) if name in TEXTS else _list_field(document.get(name))
        except TypeError as error:
            problems.append(f'"{name}" {error}')
    if problems:
        raise SnapshotError("; ".join(problems))
    if not any(values[name] for name in values if name not in ("goal", "constraints")):
        raise SnapshotError("it must describe what was done and the current state")
    return Snapshot(**values)


def keep_user_words(proposed: Snapshot, brief: Brief) -> Snapshot:
    """Restore what the model may not drop, and remove additions that only the user may make.

    The first request and all constraints stay. The goal stays unless the user has said more; if the user's only words
    are the first request, or stay in the conversation, they are the goal, and the model's is ignored. Raises
    SnapshotError if there is no goal at all.
    """
    before = _earlier_snapshot(brief.previous)
    request = before.request or sections.request_of(brief)
    said = sum(one.speaker is Speaker.USER and bool(one.user_words) for one in brief.utterances)
    is_new = bool(request) and not before.request and any(one.user_request == request for one in brief.utterances)
    goal = (proposed.goal if said > int(is_new) else "") or before.goal
    if not (goal or request or brief.request.strip()):
        goal = proposed.goal
        if not goal:
            raise SnapshotError('"goal" must not be empty')
    # The user can have stated constraints in messages, or in a partial summary.
    is_stated = bool(said) or any(one.speaker is Speaker.OTHER for one in brief.utterances)
    stated = {_normalize(one) for one in before.constraints}
    new = [one for one in proposed.constraints if _normalize(one) not in stated] if is_stated else []
    return replace(
        proposed,
        request=request,
        goal="" if _normalize(goal) == _normalize(request) else goal,
        constraints=(*before.constraints, *new),
    )


def shorten_snapshot(snapshot: Snapshot, max_tokens: int, count: Count) -> str:
    """Write a snapshot in at most `max_tokens`: the oldest items are dropped first, goal and constraints last.

    Raises SnapshotError if not a word fits.
    """
    if count(whole := write_snapshot(snapshot)) <= max_tokens:
        return whole
    request = sections.cut(snapshot.request, max_tokens // REQUEST_SHARE, count)
    for fitting in _shorter_snapshots(replace(snapshot, request=request), count):
        text = write_snapshot(fitting)
        if text and count(text) <= max_tokens:
            free = max_tokens - count(write_snapshot(replace(fitting, request="…"))) - sections.JOINT_TOKENS
            longer = write_snapshot(replace(fitting, request=sections.cut(snapshot.request, free, count) or request))
            return longer if count(longer) <= max_tokens else text
    text = sections.cut(write_snapshot(snapshot), max_tokens, count)
    if not text:
        raise SnapshotError(f"a summary of {max_tokens} tokens has no room for a word")
    return text


def write_snapshot(snapshot: Snapshot) -> str:
    """Write a snapshot as text, which `parse_text` parses."""
    bodies = ((title, getattr(snapshot, name)) for name, title in TITLES.items())
    return sections.write_sections(
        sections.Section(title, body if isinstance(body, str) else "\n".join(map(_item, body)))
        for title, body in bodies
    )


def parse_text(text: str) -> Snapshot:
    """Parse the text of `write_snapshot`; any other text gives an empty snapshot."""
    bodies = {section.title: section.body for section in reversed(sections.parse_sections(text) or ())}
    texts = {name: bodies.get(title, "") for name, title in TITLES.items()}
    lists: dict[str, Any] = {name: _list_items(texts[name]) for name in LISTS}
    return replace(Snapshot(texts["request"], texts["goal"], current_state=texts["current_state"]), **lists)


def _earlier_snapshot(previous: str) -> Snapshot:
    """Parse the snapshot in the previous summary: all of it, or an earlier part that another summarizer kept."""
    outer = parse_text(previous)
    inside = parse_text(sections.body_of(sections.parse_sections(previous), sections.EARLIER))
    return replace(
        outer,
        request=outer.request or inside.request,
        goal=outer.goal or inside.goal,
        constraints=outer.constraints or inside.constraints,
    )


def _answer_object(answer: str) -> Mapping[str, object]:
    """Find the first JSON object in an answer that has a field of a snapshot."""
    decoder = json.JSONDecoder(strict=False)
    for brace in islice(re.finditer(r"\{", answer), BRACES):
        try:
            value, _ = decoder.raw_decode(answer, brace.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and (
            TITLES.keys() & (named := {_field_name(key): value[key] for key in value}).keys()
        ):
            return named
    raise SnapshotError("it holds no JSON object with the fields that were asked for")


def _field_name(key: str) -> str:
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def _text_field(value: object) -> str:
    if not isinstance(value, str | None):
        raise TypeError("must be a string")
    return sendable(value or "").strip()


def _list_field(value: object) -> tuple[str, ...]:
    items = [value or ""] if isinstance(value, str | None) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise TypeError("must be a list of strings")
    return tuple(filter(None, map(_text_field, items)))


def _normalize(text: str) -> str:
    """Normalize a text so that copies compare equal."""
    return " ".join(text.split()).casefold().rstrip(".")


def _item(text: str) -> str:
    return "- " + text.strip().replace("\n", "\n  ")


def _list_items(body: str) -> tuple[str, ...]:
    """Parse the items that `_item` wrote."""
    return tuple(item.replace("\n  ", "\n").strip() for item in re.split(r"(?:\A|\n)- ", body) if item.strip())


def _shorter_snapshots(snapshot: Snapshot, count: Count) -> Iterable[Snapshot]:
    """Yield the snapshot, then shorter and shorter ones."""
    yield snapshot
    now = snapshot
    for names in (GIVEN_UP[:-2], GIVEN_UP[-2:]):
        for share in SHARES:
            for name in names:
                now = replace(now, **{name: _shorten_field(getattr(snapshot, name), name, share, count)})
                yield now


def _shorten_field(value: Any, name: str, share: int, count: Count) -> Any:
    """Shorten a field: a text to its head and tail, a list to its last items, or to its first for `FIRST_ITEMS`."""
    if isinstance(value, str):
        return sections.cut(value, count(value) // share if share else 0, count)
    items = [item for item in value if not LEFT_OUT.fullmatch(item)]
    room = len(items) // share if share else 0
    if room == len(items):
        return value
    # Items that an earlier summary left out are still missing.
    missing = len(items) - room + sum(int(found[1]) for item in value if (found := LEFT_OUT.fullmatch(item)))
    mark = f"[… {sections.quantity(missing, 'item')} left out …]"
    return (*items[:room], mark) if name in FIRST_ITEMS else (mark, *items[len(items) - room :])


def _item_number(value: Sequence[str]) -> int:
    """Count the items in a list, without the mark for missing items."""
    return sum(not LEFT_OUT.fullmatch(item) for item in value)
