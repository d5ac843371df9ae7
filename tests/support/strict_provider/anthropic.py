"""Anthropic's Messages: its answers and its prompt cache. `anthropic_rules` and `_thinking` refuse."""

from dataclasses import replace

from strict_provider import anthropic_rules
from strict_provider.anthropic_thinking import Originals, Prefix, Seen, has_beta, is_on, seen, thinking
from strict_provider.caching import HOUR_TTL, Piece, PromptCache, Share, lives, marks, piece
from strict_provider.counting import tokens
from strict_provider.exchange import Json, RefusalError, Request
from strict_provider.scripts import Play, Turn
from strict_provider.seals import digest

COUNT = "/v1/messages/count_tokens"
PATHS = ("/v1/messages", COUNT)
# The fewest tokens that are cached, by how a model's name begins. Source: Anthropic's prompt caching guide.
CACHE_MINIMA = {
    **dict.fromkeys(("claude-opus-5", "claude-fable-5", "claude-mythos-5"), 512),
    "claude-opus-4-7": 2_048,
    **dict.fromkeys(("claude-opus-4-5", "claude-opus-4-6", "claude-haiku-4-5"), 4_096),
}
USUAL_MINIMUM = 1_024


def envelope(refusal: RefusalError) -> Json:
    """Anthropic's error body."""
    kind = "not_found_error" if refusal.status == 404 else "invalid_request_error"
    error = {"type": kind, "message": refusal.message}
    return {"type": "error", "error": error, "request_id": f"req_{digest(refusal.message)[:24]}"}


class Messages:
    """The API with its prompt cache and the thinking that it handed out."""

    def __init__(self, play: Play) -> None:
        """Play `play`."""
        self.play = play
        self.cache = PromptCache()
        self.originals = Originals()

    def respond(self, request: Request) -> Json:
        """The answer to a request. Raises RefusalError where Anthropic would."""
        body = request.body
        required = ("messages", "model") if request.path == COUNT else ("max_tokens", "messages", "model")
        betas = request.headers.get("anthropic-beta", "")
        anthropic_rules.check(body, required, self.play.strict_alternation, betas)
        if is_on(body):
            self.originals.check(body["messages"])
        view = seen(request)
        prompt = pieces(body, view)
        if request.path == COUNT:
            return {"input_tokens": sum(each.tokens for each in prompt)}
        share = self.cache.marked(body["model"], prompt, cache_minimum(body["model"]))
        if self.play.keeps:
            share = replace(share, hourly=share.written if self.play.keeps == HOUR_TTL else 0)
        spoken = sum(message["role"] == "assistant" for message in body["messages"])
        content = reply(self.play.turn(request, spoken), view.prefix, is_on(body))
        self.originals.add(content)
        reports = {"input_transformations": view.dropped} if has_beta(request) else {}
        return message(body["model"], view.prefix, content, share) | reports


def cache_minimum(model: str) -> int:
    """The fewest tokens that a model's cache holds."""
    return next((least for start, least in CACHE_MINIMA.items() if model.startswith(start)), USUAL_MINIMUM)


def pieces(body: Json, view: Seen) -> list[Piece]:
    """The prompt as the cache sees it: tools, system, then the blocks of the messages."""
    prompt = [piece(tool, "tools") for tool in body.get("tools") or ()]
    prompt += [piece(block, "system") for block in anthropic_rules.blocks({"content": body.get("system") or []})]
    prompt += [piece(block, message["role"]) for message in view.messages for block in message["content"]]
    if body.get("cache_control") and not any(marks(block) for block in view.messages[-1]["content"][-1:]):
        (ttl,) = lives({"cache_control": body["cache_control"]})
        prompt[-1] = Piece(prompt[-1].mark, prompt[-1].tokens, is_marked=True, ttl=ttl)
    return prompt


def reply(turn: Turn, prefix: Prefix, thinks: bool) -> list[Json]:
    """A turn of the script as content blocks. The ids of calls are made from what stands before them."""
    content = [thinking(turn.thinking, prefix)] if turn.thinking and thinks else []
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    for index, call in enumerate(turn.calls):
        id = f"toolu_{digest(prefix.system, prefix.tools, prefix.content, index)[:24]}"
        content.append({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments})
    return content


def message(model: str, prefix: Prefix, content: list[Json], share: Share) -> Json:
    """The body of an answer."""
    return {
        "id": f"msg_{prefix.content[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": share.fresh,
            "cache_read_input_tokens": share.read,
            "cache_creation_input_tokens": share.written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": share.written - share.hourly,
                "ephemeral_1h_input_tokens": share.hourly,
            },
            "output_tokens": tokens(content),
            "service_tier": "standard",
        },
    }
