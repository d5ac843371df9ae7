"""Any tool behind a `POST /v1/compress`, the path that gateways call: it gets a conversation and answers with another.

`prunebench --policy URL` replays it. The conversation goes there in Chat Completions form, as gateways send it.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import httpx
from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.messages import fields_of, join_texts
from autoprune.conversation.transcript import Part, ToolCall
from autoprune.errors import SettingsError

from prunebench.policies._chat import Chat, ChatMessage, arguments_text, chat_call

MODEL = "claude-sonnet-4-5-20250929"
URL = "http://127.0.0.1:8484/v1/compress"  # of `autoprune proxy`
TIMEOUT = 60.0  # seconds
LONGEST_ANSWER = 200  # characters of an answer that an error quotes

Message = Mapping[str, Any]


class CompressEndpoint:
    """Send what the tool at `url` answers for `model`. New messages, such as summaries, are sent as the user's."""

    def __init__(self, url: str = URL, model: str = MODEL) -> None:
        """Start with an empty conversation. Asks nothing yet."""
        self._url, self._model = url, model
        self._chat = Chat()

    def changes(self, request: RequestView) -> Changes:
        """Ask the tool. Raises SettingsError if it does not answer with messages."""
        chat = self._chat.before(request)
        if not chat:
            return Changes()
        told = [*_messages(chat, request.calls)]
        return _changes(chat, told, self._ask(told), len(request.messages))

    def _ask(self, told: Sequence[Message]) -> list[Message]:
        try:
            answer = _client().post(self._url, json={"model": self._model, "messages": told})
            answer.raise_for_status()
            sent = fields_of(answer.json()).get("messages")
        except httpx.HTTPStatusError as error:
            said = f"{error.response.status_code}: {error.response.text[:LONGEST_ANSWER]}"
            raise SettingsError(f"{self._url} answers with status {said}") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise SettingsError(f"{self._url} does not answer as POST /v1/compress should: {error}") from error
        if not isinstance(sent, list) or not sent:
            raise SettingsError(f"{self._url} answers without a list of 'messages'")
        return [fields_of(message) for message in sent]


@cache
def _client() -> httpx.Client:
    return httpx.Client(timeout=TIMEOUT, trust_env=False)


def _messages(chat: Sequence[ChatMessage], calls: Sequence[ToolCall]) -> Iterator[Message]:
    """Yield the conversation in Chat Completions form. The result of a call in a text is the user's text."""
    ids = {call.location: f"call_{number}" for number, call in enumerate(calls)}
    for one in chat:
        if one.result:
            call = one.result.call
            is_native = call is not None and call.location.start is None
            of = {"role": "tool", "tool_call_id": ids[call.location]} if call and is_native else {"role": "user"}
            yield {**of, "content": one.result.text}
        else:
            made = [chat_call(call, ids[call.location]) for call in one.calls]
            yield {"role": one.role, "content": one.text, **({"tool_calls": made} if made else {})}


def _changes(chat: Sequence[ChatMessage], told: Sequence[Message], sent: Sequence[Message], end: int) -> Changes:
    """Compare what was sent to the tool with its answer. A message is recognized by its ids, others by their text."""
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for number, message in enumerate(told):
        waiting[_key(message)].append(number)
    texts: dict[Part, str] = {}
    added: dict[int, list[str]] = {}
    kept: set[int] = set()  # numbers of messages in `chat`
    new: list[str] = []
    for message in sent:
        if not (known := waiting[_key(message)]):
            new.append(_text(message))
            continue
        number = known.popleft()
        kept.add(number)
        if new:
            added.setdefault(chat[number].at[0], []).extend(new)
            new = []
        texts |= _new_texts(chat[number], told[number], message)
    if new:
        added.setdefault(end, []).extend(new)
    staying = {at for number in kept for at in chat[number].at}
    lost = {at for one in chat for at in one.at} - staying
    gone = [one.result for number, one in enumerate(chat) if number not in kept and one.result]
    texts |= {result: "" for result in gone if result.location.message in staying}
    return Changes(texts, lost, {at: "\n\n".join(each) for at, each in added.items()})


def _key(message: Message) -> Hashable:
    """Return what a message keeps if only a result's text, or the arguments of a call, are changed in it."""
    ids = [fields_of(call).get("id") for call in message.get("tool_calls") or ()]
    return str(message.get("tool_call_id") or ids or (message.get("role"), _text(message)))


def _new_texts(one: ChatMessage, before: Message, after: Message) -> Iterator[tuple[Part, str]]:
    """Yield the changed result of a message, or the changed arguments of its calls."""
    if one.result and (text := _text(after)) != before["content"]:
        yield one.result, text
    for call, made in zip(one.calls, after.get("tool_calls") or (), strict=False):
        arguments = fields_of(fields_of(made).get("function")).get("arguments")
        if isinstance(arguments, str) and call.inputs and arguments != arguments_text(call):
            yield call.inputs[0], arguments


def _text(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else join_texts(content) if isinstance(content, list) else ""
