"""Answers as server-sent events, in the order in which each API sends them. The answer's content is not changed.

Each function takes the body of an answer that is not streamed. A text comes in pieces, as the real ones send it.
"""

import json
from collections.abc import Iterator

from strict_provider.exchange import Json

PIECE_LENGTH = 400  # characters of a text, or of the arguments of a call, in one event


def event(data: Json, name: str | None = None) -> str:
    """One server-sent event; `name` is its type, where the API gives one."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def cut(text: str) -> list[str]:
    """A text in pieces; none of an empty one."""
    return [text[start : start + PIECE_LENGTH] for start in range(0, len(text), PIECE_LENGTH)]


# Anthropic


def anthropic(answer: Json) -> Iterator[str]:
    """Messages: a start, each block in deltas, the reason of the stop, the end."""
    nothing = {"content": [], "stop_reason": None, "usage": answer["usage"] | {"output_tokens": 1}}
    yield _typed({"type": "message_start", "message": answer | nothing})
    for index, block in enumerate(answer["content"]):
        empty, deltas = _block(block)
        yield _typed({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _typed({"type": "content_block_delta", "index": index, "delta": delta})
        yield _typed({"type": "content_block_stop", "index": index})
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _typed({"type": "message_delta", "delta": end, "usage": answer["usage"]})
    yield _typed({"type": "message_stop"})


def _typed(data: Json) -> str:
    return event(data, data["type"])


def _block(block: Json) -> tuple[Json, list[Json]]:
    """A content block as it starts, and what is added to it."""
    if block["type"] == "thinking":
        signed = {"type": "signature_delta", "signature": block["signature"]}
        thought: list[Json] = [{"type": "thinking_delta", "thinking": text} for text in cut(block["thinking"])]
        return {"type": "thinking", "thinking": "", "signature": ""}, [*thought, signed]
    if block["type"] == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in cut(block["text"])]
    pieces = cut(json.dumps(block["input"]))
    return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": text} for text in pieces]


# OpenAI


def openai_chat(answer: Json) -> Iterator[str]:
    """Chat Completions: deltas of the one choice, the usage, and [DONE]."""
    frame = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for delta, reason in _deltas(answer["choices"][0]):
        yield event(frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None})
    yield event(frame | {"choices": [], "usage": answer["usage"]})
    yield "data: [DONE]\n\n"


def _deltas(choice: Json) -> Iterator[tuple[Json, str | None]]:
    message = choice["message"]
    yield {"role": "assistant", "content": ""}, None
    for text in cut(message["content"] or ""):
        yield {"content": text}, None
    for index, call in enumerate(message.get("tool_calls") or ()):
        named = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": named}]}, None
        for text in cut(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}, None
    yield {}, choice["finish_reason"]


def openai_responses(answer: Json) -> Iterator[str]:
    """Responses: the response as it begins, each item with its deltas, the response as it ends; all numbered."""
    for number, data in enumerate(_response_events(answer)):
        yield _typed(data | {"sequence_number": number})


def _response_events(answer: Json) -> Iterator[Json]:
    begun = answer | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(answer["output"]):
        empty, deltas = _item(item)
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        for delta in deltas:
            yield delta | place
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": answer}


def _item(item: Json) -> tuple[Json, list[Json]]:
    """An output item as it starts, and the events between that and its end."""
    match item["type"]:
        case "reasoning":
            return item | {"summary": []}, _summary(item["summary"])
        case "message":
            return item | {"status": "in_progress", "content": []}, _message(item["content"])
        case "compaction":
            return item, []
        case _:
            pieces = cut(item["arguments"])
            deltas: list[Json] = [{"type": "response.function_call_arguments.delta", "delta": text} for text in pieces]
            done = {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
            return item | {"status": "in_progress", "arguments": ""}, [*deltas, done]


def _summary(parts: list[Json]) -> list[Json]:
    events: list[Json] = []
    for index, part in enumerate(parts):
        start = "response.reasoning_summary"
        steps = [{"type": f"{start}_part.added", "part": part | {"text": ""}}]
        steps += [{"type": f"{start}_text.delta", "delta": text} for text in cut(part["text"])]
        steps += [{"type": f"{start}_text.done", "text": part["text"]}, {"type": f"{start}_part.done", "part": part}]
        events += [step | {"summary_index": index} for step in steps]
    return events


def _message(parts: list[Json]) -> list[Json]:
    events: list[Json] = []
    for index, part in enumerate(parts):
        steps = [{"type": "response.content_part.added", "part": part | {"text": ""}}]
        steps += [{"type": "response.output_text.delta", "delta": text, "logprobs": []} for text in cut(part["text"])]
        steps += [{"type": "response.output_text.done", "text": part["text"], "logprobs": []}]
        steps += [{"type": "response.content_part.done", "part": part}]
        events += [step | {"content_index": index} for step in steps]
    return events


# Gemini


def gemini(answer: Json) -> Iterator[str]:
    """A chunk for each part; the last one has the reason of the stop and the whole usage."""
    (candidate,) = answer["candidates"]
    parts = candidate["content"]["parts"]
    for number, part in enumerate(parts, 1):
        end = {"finishReason": candidate["finishReason"]} if number == len(parts) else {}
        chunk = {"index": 0, "content": {"role": "model", "parts": [part]}} | end
        yield event(answer | {"candidates": [chunk]})
