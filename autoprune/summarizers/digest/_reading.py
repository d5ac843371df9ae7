"""Read messages into the contents of a digest: what was asked, said and done in them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import autoprune.summarizers.digest._contents as _contents
from autoprune.conversation.commands import STILL_RUNNING, hides_failures
from autoprune.conversation.transcript import Speaker
from autoprune.formats.harness import continues
from autoprune.summarizers import _shell
from autoprune.summarizers.actions import NO_RESULT, Action, read_actions
from autoprune.summarizers.digest._contents import Contents, Exchange
from autoprune.summarizers.digest._findings import findings
from autoprune.summarizers.digest._folders import make_relative, shorten
from autoprune.summarizers.digest._state import COMMIT, STATUS, states, value
from autoprune.summarizers.digest._todos import update_plan
from autoprune.summarizers.sections import one_line
from autoprune.summarizers.utterances import Utterance

LONGEST_ANSWER = 400  # characters
LONGEST_LAST = 900
LONG_REQUEST = 40  # characters; a longer request that is made again in the same words is listed once
LAST_ACTIONS = 5
MOST_VALUES = 8
SAID = "The assistant: "
RUNS = re.compile(r" \(×([0-9]{1,9})\)\Z")


def extend(contents: Contents, utterances: Sequence[Utterance]) -> Contents:
    """Return the contents with what some more messages add."""
    lists = {title: dict(contents.lists.get(title, {})) for title in _contents.LISTS}
    reader = _Reader(contents.goal, contents.earlier, contents.folder, [*contents.exchanges], lists)
    made = [*read_actions(utterances)]
    for one, done in zip(utterances, made, strict=True):
        reader.add(one, done)
    extended = Contents(reader.goal, reader.earlier, contents.folder, tuple(reader.exchanges), lists, contents.left_out)
    return make_relative(extended, [action.folder for done in made for action in done if action.folder])


@dataclass
class _Reader:
    """The contents of a digest while messages are read into them."""

    goal: str
    earlier: str
    folder: str
    exchanges: list[Exchange]
    lists: dict[str, dict[str, str]]

    def add(self, one: Utterance, done: Sequence[Action]) -> None:
        """Take in one message."""
        if one.speaker is Speaker.USER and (request := one.said):
            self._begin_exchange(request)
        elif one.speaker is Speaker.MODEL and one.words.strip():
            self._note_words(one.words)
        for action in done:
            self._note_action(action)

    def put(self, title: str, *items: str) -> None:
        """Put items without a value at the end of a list, wherever they stood before."""
        for item in items:
            self.lists[title].pop(item, None)
            self.lists[title][item] = ""

    def _begin_exchange(self, request: str) -> None:
        """Begin a new exchange; the assistant's last words were the answer to the one before."""
        if continues(request):
            self.earlier = "\n\n".join(filter(None, (self.earlier, request)))
            return
        self._end_exchange()
        before = self.exchanges[-1] if self.exchanges else None
        # A digest that had no room for headings may hold nothing but the assistant's words.
        is_somebodys = bool(self.earlier) and not self.earlier.startswith(SAID)
        if not (self.goal or is_somebodys or any(exchange.request for exchange in self.exchanges)):
            self.goal = request
            self.exchanges.append(Exchange(""))
        elif before and request == (before.request or self.goal):
            self.exchanges[-1] = replace(before, times=before.times + 1)
        else:
            times = self._take_repeated(request) + 1
            self.exchanges.append(Exchange(request, times=times))

    def _take_repeated(self, request: str) -> int:
        """Take away a long request that was made before in the same words; return how many times it was made."""
        same = [exchange for exchange in self.exchanges if len(request) >= LONG_REQUEST and exchange.request == request]
        self.exchanges = [exchange for exchange in self.exchanges if exchange not in same]
        return sum(exchange.times for exchange in same)

    def _end_exchange(self) -> None:
        words = next((item for item in self.lists[_contents.LAST] if item.startswith(SAID)), "")
        answer = one_line(words.removeprefix(SAID), LONGEST_ANSWER)
        self.lists[_contents.LAST].clear()
        if answer and not self.exchanges:
            self.exchanges.append(Exchange(""))
        if answer:
            self.exchanges[-1] = replace(self.exchanges[-1], answer=answer)
            self.lists[_contents.FINDINGS] = {
                finding: "" for finding in self.lists[_contents.FINDINGS] if finding not in answer
            }

    def _note_words(self, words: str) -> None:
        self.put(_contents.FINDINGS, *findings(words))
        kept = [item for item in self.lists[_contents.LAST] if not item.startswith(SAID)]
        self.lists[_contents.LAST] = dict.fromkeys((*kept, SAID + one_line(words, LONGEST_LAST)), "")

    def _note_action(self, action: Action) -> None:
        if not action.is_late:
            self._count(_contents.TOOLS, action.tool, "called")
        if action.failed:
            self._count(_contents.TOOLS, action.tool, "failed")
        self.lists[_contents.PLAN] = dict(update_plan(action, self.lists[_contents.PLAN]))
        action = self._as_late_result(action)
        self._note_outcome(action)
        self._note_state(action)
        for does, path in () if action.failed or action.is_late else action.files():
            self._note_file(does, self._known_path(self._short(path)))
        self._note_last(action)

    def _as_late_result(self, action: Action) -> Action:
        """Return the action as the late result of the listed command whose output it reads, if there is one."""
        running = f"{STILL_RUNNING} {action.waits_for}" if action.waits_for else ""
        commands = self.lists[_contents.COMMANDS].items()
        name = next((name for name, how in commands if running and RUNS.sub("", how).endswith(running)), "")
        if name:
            self.lists[_contents.LAST].pop(f"{name}: {running}", None)
        return action.as_command(name) if name else action

    def _note_last(self, action: Action) -> None:
        """Note the action among the last few, with the assistant's last words between them."""
        last = self.lists[_contents.LAST]
        name = self._short(action.name)
        last.pop(f"{name}: {NO_RESULT}", None)
        noted = [item for item in last if not item.startswith(SAID)]
        for item in noted[: max(0, len(noted) + 1 - LAST_ACTIONS)]:
            del last[item]
        self.put(_contents.LAST, f"{name}: {action.outcome}")

    def _short(self, text: str) -> str:
        """Return a name or a path as it stands in the lists."""
        return one_line(shorten(text, self.folder), len(text))

    def _known_path(self, path: str) -> str:
        """Return a path as the lists have it already, with more of its folders or with fewer."""
        if "/" not in path:
            return path
        listed = {**self.lists[_contents.CHANGED], **self.lists[_contents.READ]}
        same = [one for one in listed if one.endswith(f"/{path}") or ("/" in one and path.endswith(f"/{one}"))]
        return same[0] if path not in listed and len(same) == 1 else path

    def _note_file(self, does: str, path: str) -> None:
        if does == "read" and path not in self.lists[_contents.CHANGED]:
            self._count(_contents.READ, path, does)
        elif does != "read":
            self.lists[_contents.READ].pop(path, None)
            self._count(_contents.CHANGED, path, does)

    def _note_outcome(self, action: Action) -> None:
        """Note how it went: a command's latest outcome, an error, or that an error is no more."""
        name, command = self._short(action.name), action.command
        is_look = bool(command) and _shell.only_looks(command)
        if command and not is_look:
            before = self.lists[_contents.COMMANDS].pop(name, None)
            counted = RUNS.search(before or "")
            runs = (int(counted[1]) if counted else before is not None) + (not action.is_late)
            self.lists[_contents.COMMANDS][name] = action.outcome + (f" (×{runs})" if runs > 1 else "")
        found_nothing = is_look and not action.error  # grep fails where nothing matches
        if action.is_refused:
            self.lists[_contents.OPEN].pop(name, None)
        elif action.failed and not found_nothing:
            self.lists[_contents.RESOLVED].pop(name, None)
            for again in self._same(name):
                self.lists[_contents.OPEN].pop(again)
            self.lists[_contents.OPEN][name] = ": ".join(filter(None, (action.outcome, action.error)))
        elif action.result and (action.failed is False or not hides_failures(command)):
            self._resolve(name, *(name.split(" && ") if command else ()))

    def _note_state(self, action: Action) -> None:
        """Note what a command says of version control and tests, and the one value that it printed."""
        known = dict(states(action))
        if STATUS not in known and COMMIT in known:
            self.lists[_contents.STATE].pop(STATUS, None)  # it told of what is committed now
        for kind, found in known.items():
            self._set(_contents.STATE, kind, shorten(found, self.folder))
        if (found := value(action)) and not known:
            self._set(_contents.VALUES, self._short(action.name), found)
        for old in [*self.lists[_contents.VALUES]][:-MOST_VALUES]:
            del self.lists[_contents.VALUES][old]

    def _set(self, title: str, key: str, value: str) -> None:
        """Put an item at the end of a list, in place of the one that it had before."""
        self.lists[title].pop(key, None)
        self.lists[title][key] = value

    def _resolve(self, *names: str) -> None:
        """Move errors that did not come again to the resolved ones; of `a && b`, those of each command."""
        for name in self._same(*names):
            self.lists[_contents.RESOLVED][name] = self.lists[_contents.OPEN].pop(name)

    def _same(self, *names: str) -> list[str]:
        """Return the open errors of the same commands, whatever their output was piped to."""
        stems = {_shell.stem(name) for name in names}
        return [name for name in self.lists[_contents.OPEN] if _shell.stem(name) in stems]

    def _count(self, title: str, key: str, *words: str) -> None:
        """Put an item at the end of a list, and count its words in its value."""
        self.lists[title][key] = _contents.tally(self.lists[title].pop(key, ""), *words)
