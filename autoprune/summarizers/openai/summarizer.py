"""Ask for summaries at any server that speaks OpenAI's Chat Completions."""

import copy
import inspect
import json
from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

import autoprune.summarizers.openai._prompts as _prompts
import autoprune.summarizers.openai._replies as _replies
import autoprune.summarizers.openai._snapshot as _snapshot
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.summarizers import sections
from autoprune.summarizers.brief import Brief, Parameters, Written, with_usage
from autoprune.summarizers.chunked import Chunked

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

TIMEOUT = 120.0  # seconds; a summary of a long history is slow to come
RETRIES = 2
INSTRUCTION_TOKENS = 2_000  # of a window, for the instructions
OWN_FIELDS = frozenset(("model", "messages", "stream", "extra_headers"))
# Each request has a connection of its own: an idle one would stay bound to the event loop that it was opened in, and a
# synchronous prune opens a loop for each awaited summary.
HEADERS: Mapping[str, str] = {"Connection": "close"}

Exchange: TypeAlias = Generator[list[_prompts.Message], Any, Written]


@dataclass(frozen=True)
class OpenAISummarizer:
    """Ask `model` through an `openai.OpenAI` or `openai.AsyncOpenAI` client; with the latter the summary is awaited.

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
    refuse: of response formats, some know only "json_object", some only "json_schema" (`RESPONSE_FORMAT`), and some
    the one of "max_tokens" and "max_completion_tokens" and not the other. `provider` is whose prices apply, by
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

    def __deepcopy__(self, memo: dict[int, Any]) -> "OpenAISummarizer":
        """Return a deep copy with the same client, which holds locks and connections and is made to be shared."""
        return replace(self, parameters=copy.deepcopy(self.parameters, memo))

    @property
    def calls_model(self) -> bool:
        """Whether a model is called: always."""
        return True

    @property
    def keeps_request(self) -> bool:
        """Whether the text has a section for the user's first request: in a snapshot."""
        return self.style == "snapshot"

    def with_style(self, style: str) -> "OpenAISummarizer":
        """Return one that writes in a style."""
        return replace(self, style=style)

    def with_instructions(self, instructions: str, alone: bool = False) -> "OpenAISummarizer":
        """Return one that writes as instructions say, and then as its own do, unless they go `alone`.

        One in the free style has its instructions already, and stays as it is.
        """
        if not alone and self.style == _prompts.FREE:
            return self
        own = "" if alone else (self.instructions or "").strip()
        return replace(self, style=_prompts.FREE, instructions="\n\n".join(filter(None, (instructions, own))))

    def in_parts(self) -> "OpenAISummarizer | Chunked":
        """Return one that reads in parts what is longer than the window, if that is known and not tiny."""
        if self.window and self.window > 2 * INSTRUCTION_TOKENS:
            return Chunked(self, self.window - INSTRUCTION_TOKENS)
        return self

    @cached_property
    def identity(self) -> str:
        """The model, the style, and a hash of all else that a summary depends on. Raises SettingsError."""
        self.check()
        settings = (_prompts.system_prompt(self.style, self.instructions), self.window, dict(self.parameters))
        depends_on = json.dumps(settings, sort_keys=True, default=str)
        return f"{self.model} {self.style} {sha256(depends_on.encode()).hexdigest()[:12]}"

    def check(self) -> None:
        """Raise SettingsError for a style that there is not, and for numbers out of range."""
        if self.style not in _prompts.STYLES:
            raise SettingsError(f"style is {self.style!r}: it is one of {', '.join(_prompts.STYLES)}")
        if self.style == _prompts.FREE and not (self.instructions or "").strip():
            raise SettingsError(
                f'style is "{_prompts.FREE}" without instructions: say what the summary is to look like'
            )
        if taken := OWN_FIELDS & self.parameters.keys():
            raise SettingsError(f"parameters hold {min(taken)!r}, which the summarizer sets itself")
        if not is_number(self.timeout, 0, int | float) or not self.timeout:
            raise SettingsError(f"timeout is {self.timeout!r}: give seconds, more than 0")
        check_number("retries", self.retries, 0)
        check_number("window", self.window, 1, "tokens", optional=True)

    def __call__(self, brief: Brief) -> Written | Awaitable[Written]:
        """Return the summary, or with an asynchronous client an awaitable of it."""
        self.check()
        exchange = self._exchange(brief)
        request: list[_prompts.Message] | Written = next(exchange)
        while not isinstance(request, Written):
            reply = self._ask(request)
            if inspect.isawaitable(reply):
                return self._await_summary(exchange, reply)
            request = _advance(exchange, reply)
        return request

    async def _await_summary(self, exchange: Exchange, reply: Awaitable[object]) -> Written:
        request = _advance(exchange, await reply)
        while not isinstance(request, Written):
            request = _advance(exchange, await self._ask(request))
        return request

    def _ask(self, messages: list[_prompts.Message]) -> Any:
        client = self.client.with_options(timeout=self.timeout, max_retries=self.retries)
        create: Any = client.chat.completions.create
        return create(model=self.model, messages=messages, extra_headers=HEADERS, **self.parameters)

    def _exchange(self, brief: Brief) -> Exchange:
        """Yield what to send, be sent the completions, and return the summary."""
        asked = _prompts.messages(brief, _prompts.system_prompt(self.style, self.instructions), self.window)
        reply = yield asked
        answer = _replies.text_of(reply)
        if self.style != "snapshot":
            return self._finish(_cut(answer, brief), reply)
        try:
            return self._finish(_snapshot.finish(answer, brief), reply)
        except _snapshot.SnapshotError as error:
            again = yield [*asked, *_prompts.ask_again(answer, str(error))]
        return self._finish(_snapshot.finish(_replies.text_of(again), brief), reply, again)

    def _finish(self, summary: tuple[str, tuple[str, ...]], *given: Any) -> Written:
        """Return a summary with its notes, and with what the replies took that it was made of."""
        address = str(self.client.base_url)
        text, notes = summary
        answers = [_replies.answer(reply.usage, self.model, self.provider, address) for reply in given]
        return with_usage(text, answers, notes)


def from_environment(model: str, style: str = "snapshot") -> OpenAISummarizer:
    """Return a summarizer whose client takes its key from OPENAI_API_KEY, its address from OPENAI_BASE_URL.

    Raises SettingsError where there is no key.
    """
    import openai

    try:
        return OpenAISummarizer(openai.OpenAI(), model, style=style)
    except openai.OpenAIError as error:
        raise SettingsError(f"the summarizer cannot be had: {error}") from error


def _advance(exchange: Exchange, reply: object) -> list[_prompts.Message] | Written:
    """Return what to send next, or the summary."""
    try:
        return exchange.send(reply)
    except StopIteration as end:
        summary: Written = end.value
        return summary


def _cut(answer: str, brief: Brief) -> tuple[str, tuple[str, ...]]:
    """Return the answer, cut to the room where it is longer, with a note. Raise ReplyError where no word fits."""
    text = sections.cut(answer, brief.max_tokens, brief.count)
    if not text:
        raise _replies.ReplyError(f"a summary of {brief.max_tokens} tokens has no room for a word")
    if text == answer:
        return text, ()
    return text, (f"an answer had {brief.count(answer)} tokens and was cut to {brief.max_tokens}",)
