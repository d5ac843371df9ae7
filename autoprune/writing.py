"""What a plan needs a model for: the running summary, and shortened results. Asks through steps; decides no edit.

A text that was written once is looked up by what it was written from, so that a conversation that comes again gets the
same bytes and costs nothing.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from autoprune.clamping import Clamp
from autoprune.edits import Fold, Plan
from autoprune.formats.content import fields
from autoprune.readable import Utterance, utterances
from autoprune.spent import Spent
from autoprune.summaries import plain
from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Steps, Written
from autoprune.summarizers.digest import Digest
from autoprune.summarizers.driver import calls_model, identity_of, steps_of
from autoprune.tokens import Count
from autoprune.transcript import Speaker

LEAST_CUT = 32  # tokens; a summary that is cut to fewer says nothing
REMEMBERED = 4_096  # texts that need no model, kept by a pruner

Summarizer = Callable[[Brief], object]


@dataclass
class Desk:
    """Writes the texts of one plan; `messages` are those that it is a plan for, without the summary in them."""

    plan: Plan
    messages: Sequence[object]
    summarizer: Summarizer
    store: MutableMapping[str, str]
    memo: MutableMapping[str, str]
    count: Count
    texts: dict[int, str] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    _prints: dict[int, bytes] = field(default_factory=dict)

    def steps(self) -> Steps:
        """All questions of the prune; the answer is the running summary."""
        folds = [fold for fold in self.plan.folds if not fold.is_drop]
        return (yield from self._running(folds)) if folds else Failed("there is nothing to sum up")

    def _running(self, folds: Sequence[Fold]) -> Steps:
        """The summary that each fold extends: known texts as far as they go, then what is not known yet."""
        at = max((number for number in self.texts if number <= len(folds)), default=0)
        text = self.texts[at] if at else self.plan.running.text if self.plan.running else ""
        is_model = calls_model(self.summarizer)
        while at < len(folds):
            keys = list(self._keys(text, folds[at:] if is_model else folds[at : at + 1]))
            known = next(((n, found) for n in range(len(keys), 0, -1) if (found := self._known(keys[n - 1]))), None)
            if known:
                at, text = at + known[0], known[1]
                continue
            # A model sums up all that is new at once; what needs none goes fold by fold, as it would have come.
            until = len(folds) if is_model else at + 1
            answer = yield from self._written(text, folds[at:until])
            if isinstance(answer, Failed):
                return Written(text) if text else answer
            self._keep(keys[until - at - 1], answer.text, is_model=is_model)
            at, text = until, answer.text
        self.texts[len(folds)] = text
        return Written(text)

    def _keys(self, text: str, folds: Sequence[Fold]) -> Iterator[str]:
        """What the summary up to the end of each fold is known by: the one before it, and what is folded."""
        hashed = hashlib.sha256(f"{identity_of(self.summarizer)}\0{text}\0".encode("utf-8", "surrogatepass"))
        for fold in folds:
            for at in fold.messages:
                hashed.update(self._print(at))
            whole = hashed.copy()
            whole.update(str(fold.room).encode())
            yield whole.hexdigest()

    def _print(self, at: int) -> bytes:
        """What a message is known by."""
        known = self._prints.get(at)
        if known is None:
            known = self._prints[at] = fingerprint(self.messages[at])
        return known

    def _known(self, key: str) -> str | None:
        """A text that was written before."""
        where = self.store if calls_model(self.summarizer) else self.memo
        text = where.get(key)
        if not isinstance(text, str) or not text.strip():
            return None
        self.spent += Spent(found=1)
        return text

    def _keep(self, key: str, text: str, *, is_model: bool) -> None:
        if is_model:
            self.store[key] = text
            return
        if len(self.memo) >= REMEMBERED:
            self.memo.clear()
        self.memo[key] = text

    def _written(self, previous: str, folds: Sequence[Fold]) -> Steps:
        """The text for some folds: by the summarizer, or where that fails, without a model."""
        said = self._said([at for fold in folds for at in fold.messages])
        brief = Brief(said, previous, folds[-1].room, self.count, self._request())
        answer = yield from self._asked(self.summarizer, brief)
        if isinstance(answer, Failed) and not isinstance(self.summarizer, Digest):
            self._note(f"the summarizer failed ({answer.why}): the summary was made without a model")
            answer = yield from self._asked(Digest(), brief)
        if isinstance(answer, Failed):
            self._note(f"no summary could be made ({answer.why}): the messages were dropped")
        return answer

    def _said(self, numbers: Sequence[int]) -> tuple[Utterance, ...]:
        """Messages in plain words."""
        entries = self.plan.transcript.entries
        return utterances([self.messages[at] for at in numbers], [entries[at] for at in numbers])

    def _request(self) -> str:
        """What the user wants now."""
        entries = self.plan.transcript.entries
        turns = [at for at, entry in enumerate(entries) if entry.speaker is Speaker.USER and not entry.results]
        return self._said(turns[-1:])[0].words if turns else ""

    def _asked(self, summarizer: Summarizer, brief: Brief) -> Steps:
        """One answer that fits."""
        answer = yield from self._metered(steps_of(summarizer, brief))
        if isinstance(answer, Failed):
            return answer
        text = self._fitted(plain(answer.text), brief.max_tokens)
        return Failed("its summary is blank, or too long for what it stands for") if text is None else Written(text)

    def _fitted(self, text: str, room: int) -> str | None:
        """A text that has at most `room` tokens; None where so few would say nothing."""
        size = self.count(text) if text else 0
        if 0 < size <= room:
            return text
        cut = Clamp(max_result_tokens=room).shortened(text, self.count) if size and room >= LEAST_CUT else None
        if cut is not None:
            self._note(f"the summary had {size} tokens and was cut to {room}")
        return cut

    def _metered(self, steps: Steps) -> Steps:
        """The same steps; what their answers took is written down."""
        try:
            asked = next(steps)
            while True:
                answers = yield asked
                for ask, answer in zip(asked, answers, strict=True):
                    self._pay(ask, answer)
                asked = steps.send(answers)
        except StopIteration as end:
            whole: Answer = end.value
            return whole

    def _pay(self, ask: Ask, answer: Answer) -> None:
        calls = int(calls_model(ask.summarizer))
        if isinstance(answer, Written):
            used = answer.input_tokens, answer.output_tokens, answer.cost
            self.spent += Spent(calls, *used, notes=answer.notes)
        else:
            self.spent += Spent(calls)

    def _note(self, note: str) -> None:
        if note not in self.spent.notes:
            self.spent = replace(self.spent, notes=(*self.spent.notes, note))


def fingerprint(message: object) -> bytes:
    """The same bytes for the same message, be it a mapping or an SDK's object; a field that is None is no field."""
    text = json.dumps(_plain(message), sort_keys=True, default=repr, ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    known = fields(value)
    return value if known is None else {str(name): _plain(item) for name, item in known.items() if item is not None}
