"""Token counting: exact, offline, with a cache by text. Makes no network request, and reads no file of the user.

A counter is any `Callable[[str], int]`. The default uses the vocabulary inside the splintr-rs wheel; its token ids are
tiktoken's (`tests/test_tokens.py` compares them).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any, Generic, TypeAlias, TypeVar

from autoprune.errors import SettingsError, is_number

Count: TypeAlias = Callable[[str], int]
Value = TypeVar("Value")

DEFAULT_ENCODING = "o200k_base"
# OpenAI's chat format: tokens around each message, for a `name`, and to prime the reply. Source: OpenAI's cookbook,
# "How to count tokens with tiktoken".
MESSAGE_TOKENS = 3
NAME_TOKENS = 1
REPLY_TOKENS = 3
# Encodings by the vocabulary that counts them: harmony adds special tokens to o200k, which count as text here.
BUNDLED = {"o200k_base": "o200k_base", "o200k_harmony": "o200k_base", "cl100k_base": "cl100k_base"}
MAX_PIECES = 60_000  # in splintr's cache of split pieces, about 20 MB; splintr's own bound is a little higher
CHECK_CHARACTERS = 2_000_000  # between two checks of that cache's size
MEMO_CHARACTERS = 16_000_000  # in one of the memo's two generations
# Long runs of one character are counted in part: beyond a few hundred characters, each PERIOD adds the same number of
# tokens, whatever surrounds the run. BPE merges pairs of a uniform run, then pairs of pairs, up to tokens of 2**7
# characters, and splits digits into groups of three; 384 is a multiple of both.
PERIOD = 384
KEPT = 4_096  # characters of a run that are always counted; also the step of the search for runs
PROMPT_NAMES = ("prompt_tokens", "prompt_token_count", "promptTokenCount")  # the whole prompt: OpenAI, Gemini
INPUT_PARTS = (  # the disjoint fields that add up to the prompt: Anthropic's names, and Bedrock's
    *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    *("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
)
CACHED_NAMES = (  # prompt tokens read from the cache: Anthropic, Bedrock, Gemini, DeepSeek
    *("cache_read_input_tokens", "cacheReadInputTokens"),
    *("cached_content_token_count", "cachedContentTokenCount", "prompt_cache_hit_tokens"),
)
DETAILS = ("prompt_tokens_details", "input_tokens_details")  # hold `cached_tokens` in OpenAI's two APIs
WRITTEN_NAMES = ("cache_creation_input_tokens", "cacheWriteInputTokens")  # Anthropic, Bedrock
MOST_REPORTED = 10**12  # tokens: a larger number is no count, and might not convert to a float
# A provider's tokens per counted token. Vocabularies differ by less than a factor of two; a prompt with content that
# only the provider sees, such as its own tools or a stored file, may be larger.
PLAUSIBLE = (0.5, 4.0)
OUTPUT_NAMES = (
    *("completion_tokens", "output_tokens", "outputTokens"),
    *("candidates_token_count", "candidatesTokenCount"),
)


class ExactCounter:
    """Counts the tokens of texts in one encoding. The vocabulary is loaded at the first count.

    Text that spells a special token (`<|endoftext|>`) counts as ordinary text, a lone surrogate as U+FFFD.
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        """Use the encoding o200k_base, o200k_harmony or cl100k_base."""
        if encoding not in BUNDLED:
            raise SettingsError(f"no bundled vocabulary for {encoding!r}; there are {', '.join(BUNDLED)}")
        self.encoding = encoding
        self._tokenizer: Any = None
        self._unchecked = CHECK_CHARACTERS

    @property
    def is_loaded(self) -> bool:
        """Whether the vocabulary is in memory."""
        return self._tokenizer is not None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by name: a copy uses the shared counter of its process, without pickling the vocabulary."""
        return exact, (self.encoding,)

    def __call__(self, text: str) -> int:
        """Count the tokens of `text`."""
        runs = [*_runs(text)] if len(text) > 2 * KEPT else ()
        return self._count_shortened(text, runs) if runs else self._count(text)

    def _count_shortened(self, text: str, runs: Sequence[tuple[int, int]]) -> int:
        """Count a text with long runs, after shortening each run by whole periods."""
        pieces, at, count = [], 0, 0
        for begin, end in runs:
            periods = (end - begin - KEPT) // PERIOD
            character = text[begin]
            count += periods * (self._count(character * (KEPT + PERIOD)) - self._count(character * KEPT))
            pieces.append(text[at : end - periods * PERIOD])
            at = end
        return count + self._count("".join((*pieces, text[at:])))

    def _count(self, text: str) -> int:
        tokenizer = self._tokenizer or self.tokenizer
        if not text.isascii():
            # Count a copy: CPython caches a string's UTF-8 on the string itself, which would hold memory.
            text = text[:1] + text[1:]
        try:
            # encode_flat is a quarter faster, but it parses special tokens; all of them begin with "<|".
            # Searching for one character first is much faster than for two.
            is_special = "|" in text and "<|" in text
            count = len(tokenizer.encode_ordinary(text)) if is_special else len(tokenizer.encode_flat(text)) // 4
        except UnicodeEncodeError:
            return self._count(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        self._unchecked -= len(text)
        if self._unchecked < 0:
            self._bound_cache()
        return count

    def _bound_cache(self) -> None:
        # Asking splintr for the size of its cache takes as long as counting a long text.
        self._unchecked = CHECK_CHARACTERS
        if self._tokenizer.cache_len > MAX_PIECES:
            self._tokenizer.clear_cache()

    @property
    def tokenizer(self) -> Any:
        """Splintr's tokenizer, loaded once."""
        if self._tokenizer is None:
            from splintr import Tokenizer

            self._tokenizer = Tokenizer.from_pretrained(BUNDLED[self.encoding])
        return self._tokenizer


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Find the start and end of long runs of one character. Runs of at least twice KEPT characters are always found."""
    end = 0
    for at in range(0, len(text) - KEPT, KEPT):
        if at < end or not text[at] == text[at + 1] == text[at + KEPT - 1]:
            continue
        block = text[at] * KEPT
        end = at
        while text.startswith(block, end):
            end += KEPT
        if end > at:
            rest = text[end : end + KEPT]
            end += len(rest) - len(rest.lstrip(text[at]))
            yield at, end


class TextCache(Generic[Value]):
    """A cache by text, bounded by characters, in two generations. Entries that were not used recently are dropped."""

    def __init__(self, characters: int) -> None:
        """Cache between `characters` and twice as many characters of texts, and of values that are texts too."""
        self.room = self._left = characters
        self._young: dict[str, Value] = {}
        self._old: dict[str, Value] = {}

    def get(self, text: str) -> Value | None:
        """Look up the value of a text; None if there is none."""
        value = self._young.get(text)
        if value is None and (value := self._old.get(text)) is not None:
            self.keep(text, value)
        return value

    def keep(self, text: str, value: Value) -> None:
        """Store the value of a text."""
        size = len(text) + (len(value) if isinstance(value, str) else 0)
        self._left -= size
        if self._left < 0:
            self._old, self._young, self._left = self._young, {}, self.room - size
        self._young[text] = value


class Memo(TextCache[int]):
    """A counter that remembers the tokens of texts."""

    def __init__(self, count: Count, characters: int = MEMO_CHARACTERS) -> None:
        super().__init__(characters)
        self.count = count

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the counter without the cached counts."""
        return Memo, (self.count, self.room)

    def __call__(self, text: str) -> int:
        """Count the tokens of `text`. Raises SettingsError if the counter returns no number."""
        known = self._young.get(text)
        return known if known is not None else self._remember(text)

    def _remember(self, text: str) -> int:
        count = self.get(text)
        if count is None:
            count = self.count(text)
            if not is_number(count, 0, Real):  # a caller's function may return anything
                raise SettingsError(f"count returned {count!r} for a text: give a number, 0 or more")
            self.keep(text, count)
        return count


def exact(encoding: str = DEFAULT_ENCODING) -> ExactCounter:
    """Return the exact counter of an encoding, shared within this process."""
    return _exact(BUNDLED.get(encoding, encoding))


_exact = cache(ExactCounter)


def for_model(model: str | None) -> tuple[Count, str | None]:
    """Return the counter for a model, and a warning if its counts are an estimate.

    tiktoken names the encodings of OpenAI's models. If a model has no public vocabulary, or one that is not bundled,
    o200k_base is used instead.
    """
    if model is None:
        return exact(), None
    import tiktoken

    try:
        encoding = tiktoken.encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:
        return exact(), f"tokens are an estimate by {DEFAULT_ENCODING}: no public vocabulary is known for {model!r}"
    if encoding in BUNDLED:
        return exact(encoding), None
    return exact(), f"tokens are an estimate by {DEFAULT_ENCODING}: the encoding {encoding} of {model!r} is not bundled"


def calibration(usage: object, counted: int) -> float:
    """Return the number of the provider's tokens per counted token. Pass it back as `calibration=`.

    `usage` is the usage of a response (an SDK object or a mapping), `counted` what `count_tokens` gave for the request
    that was answered. Anthropic's and Bedrock's three input fields are added up; OpenAI's and Gemini's prompt tokens
    already include the cached ones. Raises SettingsError if `usage` has no input tokens or `counted` is not positive.
    """
    reported = _input_tokens(usage)
    if not reported > 0 or not is_number(counted, 1, int | float):
        raise SettingsError(
            f"cannot calibrate: the provider reported {reported!r} input tokens for {counted!r} counted: "
            "give a response's usage, and the tokens of its request as they were counted"
        )
    return reported / counted


def is_plausible(ratio: float) -> bool:
    """Return whether a provider's tokens per counted token can be true."""
    least, most = PLAUSIBLE
    return least <= ratio <= most


def spent_tokens(usage: object) -> int:
    """Return the tokens of a prompt and its answer, from the provider's usage.

    Raises SettingsError if the usage has no input tokens.
    """
    return prompt_tokens(usage)[0] + _first_count(usage, OUTPUT_NAMES)


def prompt_tokens(usage: object) -> tuple[int, int]:
    """Return the tokens of a prompt, and how many of them were cached, from the provider's usage.

    Raises SettingsError if the usage has no input tokens.
    """
    reported = _input_tokens(usage)
    if not reported:
        raise SettingsError(f"usage is {usage!r}: it names no input tokens; give the usage of the last response")
    cached = [_field(usage, name) for name in CACHED_NAMES]
    cached += [_field(_value(usage, name), "cached_tokens") for name in DETAILS]
    return reported, max(cached)


def counts_cached(usage: object) -> bool:
    """Return whether a usage counts the tokens read from the cache, so that none means that nothing was read."""
    own = [_value(usage, name) for name in CACHED_NAMES]
    own += [_value(_value(usage, name), "cached_tokens") for name in DETAILS]
    return any(isinstance(each, int) for each in own)


def written_tokens(usage: object) -> int | None:
    """Return the tokens that a prompt wrote to the cache, from the provider's usage; None if it does not say."""
    own = [_value(usage, name) for name in WRITTEN_NAMES]
    own += [_value(_value(usage, name), "cache_write_tokens") for name in DETAILS]
    return max((each for each in own if isinstance(each, int)), default=None)


def _value(usage: object, name: str) -> object:
    return usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)


def _field(usage: object, name: str) -> int:
    value = _value(usage, name)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= MOST_REPORTED else 0


def _first_count(usage: object, names: Iterable[str]) -> int:
    """Return the first field that is a number above 0; 0 if none is."""
    return next(filter(None, (_field(usage, name) for name in names)), 0)


def _input_tokens(usage: object) -> int:
    return _first_count(usage, PROMPT_NAMES) or sum(_field(usage, name) for name in INPUT_PARTS)


def scale_tokens(count: int, ratio: float) -> int:
    """Convert a count to the provider's tokens, rounded up (with a tolerance of 1e-6, so that 100 x 1.1 is 110)."""
    return count if ratio == 1.0 else math.ceil(count * ratio - 1e-6)
