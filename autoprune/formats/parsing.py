"""Parse: read the caller's messages, one by one, into entries. Changes nothing, decides nothing.

A `Format` reads one message of one API. The `Parser` finds the format of each message, hands itself to it, and tells it
what the messages before left open: the number of the request, the calls that wait for a result, and whether a text can
hold results here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from autoprune.conversation.placeholders import XML
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall, Transcript, Words
from autoprune.errors import ConversationError
from autoprune.formats._media import Media, media
from autoprune.formats._open_calls import OpenCalls
from autoprune.formats._payloads import tokens
from autoprune.formats._standing import Standing
from autoprune.tokens import Count

MOST_NOTES = 5  # of one conversation
MOST_PLACES = 5  # messages that a note names


class Format(Protocol):
    """A module, or any object, that reads the messages of one API; an SDK's object comes as the mapping of its fields.

    It may have two more functions. `media(block, count)` returns the tokens of a block that is an image or the like, or
    None for any other, in place of `autoprune.formats.media`. `words(message, entry)` returns the texts of a message
    that a summarizer reads.
    """

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """The name of the format, as in `PruneArgs(format=...)`."""

    def seen(self, message: Mapping[str, object], /) -> str | None:
        """Return the mark that shows that a message is of this format ("a block of type 'tool_use'"), or None."""

    def speaker(self, message: Mapping[str, object], /) -> Speaker:
        """Return who a message comes from."""

    def parse(self, message: Mapping[str, object], at: int, parser: "Parser", /) -> Entry:
        """Return the entry of message number `at`. Each result in it knows how to be replaced (`put`)."""

    def message(self, role: str, text: str, /) -> Any:
        """Return a message that says a text; `role` is "user" or "assistant"."""


Choose: TypeAlias = Callable[[object, int], tuple[Mapping[str, object], Format]]  # a message's fields, and its format


def parse(messages: Sequence[object], parser: "Parser", fixed_tokens: int) -> Transcript:
    """Return a conversation as pruning sees it; `fixed_tokens` are sent beside the messages."""
    return Transcript(messages, tuple(parser.read(message, at) for at, message in enumerate(messages)), fixed_tokens)


class Parser:
    """A reader of one conversation, from its start: each message is understood by those before it."""

    def __init__(
        self,
        count: Count,
        choose: Choose,
        is_tool_result: Callable[[str], bool],
        tool_name: Callable[[str], str],
        *,
        wants_inputs: bool = False,
        standing: Standing,
    ) -> None:
        """Count with `count`, and let `choose` find the format of each message, or raise ConversationError.

        `is_tool_result` and `tool_name` say what a result in XML text is and which tool made it. `wants_inputs` asks
        for the places of calls' arguments. `standing` is what is known of messages that a summary stands for.
        """
        self.count = count
        self.choose = choose
        self.is_tool_result = is_tool_result
        self.tool_name = tool_name
        self.wants_inputs = wants_inputs
        self.sent = 0  # the request that the next result is sent with: as many requests have begun
        self.request = 0  # the one that the model answers, or has answered last
        self.begins_request = False
        self._follows_model = False
        self.open_calls = OpenCalls()
        self.media: Media = media
        self.heading: tuple[Path, str] | None = None
        self.standing = standing
        self._standings: dict[int, Standing] = {}  # by message
        self._missed: dict[tuple[str, str], list[int]] = {}  # messages, by what was seen in them and why it is nothing
        self._begins_with_results = False
        self._requests_of_results = 0
        self._at = 0
        self._format: Format | None = None  # of the message that was read last
        self._words: Words | None = None

    def read(self, message: object, at: int) -> Entry:
        """Return the entry of message number `at`. Raises ConversationError where it is no message."""
        known, written_in = self.choose(message, at)
        self.use(written_in)
        self._at = at
        who = written_in.speaker(known)
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
            raise placed(error, at) from error
        if self._words:
            entry = replace(entry, words=self._words)
        if is_model:
            self.standing.call(entry.calls)
        elif who is Speaker.OTHER and isinstance(role := known.get("role"), str):
            self.miss(f"role {role!r}", "is not known: give 'user', 'assistant' or 'tool', or nothing in it is pruned")
        for call in entry.calls:
            self.open_calls.expect(call)
        return self._opening(entry) if self.standing.is_open and entry.results else entry

    def use(self, written_in: Format) -> None:
        """Go by the rules of a format from now on: its own for media and words, where it has any."""
        if written_in is not self._format:
            self._format = written_in
            self.media = getattr(written_in, "media", media)
            self._words = getattr(written_in, "words", None)

    def _begin_request(self) -> None:
        self.request = self.sent
        self.sent += 1
        self.open_calls.begin_request()

    def _opening(self, entry: Entry) -> Entry:
        """Return the entry of a message with results that stands before the model's first message.

        Where it holds results in XML and stands behind another such message, it begins a request: what made the
        conversation asked the model in between, and left its answers out.
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

    def miss(self, what: str, why: str) -> None:
        """Note that something in the message being read looks like a result and was not taken, and why."""
        places = self._missed.setdefault((what, why), [])
        if places[-1:] != [self._at]:
            places.append(self._at)

    @property
    def notes(self) -> tuple[str, ...]:
        """What looks like a result and was not taken, and whether the conversation begins with results, in words."""
        found = [f"{what} in {_places(places)} {why}" for (what, why), places in self._missed.items()]
        notes = found[:MOST_NOTES]
        if len(found) > MOST_NOTES:
            notes.append(f"{len(found) - MOST_NOTES} more kinds of lookalikes are no results")
        if self._requests_of_results:
            notes.append(
                "the conversation begins with results: before the model's first message, each message with results "
                "behind another one counts as a request, and what stands before it as seen"
            )
        return tuple(notes)

    def read_again(self, message: object, at: int, before: Entry, *, follows_model: bool) -> Entry | None:
        """Return the entry of a message of which only payloads have changed since it was read as `before`.

        `follows_model` says whether the message before it is the model's. Return None where other results or calls are
        found: a text that was put in a payload's place can be read as one.
        """
        names = self.is_tool_result, self.tool_name
        again = Parser(self.count, self.choose, *names, wants_inputs=self.wants_inputs, standing=self._standings[at])
        again._follows_model = follows_model
        entry = again.read(message, at)
        if (len(entry.results), len(entry.calls)) != (len(before.results), len(before.calls)):
            return None
        results = zip(before.results, entry.results, strict=True)
        same = (replace(new, request=old.request, sent=old.sent, tool=old.tool, call=old.call) for old, new in results)
        calls = (replace(new, request=old.request) for old, new in zip(before.calls, entry.calls, strict=True))
        return replace(entry, results=tuple(same), calls=tuple(calls), begins_request=before.begins_request)

    def tokens(self, content: object) -> int:
        """Return the tokens of any content, with media by the rules of the format that is read."""
        return tokens(content, self.count, self.media)

    def answered(self, call_id: object) -> ToolCall | None:
        """Close and return the open call with an id: the first where an id is used again."""
        return self.open_calls.answered(call_id) if isinstance(call_id, str) else None


def placed(error: ConversationError, at: int) -> ConversationError:
    """Return an error with the place of its message."""
    return error if error.path else ConversationError(f"message {at} cannot be read: {error}", (at,))


def _places(messages: Sequence[int]) -> str:
    """Return the numbers of some messages, in words."""
    named = ", ".join(map(str, messages[:MOST_PLACES]))
    more = len(messages) - MOST_PLACES
    return f"message{'s' if len(messages) > 1 else ''} {named}{f' and {more} more' if more > 0 else ''}"
