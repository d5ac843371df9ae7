"""The contents of a digest: write them as text, parse them, and shorten their paths."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from autoprune.facts.outcomes import is_answer_text
from autoprune.summarizers.sections import EARLIER, GOAL, Section, body_of, parse_sections, quantity, write_sections

REQUESTS = "What the user asked later, and the answers"
FOLDER = "The folder that paths are in"
PLAN = "Plan, and what is still open"
CHANGED = "Files changed"
STATE = "State of version control and tests"
VALUES = "What short commands printed last"
READ = "Files and pages read"
COMMANDS = "Commands, and how they went last"
OPEN = "Errors not seen to be resolved"
RESOLVED = "Errors resolved later"
FINDINGS = "What the assistant found and decided"
LAST = "What went on last"
TOOLS = "Tools"
LISTS = (PLAN, CHANGED, READ, STATE, COMMANDS, VALUES, OPEN, RESOLVED, FINDINGS, TOOLS, LAST)
VALUED = frozenset((CHANGED, READ, STATE, COMMANDS, VALUES, OPEN, RESOLVED, TOOLS))  # lists whose items have a value
TO = " → "
ANSWER = "  → "
SAID = "The assistant: "  # before the assistant's last words
LEFT_OUT = re.compile(r"\[([0-9]{1,9}) older (?:one|ones) left out\]")
ITEM = re.compile(r"- (?:\(([0-9]{1,9}) lines?(?:, asked ([0-9]{1,9}) times)?\) )?(.*)", re.DOTALL)
COUNTED = re.compile(r"([^,×]+?)(?: ×([0-9]{1,9}))?(?:, |\Z)")
FIRST = "(the first request)"  # stands for it if only its answer is listed
AGAIN = " [asked again]"  # after an answer: the request was repeated since
SO_FAR = " [so far]"  # after the assistant's last words, if they are only shown as an answer because room is short
NONE_KEPT = "[none kept]"  # in place of an answer: the exchange is over, and nothing is known of how it ended
BELOW = "[below]"  # the same: it stays in the conversation
List = Mapping[str, str]
LEAST_PATHS = 3  # in a folder, for it to be worth a section
LEAST_DEPTH = 2  # names in a folder's path: "/tmp" has too few
LONGEST_FOLDER = 300  # characters of a folder's path
SHORTENED = frozenset((CHANGED, READ, COMMANDS, VALUES, OPEN, RESOLVED, LAST))


@dataclass(frozen=True)
class Exchange:
    """A request of the user, how often it was repeated, and the assistant's last words in answer.

    `request` is "" for the first request, which is stored separately. The user's answers through tools are exchanges
    too. They have no assistant's answer, because that belongs to the request before them.
    """

    request: str
    answer: str = ""
    times: int = 1

    @property
    def is_over(self) -> bool:
        """Whether the exchange has a final answer, and its request was not repeated since."""
        return bool(self.answer) and self.answer == self.bare_answer

    @property
    def bare_answer(self) -> str:
        """The answer without the mark that the exchange is not over."""
        return self.answer.removesuffix(AGAIN).removesuffix(SO_FAR)

    @property
    def is_through_tool(self) -> bool:
        """Whether the user gave these words as an answer through a tool."""
        return is_answer_text(self.request)


@dataclass(frozen=True)
class Contents:
    """The first request, another summarizer's summary, later exchanges, and lists that map items to values.

    Paths inside `folder` are relative to it in the lists. Exchanges and items are oldest first; `left_out` counts the
    older exchanges and items that were left out, by section.
    """

    goal: str = ""
    earlier: str = ""
    folder: str = ""
    exchanges: tuple[Exchange, ...] = ()
    lists: Mapping[str, List] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Write the text that `parse_contents` parses."""
        bodies = {GOAL: self.goal, EARLIER: self.earlier}
        bodies[REQUESTS] = self._body(REQUESTS, _exchange_lines(self.exchanges))
        bodies[FOLDER] = self.folder
        for title in LISTS:
            bodies[title] = self._body(title, (item_line(title, *item) for item in self.lists.get(title, {}).items()))
        return write_sections(Section(title, body) for title, body in bodies.items())

    def _body(self, title: str, lines: Iterable[str]) -> str:
        shown, missing = [*lines], self.left_out.get(title, 0)
        is_said = bool(missing) and bool(shown or title == REQUESTS)  # of the user's words, even if none are left
        return "\n".join(([f"[{quantity(missing, 'older one')} left out]"] if is_said else []) + shown)


def parse_contents(text: str) -> Contents:
    """Parse a digest; any other text becomes the earlier summary.

    In the sections of another summarizer, the first request is recognized by its title.
    """
    sections = parse_sections(text)
    if sections is None:
        return Contents(earlier=text.strip())
    if not {section.title for section in sections} <= {GOAL, EARLIER, REQUESTS, FOLDER, *LISTS}:
        return Contents(
            body_of(sections, GOAL), write_sections(section for section in sections if section.title != GOAL)
        )
    bodies = {section.title: section.body for section in sections}
    goal, earlier, folder = (bodies.pop(title, "") for title in (GOAL, EARLIER, FOLDER))
    left_out = {title: missing for title, body in bodies.items() if (missing := _left_out_number(body))}
    exchanges = tuple(_parse_exchanges(_lines_below(bodies.pop(REQUESTS, ""))))
    if goal and not left_out.get(REQUESTS) and all(one.request for one in exchanges):
        exchanges = (Exchange(""), *exchanges)
    lists = {title: dict(_list_items(title, _lines_below(body))) for title, body in bodies.items()}
    return Contents(goal, earlier, folder, exchanges, lists=lists, left_out=left_out)


def _left_out_number(body: str) -> int:
    match = LEFT_OUT.fullmatch(body.partition("\n")[0])
    return int(match[1]) if match else 0


def _lines_below(body: str) -> list[str]:
    return body.split("\n")[bool(_left_out_number(body)) :] if body else []


def item_line(title: str, key: str, value: str) -> str:
    """Write an item of a list as a line."""
    return f"- {key}{TO}{value}" if title in VALUED else f"- {key}"


def _list_items(title: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in lines:
        key, to, value = text.removeprefix("- ").rpartition(TO) if title in VALUED else (text[2:], "", "")
        yield (key, value) if to or key else (value, "")


def _exchange_lines(exchanges: Iterable[Exchange]) -> Iterator[str]:
    for exchange in exchanges:
        if exchange.request or exchange.answer:
            yield request_line(exchange)
        if exchange.answer:
            yield f"{ANSWER}{exchange.answer}"


def request_line(exchange: Exchange) -> str:
    """Write a request as an item; the numbers of its lines and repetitions come first if above 1."""
    text = exchange.request
    if not text:
        return f"- {FIRST}"
    if "\n" not in text and exchange.times == 1 and text[0] != "(":
        return f"- {text}"
    times = f", asked {exchange.times} times" if exchange.times > 1 else ""
    return f"- ({quantity(text.count(chr(10)) + 1, 'line')}{times}) {text}"


def _parse_exchanges(lines: list[str]) -> Iterator[Exchange]:
    at = 0
    while at < len(lines):
        begin = at
        match = ITEM.fullmatch(lines[at])
        size = int(match[1] or 1) if match else 1
        request = "\n".join((match[3] if match else lines[at], *lines[at + 1 : at + size]))
        at += size
        answer = lines[at].removeprefix(ANSWER) if at < len(lines) and lines[at].startswith(ANSWER) else ""
        at += bool(answer)
        yield Exchange("" if lines[begin] == f"- {FIRST}" else request, answer, int(match[2] or 1) if match else 1)


def tally(*values: str) -> str:
    """Add up counted words: "read" and "read ×2" give "read ×3"."""
    total: Counter[str] = Counter()
    for value in values:
        total.update({word: int(times or 1) for word, times in COUNTED.findall(value)})
    return ", ".join(f"{word} ×{times}" if times > 1 else word for word, times in total.items())


def make_relative(contents: Contents, worked_in: Sequence[str]) -> Contents:
    """Make the paths relative to the contents' folder; if there is none, choose the folder of most paths.

    `worked_in` are the folders that commands were run in.
    """
    folder = contents.folder or _common_folder(contents, worked_in)
    if not folder:
        return contents
    lists = {
        title: _shorten_paths(title, items, folder) if title in SHORTENED else items
        for title, items in contents.lists.items()
    }
    return replace(contents, folder=folder, lists=lists)


def relative(text: str, folder: str) -> str:
    """Make the paths in a text relative to a folder."""
    return _folder_prefix(folder).sub("", text) if folder and folder in text else text


@lru_cache(maxsize=64)
def _folder_prefix(folder: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.~/-]){re.escape(folder)}/(?=[\w.@\[-])")


def _shorten_paths(title: str, items: Mapping[str, str], folder: str) -> dict[str, str]:
    """Shorten the paths of items. If two become equal, the last wins; the counts of files are added up."""
    shortened: dict[str, str] = {}
    for key, value in items.items():
        short = relative(key, folder)
        before = shortened.pop(short, "")
        shortened[short] = tally(before, value) if title in (CHANGED, READ) else value
    return shortened


def _common_folder(contents: Contents, worked_in: Sequence[str]) -> str:
    """Find the folder that most commands were run in, else the folder that saves enough characters."""
    paths = [path for title in (CHANGED, READ) for path in contents.lists.get(title, {})]
    around = Counter(folder for path in paths if path[0] == "/" for folder in _parent_folders(path))
    savings = [(times * len(folder), folder) for folder, times in around.items() if times >= LEAST_PATHS]
    for folder, _ in Counter(folder for folder in worked_in if folder.count("/") >= LEAST_DEPTH).most_common(1):
        if any(path.startswith(f"{folder}/") for path in paths) or (paths and not savings):
            return folder
    return max(savings, default=(0, ""))[1]


def _parent_folders(path: str) -> Iterator[str]:
    """Yield the parent folders of a path, the nearest last."""
    at = path.find("/", 1)
    for depth in range(1, path.count("/")):
        if depth >= LEAST_DEPTH and at <= LONGEST_FOLDER:
            yield path[:at]
        at = path.find("/", at + 1)
