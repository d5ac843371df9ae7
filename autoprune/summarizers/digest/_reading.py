"""Read messages into the contents of a digest: requests, answers, findings, plans and actions."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import autoprune.summarizers.digest._contents as _contents
from autoprune.conversation.messages import one_line
from autoprune.conversation.transcript import Speaker, ToolCall
from autoprune.facts import shell
from autoprune.facts.actions import NO_RESULT, STILL_RUNNING, Action, read_actions
from autoprune.facts.calls import PLAN_LISTS, argument_texts, arguments, is_plan, tool_words
from autoprune.facts.outcomes import is_data
from autoprune.facts.shell import hides_failures
from autoprune.facts.utterances import ANSWERING, Utterance, model_words
from autoprune.summarizers.digest._commands import (
    COMMIT,
    STATUS,
    command_states,
    has_passing_tests,
    moves_head,
    printed_value,
    reruns,
    runs,
)
from autoprune.summarizers.digest._contents import SAID, Contents, Exchange, make_relative, relative
from autoprune.summarizers.sections import shorten

INSIDE = re.compile(r"(?![/~]|\w+:)")  # before a path that is relative to a folder
LONGEST_ANSWER = 2_000  # characters
LONG_REQUEST = 40  # characters; shorter requests such as "continue" are repeated without being the same
LAST_ACTIONS = 5
BEFORE_CHANGES = " [before later changes]"  # after a state of version control
MOST_VALUES = 8
PLAN_NAMES = PLAN_LISTS | {"response"}  # words in the names of arguments with a plan; Cline's has a response
STOPPING = frozenset(("stop", "kill", "terminate"))  # words in the names of tools that end a background command
RUNS = re.compile(r" \(×([0-9]{1,9})\)\Z")
CALLED = re.compile(r"[^\s()]+\((.*)\)", re.DOTALL)  # a call of a tool that is no command
SEARCHED = 20_000  # characters at either end of a message
LONGEST_SENTENCE = 300  # characters of a sentence
SHORTEST_SENTENCE = 12
SHORT_SENTENCE = 40  # characters; a shorter one may only announce the next: "I found the cause."
ANNOUNCED = re.compile(r"(?i)\b(?:found|cause|problem|issue|reason|bug|culprit|here|why)\b")
CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')*`]*\s+|(?<=[。！？])|\n+")
BULLET = re.compile(r"^(?:\s|[-*•>#]+\s|\d+[.)]\s)+")
# How findings and decisions are phrased, and how announcements of the next step are.
FINDING = re.compile(
    r"(?i)\b(?:root cause|the (?:cause|reason|problem|issue|bug|culprit|fix|solution|answer|key|catch) (?:is|was|here)"
    r"|because|caused by|due to|turns? out|is (?:missing|wrong|broken|unused|fixed|done|complete)"
    r"|(?:I|we)(?:['’]ve| have)? (?:found|confirmed|verified|decided|chose|fixed|added|removed|renamed|changed|moved"
    r"|implemented|updated|committed|created|reverted|replaced)"
    r"|does(?:n['’]t| not)|did(?:n['’]t| not)|can(?:not|['’]t)|instead of|so that|the plan|note that|important(?:ly)?"
    r"|all tests (?:pass|green)|tests? pass(?:es|ed)?|now (?:passes|works|fails|uses|returns)"
    r"|fails? (?:because|with|on)|still (?:fails?|missing|open|broken)|remaining|not yet"
    r"|I['’]ll (?:keep|use|leave|skip|treat|go with|not)|we(?:['’]ll| will| should) |should (?:be|use|not)"
    r"|commit(?:ted)? [0-9a-f]{7})"
    r"|原因|问题是|决定|因为|已(?:经)?(?:修复|完成|添加)"
)
STEP = re.compile(
    r"(?i)^(?:(?:now|next|ok(?:ay)?|good|perfect|great|first)[,.!]? )*"
    r"(?:let me|let['’]s|I['’]m (?:now )?\w+ing"
    r"|I(?:['’]ll| will)(?: now)? (?:check|look|read|run|see|start|view|search|find|open|verify|examine)"
    r")\b"
)
LONGEST_ITEM = 200  # characters of an item
MOST_PLAN_LINES = 10  # of a plan that is a text
ANSWERS = ("message", "answer", "result", "text", "content")  # arguments with the answer to the user
ITEM_TEXTS = ("content", "step", "subject", "title", "task", "text", "description", "todo", "name")
MARKS: Mapping[str, str] = {
    **dict.fromkeys(("completed", "complete", "done", "finished", "closed"), "[x]"),
    **dict.fromkeys(("in_progress", "in-progress", "active", "doing", "started"), "[~]"),
    **dict.fromkeys(("deleted", "cancelled", "canceled"), "[-]"),
}
OPEN_MARK = "[ ]"
TASK_NUMBER = re.compile(r"#(\d{1,6})")


def extend_contents(contents: Contents, utterances: Sequence[Utterance], goal: str) -> Contents:
    """Add messages to the contents; `goal` is the user's first request, if it is known."""
    lists = {title: dict(contents.lists.get(title, {})) for title in _contents.LISTS}
    reader = _Reader(
        contents.goal or goal,
        contents.earlier,
        contents.folder,
        [*contents.exchanges],
        lists,
        expects_goal=bool(goal) and not contents.goal,
        is_opening=contents == Contents(),
    )
    actions = [*read_actions(utterances)]
    for one, done in zip(utterances, actions, strict=True):
        reader.add_message(one, done)
    exchanges = tuple(reader.exchanges)
    extended = replace(contents, goal=reader.goal, earlier=reader.earlier, exchanges=exchanges, lists=lists)
    return make_relative(extended, [action.folder for done in actions for action in done if action.folder])


@dataclass
class _Reader:
    """The contents of a digest while messages are read into them.

    An exchange is over once it has an answer: the assistant's last words before the user's next request, whether that
    request is among the messages or stays in the conversation. The words in the list `LAST` are about the exchange that
    is not over. If all exchanges are over, they are about a request that stays in the conversation.
    """

    goal: str
    earlier: str
    folder: str
    exchanges: list[Exchange]
    lists: dict[str, dict[str, str]]
    expects_goal: bool  # the first request is known and not read yet
    is_opening: bool  # no request has been made yet
    is_before_requests: bool = True  # of those that are read here, and of those that stay before messages read here

    def add_message(self, one: Utterance, done: Sequence[Action]) -> None:
        if one.after_request:
            self._end_exchange(_contents.NONE_KEPT, answer=_contents.BELOW if one.answer_stays else "")
            self.is_opening = self.is_before_requests = False
        if one.speaker is Speaker.USER and (said := one.user_words):
            self._note_said(one, said)
        elif one.speaker is Speaker.MODEL and (spoken := _spoken(one)):
            self._note_words(spoken, one)
        for action in done:
            self._note_action(action)

    def _put(self, title: str, item: str, value: str = "") -> None:
        """Put an item at the end of a list, and remove an equal item before it."""
        self.lists[title].pop(item, None)
        self.lists[title][item] = value

    def _note_said(self, one: Utterance, said: str) -> None:
        """Read the user's words. A request ends the previous exchange.

        Answers through a tool and words beside results do not: both come while the assistant is working.
        """
        if one.is_answer or one.results:
            self.exchanges.append(Exchange(said))
        elif one.earlier_summary:
            self._end_exchange()
            self.earlier = "\n\n".join(filter(None, (self.earlier, said)))
        else:
            self._begin_exchange(said, is_behind=one.after_request)

    def _begin_exchange(self, request: str, *, is_behind: bool) -> None:
        """Begin a new exchange. `is_behind` means that an earlier request stays in the conversation."""
        open_before = self._open_exchange() is not None
        self.is_before_requests = False
        self._end_exchange()
        if not open_before and (is_behind or self.is_opening):
            self.lists[_contents.LAST].clear()  # these words are not about this request
        self.is_opening = False
        before = self.exchanges[-1] if self.exchanges else None
        if self.expects_goal and request == self.goal:
            self.expects_goal = False
            self.exchanges.append(Exchange(""))
        elif before and open_before and request == (before.request or self.goal):
            self.exchanges[-1] = _repeat(before, before.times + 1)
        else:
            again = self._take_repeated(request)
            self.exchanges.append(again or Exchange(request))

    def _take_repeated(self, request: str) -> Exchange | None:
        """Remove an equal long request that was made before, and return it with one more repetition."""
        same = [exchange for exchange in self.exchanges if len(request) >= LONG_REQUEST and exchange.request == request]
        self.exchanges = [exchange for exchange in self.exchanges if exchange not in same]
        return _repeat(same[-1], sum(exchange.times for exchange in same) + 1) if same else None

    def _open_exchange(self) -> int | None:
        """Find the index of the exchange that is not over; None if all exchanges are over."""
        asked = [at for at, exchange in enumerate(self.exchanges) if not exchange.is_through_tool]
        return asked[-1] if asked and not self.exchanges[asked[-1]].is_over else None

    def _end_exchange(self, otherwise: str = "", *, answer: str = "") -> None:
        """End the exchange that is not over. Its answer is `answer`, the assistant's last words, or `otherwise`.

        The very last exchange is over only with an answer.
        """
        at = self._open_exchange()
        if at is None:
            return
        # A plan that is a text does not mark what is done, so it ends with its turn, carried out or given up.
        self.lists[_contents.PLAN] = {item: "" for item in self.lists[_contents.PLAN] if item.startswith("[")}
        words = next((item for item in self.lists[_contents.LAST] if item.startswith(SAID)), "")
        shown = answer or words.removeprefix(SAID) or self.exchanges[at].bare_answer or otherwise
        self.lists[_contents.LAST].clear()
        self.exchanges[at] = replace(self.exchanges[at], answer=shown)
        self.lists[_contents.FINDINGS] = {each: "" for each in self.lists[_contents.FINDINGS] if each not in shown}

    def _note_words(self, words: str, one: Utterance) -> None:
        """Read the model's words. An answer that has stayed until now does not tell what went on last."""
        said = one_line(shorten(words, LONGEST_ANSWER, len), len(words))
        waiting = [at for at, exchange in enumerate(self.exchanges) if exchange.answer == _contents.BELOW]
        if waiting and self.is_before_requests and not one.calls:
            self.exchanges[waiting[0]] = replace(self.exchanges[waiting[0]], answer=said)
            return
        for finding in findings(words):
            self._put(_contents.FINDINGS, finding)
        kept = [item for item in self.lists[_contents.LAST] if not item.startswith(SAID)]
        self.lists[_contents.LAST] = dict.fromkeys((*kept, SAID + said), "")

    def _note_action(self, action: Action) -> None:
        if not action.is_late:
            self._tally(_contents.TOOLS, action.tool, "called")
        if action.is_cancelled:
            return
        if action.failed:
            self._tally(_contents.TOOLS, action.tool, "failed")
        self.lists[_contents.PLAN] = dict(update_plan(action, self.lists[_contents.PLAN]))
        action = self._as_late_result(action)
        self._note_outcome(action)
        self._note_state(action)
        if not action.failed and not action.is_late:
            self._note_files(action)
        self._note_last(action)

    def _as_late_result(self, action: Action) -> Action:
        """Turn an action that polls a listed command into that command's late result; note that one was stopped."""
        running = f"{STILL_RUNNING} {action.waits_for}" if action.waits_for else ""
        commands = self.lists[_contents.COMMANDS]
        name = next((name for name, how in commands.items() if running and RUNS.sub("", how).endswith(running)), "")
        if name:
            self.lists[_contents.LAST].pop(f"{name}: {running}", None)
        if name and not STOPPING.isdisjoint(tool_words(action.tool)):
            commands[name] = commands[name].replace(running, "stopped")
            return action
        return action.as_command(name) if name else action

    def _note_last(self, action: Action) -> None:
        """Add the action to the last few; the assistant's last words keep their place among them."""
        last = self.lists[_contents.LAST]
        name = self._short_name(action.name)
        last.pop(f"{name}: {NO_RESULT}", None)
        noted = [item for item in last if not item.startswith(SAID)]
        for item in noted[: max(0, len(noted) + 1 - LAST_ACTIONS)]:
            del last[item]
        self._put(_contents.LAST, f"{name}: {action.outcome}")

    def _short_name(self, text: str) -> str:
        """Shorten a name or a path as in the lists."""
        return one_line(relative(text, self.folder), len(text))

    def _note_files(self, action: Action) -> None:
        changed, read = self.lists[_contents.CHANGED], self.lists[_contents.READ]
        url = arguments(action.call).get("url") if action.call and is_data(action.call) else None
        for does, name in chain(action.files(), [("read", url)] if isinstance(url, str) else ()):
            whole = posixpath.normpath(f"{action.folder}/{name}") if action.folder and INSIDE.match(name) else name
            path = self._listed_path(self._short_name(whole), self.folder if not INSIDE.match(whole) else "")
            if does != "read":
                read.pop(path, None)
                self._tally(_contents.CHANGED, path, does)
            elif path not in changed:
                self._tally(_contents.READ, path, does)

    def _listed_path(self, path: str, folder: str) -> str:
        """Find the spelling of a path that the lists already have, with more folders or fewer.

        `folder` is the one that the listed paths are in, "" if that of the path is not known.
        """
        if "/" not in path:
            return path
        listed = {**self.lists[_contents.CHANGED], **self.lists[_contents.READ]}
        same = [one for one in listed if "/" in one and _is_same_path(_whole(one, folder), _whole(path, folder))]
        return same[0] if path not in listed and len(same) == 1 else path

    def _note_outcome(self, action: Action) -> None:
        """Record the outcome: a command's latest outcome, a new error, or that an error is resolved."""
        name = self._short_name(action.name)
        if action.acts or (action.command and not action.is_read_only):
            times = self._take_runs(name) + (not action.is_late)
            how = ": ".join(filter(None, (action.outcome, ", ".join(action.returned_ids))))
            self.lists[_contents.COMMANDS][name] = how + (f" (×{times})" if times > 1 else "")
        is_known = not action.waits_for or action.command  # else the command is unknown
        if action.is_refused:
            self.lists[_contents.OPEN].pop(name, None)
        elif action.failed and is_known and not (action.is_read_only or action.is_malformed):
            self.lists[_contents.RESOLVED].pop(name, None)
            for before in self._errors_rerun_by(action, name):
                self.lists[_contents.OPEN].pop(before)
            self.lists[_contents.OPEN][name] = ": ".join(filter(None, (action.outcome, action.error)))
        elif action.result and not action.failed and not action.runs_as and self._has_succeeded(action):
            for resolved in self._errors_rerun_by(action, name):
                self.lists[_contents.RESOLVED][resolved] = self.lists[_contents.OPEN].pop(resolved)
                if resolved != name and self.lists[_contents.COMMANDS].get(resolved, "").startswith("failed"):
                    del self.lists[_contents.COMMANDS][resolved]

    def _take_runs(self, name: str) -> int:
        """Remove a command from the list, ignoring truncation of its output; return how many times it was run."""
        commands = self.lists[_contents.COMMANDS]
        same = [one for one in commands if shell.without_truncation(one) == shell.without_truncation(name)]
        counted = [(RUNS.search(how), how) for one in same if (how := commands.pop(one))]
        return sum(int(match[1]) if match else 1 for match, _ in counted)

    def _has_succeeded(self, action: Action) -> bool:
        """Return whether a call that is not known to have failed has probably succeeded."""
        is_silent = bool(action.result and not action.result.text.strip())  # as compilers are that find no error
        if is_silent:  # a filter may have dropped the errors
            parts = shell.split_commands(shell.without_truncation(action.name))
            is_silent = not any(joint[:1] == "|" for joint, _ in parts)
        return action.failed is False or not hides_failures(action.command) or has_passing_tests(action) or is_silent

    def _errors_rerun_by(self, action: Action, name: str) -> list[str]:
        """List the open errors that an action retries: errors of the same command, file or tool."""
        done = runs(action.name) if action.command else ()
        files = [*action.files()]
        changed = [path for does, path in files if does != "read"]
        is_plain = not (action.command or files)  # only the tool is known, and its target, which begins with an id

        def is_same(one: str) -> bool:
            if one == name or reruns(done, one) or (is_plain and one.split()[:1] == name.split()[:1]):
                return True
            called = CALLED.fullmatch(one)
            named = [path.rstrip("…") for path in called[1].split()] if called else []
            return any(_is_same_path(path, other) for path in named for other in changed)

        return [one for one in self.lists[_contents.OPEN] if is_same(one)]

    def _note_state(self, action: Action) -> None:
        """Record the state of version control and tests, and the value that a command printed."""
        states, known = dict(command_states(action)), self.lists[_contents.STATE]
        has_moved = bool(action.command) and moves_head(action)
        if has_moved or COMMIT in states:
            known.pop(STATUS, None)  # of another branch, or of changes that are now committed
        elif (status := known.get(STATUS)) and not action.failed and any(map(_is_change, action.files())):
            known[STATUS] = status.removesuffix(BEFORE_CHANGES) + BEFORE_CHANGES
        if has_moved:
            known.pop(COMMIT, None)
        for kind, found in states.items():
            self._put(_contents.STATE, kind, relative(found, self.folder))
        if (found := printed_value(action)) and not states:
            self._put(_contents.VALUES, self._short_name(action.name), found)
        for old in [*self.lists[_contents.VALUES]][:-MOST_VALUES]:
            del self.lists[_contents.VALUES][old]

    def _tally(self, title: str, key: str, *words: str) -> None:
        """Put an item at the end of a list, and add words to its counted value."""
        self.lists[title][key] = _contents.tally(self.lists[title].pop(key, ""), *words)


def _spoken(one: Utterance) -> str:
    """Return what the model said, also through a tool that answers the user."""
    answers = (_answer(call) for call in one.calls if call.name in ANSWERING)
    return "\n\n".join((model_words(one.words), *answers)).strip()


def _answer(call: ToolCall) -> str:
    """Return the answer in the arguments of such a call, without others, such as attachments or the task's state."""
    given = arguments(call)
    answer = next((given[name] for name in ANSWERS if name in given), None)
    return str(answer) if isinstance(answer, str | int | float) else argument_texts(call)


def _is_change(access: tuple[str, str]) -> bool:
    """Return whether an access changes a file that may be of the project."""
    does, path = access
    return does != "read" and not path.startswith("/tmp/")


def _whole(path: str, folder: str) -> str:
    return f"{folder}/{path}" if folder and INSIDE.match(path) else path


def _is_same_path(one: str, other: str) -> bool:
    """Return whether one path is the other one, or its end."""
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _repeat(exchange: Exchange, times: int) -> Exchange:
    """Count a repetition of an exchange's request; the answer stays until there is another answer."""
    answer = exchange.bare_answer
    return replace(exchange, times=times, answer=answer and answer + _contents.AGAIN)


def findings(words: str) -> Iterator[str]:
    """Yield sentences that state a cause, an outcome or a decision; a short sentence together with the next."""
    before = ""
    for sentence in sentences(words):
        is_step = bool(STEP.match(sentence))
        if before:
            yield before if is_step else f"{before} {sentence}"
            before = ""
        elif FINDING.search(sentence) and not is_step:
            before = sentence if len(sentence) <= SHORT_SENTENCE and ANNOUNCED.search(sentence) else ""
            yield from () if before else (sentence,)
    yield from (before,) if before else ()


def sentences(words: str) -> Iterator[str]:
    """Yield the sentences of a text, each on one line, without fenced code and sentences of unusual length."""
    text = words if len(words) <= 2 * SEARCHED else f"{words[:SEARCHED]}\n{words[-SEARCHED:]}"
    for sentence in SENTENCE_END.split(CODE.sub("\n", text)):
        plain = one_line(BULLET.sub("", sentence), 2 * LONGEST_SENTENCE)
        if SHORTEST_SENTENCE <= len(plain) <= LONGEST_SENTENCE and plain[-1] != ":":
            yield plain


def update_plan(action: Action, plan: Mapping[str, str]) -> Mapping[str, str]:
    """Update the plan by a call: a new list, or one task added or changed; any other call leaves it unchanged."""
    words = tool_words(action.tool)
    if not action.call or action.failed or "read" in words:
        return plan
    if is_plan(action.call) and not PLAN_LISTS.isdisjoint(words):
        items = [*_plan_items(arguments(action.call), 0)]
        # The first items of a list are dropped first: those that are done.
        return dict.fromkeys(sorted(items, key=lambda item: not item.startswith("[x]")), "") if items else plan
    if words in (["task", "create"], ["task", "update"]):
        return _change_task(plan, action, arguments(action.call))
    return plan


def _plan_items(value: object, depth: int) -> Iterator[str]:
    match value:
        case Mapping():
            text = next(
                (found for name in ITEM_TEXTS if isinstance(found := value.get(name), str) and found.strip()), ""
            )
            if text and depth:
                yield f"{MARKS.get(str(value.get('status')), OPEN_MARK)} {one_line(text, LONGEST_ITEM)}"
            else:
                for name, item in value.items():
                    # Other texts explain the plan, and a single word is its name or path.
                    if not isinstance(item, str) or (" " in item and not PLAN_NAMES.isdisjoint(tool_words(name))):
                        yield from _plan_items(item, depth + 1)
        case str() if depth == 1:
            lines = (line.strip().removeprefix("- ").removeprefix("* ") for line in CODE.sub("", value).split("\n"))
            yield from (one_line(line, LONGEST_ITEM) for line in islice(filter(None, lines), MOST_PLAN_LINES))
        case list() | tuple() if depth <= 2:
            for item in value:
                yield from _plan_items(item if isinstance(item, Mapping) else {"text": item}, depth + 1)


def _change_task(plan: Mapping[str, str], action: Action, known: Mapping[str, object]) -> Mapping[str, str]:
    """Add a task to the plan, or change the status of the task with the same number."""
    said = action.result.text if action.result else ""
    number = str(known.get("taskId") or next(iter(TASK_NUMBER.findall(said)), ""))
    before = next((item for item in plan if number and f" #{number} " in item), "")
    text = known.get("subject") or before.partition(f" #{number} ")[2] or f"task {number}"
    mark = MARKS.get(str(known.get("status")), before[:3] or OPEN_MARK)
    item = f"{mark} #{number} {one_line(str(text), LONGEST_ITEM)}"
    return {**{other: "" for other in plan if other != before}, item: ""}
