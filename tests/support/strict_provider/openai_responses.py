"""OpenAI's Responses: its answers, what it stores, and its prompt cache. `responses_rules` refuses."""

import json
from itertools import pairwise
from typing import Any

from strict_provider import openai_chat
from strict_provider.caching import PromptCache, piece
from strict_provider.counting import tokens
from strict_provider.exchange import Json, RefusalError, Request
from strict_provider.responses_rules import Item, Shelf, check, is_output
from strict_provider.scripts import Play, Turn
from strict_provider.seals import digest, opened, plain, seal

PATHS = (r"/v1/responses",)
# Models that drop reasoning whose prefix changed, and say so. Source: OpenAI's guide "Keep the prefix unchanged".
DROPPING_MODELS = ("gpt-6.2",)
ENCRYPTED = "reasoning.encrypted_content"

envelope = openai_chat.envelope


class Responses:
    """The API with what it stores: items, responses and the prompt cache."""

    def __init__(self, play: Play) -> None:
        """Play `play`."""
        self.play = play
        self.cache = PromptCache()
        self.shelf = Shelf()
        self.conversations: dict[str, list[Json]] = {}  # by the id of the response that ends them

    def respond(self, request: Request) -> Json:
        """The answer to a request. Raises RefusalError where OpenAI would."""
        body = request.body
        items = self._items(body)
        check(items, self.shelf, is_stored=body.get("store") is not False)
        shown, dropped, prefix = shown_items(body, items)
        pieces = [piece(each) for each in (*(body.get("tools") or ()), body.get("instructions") or "", *shown)]
        model = body["model"]
        cached = self.cache.automatic(model, pieces, openai_chat.CACHE_MINIMUM, openai_chat.CACHE_STEP)
        turn = self.play.turn(request, count_turns(items))
        write = compaction_items if items[-1].get("type") == "compaction_trigger" else output_items
        output = write(turn, digest(*(each.mark for each in pieces)), prefix)
        self._keep(body, items, output)
        prompt = sum(each.tokens for each in pieces)
        return response(body, visible(output, body), dropped, usage(turn, output, prompt, cached))

    def _items(self, body: Json) -> list[Json]:
        """The whole input: what a previous response ended with, then this request's items, references resolved."""
        given = body.get("input")
        if given is None:
            raise openai_chat.missing("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        previous = body.get("previous_response_id")
        if previous is None:
            return [self.shelf.resolved(item) for item in items]
        if previous not in self.conversations:
            words = f"Previous response with id '{previous}' not found."
            raise RefusalError(words, param="previous_response_id", code="previous_response_not_found")
        return [*self.conversations[previous], *items]

    def _keep(self, body: Json, items: list[Json], output: list[Json]) -> None:
        is_stored = body.get("store") is not False
        self.shelf.add(output, is_stored)
        if is_stored:
            self.conversations[response_id(output)] = [*items, *output]


def count_turns(items: list[Json]) -> int:
    """How often the model spoke: the maximal runs of its items."""
    before = [False, *map(is_output, items)]
    return sum(now and not then for then, now in pairwise(before))


def shown_items(body: Json, items: list[Json]) -> tuple[list[Json], list[Json], str]:
    """The items that the model sees, the transformations to report, and the fingerprint of the prefix."""
    is_dropping = body["model"].startswith(DROPPING_MODELS)
    prefix = digest(plain(body.get("tools")), plain(body.get("text")))
    shown: list[Json] = []
    dropped: list[Json] = []
    for item in items:
        parts = opened(item.get("encrypted_content")) if item.get("type") == "reasoning" else None
        if is_dropping and parts and parts[-1] != prefix:
            dropped.append(
                {
                    "id": item.get("id") or parts[0],
                    "type": "reasoning",
                    "action": "removed",
                    "reason": "prefix_mismatch",
                }
            )
            continue
        prefix = digest(prefix, _content(item))
        shown.append(item)
    return shown, dropped, prefix


def _content(item: Json) -> Any:
    """What of an item the model sees: not its id, status or seal."""
    hidden = ("id", "status", "encrypted_content")
    return plain({key: value for key, value in item.items() if key not in hidden})


def output_items(turn: Turn, origin: str, prefix: str) -> list[Json]:
    """A turn of the script as output items. Reasoning is sealed to its prefix."""
    items: list[Json] = []
    if turn.thinking:
        id = f"rs_{origin}"
        summary = [{"type": "summary_text", "text": turn.thinking}]
        items.append({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": seal(id, prefix)})
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        kind = {"type": "message", "role": "assistant", "status": "completed"}
        items.append({"id": f"msg_{origin}", **kind, "content": content})
    for index, call in enumerate(turn.calls):
        mark = digest(origin, index)
        asked = {"call_id": f"call_{mark[:24]}", "name": call.name, "arguments": json.dumps(call.arguments)}
        of = {"namespace": call.namespace} if call.namespace else {}
        items.append({"id": f"fc_{mark}", "type": "function_call", "status": "completed", **asked, **of})
    return items


def compaction_items(turn: Turn, origin: str, prefix: str) -> list[Json]:
    """The opaque summary that a trigger asks for."""
    return [{"id": f"cmp_{origin}", "type": "compaction", "encrypted_content": seal(turn.text, prefix)}]


def visible(output: list[Json], body: Json) -> list[Item]:
    """The output as it is sent: encrypted reasoning only where the request asks for it."""
    if ENCRYPTED in (body.get("include") or ()) or body.get("store") is False:
        return output
    return [{key: value for key, value in item.items() if key != "encrypted_content"} for item in output]


def usage(turn: Turn, output: list[Json], prompt: int, cached: int) -> Json:
    """Tokens in the API's shape."""
    reply = tokens([_content(item) for item in output])
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": reply,
        "output_tokens_details": {"reasoning_tokens": tokens(turn.thinking)},
        "total_tokens": prompt + reply,
    }


def response_id(output: list[Json]) -> str:
    """The id of the response with this output."""
    return f"resp_{digest(output[0]['id'])}"


def response(body: Json, output: list[Json], dropped: list[Json], used: Json) -> Json:
    """The body of an answer."""
    return {
        "id": response_id(output),
        "object": "response",
        "created_at": openai_chat.CREATED,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "input_transformations": dropped,
        "usage": used,
    }
