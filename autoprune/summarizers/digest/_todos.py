"""Follow the agent's list of what is still to be done, by the calls of a tool that keeps it."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from autoprune.facts.actions import Action
from autoprune.facts.calls import arguments, tool_words
from autoprune.facts.plain_text import one_line
from autoprune.summarizers.digest._findings import CODE

LONGEST = 200  # characters of an item
MOST_LINES = 10  # of a plan that is a text
LISTS = frozenset(("todo", "todos", "plan", "checklist"))  # words in the names of tools that give all of the list
TEXTS = ("content", "step", "subject", "title", "task", "text", "description", "todo", "name")
STATUS: Mapping[str, str] = {
    **dict.fromkeys(("completed", "complete", "done", "finished", "closed"), "[x]"),
    **dict.fromkeys(("in_progress", "in-progress", "active", "doing", "started"), "[~]"),
    **dict.fromkeys(("deleted", "cancelled", "canceled"), "[-]"),
}
OPEN = "[ ]"
NUMBER = re.compile(r"#(\d{1,6})")


def update_plan(action: Action, plan: Mapping[str, str]) -> Mapping[str, str]:
    """Return the plan after a call: itself, a new list, or with one task more or changed."""
    words = tool_words(action.tool)
    if not action.call or action.failed or "read" in words:
        return plan
    if not LISTS.isdisjoint(words):
        found = [*_items(arguments(action.call), 0)]
        return _done_first(found) if found else plan
    if words in (["task", "create"], ["task", "update"]):
        return _change_task(plan, action, arguments(action.call))
    return plan


def _done_first(items: list[str]) -> Mapping[str, str]:
    """Return the items, those that are done first: they are forgotten first."""
    return dict.fromkeys(sorted(items, key=lambda item: not item.startswith("[x]")), "")


def _items(value: object, depth: int) -> Iterator[str]:
    match value:
        case Mapping():
            text = next((found for name in TEXTS if isinstance(found := value.get(name), str) and found.strip()), "")
            if text and depth:
                yield f"{STATUS.get(str(value.get('status')), OPEN)} {one_line(text, LONGEST)}"
            else:
                for item in value.values():
                    yield from _items(item, depth + 1)
        case str() if depth == 1:
            lines = (line.strip().removeprefix("- ").removeprefix("* ") for line in CODE.sub("", value).split("\n"))
            yield from (one_line(line, LONGEST) for line in islice(filter(None, lines), MOST_LINES))
        case list() | tuple() if depth <= 2:
            for item in value:
                yield from _items(item if isinstance(item, Mapping) else {"text": item}, depth + 1)


def _change_task(plan: Mapping[str, str], action: Action, known: Mapping[str, object]) -> Mapping[str, str]:
    """Return a plan with one task more, or with another status of one; tasks are known by their numbers."""
    said = action.result.text if action.result else ""
    number = str(known.get("taskId") or next(iter(NUMBER.findall(said)), ""))
    before = next((item for item in plan if number and f" #{number} " in item), "")
    text = known.get("subject") or before.partition(f" #{number} ")[2] or f"task {number}"
    mark = STATUS.get(str(known.get("status")), before[:3] or OPEN)
    item = f"{mark} #{number} {one_line(str(text), LONGEST)}"
    return {**{other: "" for other in plan if other != before}, item: ""}
