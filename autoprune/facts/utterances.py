"""Messages of any format as plain text: the speaker, the words, the calls and the results."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
from autoprune.facts import answers, harness


@dataclass(frozen=True)
class Utterance:
    """A message as plain text: its speaker, its words, its calls and its results.

    `words` are the texts of the message without its results, calls and thinking, separated by blank lines; each image,
    audio, document or other medium is a line such as "[image]". Results know their call (`result.call`). `texts` are
    the same texts one by one, or () if they are unknown.

    `is_answer`: the user said the words through a tool, to answer a question or to refuse a call. `after_request`: a
    user's request precedes this message, and is not summarized because it stays in the conversation.
    """

    speaker: Speaker
    words: str
    calls: tuple[ToolCall, ...] = field(default=())
    results: tuple[ToolResult, ...] = field(default=())
    texts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    is_answer: bool = False
    after_request: bool = False

    @property
    def user_words(self) -> str:
        """The user's own words, without texts that the agent's harness adds, such as reminders and the environment."""
        texts = self.texts or (self.words,)
        return harness.user_words_beside(texts, (result.tool for result in self.results))

    @property
    def user_request(self) -> str:
        """The user's request; "" if the message holds no request.

        Answers through a tool are not requests, nor is a harness's summary of an earlier conversation.
        """
        words = "" if self.is_answer or self.speaker is not Speaker.USER else self.user_words
        return "" if harness.is_continuation(words) else words

    @property
    def earlier_summary(self) -> str:
        """A harness's summary of an earlier conversation, passed on as the user's; "" for other messages."""
        words = self.user_words if self.speaker is Speaker.USER else ""
        return words if harness.is_continuation(words) else ""


def utterances(
    entries: Iterable[Entry], is_answer: Callable[[ToolResult], bool] = answers.is_answer
) -> tuple[Utterance, ...]:
    """Convert the entries of messages to utterances, in order.

    If the user answered through a tool, as `is_answer` recognizes, the words follow as an utterance of the user. The
    lines of folded steps follow as words of the model, which made the calls.
    """
    spoken: list[Utterance] = []
    for entry in entries:
        words = "\n\n".join(entry.texts)
        if words or entry.results or not entry.folded:
            spoken.append(Utterance(entry.speaker, words, entry.calls, entry.results, entry.texts))
        said = (answers.answer_text(result) for result in entry.results if is_answer(result))
        spoken += (Utterance(Speaker.USER, answer, is_answer=True) for answer in said if answer)
        spoken += (Utterance(Speaker.MODEL, each.text) for each in entry.folded)
    return tuple(spoken)


def is_note(entry: Entry) -> bool:
    """Return whether a user's message holds only texts of the agent's program, such as a reminder."""
    tools = (result.tool for result in entry.results)
    return bool(entry.texts) and not harness.user_words_beside(entry.texts, tools)
