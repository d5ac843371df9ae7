"""Messages of any format as plain text: the speaker, the words, the calls and the results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
from autoprune.facts import answers, harness
from autoprune.facts.words import texts


@dataclass(frozen=True)
class Utterance:
    """A message as plain text: its speaker, its words, its calls and its results.

    `words` are the texts of the message without its results, calls and thinking, separated by blank lines; each image,
    audio, document or other medium is a line such as "[image]". Results know their call (`result.call`). `texts` are
    the same texts one by one, if they are known.

    `is_answer`: the user said it through a tool, to answer a question or to refuse a call. `after_request`: before this
    message there is a user's request that is not summarized, because it stays in the conversation.
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
        """The user's own words, without what the agent's harness adds: reminders, the environment."""
        texts = self.texts or (self.words,)
        return harness.user_words_beside(texts, (result.tool for result in self.results))

    @property
    def asked(self) -> str:
        """The user's request; "" if the message holds none.

        Answers through a tool are not requests, nor is a harness's summary of an earlier conversation.
        """
        is_request = self.speaker is Speaker.USER and not self.is_answer
        said = self.said if is_request else ""
        return "" if harness.is_continuation(said) else said

    @property
    def continues(self) -> str:
        """A harness's summary of an earlier conversation, passed on as the user's; "" for other messages."""
        said = self.said if self.speaker is Speaker.USER else ""
        return said if harness.is_continuation(said) else ""


def utterances(
    messages: Sequence[object],
    entries: Sequence[Entry],
    is_answer: Callable[[ToolResult], bool] = answers.is_answer,
) -> tuple[Utterance, ...]:
    """Convert messages of any format to utterances, in order; `entries` are the parsed messages, one for one.

    The user's words through a tool (`is_answer` recognizes them) follow the message as an utterance of the user.
    """
    spoken: list[Utterance] = []
    for message, entry in zip(messages, entries, strict=True):
        found = texts(message, entry)
        spoken.append(Utterance(entry.speaker, "\n\n".join(found), entry.calls, entry.results, found))
        said = (answers.answer_text(result) for result in entry.results if is_answer(result))
        spoken += (Utterance(Speaker.USER, answer, is_answer=True) for answer in said if answer)
    return tuple(spoken)
