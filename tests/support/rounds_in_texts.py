"""The same conversations in every dialect inside texts, in the messages of every format."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rounds import Calls, Round, Say, Step, as_json, written

from autoprune.wire import bedrock, chat, gemini

# Each call and each result as lines of text


def elements(step: Step) -> str:
    """A call as XML."""
    return "\n".join([f"<{step.tool}>", *(f"<{n}>{v}</{n}>" for n, v in step.arguments.items()), f"</{step.tool}>"])


def tool_call(step: Step) -> str:
    """A call as Hermes and Qwen write it."""
    return f"<tool_call>\n{as_json({'name': step.tool, 'arguments': step.arguments})}\n</tool_call>"


def tool_result(step: Step) -> str:
    """An element with a message and the content."""
    success, said = ("false", "Failed") if step.failed else ("true", "Done")
    start = f"<tool_result tool_name='{step.tool}' success='{success}'>"
    return f"{start}\n<message>{said}</message>\n<content>{step.text}</content>\n</tool_result>"


def heading(step: Step) -> str:
    """A heading and the payload below it."""
    path = next(iter(step.arguments.values())).replace("'", "")
    failed = f"The tool execution failed with the following error:\n<error>\n{step.text}\n</error>"
    return f"[{step.tool} for '{path}'] Result:\n{failed if step.failed else step.text}\n"


def tool_response(step: Step) -> str:
    """The payload alone, or JSON where the call failed."""
    text = as_json({"name": step.tool, "content": step.text}) if step.failed else step.text
    return f"<tool_response>\n{text}\n</tool_response>"


Line: TypeAlias = Callable[[Step], str]
DIALECTS: dict[str, tuple[Line, Line]] = {
    "xml": (elements, tool_result),
    "cline": (elements, heading),
    "tool_response": (tool_call, tool_response),
}


def chat_blocks(role: str, text: str) -> dict[str, Any]:
    """A message with a block of text."""
    return {"role": role, "content": [{"type": "text", "text": text}]}


def responses_blocks(role: str, text: str) -> dict[str, Any]:
    """A typed message with a block of text."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CARRIERS: dict[str, Say] = {
    "a text": chat.message,
    "a block": chat_blocks,
    "an item": responses_blocks,
    "bedrock": bedrock.message,
    "gemini": gemini.message,
}


def in_text(rounds: Sequence[Round], dialect: str, carrier: str) -> list[Any]:
    """The conversation in a dialect, inside the messages of a format."""
    call, answer = DIALECTS[dialect]
    say = CARRIERS[carrier]

    def calls(steps: Calls) -> list[Any]:
        return [say("assistant", "\n".join(["I look.", *(call(step) for _, step in steps)]))]

    def answers(steps: Calls) -> list[Any]:
        return [say("user", "\n".join(answer(step) for _, step in steps))]

    return written(rounds, say, calls, answers)
