"""Whatever calibration, zone, model, overhead and cache life each request has, a cleared result stays cleared."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from every_format import as_bytes, requests
from profiles import is_full
from rounds import WIRE, Step

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.apps.proxy import Settings
from autoprune.apps.proxy._pruning import Job, Work

CONVERSATIONS = 1_000 if is_full() else 36
MODELS = ("claude-sonnet-4-5", "claude-opus-5-5", "gpt-5", "gpt-4", "a model of nobody's")
STRATEGIES = (
    "cache_aware",
    "cache_aware(stay=0, start_at=0)",
    "cache_aware(threshold=1000, patience=0.5, stay=0, start_at=0, never_dearer=None)",
    "low_water",
    "low_water(target=0.5, minimum_reclaim=0.4)",
    "tool_output_cleanup",
    "observation_masking(keep=2, polling=3)",
)
PATHS = {"openai_chat": "/v1/chat/completions", "anthropic": "/v1/messages", "openai_responses": "/v1/responses"}


# Conversations of the shapes that agents see


def csv(random: Random, lines: int) -> str:
    rows = (f"{at},{random.choice('ABCD')}-{random.randrange(10**6)},{random.random():.4f}" for at in range(lines))
    return "\n".join(("id,sample,value", *rows))


def code(random: Random, lines: int) -> str:
    names = random.choices(("parse", "load_rows", "find", "Ledger", "total"), k=lines)
    return "\n".join(
        f"{at:>5}\tdef {name}_{random.randrange(99)}(self, row: int) -> None:" for at, name in enumerate(names)
    )


def log(random: Random, lines: int) -> str:
    said = random.choices(("INFO started", "WARNING slow query", "ERROR refused", "DEBUG tick"), k=lines)
    return "\n".join(f"2026-11-26T10:{at % 60:02}:{random.randrange(60):02}Z {line}" for at, line in enumerate(said))


SHAPES = {"read_file": code, "query": csv, "run": log}


def steps(random: Random) -> list[Step]:
    """One to four calls at a time, some of them of a file that was read before."""
    found = []
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        tool = random.choice(tuple(SHAPES))
        text = SHAPES[tool](random, random.choice((2, 20, 60, 120)))
        found.append(Step(tool, {"path": f"{random.randrange(8)}.txt"}, text, random.random() < 0.1))
    return found


def conversation(random: Random, format: str) -> list[Any]:
    length = random.randrange(6, 16)
    return WIRE[format](["And the next?" if random.random() < 0.1 else steps(random) for _ in range(length)])


def settings(random: Random) -> dict[str, Any]:
    """The settings of a request."""
    return {
        "safe_zone": random.choice((2_000, 6_000, 12_000, 40_000)),
        "calibration": random.choice((0.5, 1.0, 1.0, 1.35, 2.6)),
        "model": random.choice(MODELS),
        "cache_ttl": random.choice((60.0, 300.0, 3_600.0)),
        "overhead_tokens": random.choice((0, 900, 1_800)),
    }


def texts(messages: Sequence[Any]) -> list[str]:
    """The text of each result, oldest first."""
    blocks = [block for each in messages for block in (each["content"] if is_list(each) else [each])]
    return [
        block.get("output") or block["content"]
        for block in blocks
        if {block.get("type"), block.get("role")} & {"tool_result", "tool", "function_call_output"}
    ]


def is_list(message: Any) -> bool:
    return isinstance(message.get("content"), list)


@dataclass
class Checked:
    """The newest prompt of a conversation, checked against the one before."""

    sent: list[Any] = field(default_factory=list)
    cleared: int = 0

    def add(self, given: Sequence[Any], sent: list[Any]) -> None:
        old = texts(self.sent)
        for whole, before, now in zip(texts(given), old, texts(sent), strict=False):
            # A result may be replaced again, by a shorter text.
            assert before in (whole, now) or (now != whole and len(now) < len(before))
        if texts(sent)[: len(old)] == old:
            assert as_bytes(sent[: len(self.sent)]) == as_bytes(self.sent)
        self.sent = sent
        self.cleared = sum(one != other for one, other in zip(texts(given), texts(sent), strict=True))


@pytest.mark.parametrize("format", sorted(PATHS))
def test_in_the_library(format: str):
    cleared = 0
    for seed in range(CONVERSATIONS // 12):
        random = Random(f"library {format} {seed}")
        messages, strategy = conversation(random, format), random.choice(STRATEGIES)
        first, later, pauses = settings(random), {}, {}
        ratio = first.pop("calibration")
        keeping, feeding, checked = pruner(first), pruner(first), Checked()
        fed: list[Any] = []
        for at in requests(messages):
            later[at] = dict(random.choices([*settings(random).items()], k=random.randrange(6)))
            pauses[at] = random.choice((0.0, 5.0, 400.0, 4_000.0))
            given = {"calibration": ratio, "history": later, "pauses": pauses}
            result = keeping.prune(messages[:at], strategy, **given)
            checked.add(messages[:at], result.conversation)
            assert pruner(first).prune(messages[:at], strategy, **given).conversation == result.conversation
            assert keeping.prune(result.conversation, strategy, **given).conversation == result.conversation
            fed = feeding.prune([*fed, *messages[len(fed) : at]], strategy, **given).conversation
            assert fed == result.conversation
        cleared += checked.cleared
    assert cleared > 0


def pruner(first: dict[str, Any]) -> AgenticConversationPruner:
    args = {f"conversation_prune_{name}" if name == "safe_zone" else name: value for name, value in first.items()}
    zone = args.pop("conversation_prune_safe_zone")
    return AgenticConversationPruner(PruneArgs(zone, **args))


def body(format: str, messages: list[Any], now: dict[str, Any]) -> dict[str, Any]:
    """The body of a request: the model and the tools may change at each one."""
    tools = [{"name": "deploy", "description": "word " * now["overhead_tokens"]}]
    field = "input" if format == "openai_responses" else "messages"
    return {"model": now["model"], "tools": tools, field: messages}


def messages_of(body: Any) -> list[Any]:
    return body.get("messages") or body["input"]


@pytest.mark.parametrize("format", sorted(PATHS))
def test_behind_the_proxy(format: str):
    for seed in range(CONVERSATIONS // 12):
        random = Random(f"proxy {format} {seed}")
        messages = [message for _ in range(2) for message in conversation(random, format)]
        work = Work(Settings(safe_zone="14k", strategy=random.choice(STRATEGIES)))
        checked, clock = Checked(), 0.0
        for at in requests(messages):
            now, clock = settings(random), clock + random.choice((5.0, 400.0, 4_000.0))
            asked = json.dumps(body(format, messages[:at], now)).encode()
            job = Job(PATHS[format], {}, asked, "s", clock)
            counts = format == "anthropic" and random.random() < 0.3
            if counts:
                work.prune(Job(f"{PATHS[format]}/count_tokens", {}, asked, "s", clock))
            done = work.prune(job)
            account = work.account(done.number)
            assert account, done.note
            checked.add(messages[:at], messages_of(json.loads(done.body or asked)))
            ttl = random.choice(("5m", "1h"))
            usage = {"input_tokens": int(random.uniform(0.2, 5) * account.after), f"ephemeral_{ttl}_input_tokens": 500}
            usage |= random.choice(
                ({}, {"cache_read_input_tokens": 0}, {"cache_read_input_tokens": account.after // 2})
            )
            work.learn(done.conversation, usage, done.number)
            again = work.prune(Job(PATHS[format], {}, asked, "s", clock + 1))  # sent again
            assert again.body == done.body
