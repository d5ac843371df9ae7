"""A small coding agent that prunes its conversation before every request. It keeps the full history.

It uses one of two dialects: XML in the text of messages, or native tool calls.

    python examples/edit_loop.py --offline --safe-zone 20k
    python examples/edit_loop.py --base-url http://localhost:8000/v1 --model qwen3-coder --folder scratch "Fix tests"
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from edit_tools import TOOLS, Tool, ToolError, parameters, required
from loguru import logger
from openai import OpenAI
from openai.types.chat import ChatCompletionMessage
from scripted_model import WINDOW, serve
from scripted_session import TASK

from autoprune import AgenticConversationPruner, Report
from autoprune.economics import Ledger, Pauses

PROJECT = Path(__file__).parent.parent / "fixtures" / "project"
INSTRUCTIONS = (
    "You are a coding agent. You work with tools in one folder. When you are done, answer without a tool call."
)
XML_INSTRUCTIONS = (
    "Call a tool as shown below, its tags on lines of their own. What stands between the tags of an argument is taken "
    "as it is, without escapes; a line break after the opening tag does not count."
)
MAX_REQUESTS = 100
PRICES = "1.25,0.1"  # of a token written to the provider's cache and one read from it, in input tokens


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model. `arguments` is None if they cannot be parsed."""

    name: str
    arguments: dict[str, Any] | None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call."""

    success: bool
    text: str


def outcome(folder: Path, call: Call) -> Outcome:
    """Run a call. Mistakes of the model become the text of the result, not an exception."""
    try:
        if call.name not in TOOLS or call.arguments is None:
            raise ToolError(f"no such tool, or arguments that cannot be read: {call.name}")
        types = parameters(TOOLS[call.name])
        arguments = {name: types[name](value) for name, value in call.arguments.items() if name in types}
        return Outcome(True, TOOLS[call.name](folder, **arguments) or "(nothing)")
    except (ToolError, TypeError, ValueError, OSError, re.error) as error:
        return Outcome(False, str(error))


# Dialects


@dataclass(frozen=True, slots=True)
class Dialect:
    """How calls and results are written. `options` are sent with every request."""

    system: str
    options: dict[str, Any]
    calls: Callable[[ChatCompletionMessage], list[Call]]
    answer: Callable[[Sequence[Call], Sequence[Outcome]], list[dict[str, Any]]]


def xml_calls(message: ChatCompletionMessage) -> list[Call]:
    """The calls in a text: `<read_file>` on its own line, with a tag for each argument inside."""
    calls = re.finditer(rf"^<({'|'.join(TOOLS)})>(.*?)^</\1>", message.content or "", re.DOTALL | re.MULTILINE)
    return [Call(call[1], _xml_arguments(TOOLS[call[1]], call[2])) for call in calls]


def _xml_arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Raw text between tags. A line break after the opening tag belongs to the tag."""
    names = "|".join(parameters(tool))
    # An argument ends where the next one begins, or with the call: a closing tag alone may be part of a file.
    found = re.finditer(rf"<({names})>\n?(.*?)</\1>(?=\s*(?:<(?:{names})>|\Z))", text, re.DOTALL)
    return {argument[1]: argument[2] for argument in found}


def xml_answer(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One user message with a result for each call."""
    results = map(_xml_result, calls, outcomes)
    return [{"role": "user", "content": "\n".join(results)}]


def _xml_result(call: Call, outcome: Outcome) -> str:
    name = "".join(map(str.capitalize, call.name.split("_"))) + "Tool"
    message, _, content = outcome.text.partition("\n")
    if outcome.success:
        message, content = "done", outcome.text
    return (
        f"<tool_result tool_name='{name}' success='{str(outcome.success).lower()}'>\n"
        f"<message>{message}</message>\n<content>{content}</content>\n</tool_result>"
    )


def _xml_help(tool: Tool) -> str:
    """The description of a tool in the system prompt of the XML dialect."""
    words = {name: "..." if name in required(tool) else "(optional)" for name in parameters(tool)}
    arguments = "\n".join(f"<{name}>{word}</{name}>" for name, word in words.items())
    return f"{tool.__doc__}\n<{tool.__name__}>\n{arguments}\n</{tool.__name__}>"


def native_calls(message: ChatCompletionMessage) -> list[Call]:
    """The native calls of a message."""
    calls = [call for call in message.tool_calls or [] if call.type == "function"]
    return [Call(call.function.name, _json_object(call.function.arguments), call.id) for call in calls]


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def native_answer(calls: Sequence[Call], outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A separate message for each call."""
    texts = [outcome.text if outcome.success else f"Error: {outcome.text}" for outcome in outcomes]
    return [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, texts, strict=True)]


def _schema(tool: Tool) -> dict[str, Any]:
    """The schema of a tool for the `tools` of a request."""
    names = {str: "string", int: "integer"}
    properties = {name: {"type": names[kind]} for name, kind in parameters(tool).items()}
    arguments = {"type": "object", "properties": properties, "required": required(tool)}
    return {
        "type": "function",
        "function": {"name": tool.__name__, "description": tool.__doc__, "parameters": arguments},
    }


XML_SYSTEM = "\n\n".join([INSTRUCTIONS, XML_INSTRUCTIONS, *map(_xml_help, TOOLS.values())])
DIALECTS = {
    "xml": Dialect(XML_SYSTEM, {}, xml_calls, xml_answer),
    "native": Dialect(INSTRUCTIONS, {"tools": [_schema(tool) for tool in TOOLS.values()]}, native_calls, native_answer),
}


# The loop


def run(
    client: OpenAI,
    model: str,
    dialect: Dialect,
    folder: Path,
    task: str,
    pruner: AgenticConversationPruner,
    max_requests: int = MAX_REQUESTS,
) -> list[Any]:
    """Work on a task until the model calls no more tools. Returns the full, unpruned history."""
    messages: list[Any] = [{"role": "system", "content": dialect.system}, {"role": "user", "content": task}]
    reports: list[Report] = []
    pauses, ledger = Pauses(), Ledger(PRICES)
    while len(reports) < max_requests:
        waited = pauses.before(messages)
        result = pruner.prune(messages, pauses=waited)
        ledger.add(result, pauses=waited)
        reports.append(result.report)
        if result.report.results_cleared:
            logger.info("request {}: {}", len(reports), result.report)
        reply = client.chat.completions.create(model=model, messages=result.conversation, **dialect.options)
        message = reply.choices[0].message
        messages.append(message)
        calls = dialect.calls(message)
        if not calls:
            break
        messages += dialect.answer(calls, [outcome(folder, call) for call in calls])
    logger.info("{}\n{}", summary(reports), ledger)
    return messages


def summary(reports: Sequence[Report]) -> str:
    """Summarize what pruning saved over all requests."""
    before, after = [report.tokens_before for report in reports], [report.tokens_after for report in reports]
    pruned = sum(report.results_cleared > 0 for report in reports)
    return (
        f"{len(reports)} requests, {pruned} of them pruned: {sum(after):,} tokens sent instead of {sum(before):,}; "
        f"the largest request had {max(after):,} instead of {max(before):,}"
    )


@contextmanager
def online(base_url: str | None, folder: Path) -> Iterator[tuple[OpenAI, Path]]:
    """A client of a real server, and the folder to work in."""
    folder.mkdir(parents=True, exist_ok=True)
    with OpenAI(base_url=base_url) as client:
        yield client, folder


@contextmanager
def offline(window: int = WINDOW) -> Iterator[tuple[OpenAI, Path]]:
    """A client of the scripted model, and a temporary copy of the project."""
    with serve(window) as base_url, tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(PROJECT, Path(scratch).resolve() / "project"))
        with OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            yield client, folder


def plain(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """The history as dicts, with the fields that were sent."""
    return [
        message.model_dump(exclude_unset=True) if isinstance(message, ChatCompletionMessage) else message
        for message in messages
    ]


def main(
    task: Annotated[str, typer.Argument(help="what to do", show_default="that of the offline run")] = TASK,
    dialect: Annotated[Literal["xml", "native"], typer.Option()] = "xml",
    is_offline: Annotated[bool, typer.Option("--offline", help="a scripted model on a copy of the fixture")] = False,
    base_url: Annotated[str | None, typer.Option(help="an OpenAI-compatible server; key: OPENAI_API_KEY")] = None,
    model: Annotated[str, typer.Option()] = "scripted",
    folder: Annotated[Path, typer.Option(help="where the agent works")] = Path("scratch"),
    safe_zone: Annotated[str, typer.Option(help="tokens, as 20000 or 20k")] = "50k",
    max_requests: Annotated[int, typer.Option(min=1)] = MAX_REQUESTS,
    strategy: Annotated[
        str, typer.Option(help="how to prune, as in `autoprune strategies`")
    ] = f"cache_aware(prices='{PRICES}')",
    record: Annotated[Path | None, typer.Option(help="write the full history as JSON")] = None,
) -> None:
    """Run the agent and print its last answer."""
    if not is_offline and "OPENAI_API_KEY" not in os.environ:
        raise typer.BadParameter("set OPENAI_API_KEY, or run it with --offline")
    pruner = AgenticConversationPruner(safe_zone, strategy=strategy)
    logger.remove()
    logger.add(sys.stderr, format="{message}")
    with offline() if is_offline else online(base_url, folder) as (client, place):
        messages = run(client, model, DIALECTS[dialect], place, task, pruner, max_requests)
    if record:
        record.write_text(json.dumps(plain(messages), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    typer.echo(plain(messages)[-1]["content"])


if __name__ == "__main__":
    typer.run(main)
