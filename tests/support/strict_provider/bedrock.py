"""Bedrock's Converse: the rules of its messages, and its answers. Never streams; caches nothing.

The sentences are Bedrock's, as public issue threads quote them.
"""

from itertools import pairwise, takewhile
from typing import Any

from strict_provider.counting import tokens
from strict_provider.exchange import Json, RefusalError, Request
from strict_provider.scripts import Play, Turn
from strict_provider.seals import digest

PATHS = (r"/model/[^/]+/converse",)

FIRST = "A conversation must start with a user message. Try again with a conversation that starts with a user message."
ALTERNATION = (
    "A conversation must alternate between user and assistant roles. "
    "Make sure the conversation alternates between user and assistant roles and try again."
)
NOT_FIRST = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
PLACES = (
    ("toolUse", "tool_use", "assistant"),
    ("reasoningContent", "thinking", "assistant"),
    ("toolResult", "tool_result", "user"),
)
NO_TOOLS = "The toolConfig field must be defined when using toolUse and toolResult content blocks."


def envelope(refusal: RefusalError) -> Json:
    """Bedrock's error body; its kind is in a header."""
    return {"message": refusal.message}


class Converse:
    """The API."""

    def __init__(self, play: Play) -> None:
        """Play `play`."""
        self.play = play

    def respond(self, request: Request) -> Json:
        """The answer to a request. Raises RefusalError where Bedrock would."""
        messages = request.body.get("messages") or []
        check(request.body, messages)
        spoken = sum(message["role"] == "assistant" for message in messages)
        content = reply(self.play.turn(request, spoken), digest(request.body))
        prompt, said = tokens(request.body), tokens(content)
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "tool_use" if "toolUse" in content[-1] else "end_turn",
            "usage": {"inputTokens": prompt, "outputTokens": said, "totalTokens": prompt + said},
            "metrics": {"latencyMs": 1},
        }


def reply(turn: Turn, origin: str) -> list[Json]:
    """A turn of the script as content blocks."""
    content: list[Json] = [{"text": turn.text}] if turn.text else []
    for index, call in enumerate(turn.calls):
        id = f"tooluse_{digest(origin, index)[:22]}"
        content.append({"toolUse": {"toolUseId": id, "name": call.name, "input": call.arguments}})
    return content


# The rules


def check(body: Json, messages: list[Json]) -> None:
    """Raise RefusalError for the first rule that a request breaks."""
    if not messages or messages[0]["role"] != "user":
        raise RefusalError(FIRST)
    if any(one["role"] == other["role"] for one, other in pairwise(messages)):
        raise RefusalError(ALTERNATION)
    for index, message in enumerate(messages):
        _check_content(message["content"], f"messages.{index}")
        _check_places(message, index)
    if not body.get("toolConfig") and any(_ids(each, name) for each in messages for name in ("toolUse", "toolResult")):
        raise RefusalError(NO_TOOLS)
    for index, pair in enumerate(pairwise([{"role": "start", "content": []}, *messages])):
        _check_results(*pair, f"messages.{index}")
    if waiting := _ids(messages[-1], "toolUse"):
        raise _unanswered(f"messages.{len(messages)}", waiting)


def _ids(message: Json, name: str) -> list[str]:
    return [block[name]["toolUseId"] for block in message["content"] if name in block]


def _check_content(content: list[Any], path: str) -> None:
    if not content:
        words = "Add a ContentBlock object to the content field and try again."
        raise RefusalError(f"The content field in the Message object at {path} is empty. {words}")
    for number, block in enumerate(content):
        place = f"{path}.content.{number}"
        if not block.get("text", "-").strip():
            words = "Add text to the text field, and try again."
            raise RefusalError(f"The text field in the ContentBlock object at {place} is blank. {words}")
        result = block.get("toolResult", {})
        if result.get("status") == "error" and not result.get("content"):
            words = "cannot be empty when status value is error."
            raise RefusalError(f"The content field at {place}.toolResult {words}")


def _check_places(message: Json, index: int) -> None:
    """Calls and thinking are the model's, results the user's: Claude's API says so behind Bedrock."""
    for name, kind, role in PLACES:
        if any(name in block for block in message["content"]) and message["role"] != role:
            raise RefusalError(f"messages.{index}: `{kind}` blocks can only be in `{role}` messages")


def _check_results(before: Json, message: Json, path: str) -> None:
    """A message has the results of the calls before it, each once."""
    asked, answered = _ids(before, "toolUse"), _ids(message, "toolResult")
    for name in ("toolUse", "toolResult"):
        ids = _ids(message, name)
        if len(set(ids)) < len(ids):
            twice = next(id for id in ids if ids.count(id) > 1)
            raise RefusalError(f"The {name} blocks at {path}.content contain duplicate Ids: {twice}")
    if missing := [id for id in asked if id not in answered]:
        raise _unanswered(path, missing)
    leading = list(takewhile(lambda block: "toolResult" in block or "cachePoint" in block, message["content"]))
    if late := [id for id in asked if id not in _ids({"content": leading}, "toolResult")]:
        number = int(path.removeprefix("messages.")) - 1
        raise RefusalError(NOT_FIRST.format(number, ", ".join(late)))
    if len(answered) > len(asked):
        words = (
            f"The number of toolResult blocks at {path}.content exceeds the number of toolUse blocks of previous turn."
        )
        raise RefusalError(words)


def _unanswered(path: str, ids: list[str]) -> RefusalError:
    return RefusalError(f"Expected toolResult blocks at {path}.content for the following Ids: {', '.join(ids)}")
