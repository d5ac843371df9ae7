"""What a digest keeps of a conversation, and how it is written and read back. Decides nothing about what fits."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autoprune.summarizers.sections import EARLIER, GOAL, Section, figure, read, written

REQUESTS = "What the user asked later, and the answers"
FOLDER = "The folder that paths are in"
PLAN = "Plan, and what is still open"
CHANGED = "Files changed"
STATE = "State of version control and tests"
VALUES = "What short commands printed last"
READ = "Files read"
COMMANDS = "Commands, and how they went last"
OPEN = "Errors not seen to be resolved"
RESOLVED = "Errors resolved later"
FINDINGS = "What the assistant found and decided"
LAST = "What went on last"
TOOLS = "Tools"
LISTS = (PLAN, CHANGED, READ, STATE, COMMANDS, VALUES, OPEN, RESOLVED, FINDINGS, TOOLS, LAST)
VALUED = frozenset((CHANGED, READ, STATE, COMMANDS, VALUES, OPEN, RESOLVED, TOOLS))  # lists whose entries have a value

TO = " → "
ANSWER = "  → "
LEFT_OUT = re.compile(r"\[([0-9]{1,9}) older (?:one|ones) left out\]")
ENTRY = re.compile(r"- (?:\(([0-9]{1,9}) lines?(?:, asked ([0-9]{1,9}) times)?\) )?(.*)", re.DOTALL)
NOTHING = "nothing was said or done"  # the text of an empty ledger
COUNTED = re.compile(r"([^,×]+?)(?: ×([0-9]{1,9}))?(?:, |\Z)")
FIRST = "(the first request)"  # stands for it where only its answer is told

List = Mapping[str, str]


@dataclass(frozen=True)
class Turn:
    """What the user asked, how many times in a row, and the assistant's last words to it on one line.

    `request` is "" for the first request, which stands apart.
    """

    request: str
    answer: str = ""
    times: int = 1


@dataclass(frozen=True)
class Ledger:
    """What is kept: the first request, somebody else's summary, later turns, and lists from entries to values.

    Paths in the lists are relative to `folder` where they stand in it. Turns and entries are oldest first; `left_out`
    says how many of each were there before.
    """

    goal: str = ""
    earlier: str = ""
    folder: str = ""
    turns: tuple[Turn, ...] = ()
    lists: Mapping[str, List] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text, which `parsed` reads back."""
        lists = (Section(title, self._body(title, _lines(title, self.lists.get(title, {})))) for title in LISTS)
        folder = Section(FOLDER, self.folder)
        turns = Section(REQUESTS, self._body(REQUESTS, _turn_lines(self.turns)))
        return written((Section(GOAL, self.goal), Section(EARLIER, self.earlier), turns, folder, *lists))

    def _body(self, title: str, lines: Iterable[str]) -> str:
        shown, missing = [*lines], self.left_out.get(title, 0)
        return "\n".join(([f"[{figure(missing, 'older one')} left out]"] if missing and shown else []) + shown)


def parsed(text: str) -> Ledger:
    """The ledger that a text was written from; of any other text a ledger that holds it as an earlier summary.

    In the sections of another summarizer the first request is known by its title.
    """
    found = read(text) if text != NOTHING else ()
    if found is None:
        return Ledger(earlier=text.strip())
    if not {section.title for section in found} <= {GOAL, EARLIER, REQUESTS, FOLDER, *LISTS}:
        goal = next((section.body for section in found if section.title == GOAL), "")
        return Ledger(goal, written(section for section in found if section.title != GOAL))
    bodies = {section.title: section.body for section in found}
    goal, earlier, folder = (bodies.pop(title, "") for title in (GOAL, EARLIER, FOLDER))
    left_out = {title: missing for title, body in bodies.items() if (missing := _missing(body))}
    turns = tuple(_turns(_rest(bodies.pop(REQUESTS, ""))))
    lists = {title: dict(_entries(title, _rest(body))) for title, body in bodies.items()}
    return Ledger(goal, earlier, folder, turns, lists, left_out)


def _missing(body: str) -> int:
    match = LEFT_OUT.fullmatch(body.partition("\n")[0])
    return int(match[1]) if match else 0


def _rest(body: str) -> list[str]:
    return body.split("\n")[bool(_missing(body)) :] if body else []


def _lines(title: str, entries: List) -> Iterator[str]:
    return (line(title, key, value) for key, value in entries.items())


def line(title: str, key: str, value: str) -> str:
    """An entry of a list."""
    return f"- {key}{TO}{value}" if title in VALUED else f"- {key}"


def _entries(title: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in lines:
        key, to, value = text.removeprefix("- ").rpartition(TO) if title in VALUED else (text[2:], "", "")
        yield (key, value) if to or key else (value, "")


def _turn_lines(turns: Iterable[Turn]) -> Iterator[str]:
    for turn in turns:
        if turn.request or turn.answer:
            yield request_line(turn)
        if turn.answer:
            yield f"{ANSWER}{turn.answer}"


def request_line(turn: Turn) -> str:
    """A request as it stands in the text: one of several lines, or asked several times, begins with their numbers."""
    text = turn.request
    if not text:
        return f"- {FIRST}"
    if "\n" not in text and turn.times == 1 and text[0] != "(":
        return f"- {text}"
    times = f", asked {turn.times} times" if turn.times > 1 else ""
    return f"- ({figure(text.count(chr(10)) + 1, 'line')}{times}) {text}"


def _turns(lines: list[str]) -> Iterator[Turn]:
    at = 0
    while at < len(lines):
        begin = at
        match = ENTRY.fullmatch(lines[at])
        size = int(match[1] or 1) if match else 1
        request = "\n".join((match[3] if match else lines[at], *lines[at + 1 : at + size]))
        at += size
        answer = lines[at].removeprefix(ANSWER) if at < len(lines) and lines[at].startswith(ANSWER) else ""
        at += bool(answer)
        yield Turn("" if lines[begin] == f"- {FIRST}" else request, answer, int(match[2] or 1) if match else 1)


def tally(*values: str) -> str:
    """Words and how many times each was said, in several values together: "read" and "read ×2" are "read ×3"."""
    total: Counter[str] = Counter()
    for value in values:
        total.update({word: int(times or 1) for word, times in COUNTED.findall(value)})
    return ", ".join(f"{word} ×{times}" if times > 1 else word for word, times in total.items())
