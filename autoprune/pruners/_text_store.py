"""The texts that were written before, and what is to be said of them each time they are used. Writes no text."""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from autoprune.summarizers.brief import Failed
from autoprune.summarizers.driver import call_safely
from autoprune.tokens import Count

REMEMBERED = 4_096  # texts and notes in a pruner's memo
FAILURE = " failed"  # behind what a text would be known by: why there is none
NOTES = " notes"  # behind a text's hash: what the report says of it
BETWEEN = "\0"  # two notes


@dataclass
class TextStore:
    """Keeps texts by the hash of what they were written from: a model's in `store`, all others in `memo`.

    `note` is told what the report is to say. What went wrong while a text was written stands in the memo beside it, so
    that a later prune that finds the text reports the same as the one that wrote it.
    """

    store: MutableMapping[str, str]
    memo: MutableMapping[str, str]
    count: Count
    note: Callable[[str], None]

    def model_text(self, key: str) -> str | None:
        """Return a text that a model wrote; None where there is none."""
        text = self._tried(self.store.get, key)
        return text if isinstance(text, str) and text.strip() else None

    def plain_text(self, key: str) -> str | None:
        """Return a text that was made without a model, or in place of a model's; None where there is none."""
        return self.memo.get(key)

    def keep(self, key: str, text: str, *, is_model: bool) -> str:
        """Keep a text and return the one that is known from now on: the first, where another thread was faster."""
        if not is_model:
            self._remember(key, text)
            return text
        first = self._tried(self.store.setdefault, key, text)
        return first if isinstance(first, str) and first.strip() and self.count(first) <= self.count(text) else text

    def failed(self, key: str, why: str) -> None:
        """Remember that there is no text, and why."""
        self._remember(key + FAILURE, why)

    def failure(self, key: str) -> Failed | None:
        """Return why there is no text; None where that was never tried."""
        why = self.memo.get(key + FAILURE)
        return None if why is None else Failed(why)

    def annotate(self, text: str, notes: Sequence[str]) -> None:
        """Remember what is to be said of a text."""
        if notes:
            self._remember(_notes_of(text), BETWEEN.join(notes))

    def tell(self, text: str) -> None:
        """Say again what is to be said of a text."""
        for note in self.memo.get(_notes_of(text), "").split(BETWEEN):
            self.note(note)

    def _remember(self, key: str, text: str) -> None:
        if len(self.memo) >= REMEMBERED:
            self.memo.clear()
        self.memo[key] = text

    def _tried(self, function: Callable[..., object], *arguments: str) -> object:
        """Return what the caller's mapping gives; None where it fails, which the report says."""
        given = call_safely(function, *arguments)
        if isinstance(given, Failed):
            self.note(f"the store failed ({given.why})")
            return None
        return given


def _notes_of(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest() + NOTES
