"""Gemini's generateContent: its answers and its implicit cache. `gemini_rules` refuses."""

import re
from typing import Any

from strict_provider.caching import PromptCache, piece
from strict_provider.counting import tokens
from strict_provider.exchange import Json, RefusalError, Request
from strict_provider.gemini_rules import SIGNING_MODELS, check
from strict_provider.scripts import Play, Turn
from strict_provider.seals import digest, seal

STREAM, COUNT = ":streamGenerateContent", ":countTokens"
PATHS = (rf"/v1(?:beta|alpha)?/models/[^/]+(?::generateContent|{STREAM}|{COUNT})",)
# The fewest tokens that are cached, by how a model's name begins. Source: Google's context caching guide.
CACHE_MINIMA = {"gemini-2.5": 2_048}
USUAL_MINIMUM = 4_096


def envelope(refusal: RefusalError) -> Json:
    """Google's error body."""
    return {"error": {"code": refusal.status, "message": refusal.message, "status": "INVALID_ARGUMENT"}}


class GenerateContent:
    """The API with its prompt cache."""

    def __init__(self, play: Play) -> None:
        """Play `play`."""
        self.play = play
        self.cache = PromptCache()

    def respond(self, request: Request) -> Json:
        """The answer to a request. Raises RefusalError where Google would."""
        body = request.body
        model = re.sub(r".*/models/|:\w+$", "", request.path)
        check(body, model, self.play.strict_alternation)
        head = [*(body.get("tools") or ()), body.get("systemInstruction") or {}]
        pieces = [piece(each) for each in (*head, *body["contents"])]
        if request.path.endswith(COUNT):
            return {"totalTokens": sum(each.tokens for each in pieces)}
        cached = self.cache.automatic(model, pieces, cache_minimum(model))
        spoken = sum(content.get("role") == "model" for content in body["contents"])
        turn = self.play.turn(request, spoken)
        origin = digest(*(each.mark for each in pieces))
        parts = reply(turn, origin, model, _shows_thoughts(body))
        return answer(model, origin, turn, parts, sum(each.tokens for each in pieces), cached)


def cache_minimum(model: str) -> int:
    """The fewest tokens that a model's cache holds."""
    return next((least for start, least in CACHE_MINIMA.items() if model.startswith(start)), USUAL_MINIMUM)


def _shows_thoughts(body: Json) -> bool:
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    return bool(config.get("includeThoughts"))


def reply(turn: Turn, origin: str, model: str, shows_thoughts: bool) -> list[Json]:
    """A turn of the script as parts. The first call, or else the last part, carries the signature of the thought."""
    parts: list[Json] = []
    if turn.thinking and shows_thoughts:
        parts.append({"text": turn.thinking, "thought": True})
    if turn.text:
        parts.append({"text": turn.text})
    signed = len(parts) if turn.calls else len(parts) - 1
    for index, call in enumerate(turn.calls):
        id = {"id": digest(origin, index)[:8]} if model.startswith(SIGNING_MODELS) else {}
        parts.append({"functionCall": {**id, "name": call.name, "args": call.arguments}})
    if turn.thinking or model.startswith(SIGNING_MODELS):
        parts[signed]["thoughtSignature"] = seal(origin)
    return parts


def answer(model: str, origin: str, turn: Turn, parts: list[Json], prompt: int, cached: int) -> Json:
    """The body of an answer."""
    thought, said = tokens(turn.thinking), tokens([part for part in parts if not part.get("thought")])
    usage: dict[str, Any] = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": said,
        "totalTokenCount": prompt + said + thought,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
    }
    usage |= {"thoughtsTokenCount": thought} if thought else {}
    usage |= {"cachedContentTokenCount": cached} if cached else {}
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": origin,
    }
