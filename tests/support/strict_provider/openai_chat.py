"""OpenAI's Chat Completions: the rules of its messages, and its answers.

The sentences are OpenAI's, as public issue threads quote them.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from strict_provider.caching import PromptCache, piece
from strict_provider.counting import tokens
from strict_provider.exchange import Json, RefusalError, Request
from strict_provider.scripts import Call, Play, Turn
from strict_provider.seals import digest

PATHS = (r"/v1/chat/completions",)
CREATED = 1_790_000_000  # answers carry no clock: the same request gets the same bytes
CACHE_MINIMUM, CACHE_STEP = 1_024, 128  # tokens. Source: OpenAI's prompt caching guide
ID_LENGTH = 40  # characters that a call's id may have

COMMON = {"role", "content", "name"}
FIELDS = {
    "system": COMMON,
    "developer": COMMON,
    "user": COMMON,
    "assistant": {*COMMON, "tool_calls", "function_call", "refusal", "audio", "annotations"},
    "tool": {*COMMON, "tool_call_id"},
    "function": COMMON,
}
PART_TYPES = ("text", "image_url", "input_audio", "refusal", "audio", "file")
TYPE_NAMES = {int: "an integer", float: "a decimal", bool: "a boolean", dict: "an object", list: "an array"}

ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
ALTERNATION = "Conversation roles must alternate user/assistant/user/assistant/..."


def envelope(refusal: RefusalError) -> Json:
    """OpenAI's error body."""
    fields = {"type": "invalid_request_error", "param": refusal.param, "code": refusal.code}
    return {"error": {"message": refusal.message, **fields}}


class ChatCompletions:
    """The API with its prompt cache."""

    def __init__(self, play: Play) -> None:
        """Play `play`."""
        self.play = play
        self.cache = PromptCache()

    def respond(self, request: Request) -> Json:
        """The answer to a request. Raises RefusalError where OpenAI would."""
        body = request.body
        check(body, self.play.strict_alternation)
        pieces = [piece(each) for each in (*(body.get("tools") or ()), *body["messages"])]
        cached = self.cache.automatic(body["model"], pieces, CACHE_MINIMUM, CACHE_STEP)
        spoken = sum(message["role"] == "assistant" for message in body["messages"])
        turn = self.play.turn(request, spoken)
        origin = digest(*(each.mark for each in pieces))
        return completion(body["model"], origin, turn, sum(each.tokens for each in pieces), cached)


def completion(model: str, origin: str, turn: Turn, prompt: int, cached: int) -> Json:
    """The body of an answer; `origin` makes its ids."""
    message: Json = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
    if turn.calls:
        message["tool_calls"] = [tool_call(call, origin, index) for index, call in enumerate(turn.calls)]
    reason = "tool_calls" if turn.calls else "stop"
    thought = tokens(turn.thinking)
    reply = tokens(message) + thought
    return {
        "id": f"chatcmpl-{origin}",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "total_tokens": prompt + reply,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thought},
        },
    }


def tool_call(call: Call, origin: str, index: int) -> Json:
    """A call of the script in OpenAI's shape."""
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id or f"call_{digest(origin, index)[:24]}", "type": "function", "function": function}


# The rules


def check(body: Json, alternate: bool) -> None:
    """Raise RefusalError for the first rule that a request breaks."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise missing("messages")
    if not messages:
        raise empty_array("messages")
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]", index)
    _check_results(messages)
    if alternate:
        _check_alternation(messages)


def missing(param: str) -> RefusalError:
    """OpenAI's words for a field that is not there."""
    return RefusalError(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def empty_array(param: str) -> RefusalError:
    """OpenAI's words for a list with nothing in it."""
    words = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    return RefusalError(f"Invalid '{param}': {words}", param=param, code="empty_array")


def unknown(param: str) -> RefusalError:
    """OpenAI's words for a field that it does not know."""
    return RefusalError(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


def wrong_type(param: str, expected: str, value: Any) -> RefusalError:
    """OpenAI's words for a field of the wrong type."""
    got = "null" if value is None else TYPE_NAMES.get(type(value), "a string")
    words = f"expected {expected}, but got {got} instead."
    return RefusalError(f"Invalid type for '{param}': {words}", param=param, code="invalid_type")


def wrong_value(param: str, value: Any, known: Sequence[str]) -> RefusalError:
    """OpenAI's words for a value that is not one of the known ones."""
    names = [f"'{name}'" for name in known]
    listed = " and ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + f", and {names[-1]}"
    return RefusalError(f"Invalid value: '{value}'. Supported values are: {listed}.", param=param, code="invalid_value")


def _check_message(message: Json, path: str, index: int) -> None:
    role = message.get("role")
    if role not in FIELDS:
        raise wrong_value(f"{path}.role", role, ("system", "assistant", "user", "function", "tool", "developer"))
    if strange := message.keys() - FIELDS[role]:
        raise unknown(f"{path}.{min(strange)}")
    if role == "tool" and not message.get("tool_call_id"):
        words = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
        raise RefusalError(words, param=f"messages.[{index}].tool_call_id")
    if message.get("tool_calls") is not None:
        _check_calls(message["tool_calls"], f"{path}.tool_calls")
    _check_content(message, path, index)


def _check_content(message: Json, path: str, index: int) -> None:
    match message.get("content"):
        case str():
            return
        case None:
            if not (message.get("tool_calls") or message.get("function_call") or message.get("refusal")):
                words = "Invalid value for 'content': expected a string, got null."
                raise RefusalError(words, param=f"messages.[{index}].content")
        case []:
            raise empty_array(f"{path}.content")
        case list() as parts:
            _check_parts(parts, message["role"], path)
        case other:
            raise wrong_type(f"{path}.content", "one of a string or array of objects", other)


def _check_parts(parts: list[Json], role: str, path: str) -> None:
    for number, part in enumerate(parts):
        kind = part.get("type")
        if kind not in PART_TYPES:
            raise wrong_value(f"{path}.content[{number}].type", kind, PART_TYPES)
        if kind == "image_url" and role != "user":
            words = f"but this message with role '{role}' contains an image URL."
            raise RefusalError(
                f"Invalid '{path}'. Image URLs are only allowed for messages with role 'user', {words}",
                param=path,
                code="invalid_value",
            )


def _check_calls(calls: list[Json], path: str) -> None:
    if not calls:
        raise empty_array(path)
    for number, call in enumerate(calls):
        _check_call(call, f"{path}[{number}]")


def _check_call(call: Json, path: str) -> None:
    if strange := call.keys() - {"id", "type", "function", "custom"}:
        raise unknown(f"{path}.{min(strange)}")
    if not call.get("id"):
        raise missing(f"{path}.id")
    if len(call["id"]) > ID_LENGTH:
        words = f"Expected a string with maximum length {ID_LENGTH}, but got a string with length {len(call['id'])}"
        raise RefusalError(
            f"Invalid '{path}.id': string too long. {words} instead.",
            param=f"{path}.id",
            code="string_above_max_length",
        )
    arguments = call.get("function", {"arguments": ""}).get("arguments")
    if not isinstance(arguments, str):
        raise wrong_type(f"{path}.function.arguments", "a string", arguments)


def _check_results(messages: list[Json]) -> None:
    """Every call is answered by the messages right after it, and nothing else is."""
    asked: list[str] = []
    answers: dict[str, int] = {}  # where an id was answered last, since the calls
    waiting: list[str] = []
    for index, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            _answer(message["tool_call_id"], index, asked, waiting, answers)
            continue
        if waiting:
            raise RefusalError(UNANSWERED + ", ".join(waiting), param="messages")
        asked = [call["id"] for call in message.get("tool_calls") or ()]
        waiting, answers = list(asked), {}


def _answer(id: str, index: int, asked: list[str], waiting: list[str], answers: dict[str, int]) -> None:
    if not asked:
        raise RefusalError(ORPHAN, param=f"messages.[{index}].role")
    if id in waiting:
        waiting.remove(id)
        answers[id] = index
        return
    if id in asked:
        words = f"Duplicate value for 'tool_call_id' of '{id}', in messages[{answers[id]}] and messages[{index}]."
    else:
        words = f"'tool_call_id' of '{id}' not found in 'tool_calls' of previous message."
    raise RefusalError(f"Invalid parameter: {words}", param=f"messages.[{index}].tool_call_id")


def _check_alternation(messages: list[Json]) -> None:
    """User and assistant take turns, as the chat templates of local models want it; tool loops stand between."""
    spoken = [
        message["role"]
        for message in messages
        if message["role"] in ("user", "assistant") and not message.get("tool_calls")
    ]
    if spoken[:1] != ["user"] or any(one == other for one, other in pairwise(spoken)):
        raise RefusalError(ALTERNATION)
