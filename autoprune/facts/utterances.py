"""Put messages of any format into plain words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
from autoprune.facts import answers, harness
from autoprune.facts.words import texts


@dataclass(frozen=True)
class Utterance:
    """A message in plain words: who speaks, the words, the calls and the results.

    `words` are the texts of the message without its results, calls and thinking, blank-line separated; each image,
    audio, document or other medium is a line such as "[image]". Results know their call (`result.call`). `texts` are
    the same texts one by one, where they are known.

    `is_answer`: the user said it through a tool, to answer a question or to refuse a call. `after_request`: before this
    message stands a request of the user's that is not summarized, because it stays in the conversation.
    """

    speaker: Speaker
    words: str
    calls: tuple[ToolCall, ...] = field(default=())
    results: tuple[ToolResult, ...] = field(default=())
    texts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    is_answer: bool = False
    after_request: bool = False

    @property
    def said(self) -> str:
        """The words without what the agent's program puts around the user's own: reminders, the environment."""
        texts = self.texts or (self.words,)
        return harness.user_words_beside(texts, (result.tool for result in self.results))

    @property
    def asked(self) -> str:
        """The user's request; "" if the message holds none.

        Answers through a tool are no requests, and neither is an assistant's summary of an earlier conversation.
        """
        is_request = self.speaker is Speaker.USER and not self.is_answer
        said = self.said if is_request else ""
        return "" if harness.is_continuation(said) else said

    @property
    def continues(self) -> str:
        """An assistant's summary of an earlier conversation, passed on in the user's name; "" for any other message."""
        said = self.said if self.speaker is Speaker.USER else ""
        return said if harness.is_continuation(said) else ""


def utterances(
    messages: Sequence[object],
    entries: Sequence[Entry],
    is_answer: Callable[[ToolResult], bool] = answers.is_answer,
) -> tuple[Utterance, ...]:
    """Return messages of any format in plain words, in order; `entries` are what they were parsed to, one for one.

    What the user said through a tool, which `is_answer` tells, follows its message as words of the user's.
    """
    told: list[Utterance] = []
    for message, entry in zip(messages, entries, strict=True):
        found = texts(message, entry)
        told.append(Utterance(entry.speaker, "\n\n".join(found), entry.calls, entry.results, found))
        said = (answers.words(result) for result in entry.results if is_answer(result))
        told += (Utterance(Speaker.USER, answer, is_answer=True) for answer in said if answer)
    return tuple(told)


def sendable(text: str) -> str:
    """Return a text that can be written as UTF-8: lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most `most` characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"
