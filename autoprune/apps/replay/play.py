"""Replay an episode: at each recorded request, run the strategy as a live loop would, and measure its prompt.

The promises of docs/loop.md are checked at each request whose prompt changed:

    1  the recorded messages are unchanged, and messages that were not edited are the same objects
    2  in an edited message, only the payloads of results and the arguments of calls differ
    3  the provider accepts the output if it accepts the recorded messages
    4  no edit makes a message larger
    5  pruning the output again changes nothing
    6  what was cleared stays cleared

If whole messages are folded or dropped, promises 2, 4 and 6 are checked for the remaining messages. Promises 3 and 5
re-read the whole prompt, so they are checked only at the first eight changes, at every sixteenth change after that, and
at the last request.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from time import perf_counter
from typing import Any

from autoprune.apps.replay.atoms import FETCHED
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.evidence import Need, Protected, ProtectedKind
from autoprune.apps.replay.visible import Text, strings
from autoprune.conversation.messages import fields_of, with_item
from autoprune.facts.calls import arguments
from autoprune.planning.view import folds
from autoprune.tokens import Count
from autoprune.wire import new_parser, problems

NEAR = 10  # requests after a re-read during which the result is not fetched again
FIRST, EVERY = 8, 16  # changes after which promises 3 and 5 are checked
HOLDERS = ("content", "parts")  # fields that hold a message's blocks: Anthropic's and OpenAI's, Gemini's


class MessageSizes:
    """Estimates the provider's tokens of messages, but only once for each message."""

    def __init__(self, episode: Episode, count: Count) -> None:
        self._text = episode.sizes.text
        sizes = [round(size, 6) for size in episode.sizes.messages]  # so that equal sizes are equal numbers
        self._sizes = dict(zip(map(id, episode.messages), sizes, strict=True))
        self._hidden: dict[str | None, float] = {}  # what answers have beyond their visible text, by a call's id
        for entry, size in zip(episode.transcript.entries, episode.sizes.messages, strict=True):
            self._hidden.update((call.id, size - self._text * entry.tokens) for call in entry.calls)
        self._kept: list[object] = []  # keeps messages alive, so that no id() is reused
        self._parser = new_parser(count)

    def size(self, message: object) -> float:
        """Estimate the tokens of a message, or return the earlier estimate."""
        size = self._sizes.get(id(message))
        if size is None:
            entry = self._parser.read(message, 0)
            hidden = next((self._hidden.get(call.id, 0.0) for call in entry.calls), 0.0)
            size = self._sizes[id(message)] = round(self._text * entry.tokens + hidden, 6)
            self._kept.append(message)
        return size

    def leading(self, before: object, now: object) -> float:
        """Estimate the tokens of the leading blocks that a message shares with the previous message at its place.

        Providers cache blocks: if one of several results in a message is cleared, the results before it stay cached.
        """
        for name in HOLDERS:
            old, new = fields_of(before).get(name), fields_of(now).get(name)
            if isinstance(old, list) and isinstance(new, list) and with_item(before, name, new) == now:
                count = common_length(old, new)
                counted = self._parser.read(with_item(now, name, new[:count]), 0).tokens if count else 0
                return self._text * counted
        return 0.0


def common_length(before: Sequence[object], now: Sequence[object]) -> int:
    """Count the leading messages, or blocks, that two lists share."""
    at = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        at += 1
    return at


class _VisibleEvidence:
    """Records which needs and protected content the prompts show. Each text is searched once in a changed message."""

    def __init__(self, episode: Episode) -> None:
        self.retained: list[bool] = []
        self.in_results: list[bool] = []
        self.rereads: list[tuple[int, int]] = []
        self._counts: Counter[tuple[ProtectedKind, bool]] = Counter()
        self._protected = episode.protected
        self._needs: dict[int, list[Need]] = {}
        for need in episode.evidence.needs:
            self._needs.setdefault(need.request, []).append(need)
        self._own = {id(message): at for at, message in enumerate(episode.messages)}
        self._results = episode.transcript.results
        self._whole: set[int] = set()  # recorded messages that are unchanged in the prompt
        self._others: dict[int, None] = {}  # numbers of the other messages in the prompt
        self._numbers: dict[int, int] = {}  # of all other messages of any prompt so far, by id()
        self._texts: list[tuple[object, Text]] = []
        # By text: how many of the other messages were searched for it, and which of them contain it.
        self._found: dict[str, tuple[int, list[int]]] = {}
        self._parser = new_parser(len)
        # Messages are read one by one, without the calls before them that results in texts answer.
        self._parser.standing = replace(self._parser.standing, is_free=True)

    def look(self, request: int, messages: Sequence[object]) -> None:
        """Search the prompt of a request for the evidence that its action needed, and for protected content."""
        self._whole = {at for message in messages if (at := self._own.get(id(message))) is not None}
        self._others = {self._number(message): None for message in messages if id(message) not in self._own}
        missing: list[Need] = []
        for need in self._needs.get(request, ()):
            is_whole = self._has_source(need)
            is_there = is_whole or any(self._texts[number][1].shows(need.atom) for number in self._others)
            self.in_results.append(is_whole)
            self.retained.append(is_there)
            if not is_there and need.sources and need.atom.kind in FETCHED:
                missing.append(need)
        # The newest sources are fetched again, unless they were in the last 10 requests.
        lately = {result for when, result in self.rereads if when >= request - NEAR}
        fetched = dict.fromkeys(need.sources[-1] for need in missing)
        self.rereads += ((request, result) for result in fetched if result not in lately)
        self._counts.update((each.kind, self._has(each)) for each in self._protected[request])

    @property
    def protected(self) -> dict[ProtectedKind, tuple[int, int]]:
        """The tokens of protected content that was whole in the prompts, and of content that was not, by kind."""
        return {kind: (self._counts[kind, True], self._counts[kind, False]) for kind in ProtectedKind}

    def _has_source(self, need: Need) -> bool:
        """Return whether a result or a message of the model that shows the need is whole in the prompt."""
        if not self._whole.isdisjoint(need.written):
            return True
        places = ((source, self._results[source].location.message) for source in need.sources)
        return any(at in self._whole or self._holds(self._results[source].text) for source, at in places)

    def _has(self, item: Protected) -> bool:
        """Return whether protected content is whole in the prompt: in its unchanged message, or elsewhere."""
        return item.message in self._whole or any(all(map(self._holds, form)) for form in item.forms)

    def _holds(self, text: str) -> bool:
        """Return whether a changed or new message contains the whole text."""
        if not text or not self._others:
            return False
        seen, holders = self._found.get(text, (0, []))
        holders += (number for number in range(seen, len(self._texts)) if text in self._texts[number][1].raw)
        self._found[text] = len(self._texts), holders
        return any(number in self._others for number in holders)

    def _number(self, message: object) -> int:
        """Return the number of a message that is not the episode's; read the message if it is new."""
        number = self._numbers.get(id(message))
        if number is None:
            entry = self._parser.read(message, 0)
            written = ("\n".join(strings(arguments(call))) for call in entry.calls)
            said = [*entry.texts, *written, *(result.text for result in entry.results)]
            number = self._numbers[id(message)] = len(self._texts)
            self._texts.append((message, Text("\n".join(said))))
        return number


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A request's prompt: its tokens, and how many of them are in the prefix shared with the previous prompt."""

    tokens: int
    held: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """An episode under a strategy, request by request, without prices.

    `retained` tells for each need whether it was visible, and `in_results` whether it was visible without the text of
    placeholders and summaries. `rereads` are pairs of a request and a result that would have been fetched again.
    `protected` counts, over all requests, the protected content that was whole and the protected content that was not.
    `thinking` are the provider's tokens of thinking behind an edit, lost by a model that binds it to earlier messages.
    """

    episode: Episode = field(repr=False)
    prompts: tuple[SentPrompt, ...] = field(repr=False)
    retained: tuple[bool, ...] = field(repr=False)
    in_results: tuple[bool, ...] = field(repr=False)
    rereads: tuple[tuple[int, int], ...] = ()
    violations: tuple[str, ...] = ()
    thinking: float = 0.0
    protected: Mapping[ProtectedKind, tuple[int, int]] = field(default_factory=dict)


def play(
    episode: Episode,
    new_pruner: Callable[[], Any],
    strategy: Any,
    *,
    count: Count,
    fed_back: bool = False,
    only_rules: bool = False,
) -> Run:
    """Replay an episode: find the prompts that a strategy would have sent, and the evidence that they lack.

    `new_pruner` creates a pruner with the episode's safe zone. At each request, the pruner prunes the full history, or
    with `fed_back` its own previous output and the new messages. With `only_rules`, for policies of other tools, only
    promise 3 is checked: the provider's rules.
    """
    sizes = MessageSizes(episode, count)
    promises = _PromiseChecker(episode, sizes.size, only_rules=only_rules)
    evidence = _VisibleEvidence(episode)
    prompts: list[SentPrompt] = []
    before: list[Any] = []
    invalid: set[int] = set()  # messages behind an edit, whose thinking was written before it
    read = 0
    # Two pruners: promise 5 is checked by one that remembers nothing of the run.
    prune, prune_again = (partial(new_pruner().prune, strategy=strategy) for _ in range(2))
    for request, start in enumerate(episode.requests):
        given = [*before, *episode.messages[read:start]] if fed_back else episode.messages[:start]
        arguments = pruner_arguments(episode, strategy, request)
        began = perf_counter()
        result = prune(given, **arguments)
        messages = result.conversation
        seconds = perf_counter() - began
        shown = list(map(sizes.size, messages))
        same = common_length(before, messages)
        beside = episode.sizes.beside[request]
        held = sum(shown[:same]) + (episode.sizes.beside[request - 1] if request else 0)
        # If the prefix ends within a message, the blocks before its first change are still cached.
        is_new = same < len(before)
        if is_new:
            held += sum(map(sizes.leading, before[same : same + 1], messages[same : same + 1]))
            invalid.update(range(same + read - len(before), start))
        tokens = max(0, round(beside + sum(shown)))
        prompts.append(SentPrompt(tokens, min(tokens, max(0, round(held))), seconds))
        if len(messages) < len(given):
            arguments.pop("pauses", None)  # removed messages move the others, so `Pauses` forgets them too
            if "history" in arguments and result.plan.places and not fed_back:
                ends = (0, *(at + 1 for at in result.plan.places))
                arguments["history"] = {ends[start]: known for start, known in arguments["history"].items()}
        promises.check(request, given, messages, partial(prune_again, messages, **arguments), is_new=is_new)
        evidence.look(request, messages)
        before, read = messages, start
    promises.finish()
    return Run(
        episode=episode,
        prompts=tuple(prompts),
        retained=tuple(evidence.retained),
        in_results=tuple(evidence.in_results),
        rereads=tuple(evidence.rereads),
        violations=tuple(promises.violations),
        thinking=sum(episode.thinking[at] for at in invalid),
        protected=evidence.protected,
    )


def pruner_arguments(episode: Episode, strategy: Any, request: int = -1) -> dict[str, Any]:
    """Return the arguments that a live loop would pass to `prune` at a request, by default the last one.

    They are the calibration and known pauses. If prices depend on the size of the prompt, they include the tokens that
    each request sends beside its recorded messages, which a live loop would count.
    """
    arguments: dict[str, Any] = {"calibration": episode.ratio}
    if episode.pauses and not folds(strategy):
        arguments["pauses"] = episode.pauses
    if getattr(getattr(strategy, "prices", None), "tiers", ()):
        heads = zip(episode.requests, episode.heads, strict=True)
        last = episode.requests[request]
        arguments["history"] = {start: {"overhead_tokens": head} for start, head in heads if start <= last}
    return arguments


class _PromiseChecker:
    """Checks the promises in one replay. `violations` are sentences that name the promise and the request."""

    def __init__(self, episode: Episode, tokens: Callable[[object], float], *, only_rules: bool = False) -> None:
        """Fingerprint the recorded messages; `tokens` counts a message. `only_rules` checks promise 3 alone."""
        self.violations: list[str] = []
        self._only_rules = only_rules
        self._messages = episode.messages
        self._last = len(episode.requests) - 1
        self._tokens = tokens
        self._before = _fingerprint(episode.messages)
        self._edited: dict[int, Any] = {}  # the last version of each edited message
        self._changes = 0
        self._parser = new_parser(len)
        # Messages are read one by one, without the calls before them that results in texts answer.
        self._parser.standing = replace(self._parser.standing, is_free=True)

    def check(
        self, request: int, given: Sequence[Any], sent: Sequence[Any], again: Callable[[], Any], *, is_new: bool = False
    ) -> None:
        """Check the output `sent` for the input `given`; `is_new` means that it does not extend the previous prompt.

        `again` prunes `sent` with a new pruner.
        """
        broken: list[tuple[int, str]] = []
        for at, old, new, before in [] if self._only_rules else list(self._edits(given, sent)):
            broken += self._check_edit(at, old, new, before)
            is_new = True
        self._changes += is_new
        is_due = is_new and (self._changes <= FIRST or self._changes % EVERY == 0)
        if is_due or (request == self._last and self._changes):
            broken += self._check_prompt(given, sent, sent if self._only_rules else again().conversation)
        self.violations += (f"promise {promise}, request {request}: {what}" for promise, what in broken)

    def finish(self) -> None:
        """Check that the recorded messages are unchanged."""
        if _fingerprint(self._messages) != self._before:
            self.violations.append("promise 1: the recorded messages were changed")

    def _edits(self, given: Sequence[Any], sent: Sequence[Any]) -> Iterator[tuple[int, Any, Any, Any]]:
        """Yield each newly edited message: its place, its input, its output, and its previous output.

        The previous output is None for a message that was not edited before.
        """
        if len(given) != len(sent):
            self._edited.clear()  # messages were removed, so places do not correspond
            return
        for at, (old, new) in enumerate(zip(given, sent, strict=True)):
            before = self._edited.get(at)
            if new is (old if before is None else before) or (before is not None and new == before):
                continue
            self._edited[at] = new
            yield at, old, new, before

    def _check_edit(self, at: int, old: Any, new: Any, before: Any) -> Iterator[tuple[int, str]]:
        tokens = self._tokens(new)
        if before is None and new == old:
            yield 1, f"message {at} was not edited, but is not the same object"
        if before is not None and tokens > self._tokens(before):
            yield 6, f"message {at} is larger than in the previous prompt"
        elif tokens > self._tokens(old):
            yield 4, f"message {at} is larger than it was"
        if self._fixed_content(new) != self._fixed_content(old):
            yield 2, f"message {at} differs outside its results and calls"

    def _fixed_content(self, message: Any) -> object:
        """Return everything in a message except the payloads of results and the arguments of calls."""
        entry = self._parser.read(message, 0)
        results = [(each.kind, each.is_error, each.tool) for each in entry.results]
        return entry.texts, results, [(call.id, call.name) for call in entry.calls]

    def _check_prompt(
        self, given: Sequence[Any], sent: Sequence[Any], again: Sequence[Any]
    ) -> Iterator[tuple[int, str]]:
        """Check a whole prompt. If messages were removed, compare problems by rule alone, not by place."""
        has_all = len(given) == len(sent)
        expected = {(problem.rule, problem.path if has_all else ()) for problem in problems(given)}
        for problem in problems(sent):
            if (problem.rule, problem.path if has_all else ()) not in expected:
                yield 3, str(problem)
        if list(again) != list(sent):
            yield 5, "pruning the output again changes it"


def _fingerprint(messages: Sequence[Any]) -> bytes:
    return sha256(repr(messages).encode("utf-8", "surrogatepass")).digest()
