"""Summaries by any server that speaks OpenAI's Chat Completions. The only module that knows that API's client."""

import inspect
import json
from collections.abc import Awaitable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from autoprune.conversation.copying import Copied
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.summarizers import sections
from autoprune.summarizers.brief import Brief, Parameters, Written
from autoprune.summarizers.openai import prompts, replies, snapshot

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

TIMEOUT = 120.0  # seconds; a summary of a long history is slow to come
RETRIES = 2
OWN_FIELDS = frozenset(("model", "messages", "stream", "extra_headers"))
# A connection each: an idle one would be bound to the event loop that it was opened in, and a synchronous prune opens a
# loop for each awaited summary.
HEADERS: Mapping[str, str] = {"Connection": "close"}

Exchange: TypeAlias = Generator[list[prompts.Message], Any, Written]


@dataclass(frozen=True)
class OpenAISummarizer(Copied):
    """Asks `model` through an `openai.OpenAI` or `openai.AsyncOpenAI` client; with the latter the summary is awaited.

    `style` is what the summary looks like: "snapshot", a structured state of the work; "outcomes", sections of what
    exists and what does not; "titled", one summary under a title; "prose", the same without the title; "free", as
    `instructions` say. `instructions` are added to those of a style. In each style the history stands in the prompt as
    data, and in a snapshot the user's first request, the constraints and the goal are kept by this library, whatever
    the model says.

    `timeout` is in seconds without a word from the server, for each attempt. `retries` are made, with exponential
    back-off, after time-outs, lost connections and the statuses 408, 409, 429 and 5xx; `Retry-After` is followed. All
    of that is the client's doing. One call makes at most two requests (besides retries): a snapshot that cannot be
    read is asked for once more.

    `window` is the model's context window in tokens as the brief counts them; the history is cut to what is left of
    it. `parameters` are further fields of the request. None are sent by default, since servers differ in what they
    refuse: of response formats, some know only "json_object", some only "json_schema" (`snapshot.RESPONSE_FORMAT`), and
    some the one of "max_tokens" and "max_completion_tokens" and not the other. `provider` is whose prices apply, by
    the name that genai-prices has for it; without one it is found by the client's address, and the cost is None where
    that is not known.

    A call raises what the client raises, and ValueError for a reply that cannot be used.
    """

    client: "OpenAI | AsyncOpenAI" = field(repr=False)
    model: str
    style: str = field(default="snapshot", kw_only=True)
    timeout: float = field(default=TIMEOUT, kw_only=True)
    retries: int = field(default=RETRIES, kw_only=True)
    window: int | None = field(default=None, kw_only=True)
    instructions: str | None = field(default=None, kw_only=True)
    parameters: Parameters = field(default_factory=dict, kw_only=True, hash=False)
    provider: str | None = field(default=None, kw_only=True)

    def _given(self) -> Iterator[tuple[str, object]]:
        yield from (("client", self.client), ("parameters", self.parameters))

    def __deepcopy__(self, memo: dict[int, Any]) -> "OpenAISummarizer":
        """A deep copy with the same client: that holds locks and connections, and is made to be shared."""
        memo[id(self.client)] = self.client
        return super().__deepcopy__(memo)

    @property
    def calls_model(self) -> bool:
        """True."""
        return True

    @property
    def keeps_request(self) -> bool:
        """Whether the text has a section for the user's first request: in a snapshot."""
        return self.style == "snapshot"

    @cached_property
    def identity(self) -> str:
        """The model, the style, and a hash of all else that a summary depends on. Raises SettingsError."""
        self.check()
        settings = (prompts.system(self.style, self.instructions), self.window, dict(self.parameters))
        written = json.dumps(settings, sort_keys=True, default=str)
        return f"{self.model} {self.style} {sha256(written.encode()).hexdigest()[:12]}"

    def check(self) -> None:
        """Raises SettingsError for a style that there is not, and for numbers that are none."""
        if self.style not in prompts.STYLES:
            raise SettingsError(f"style is {self.style!r}: it is one of {', '.join(prompts.STYLES)}")
        if self.style == prompts.FREE and not (self.instructions or "").strip():
            raise SettingsError(f'style is "{prompts.FREE}" without instructions: say what the summary is to look like')
        if taken := OWN_FIELDS & self.parameters.keys():
            raise SettingsError(f"parameters hold {min(taken)!r}, which the summarizer sets itself")
        if not is_number(self.timeout, 0, int | float) or not self.timeout:
            raise SettingsError(f"timeout is {self.timeout!r}: give seconds, more than 0")
        check_number("retries", self.retries, 0)
        check_number("window", self.window, 1, "tokens", optional=True)

    def __call__(self, brief: Brief) -> Written | Awaitable[Written]:
        """The summary, or with an asynchronous client an awaitable of it."""
        self.check()
        exchange = self._exchange(brief)
        request: list[prompts.Message] | Written = next(exchange)
        while not isinstance(request, Written):
            reply = self._asked(request)
            if inspect.isawaitable(reply):
                return self._awaited(exchange, reply)
            request = _advanced(exchange, reply)
        return request

    async def _awaited(self, exchange: Exchange, reply: Awaitable[object]) -> Written:
        request = _advanced(exchange, await reply)
        while not isinstance(request, Written):
            request = _advanced(exchange, await self._asked(request))
        return request

    def _asked(self, messages: list[prompts.Message]) -> Any:
        client = self.client.with_options(timeout=self.timeout, max_retries=self.retries)
        create: Any = client.chat.completions.create
        return create(model=self.model, messages=messages, extra_headers=HEADERS, **self.parameters)

    def _exchange(self, brief: Brief) -> Exchange:
        """Yields what to send, is sent the completions, returns the summary."""
        asked = prompts.messages(brief, prompts.system(self.style, self.instructions), self.window)
        reply = yield asked
        answer = replies.text_of(reply)
        if self.style != "snapshot":
            return self._written(_within(answer, brief), replies.spent(reply.usage))
        try:
            return self._written(snapshot.told(answer, brief), replies.spent(reply.usage))
        except snapshot.SnapshotError as error:
            again = yield [*asked, *prompts.mended(answer, str(error))]
        better = snapshot.told(replies.text_of(again), brief)
        return self._written(better, replies.spent(reply.usage), replies.spent(again.usage))

    def _written(self, told: tuple[str, tuple[str, ...]], *spent: replies.Spent) -> Written:
        costs = [replies.price(each, self.model, self.provider, str(self.client.base_url)) for each in spent]
        cost = None if None in costs else sum(cost for cost in costs if cost is not None)
        tokens = sum(each.input_tokens for each in spent), sum(each.output_tokens for each in spent)
        return Written(told[0], *tokens, cost, self.model, told[1])


def from_environment(model: str, style: str = "snapshot") -> OpenAISummarizer:
    """A summarizer whose client takes its key from OPENAI_API_KEY, and its address from OPENAI_BASE_URL.

    Raises SettingsError where there is no key.
    """
    import openai

    try:
        return OpenAISummarizer(openai.OpenAI(), model, style=style)
    except openai.OpenAIError as error:
        raise SettingsError(f"the summarizer cannot be had: {error}") from error


def _advanced(exchange: Exchange, reply: object) -> list[prompts.Message] | Written:
    """What to send next, or the summary."""
    try:
        return exchange.send(reply)
    except StopIteration as end:
        written: Written = end.value
        return written


def _within(answer: str, brief: Brief) -> tuple[str, tuple[str, ...]]:
    """The answer, cut to the room where it is longer, which is noted. Raises ReplyError where no word fits."""
    text = sections.cut(answer, brief.max_tokens, brief.count)
    if not text:
        raise replies.ReplyError(f"a summary of {brief.max_tokens} tokens has no room for a word")
    if text == answer:
        return text, ()
    return text, (f"an answer had {brief.count(answer)} tokens and was cut to {brief.max_tokens}",)
