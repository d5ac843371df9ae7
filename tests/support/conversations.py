"""Conversations to test with: an agent that calls one tool, in both dialects, its results in view."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

Message: TypeAlias = dict[str, object]
# What happens at one request: the results of the tools that the model called (None: one that was cleared before), or
# what the user said after the model had answered in words.
Request: TypeAlias = list[str | None] | str
Dialect: TypeAlias = Callable[..., list[Message]]

SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)
CLEARED_ELEMENT = f"""<tool_result tool_name='read_file' success='true'>
<message>Content cleared to save tokens</message>
<content>{SENTENCE}</content>
</tool_result>"""
OPENING: list[Message] = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix it."}]
ANSWER: Message = {"role": "assistant", "content": "It is done."}


def openai_chat(*requests: Request) -> list[Message]:
    """A conversation with native tool calls; its last results are unseen."""
    messages = list(OPENING)
    for number, request in enumerate(requests):
        if isinstance(request, str):
            messages += [ANSWER, {"role": "user", "content": request}]
            continue
        ids = [f"call_{number}_{index}" for index in range(len(request))]
        function = {"name": "read_file", "arguments": f'{{"path": "{number}.py"}}'}
        calls = [{"id": call, "type": "function", "function": function} for call in ids]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for call, text in zip(ids, request, strict=True):
            messages.append({"role": "tool", "tool_call_id": call, "content": SENTENCE if text is None else text})
    return messages


def xml(*requests: Request) -> list[Message]:
    """The same in the XML dialect: all results of a request in one message of the user's."""
    messages = list(OPENING)
    for number, request in enumerate(requests):
        if isinstance(request, str):
            messages += [ANSWER, {"role": "user", "content": request}]
            continue
        call = f"<read_file>\n<path>{number}.py</path>\n</read_file>"
        messages.append({"role": "assistant", "content": "\n".join([call] * len(request))})
        messages.append({"role": "user", "content": "\n".join(map(_element, request))})
    return messages


DIALECTS: tuple[Dialect, ...] = (openai_chat, xml)


def _element(text: str | None) -> str:
    if text is None:
        return CLEARED_ELEMENT
    return f"<tool_result tool_name='read_file' success='true'>\n<content>{text}</content>\n</tool_result>"


def words(number: int) -> str:
    """A text of about that many tokens."""
    return " ".join(f"word{index % 7}" for index in range(number // 2))


def oldest_first(
    dialect: Dialect, requests: list[Request], fits: Callable[[list[Message]], bool], count: Callable[..., int]
) -> list[Message]:
    """What clearing oldest first should give, by rebuilding and counting the whole conversation for each result.

    The results of the last request are unseen. A result that does not shrink is left alone.
    """
    kept = list(requests)
    for number, index in seen(requests):
        if fits(dialect(*kept)):
            break
        results = list(kept[number])
        results[index] = None
        shorter = [*kept[:number], results, *kept[number + 1 :]]
        if count(dialect(*shorter)) < count(dialect(*kept)):
            kept = shorter
    return dialect(*kept)


def seen(requests: list[Request]) -> Iterator[tuple[int, int]]:
    """Where the results stand that the model has seen: number of the request, index in it."""
    for number, request in enumerate(requests):
        if isinstance(request, list) and number < len(requests) - 1:
            yield from ((number, index) for index in range(len(request)))


def anthropic(*requests: Request) -> list[Message]:
    """The same as Anthropic's API takes it: the system prompt is not a message, all results of a request are in one."""
    messages: list[Message] = [*OPENING[1:]]
    for number, request in enumerate(requests):
        if isinstance(request, str):
            messages += [ANSWER, {"role": "user", "content": request}]
            continue
        ids = [f"toolu_{number}_{index}" for index in range(len(request))]
        call = {"type": "tool_use", "name": "read_file", "input": {"path": f"{number}.py"}}
        messages.append({"role": "assistant", "content": [{**call, "id": id} for id in ids]})
        texts = [SENTENCE if text is None else text for text in request]
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": text} for id, text in zip(ids, texts, strict=True)
        ]
        messages.append({"role": "user", "content": results})
    return messages


def bedrock(*requests: Request) -> list[Message]:
    """The same as Bedrock's Converse API takes it."""
    messages: list[Message] = [{"role": "user", "content": [{"text": "Fix it."}]}]
    for number, request in enumerate(requests):
        if isinstance(request, str):
            messages.append({"role": "assistant", "content": [{"text": ANSWER["content"]}]})
            messages.append({"role": "user", "content": [{"text": request}]})
            continue
        ids = [f"tooluse_{number}_{index}" for index in range(len(request))]
        call = {"name": "read_file", "input": {"path": f"{number}.py"}}
        messages.append({"role": "assistant", "content": [{"toolUse": {**call, "toolUseId": id}} for id in ids]})
        texts = [SENTENCE if text is None else text for text in request]
        results = [
            {"toolResult": {"toolUseId": id, "content": [{"text": text}]}} for id, text in zip(ids, texts, strict=True)
        ]
        messages.append({"role": "user", "content": results})
    return messages
