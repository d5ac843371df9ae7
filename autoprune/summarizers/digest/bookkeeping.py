"""A ledger carried on by more messages: what was asked, said and done in them. Pure; leaves nothing out by itself."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoprune.conversation.commands import RUNNING, hides_failures
from autoprune.conversation.transcript import Speaker
from autoprune.formats.harness import continues
from autoprune.summarizers import _shell
from autoprune.summarizers.actions import NO_RESULT, Action, read_actions
from autoprune.summarizers.digest import ledger as ledgers
from autoprune.summarizers.digest.findings import findings
from autoprune.summarizers.digest.folders import relative, shortened
from autoprune.summarizers.digest.ledger import Ledger, Turn
from autoprune.summarizers.digest.state import COMMIT, STATUS, states, value
from autoprune.summarizers.digest.todos import planned
from autoprune.summarizers.sections import one_line
from autoprune.summarizers.utterances import Utterance

LONGEST_ANSWER = 400  # characters
LONGEST_LAST = 900
LONG_REQUEST = 40  # characters: one that is made again in the same words is told once
LAST_ACTIONS = 5
MOST_VALUES = 8
SAID = "The assistant: "
RUNS = re.compile(r" \(×([0-9]{1,9})\)\Z")


def continued(ledger: Ledger, utterances: Sequence[Utterance]) -> Ledger:
    """The ledger after some more messages."""
    lists = {title: dict(ledger.lists.get(title, {})) for title in ledgers.LISTS}
    book = _Book(ledger.goal, ledger.earlier, ledger.folder, [*ledger.turns], lists)
    made = [*read_actions(utterances)]
    for one, done in zip(utterances, made, strict=True):
        book.add(one, done)
    written = Ledger(book.goal, book.earlier, ledger.folder, tuple(book.turns), lists, ledger.left_out)
    return relative(written, [action.folder for done in made for action in done if action.folder])


@dataclass
class _Book:
    """A ledger that is being written."""

    goal: str
    earlier: str
    folder: str
    turns: list[Turn]
    lists: dict[str, dict[str, str]]

    def add(self, one: Utterance, done: Sequence[Action]) -> None:
        """Take in one message."""
        if one.speaker is Speaker.USER and (request := one.said):
            self._asked(request)
        elif one.speaker is Speaker.MODEL and one.words.strip():
            self._spoke(one.words)
        for action in done:
            self._did(action)

    def put(self, title: str, *entries: str) -> None:
        """Entries without a value at the end of a list, where they may have stood before."""
        for entry in entries:
            self.lists[title].pop(entry, None)
            self.lists[title][entry] = ""

    def _asked(self, request: str) -> None:
        """A new turn; the assistant's last words were the answer to the one before."""
        if continues(request):
            self.earlier = "\n\n".join(filter(None, (self.earlier, request)))
            return
        self._answered()
        before = self.turns[-1] if self.turns else None
        # A digest that had no room for headings, of what the assistant said alone, knows no request yet.
        is_somebodys = bool(self.earlier) and not self.earlier.startswith(SAID)
        if not (self.goal or is_somebodys or any(turn.request for turn in self.turns)):
            self.goal = request
            self.turns.append(Turn(""))
        elif before and request == (before.request or self.goal):
            self.turns[-1] = replace(before, times=before.times + 1)
        else:
            times = self._asked_before(request) + 1
            self.turns.append(Turn(request, times=times))

    def _asked_before(self, request: str) -> int:
        """Take away a long request that was made before in the same words; how many times it was made."""
        same = [turn for turn in self.turns if len(request) >= LONG_REQUEST and turn.request == request]
        self.turns = [turn for turn in self.turns if turn not in same]
        return sum(turn.times for turn in same)

    def _answered(self) -> None:
        words = next((entry for entry in self.lists[ledgers.LAST] if entry.startswith(SAID)), "")
        answer = one_line(words.removeprefix(SAID), LONGEST_ANSWER)
        self.lists[ledgers.LAST].clear()
        if answer and not self.turns:
            self.turns.append(Turn(""))
        if answer:
            self.turns[-1] = replace(self.turns[-1], answer=answer)
            self.lists[ledgers.FINDINGS] = {
                finding: "" for finding in self.lists[ledgers.FINDINGS] if finding not in answer
            }

    def _spoke(self, words: str) -> None:
        self.put(ledgers.FINDINGS, *findings(words))
        kept = [entry for entry in self.lists[ledgers.LAST] if not entry.startswith(SAID)]
        self.lists[ledgers.LAST] = dict.fromkeys((*kept, SAID + one_line(words, LONGEST_LAST)), "")

    def _did(self, action: Action) -> None:
        if not action.is_late:
            self._count(ledgers.TOOLS, action.tool, "called")
        if action.failed:
            self._count(ledgers.TOOLS, action.tool, "failed")
        self.lists[ledgers.PLAN] = dict(planned(action, self.lists[ledgers.PLAN]))
        action = self._continuing(action)
        self._judge(action)
        self._state(action)
        for does, path in () if action.failed or action.is_late else action.files():
            self._touch(does, self._known(self._name(path)))
        self._note(action)

    def _continuing(self, action: Action) -> Action:
        """The action as the result of the command whose output it reads, where that stands in the list."""
        running = f"{RUNNING} {action.waits_for}" if action.waits_for else ""
        commands = self.lists[ledgers.COMMANDS].items()
        name = next((name for name, how in commands if running and RUNS.sub("", how).endswith(running)), "")
        if name:
            self.lists[ledgers.LAST].pop(f"{name}: {running}", None)
        return action.as_command(name) if name else action

    def _note(self, action: Action) -> None:
        """Take down what went on last: a few actions, with the assistant's last words between them."""
        last = self.lists[ledgers.LAST]
        name = self._name(action.name)
        last.pop(f"{name}: {NO_RESULT}", None)
        noted = [entry for entry in last if not entry.startswith(SAID)]
        for entry in noted[: max(0, len(noted) + 1 - LAST_ACTIONS)]:
            del last[entry]
        self.put(ledgers.LAST, f"{name}: {action.outcome}")

    def _name(self, text: str) -> str:
        """A name or a path as it stands in the lists."""
        return one_line(shortened(text, self.folder), len(text))

    def _known(self, path: str) -> str:
        """A path as it stands in the lists already, where it does so with more of its folders, or with fewer."""
        if "/" not in path:
            return path
        listed = {**self.lists[ledgers.CHANGED], **self.lists[ledgers.READ]}
        same = [one for one in listed if one.endswith(f"/{path}") or ("/" in one and path.endswith(f"/{one}"))]
        return same[0] if path not in listed and len(same) == 1 else path

    def _touch(self, does: str, path: str) -> None:
        if does == "read" and path not in self.lists[ledgers.CHANGED]:
            self._count(ledgers.READ, path, does)
        elif does != "read":
            self.lists[ledgers.READ].pop(path, None)
            self._count(ledgers.CHANGED, path, does)

    def _judge(self, action: Action) -> None:
        """Take down how it went: a command's latest outcome, an error, or that an error is no more."""
        name, command = self._name(action.name), action.command
        is_look = bool(command) and _shell.only_looks(command)
        if command and not is_look:
            before = self.lists[ledgers.COMMANDS].pop(name, None)
            counted = RUNS.search(before or "")
            runs = (int(counted[1]) if counted else before is not None) + (not action.is_late)
            self.lists[ledgers.COMMANDS][name] = action.outcome + (f" (×{runs})" if runs > 1 else "")
        found_nothing = is_look and not action.error  # grep fails where nothing matches
        if action.is_refused:
            self.lists[ledgers.OPEN].pop(name, None)
        elif action.failed and not found_nothing:
            self.lists[ledgers.RESOLVED].pop(name, None)
            for again in self._same(name):
                self.lists[ledgers.OPEN].pop(again)
            self.lists[ledgers.OPEN][name] = ": ".join(filter(None, (action.outcome, action.error)))
        elif action.result and (action.failed is False or not hides_failures(command)):
            self._resolve(name, *(name.split(" && ") if command else ()))

    def _state(self, action: Action) -> None:
        """Take down what a command says of version control and tests, and the one value that it printed."""
        known = dict(states(action))
        if STATUS not in known and COMMIT in known:
            self.lists[ledgers.STATE].pop(STATUS, None)  # it was of what is committed now
        for kind, found in known.items():
            self._set(ledgers.STATE, kind, shortened(found, self.folder))
        if (found := value(action)) and not known:
            self._set(ledgers.VALUES, self._name(action.name), found)
        for old in [*self.lists[ledgers.VALUES]][:-MOST_VALUES]:
            del self.lists[ledgers.VALUES][old]

    def _set(self, title: str, key: str, value: str) -> None:
        """An entry at the end of a list, in place of the one that it had before."""
        self.lists[title].pop(key, None)
        self.lists[title][key] = value

    def _resolve(self, *names: str) -> None:
        """What did not fail again; of commands that only run after each other's success, each."""
        for name in self._same(*names):
            self.lists[ledgers.RESOLVED][name] = self.lists[ledgers.OPEN].pop(name)

    def _same(self, *names: str) -> list[str]:
        """Commands among the open errors that differ from some at most in where their output is piped to."""
        stems = {_shell.stem(name) for name in names}
        return [name for name in self.lists[ledgers.OPEN] if _shell.stem(name) in stems]

    def _count(self, title: str, key: str, *words: str) -> None:
        """An entry at the end of a list; its value says how many times each word was said of it."""
        self.lists[title][key] = ledgers.tally(self.lists[title].pop(key, ""), *words)
