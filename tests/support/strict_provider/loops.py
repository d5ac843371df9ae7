"""Agent loops with the real client libraries: what a user writes, with one place where a conversation may be edited.

Each takes a client that points at the provider, the users' `tasks`, and `edit`, which gets the conversation before
every request and returns the one to send. With `feeds_back` the loop goes on with what was sent, else with the full
history. `request` is added to every request. `send` gets the client's method and the arguments of each request, and
returns the method's answer. Each returns the conversation as it stood at the end.
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from strict_provider.tools import Outcome, run_tool, schemas

Conversation: TypeAlias = list[Any]
Edit: TypeAlias = Callable[[Conversation], Conversation]
Method: TypeAlias = Callable[..., Any]
Send: TypeAlias = Callable[[Method, dict[str, Any]], Any]

SYSTEM = "You are a coding agent. " + "Work step by step, read before you write, and say when you are done. " * 8
MAX_TOKENS = 4_096


def unchanged(conversation: Conversation) -> Conversation:
    """The edit that is none."""
    return conversation


def as_given(method: Method, request: dict[str, Any]) -> Any:
    """Send a request as it is."""
    return method(**request)


def _before(conversation: Conversation, edit: Edit, feeds_back: bool) -> tuple[Conversation, Conversation]:
    """What to send, and the conversation to go on with."""
    sent = edit(conversation)
    return sent, list(sent) if feeds_back else conversation


def _run(name: str, arguments: str | dict[str, Any] | None) -> Outcome:
    return run_tool(name, json.loads(arguments) if isinstance(arguments, str) else dict(arguments or {}))


def openai_chat(
    client: Any,
    tasks: Sequence[str],
    edit: Edit = unchanged,
    *,
    send: Send = as_given,
    feeds_back: bool = False,
    model: str = "gpt-4.1",
    **request: Any,
) -> Conversation:
    """A loop over `openai.OpenAI`'s Chat Completions. Pictures cannot be in a tool message: their text alone is."""
    tools = [
        {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}
        for name, words, schema in schemas()
    ]
    given = {"model": model, "tools": tools} | request
    messages: Conversation = [{"role": "system", "content": SYSTEM}]
    for task in tasks:
        messages.append({"role": "user", "content": task})
        calls: Any = True
        while calls:
            sent, messages = _before(messages, edit, feeds_back)
            answer = send(client.chat.completions.create, given | {"messages": sent})
            messages.append(answer.choices[0].message)
            calls = messages[-1].tool_calls or ()
            messages += [_chat_result(call) for call in calls]
    return messages


def _chat_result(call: Any) -> dict[str, Any]:
    outcome = _run(call.function.name, call.function.arguments)
    return {"role": "tool", "tool_call_id": call.id, "content": outcome.text}


def openai_responses(
    client: Any,
    tasks: Sequence[str],
    edit: Edit = unchanged,
    *,
    send: Send = as_given,
    feeds_back: bool = False,
    model: str = "gpt-5.5",
    **request: Any,
) -> Conversation:
    """A loop over `openai.OpenAI`'s Responses that sends its items itself."""
    tools = [
        {"type": "function", "name": name, "description": words, "parameters": schema, "strict": False}
        for name, words, schema in schemas()
    ]
    given = {"model": model, "instructions": SYSTEM, "tools": tools} | request
    items: Conversation = []
    for task in tasks:
        items.append({"role": "user", "content": task})
        calls: Any = True
        while calls:
            sent, items = _before(items, edit, feeds_back)
            answer = send(client.responses.create, given | {"input": sent})
            items += [item.model_dump(exclude_none=True, mode="json") for item in answer.output]
            calls = [item for item in answer.output if item.type == "function_call"]
            items += [_response_output(call) for call in calls]
    return items


def _response_output(call: Any) -> dict[str, Any]:
    outcome = _run(call.name, call.arguments)
    output: Any = outcome.text
    if outcome.picture:
        address = f"data:image/png;base64,{base64.b64encode(outcome.picture).decode()}"
        output = [{"type": "input_text", "text": outcome.text}, {"type": "input_image", "image_url": address}]
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def anthropic(
    client: Any,
    tasks: Sequence[str],
    edit: Edit = unchanged,
    *,
    send: Send = as_given,
    feeds_back: bool = False,
    model: str = "claude-opus-5-5",
    **request: Any,
) -> Conversation:
    """A loop over `anthropic.Anthropic`; over its beta Messages where `request` has `betas`."""
    api = client.beta.messages if "betas" in request else client.messages
    tools = [{"name": name, "description": words, "input_schema": schema} for name, words, schema in schemas()]
    given = {"model": model, "system": SYSTEM, "max_tokens": MAX_TOKENS, "tools": tools} | request
    messages: Conversation = []
    for task in tasks:
        messages.append({"role": "user", "content": task})
        calls: Any = True
        while calls:
            sent, messages = _before(messages, edit, feeds_back)
            answer = send(api.create, given | {"messages": sent})
            messages.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if calls:
                messages.append({"role": "user", "content": [_anthropic_result(call) for call in calls]})
    return messages


def _anthropic_result(call: Any) -> dict[str, Any]:
    outcome = _run(call.name, call.input)
    content: Any = outcome.text
    if outcome.picture:
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(outcome.picture).decode()}
        content = [{"type": "text", "text": outcome.text}, {"type": "image", "source": source}]
    failed = {"is_error": True} if outcome.is_error else {}
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, **failed}


def gemini(
    client: Any,
    tasks: Sequence[str],
    edit: Edit = unchanged,
    *,
    send: Send = as_given,
    feeds_back: bool = False,
    model: str = "gemini-3.1-pro-preview",
    **config: Any,
) -> Conversation:
    """A loop over `google.genai.Client`; `config` is added to the request's config."""
    declared = [
        {"name": name, "description": words, "parameters_json_schema": schema} for name, words, schema in schemas()
    ]
    config = {"system_instruction": SYSTEM, "tools": [{"function_declarations": declared}]} | config
    given = {"model": model, "config": config}
    contents: Conversation = []
    for task in tasks:
        contents.append({"role": "user", "parts": [{"text": task}]})
        calls: Any = True
        while calls:
            sent, contents = _before(contents, edit, feeds_back)
            answer = send(client.models.generate_content, given | {"contents": sent})
            contents.append(answer.candidates[0].content)
            calls = answer.function_calls
            if calls:
                contents.append({"role": "user", "parts": [_gemini_response(call, model) for call in calls]})
    return contents


def _gemini_response(call: Any, model: str) -> dict[str, Any]:
    """A response; models before Gemini 3 take no pictures in one."""
    outcome = _run(call.name, call.args)
    response: dict[str, Any] = {
        "name": call.name,
        "response": {"error" if outcome.is_error else "output": outcome.text},
    }
    if call.id:
        response["id"] = call.id
    if outcome.picture and model.startswith("gemini-3"):
        response["parts"] = [{"inline_data": {"mime_type": "image/png", "data": outcome.picture}}]
    return {"function_response": response}


def bedrock(
    client: Any,
    tasks: Sequence[str],
    edit: Edit = unchanged,
    *,
    send: Send = as_given,
    feeds_back: bool = False,
    model: str = "anthropic.claude-sonnet-4-5-20250929-v1:0",
    **request: Any,
) -> Conversation:
    """A loop over `boto3.client("bedrock-runtime")`'s Converse."""
    tools = [
        {"toolSpec": {"name": name, "description": words, "inputSchema": {"json": schema}}}
        for name, words, schema in schemas()
    ]
    given = {"modelId": model, "system": [{"text": SYSTEM}], "toolConfig": {"tools": tools}} | request
    messages: Conversation = []
    for task in tasks:
        messages.append({"role": "user", "content": [{"text": task}]})
        calls: Any = True
        while calls:
            sent, messages = _before(messages, edit, feeds_back)
            answer = send(client.converse, given | {"messages": sent})
            messages.append(answer["output"]["message"])
            calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
            if calls:
                messages.append({"role": "user", "content": [_bedrock_result(call) for call in calls]})
    return messages


def _bedrock_result(call: dict[str, Any]) -> dict[str, Any]:
    outcome = _run(call["name"], call["input"])
    content: list[Any] = [{"text": outcome.text}]
    if outcome.picture:
        content.append({"image": {"format": "png", "source": {"bytes": outcome.picture}}})
    status = "error" if outcome.is_error else "success"
    return {"toolResult": {"toolUseId": call["toolUseId"], "content": content, "status": status}}
