"""One conversation of an agent, written in every wire format."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from gemini_responses_hypothesis import snake

from autoprune.wire import anthropic, bedrock, chat, gemini, responses


@dataclass(frozen=True)
class Step:
    """A call of a tool and what came of it."""

    tool: str
    arguments: Mapping[str, str]
    text: str
    failed: bool = False


@dataclass(frozen=True)
class Words:
    """What somebody says: "user" or "assistant"."""

    role: str
    text: str


# What happens at one request: parallel calls with their results, or what the user says to the model's answer; or words.
Round: TypeAlias = list[Step] | str | Words
Calls: TypeAlias = Sequence[tuple[str, Step]]  # with their ids
Say: TypeAlias = Callable[[str, str], Any]
Write: TypeAlias = Callable[[Calls], list[Any]]
Writer: TypeAlias = Callable[[Sequence[Round]], list[Any]]


def written(rounds: Sequence[Round], say: Say, call: Write, answer: Write) -> list[Any]:
    """The conversation; the results of its last request are unseen. It begins with a request unless it has words."""
    messages = [] if any(isinstance(made, Words) for made in rounds) else [say("user", "Fix it.")]
    for number, made in enumerate(rounds):
        if isinstance(made, Words):
            messages.append(say(made.role, made.text))
        elif isinstance(made, str):
            messages += [say("assistant", "It is done."), say("user", made)]
        else:
            steps = [(f"call_{number}_{index}", step) for index, step in enumerate(made)]
            messages += [*call(steps), *answer(steps)]
    return messages


def as_json(value: object) -> str:
    """A value as JSON text, its letters as they are."""
    return json.dumps(value, ensure_ascii=False)


# Wire formats


def chat_calls(steps: Calls) -> list[Any]:
    """Native calls of OpenAI Chat."""
    calls = [
        {"id": id, "type": "function", "function": {"name": step.tool, "arguments": as_json(step.arguments)}}
        for id, step in steps
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}]


def chat_results(steps: Calls) -> list[Any]:
    """Each result is a message."""
    return [{"role": "tool", "tool_call_id": id, "content": step.text} for id, step in steps]


def responses_calls(steps: Calls) -> list[Any]:
    """Each call is an item."""
    return [
        {"type": "function_call", "call_id": id, "name": step.tool, "arguments": as_json(step.arguments)}
        for id, step in steps
    ]


def responses_results(steps: Calls) -> list[Any]:
    """Each result is an item."""
    return [{"type": "function_call_output", "call_id": id, "output": step.text} for id, step in steps]


def anthropic_calls(steps: Calls) -> list[Any]:
    """Blocks of the model's message."""
    blocks = [{"type": "tool_use", "id": id, "name": step.tool, "input": dict(step.arguments)} for id, step in steps]
    return [{"role": "assistant", "content": blocks}]


def anthropic_results(steps: Calls) -> list[Any]:
    """Blocks of the user's message."""
    blocks = [
        {"type": "tool_result", "tool_use_id": id, "content": step.text, **({"is_error": True} if step.failed else {})}
        for id, step in steps
    ]
    return [{"role": "user", "content": blocks}]


def bedrock_calls(steps: Calls) -> list[Any]:
    """Blocks of the model's message."""
    calls = [{"toolUseId": id, "name": step.tool, "input": dict(step.arguments)} for id, step in steps]
    return [{"role": "assistant", "content": [{"toolUse": call} for call in calls]}]


def bedrock_results(steps: Calls) -> list[Any]:
    """Blocks of the user's message."""
    results = [
        {"toolUseId": id, "content": [{"text": step.text}], **({"status": "error"} if step.failed else {})}
        for id, step in steps
    ]
    return [{"role": "user", "content": [{"toolResult": result} for result in results]}]


def gemini_calls(steps: Calls) -> list[Any]:
    """Parts of the model's content, without ids."""
    calls = [{"name": step.tool, "args": dict(step.arguments)} for _, step in steps]
    return [{"role": "model", "parts": [{"functionCall": call} for call in calls]}]


def gemini_results(steps: Calls) -> list[Any]:
    """Parts of the user's content, in the order of the calls."""
    results = [{"name": step.tool, "response": {"error" if step.failed else "output": step.text}} for _, step in steps]
    return [{"role": "user", "parts": [{"functionResponse": result} for result in results]}]


WIRE: dict[str, Writer] = {
    "openai_chat": partial(written, say=chat.message, call=chat_calls, answer=chat_results),
    "openai_responses": partial(written, say=responses.message, call=responses_calls, answer=responses_results),
    "anthropic": partial(written, say=anthropic.message, call=anthropic_calls, answer=anthropic_results),
    "bedrock": partial(written, say=bedrock.message, call=bedrock_calls, answer=bedrock_results),
    "gemini": partial(written, say=gemini.message, call=gemini_calls, answer=gemini_results),
}


# Other ways to write it in the same formats


def chat_functions(steps: Calls) -> list[Any]:
    """The calls of before there were ids, each with its result behind it."""
    pairs = [
        (
            {"role": "assistant", "content": None, "function_call": {"name": step.tool, "arguments": given}},
            {"role": "function", "name": step.tool, "content": step.text},
        )
        for step, given in ((step, as_json(step.arguments)) for _, step in steps)
    ]
    return [message for pair in pairs for message in pair]


def chat_custom_calls(steps: Calls) -> list[Any]:
    """Calls of custom tools, which take a text."""
    custom = [(id, {"name": step.tool, "input": "".join(step.arguments.values())}) for id, step in steps]
    calls = [{"id": id, "type": "custom", "custom": call} for id, call in custom]
    return [{"role": "assistant", "content": "", "tool_calls": calls}]


def chat_blocks_of_results(steps: Calls) -> list[Any]:
    """The results in blocks of text, one for each line."""
    texts = [[{"type": "text", "text": line} for line in step.text.splitlines(keepends=True)] for _, step in steps]
    ids = [id for id, _ in steps]
    return [{"role": "tool", "tool_call_id": id, "content": held} for id, held in zip(ids, texts, strict=True)]


def shell_calls(steps: Calls) -> list[Any]:
    """Commands for a shell."""
    commands = [[*step.arguments.values()] for _, step in steps]
    ids = [id for id, _ in steps]
    return [
        {"type": "shell_call", "call_id": id, "action": {"commands": held}}
        for id, held in zip(ids, commands, strict=True)
    ]


def shell_results(steps: Calls) -> list[Any]:
    """What two commands wrote, of which the first may have failed."""
    done = {"type": "exit", "exit_code": 0}
    ends = [{"type": "exit", "exit_code": 2} if step.failed else done for _, step in steps]
    return [
        {
            "type": "shell_call_output",
            "call_id": id,
            "output": [
                {"stdout": step.text, "stderr": "", "outcome": end},
                {"stdout": "ok", "stderr": "", "outcome": done},
            ],
        }
        for (id, step), end in zip(steps, ends, strict=True)
    ]


def custom_calls(steps: Calls) -> list[Any]:
    """Calls of custom tools, which take a text, as items."""
    custom = [(id, step.tool, "".join(step.arguments.values())) for id, step in steps]
    return [{"type": "custom_tool_call", "call_id": id, "name": name, "input": given} for id, name, given in custom]


def custom_results(steps: Calls) -> list[Any]:
    """The outputs of custom tools, the failed ones in blocks."""
    outputs = [[{"type": "input_text", "text": step.text}] if step.failed else step.text for _, step in steps]
    ids = [id for id, _ in steps]
    return [
        {"type": "custom_tool_call_output", "call_id": id, "output": output}
        for id, output in zip(ids, outputs, strict=True)
    ]


def in_snake_case(rounds: Sequence[Round]) -> list[Any]:
    """Gemini's contents as google-genai takes dicts."""
    return [snake(content) for content in WIRE["gemini"](rounds)]


DIRECTIVES: dict[str, Callable[[str], Any]] = {
    "openai_responses": lambda effort: {"type": "configuration_update", "reasoning": {"effort": effort}},
    "anthropic": lambda effort: {"role": "system", "content": [], "output_config": {"effort": effort}},
}


def directed(rounds: Sequence[Round], written_in: str) -> list[Any]:
    """With the effort before each answer, as pi sets it; that of the fourth one is another."""
    messages: list[Any] = []
    directives = 0
    for message in WIRE[written_in](rounds):
        before = messages[-1] if messages else {"role": "user"}
        is_answered = before.get("role") == "user" or before.get("type", "").endswith("_output")
        if is_answered and (message.get("role") == "assistant" or message.get("type", "").endswith("_call")):
            directives += 1
            messages.append(DIRECTIVES[written_in]("low" if directives == 4 else "high"))
        messages.append(message)
    return messages


OTHERS: dict[str, tuple[Writer, ...]] = {
    "openai_chat": (
        partial(written, say=chat.message, call=lambda steps: [], answer=chat_functions),
        partial(written, say=chat.message, call=chat_custom_calls, answer=chat_blocks_of_results),
    ),
    "openai_responses": (
        partial(directed, written_in="openai_responses"),
        partial(written, say=responses.message, call=shell_calls, answer=shell_results),
        partial(written, say=responses.message, call=custom_calls, answer=custom_results),
    ),
    "anthropic": (partial(directed, written_in="anthropic"),),
    "gemini": (in_snake_case,),
}
