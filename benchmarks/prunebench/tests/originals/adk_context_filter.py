"""Record what ADK's ContextFilterPlugin sends.

    python -m venv original && original/bin/pip install google-adk==2.13.0 && original/bin/pip install -e .
    PYTHONPATH=tests/support original/bin/python tests/originals/adk_context_filter.py

The plugin filters the contents of each request. ADK makes them from the whole session, without the system prompt.
"""

import asyncio
import json
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.genai import types
from policy_originals import conversations, differences, request_starts, write_recording


def to_contents(messages: list[dict[str, Any]]) -> list[types.Content]:
    """Make contents; the results of one answer's calls are one content, as ADK merges them."""
    made: list[types.Content] = []
    names: dict[str, str] = {}
    for message in messages:
        parts = [types.Part(text=message["content"])] if message["content"] and message["role"] != "tool" else []
        for call in message.get("tool_calls") or ():
            known, function = call["id"], call["function"]
            names[known] = function["name"]
            arguments = json.loads(function["arguments"])
            parts.append(types.Part(function_call=types.FunctionCall(id=known, name=function["name"], args=arguments)))
        if message["role"] == "tool":
            known = message["tool_call_id"]
            answer = types.FunctionResponse(id=known, name=names[known], response={"result": message["content"]})
            parts.append(types.Part(function_response=answer))
            if made[-1].parts[-1].function_response:
                made[-1].parts += parts
                continue
        made.append(types.Content(role="model" if message["role"] == "assistant" else "user", parts=parts))
    return made


def from_contents(contents: list[types.Content]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for content in contents:
        answers = [part.function_response for part in content.parts if part.function_response]
        made += [{"role": "tool", "tool_call_id": each.id, "content": each.response["result"]} for each in answers]
        if answers:
            continue
        calls = [
            {"id": part.function_call.id, "function": {"arguments": json.dumps(part.function_call.args)}}
            for part in content.parts
            if part.function_call
        ]
        text = "".join(part.text for part in content.parts if part.text)
        role = "assistant" if content.role == "model" else "user"
        made.append({"role": role, "content": text, **({"tool_calls": calls} if calls else {})})
    return made


async def sent(plugin: ContextFilterPlugin, messages: list[dict[str, Any]]) -> list[Any]:
    system = [message for message in messages if message["role"] == "system"]
    request = LlmRequest(contents=to_contents([message for message in messages if message["role"] != "system"]))
    await plugin.before_model_callback(callback_context=None, llm_request=request)  # type: ignore[arg-type]
    return differences(messages, [*system, *from_contents(request.contents)])


async def record(name: str, **parameters: Any) -> None:
    known = {}
    for key, conversation in conversations().items():
        plugin = ContextFilterPlugin(**({"num_invocations_to_keep": 3} | parameters))
        known[key] = [await sent(plugin, conversation.messages[:start]) for start in request_starts(conversation)]
    write_recording(name, "google-adk 2.13.0", known, **parameters)


if __name__ == "__main__":
    asyncio.run(record("adk_context_filter"))
    asyncio.run(record("adk_context_filter.more", num_invocations_to_keep=1, remove_amount=4))
