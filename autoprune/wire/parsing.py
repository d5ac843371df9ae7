"""Parse messages, one by one, into entries. Changes nothing, decides nothing.

A `Format` reads one message of one API. The `Parser` detects the format of each message and passes itself to the
format, with the state from earlier messages: the number of the request, the calls that wait for a result, and whether
a text can hold results here.

Users also paste results, from logs and other sessions, so a result in a text counts only if it can answer a call. Take
a user's text "Look: <tool_result tool_name='a'>…</tool_result>". The messages before it decide:

    nothing from the model                               text: here only an element that begins the text is a result
    "I look."                                            a result
    a native call, and then "I look."                    text: the results of native calls are native too
    a native call, and then "<ls><path>.</path></ls>"    a result
    a summary, and then "I look."                        text: it is unknown how the model made its calls

The other dialects require one of their opening tags in the model's last output, well-formed or not. Each request has a
`Standing`, which later messages do not change.
"""

import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from autoprune.conversation.edits import XML
from autoprune.conversation.folded_steps import MARK, FoldedSteps, split_blocks
from autoprune.conversation.messages import NOTHING, fields_of, item, items_of, role_of
from autoprune.conversation.summary import RoleOf
from autoprune.conversation.transcript import (
    Entry,
    Label,
    Location,
    Path,
    Speaker,
    ToolCall,
    ToolInput,
    ToolResult,
    Transcript,
    as_text,
    without_replaced,
)
from autoprune.errors import ConversationError
from autoprune.tokens import Count
from autoprune.wire._media import Media, media
from autoprune.wire._parts import Payload, as_json, json_text, tokens

UNKNOWN = "unknown"  # the tool of a result that names none
# Opening tags: anywhere in a text, and at the start of a line.
OPENING = re.compile(r"<([A-Za-z][A-Za-z0-9_-]*)")
FIRST_OPENING = re.compile(r"^[ \t]*<([A-Za-z][A-Za-z0-9_-]*)", re.MULTILINE)


@dataclass
class Standing:
    """The model's behavior before a message, which decides whether the message's texts can hold results."""

    has_spoken: bool = False
    is_native: bool = False  # the model has made native calls
    is_folded: bool = False  # earlier messages were summarized, so it is unknown how the model made its calls
    has_calls: bool = False  # the texts of the model's last output hold calls
    is_free: bool = False  # all lookalikes are results: for comparing a conversation with its pruned version
    calls_later: bool = False  # a summary covers native calls that the model made after this message
    answered: set[str] = field(default_factory=set)  # the tools of native calls that have native results
    _called: set[str] = field(default_factory=set)  # the tools of the native calls in the model's last output
    _texts: list[tuple[str, Sequence[ToolCall]]] = field(default_factory=list)
    _tags: frozenset[str] | None = None

    def next_request(self) -> "Standing":
        """Return the standing at the start of a new request, in which the model has no output yet."""
        return Standing(True, self.is_native or self.calls_later, self.is_folded, is_free=self.is_free)

    def add_text(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Add a text of the model, with the calls in it."""
        self._texts.append((text, calls))

    def add_calls(self, calls: Sequence[ToolCall]) -> None:
        """Record the calls of a model's message, both native calls and calls in its texts."""
        for call in calls:
            if call.location.start is None:
                self.is_native = True
                self._called.add(call.name)
            else:
                self.has_calls = True

    @property
    def is_open(self) -> bool:
        """Whether the conversation begins here: as far as is known, the model has not spoken."""
        return not (self.has_spoken or self.is_folded or self.is_free)

    def refusal(self, tag: str | None = None) -> str | None:
        """Return the reason, as text, why a lookalike of a result is plain text here; None if it may be a result.

        `tag` is the prefix of the opening tag of the calls that the result would answer; None for calls of any kind.
        Native calls of a tool `tag` that have no native result may be answered by a text, as some agents do.
        """
        if self.is_free or tag in self._called - self.answered:
            return None
        if self.is_native and not self.has_calls:
            return "the model makes native calls, and the text of its last message holds none"
        if tag is not None:
            return None if self._has_tag(tag) else f"what the model said last holds no <{tag}"
        if self.is_folded and not self.has_calls:
            return "earlier messages were summarized, and the text of the model's last message holds no call"
        return None

    def _has_tag(self, tag: str) -> bool:
        if self._tags is None:
            # The model may have made native calls before the summary. A tag inside a sentence is then only a mention.
            opening = FIRST_OPENING if self.is_folded else OPENING
            self._tags = frozenset(name for text in self._stable_texts() for name in opening.findall(text))
        return tag in self._tags

    def _stable_texts(self) -> Iterator[str]:
        """Yield the model's last output without the arguments of calls, which may be shortened later."""
        for text, calls in self._texts:
            at = 0
            arguments = (part.location for call in calls for part in call.inputs)
            for place in sorted(arguments, key=lambda place: place.start or 0):
                yield text[at : place.start]
                at = place.stop or 0
            yield text[at:]


class CallTracker:
    """The calls that wait for a result. Calls with an id stay open; calls in a text are open for one request."""

    def __init__(self) -> None:
        self._by_id: dict[str, deque[ToolCall]] = {}
        self._closed: dict[int, ToolCall] = {}  # by identity, since a call may be in several queues
        self.begin_request()

    def begin_request(self) -> None:
        """Begin a new request, which closes the calls in the previous request's text."""
        self._by_name: dict[str, deque[ToolCall]] = {}  # the calls with an id in the last request
        self._in_text: dict[str, deque[ToolCall]] = {}  # the calls in its text, by name
        self._all_in_text: deque[ToolCall] = deque()

    def expect(self, call: ToolCall) -> None:
        """Add an open call. If a new request reuses an id, the id belongs to the new call."""
        if call.id is None:
            self._in_text.setdefault(_normalize(call.name), deque()).append(call)
            self._all_in_text.append(call)
            return
        calls = self._by_id.setdefault(call.id, deque())
        if calls and calls[0].request != call.request:
            calls.clear()
        calls.append(call)
        self._by_name.setdefault(call.name, deque()).append(call)

    def close_by_id(self, call_id: str) -> ToolCall | None:
        """Close the first open call with an id and return it."""
        return self._close_first(self._by_id.get(call_id))

    def close_by_name(self, tool: str) -> ToolCall | None:
        """Close the first open call of a tool in the last request, whatever its id, and return it."""
        return self._close_first(self._by_name.get(tool))

    def close_in_text(self, tool: str) -> ToolCall | None:
        """Close the first open call of a tool in the text of the last request and return it."""
        return self._close_first(self._in_text.get(_normalize(tool)))

    def close_next_in_text(self) -> ToolCall | None:
        """Close the first open call in the text of the last request, whatever its tool, and return it."""
        return self._close_first(self._all_in_text)

    def _close_first(self, calls: deque[ToolCall] | None) -> ToolCall | None:
        while calls:
            call = calls.popleft()
            if id(call) not in self._closed:
                self._closed[id(call)] = call
                return call
        return None


@lru_cache(maxsize=1024)
def _normalize(tool: str) -> str:
    """Normalize a tool's name for comparison: ReadFileTool and read_file are the same tool."""
    return tool.replace("_", "").lower().removesuffix("tool")


MOST_NOTES = 5  # per conversation
MOST_PLACES = 5  # messages that one note names


class Format(Protocol):
    """A module, or any object, that reads the messages of one API. SDK objects are passed as mappings of their fields.

    It may have three more functions. `media(block, count)` returns the tokens of a block that is an image or other
    medium, else None; it replaces `autoprune.wire.media`. `words(message, entry)` returns the texts of a message
    without its calls and results. `role(message)` returns the role of a message that has no field `role`: messages of
    the role "user" may be joined.
    """

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """The name of the format, as in `PruneArgs(format=...)`."""

    def seen(self, message: Mapping[str, object], /) -> str | None:
        """Describe the mark of this format in a message ("a block of type 'tool_use'"); None if there is none."""

    def speaker(self, message: Mapping[str, object], /) -> Speaker:
        """Return the speaker of a message."""

    def parse(self, message: Mapping[str, object], at: int, parser: "Parser", /) -> Entry:
        """Read message number `at` as an entry. Each result in it can be replaced through its `put`."""

    def message(self, role: str, text: str, /) -> Any:
        """Make a message with a text; `role` is "user" or "assistant"."""


Choose: TypeAlias = Callable[[object, int], tuple[Mapping[str, object], Format]]  # a message's fields, and its format
Texts: TypeAlias = Callable[[Mapping[str, object], Entry], Iterable[str]]  # the texts of a message with this entry


def seen_block(message: Mapping[str, object], kinds: Container[object]) -> str | None:
    """Describe the first block of a message whose `type` is one of `kinds`; None if there is none."""
    for block in items_of(message.get("content")):
        kind = fields_of(block).get("type")
        if isinstance(kind, str) and kind in kinds:
            return f"a block of type {kind!r}"
    return None


def parse(messages: Sequence[object], parser: "Parser", fixed_tokens: int) -> Transcript:
    """Read a conversation as a transcript; `fixed_tokens` are sent beside the messages."""
    return Transcript(messages, tuple(without_replaced(parser.read_on(messages, 0))), fixed_tokens)


@dataclass(eq=False)
class Parser:
    """Read one conversation from its start; the meaning of a message depends on the messages before it."""

    count: Count
    choose: Choose  # detects the format of a message, or raises ConversationError
    is_tool_result: Callable[[str], bool]  # whether an element of a text is a result
    tool_name: Callable[[str], str]  # the tool of such a result
    texts_of: Texts  # reads the texts of a message if its format does not
    standing: Standing  # after the summarized messages
    wants_inputs: bool = False  # whether calls get the locations of their arguments

    def __post_init__(self) -> None:
        self.sent = 0  # the request that sends the next result, which equals the number of requests so far
        self.request = 0  # the request that the model is answering, or answered last
        self.begins_request = False
        self._follows_model = False
        self.open_calls = CallTracker()
        self.media: Media = media
        self.heading: tuple[Path, str] | None = None
        self._standings: dict[int, Standing] = {}  # by message
        self._missed: dict[tuple[str, str], list[int]] = {}  # messages, by lookalike and why it is no result
        self._begins_with_results = False
        self._requests_of_results = 0
        self._at = 0
        self._known: Mapping[str, object] = NOTHING  # the fields of the current message

    def read_on(self, messages: Sequence[object], start: int) -> list[Entry]:
        """Read the messages from number `start` on. Raises ConversationError for an item that is no message."""
        recognized = [self.choose(messages[at], at) for at in range(start, len(messages))]
        speakers = [written_in.speaker(known) for known, written_in in recognized]
        together = enumerate(zip(recognized, speakers, strict=True), start)
        return [self._read(messages[at], *pair, who, at) for at, (pair, who) in together]

    def read(self, message: object, at: int) -> Entry:
        """Read message number `at`. Raises ConversationError if it is no message."""
        known, written_in = self.choose(message, at)
        return self._read(message, known, written_in, written_in.speaker(known), at)

    def _read(self, message: object, known: Mapping[str, object], written_in: Format, who: Speaker, at: int) -> Entry:
        self._at, self._known = at, known
        self.media = getattr(written_in, "media", media)
        is_model = who is Speaker.MODEL
        self.begins_request = is_model and not self._follows_model
        self._follows_model = is_model
        if self.begins_request:
            self._begin_request()
            self.standing = self.standing.next_request()
        self._standings[at] = self.standing
        try:
            entry = written_in.parse(known, at, self)
        except ConversationError as error:
            raise add_place(error, at) from error
        find_role: RoleOf = getattr(written_in, "role", role_of)
        read_texts: Texts = getattr(written_in, "words", self.texts_of)
        entry = replace(entry, role=find_role(known), format=written_in.NAME, message=message)
        entry = replace(entry, begins_request=self.begins_request)
        entry = self._with_texts(entry, [*read_texts(known, entry)])
        if is_model:
            self.standing.add_calls(entry.calls)
        elif who is Speaker.OTHER and isinstance(role := known.get("role"), str):
            self.note_lookalike(
                f"role {role!r}", "is not known: give 'user', 'assistant' or 'tool', or nothing in it is pruned"
            )
        for call in entry.calls:
            self.open_calls.expect(call)
        if entry.folded:  # the calls of folded steps are native
            self.sent += entry.skipped
            self.standing.has_spoken = self.standing.is_native = True
        is_first = self.sent == self._requests_of_results  # as far as is known, the model has not been asked yet
        return self._as_leading_results(entry) if entry.results and is_first and self.standing.is_open else entry

    def _with_texts(self, entry: Entry, given: Sequence[str]) -> Entry:
        """Return the entry of a message with the given texts, and the blocks of folded steps that were in them."""
        texts = [text for each in given if (text := each.strip())]
        has_others = any(isinstance(each, Label) for each in given)
        folded: list[FoldedSteps] = []
        if entry.speaker is Speaker.USER and any(MARK in text for text in texts):
            for at, text in enumerate(texts):
                texts[at], blocks = split_blocks(text, folded[-1].last + 1 if folded else self.sent)
                folded += blocks
            texts = [text for text in texts if text]
        return replace(entry, texts=tuple(texts), has_others=has_others, folded=tuple(folded))

    def _begin_request(self) -> None:
        self.request = self.sent
        self.sent += 1
        self.open_calls.begin_request()

    def _as_leading_results(self, entry: Entry) -> Entry:
        """Return the entry of a message with results before the model's first message.

        If the message holds XML results and follows another such message, it begins a request: the author of the
        conversation asked the model in between, and left out its answers.
        """
        if not any(result.kind == XML for result in entry.results):
            return entry
        if not self._begins_with_results:
            self._begins_with_results = True
            return entry
        self._begin_request()
        self._requests_of_results += 1
        results = (replace(result, request=self.request, sent=self.sent) for result in entry.results)
        return replace(entry, results=tuple(results), begins_request=True)

    def note_lookalike(self, what: str, why: str) -> None:
        """Note that a lookalike of a result in the current message is not one, and why."""
        places = self._missed.setdefault((what, why), [])
        if places[-1:] != [self._at]:
            places.append(self._at)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on lookalikes that are no results, and on a conversation that begins with results, as text."""
        if not self._missed and not self._requests_of_results:
            return ()
        lookalikes = [f"{what} in {_message_numbers(places)} {why}" for (what, why), places in self._missed.items()]
        notes = lookalikes[:MOST_NOTES]
        if len(lookalikes) > MOST_NOTES:
            notes.append(f"{len(lookalikes) - MOST_NOTES} more kinds of lookalikes are no results")
        if self._requests_of_results:
            notes.append(
                "the conversation begins with results: before the model's first message, each message with results "
                "behind another one counts as a request, and what stands before it as seen"
            )
        return tuple(notes)

    def read_again(self, message: object, at: int, before: Entry) -> Entry | None:
        """Parse a message again after only payloads in it changed; `before` is its entry before the change.

        Return None if the numbers of results or calls differ, since a text that replaced a payload may itself look like
        a result or a call.
        """
        again = replace(self, standing=self._standings[at])
        again._follows_model = not before.begins_request
        again.sent = before.folded[0].first if before.folded else again.sent
        for result in before.results:
            if result.call and result.call.is_programmatic:
                again.open_calls.expect(result.call)
        entry = again.read(message, at)
        if (len(entry.results), len(entry.calls)) != (len(before.results), len(before.calls)):
            return None
        results = zip(before.results, entry.results, strict=True)
        same = (replace(new, request=old.request, sent=old.sent, tool=old.tool, call=old.call) for old, new in results)
        calls: list[ToolCall] = []
        for old, call in zip(before.calls, entry.calls, strict=True):
            inputs = tuple(replace(part, request=old.request) for part in call.inputs)
            calls.append(replace(call, request=old.request, inputs=inputs))
        return replace(entry, results=tuple(same), calls=tuple(calls), begins_request=before.begins_request)

    def tokens(self, content: object) -> int:
        """Count the tokens of any content, with media by the rules of the current message's format."""
        return tokens(content, self.count, self.media)

    def value_at(self, path: Path) -> object:
        """Return the value at a path of the current message."""
        value: object = self._known
        for name in path[1:]:
            value = item(value, name)
        return value

    def answered(self, call_id: object) -> ToolCall | None:
        """Close and return the open call with an id; if several calls share the id, the first."""
        return self.open_calls.close_by_id(call_id) if isinstance(call_id, str) else None


def native_call(parser: Parser, path: Path, call_id: object, tool: object, arguments: object, inside: Path) -> ToolCall:
    """Create the call at `path`, whose arguments are at the relative path `inside`."""
    name = tool if isinstance(tool, str) else UNKNOWN
    inputs: list[ToolInput] = []
    # Arguments are JSON text, a mapping, or the free text of a custom tool.
    if parser.wants_inputs and isinstance(arguments, str | Mapping):
        piece = arguments if isinstance(arguments, str) else json_text(arguments)
        argument = ToolInput(
            location=Location((*path, *inside)),
            request=parser.request,
            tool=name,
            piece=piece,
            start=0,
            stop=len(piece),
            piece_tokens=parser.count(piece),
            count=parser.count,
            put=as_text if isinstance(arguments, str) else as_json,
            is_json=piece.lstrip()[:1] == "{",
        )
        inputs.append(argument)
    known_id = call_id if isinstance(call_id, str) else None
    return ToolCall(Location(path), parser.request, known_id, name, arguments, tuple(inputs))


def native_result(
    parser: Parser,
    path: Path,
    payload: Payload,
    call: ToolCall | None,
    *,
    kind: str,
    tool: object = None,
    is_error: bool | None = None,
) -> ToolResult:
    """Create the result whose payload is at `path`; `tool` names its tool if `call` is None."""
    if call:
        parser.standing.answered.add(call.name)
    return ToolResult(
        location=Location(path),
        request=call.request if call else parser.request,
        tool=call.name if call else tool if isinstance(tool, str) else UNKNOWN,
        piece=payload.text,
        start=0,
        stop=len(payload.text),
        piece_tokens=payload.tokens,
        count=parser.count,
        put=payload.put,
        is_fixed=payload.is_fixed,
        is_plain=payload.is_plain,
        value=None if payload.is_plain else parser.value_at(path),
        sent=parser.sent,
        kind=kind,
        is_error=is_error,
        call=call,
    )


def add_place(error: ConversationError, at: int) -> ConversationError:
    """Add the index of the message to an error that has no path."""
    return error if error.path else ConversationError(f"message {at} cannot be read: {error}", (at,))


def _message_numbers(messages: Sequence[int]) -> str:
    listed = ", ".join(map(str, messages[:MOST_PLACES]))
    more = len(messages) - MOST_PLACES
    return f"message{'s' if len(messages) > 1 else ''} {listed}{f' and {more} more' if more > 0 else ''}"
