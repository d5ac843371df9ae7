"""Record what Inspect's compaction by trimming and by editing sends.

    python -m venv original && original/bin/pip install inspect-ai==0.3.285 && original/bin/pip install -e .
    PYTHONPATH=tests/support original/bin/python tests/originals/inspect_compaction.py

The handler runs before each call of the model, as in `react`. The model's provider counts tokens as autoprune does, and
has a context window of WINDOW tokens. If compaction fails, which ends the task, the last prompt is sent once more with
the new messages.
"""

import asyncio
import json
from typing import Any

from autoprune.tokens import exact
from autoprune.wire import new_parser
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionEdit,
    CompactionStrategy,
    CompactionTrim,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    set_model_info,
)
from inspect_ai.tool import ToolCall
from policy_originals import WINDOW, Conversation, conversations, differences, request_starts, write_recording


def to_inspect(message: dict[str, Any], is_input: bool) -> ChatMessage:
    content, source = message["content"] or "", "input" if is_input else None
    if message["role"] == "system":
        return ChatMessageSystem(content=content, source=source)
    if message["role"] == "user":
        return ChatMessageUser(content=content, source=source)
    if message["role"] == "tool":
        return ChatMessageTool(content=content, tool_call_id=message["tool_call_id"])
    calls = [
        ToolCall(each["id"], each["function"]["name"], json.loads(each["function"]["arguments"]))
        for each in message.get("tool_calls") or ()
    ]
    return ChatMessageAssistant(content=content, tool_calls=calls or None)


def from_inspect(message: ChatMessage) -> dict[str, Any]:
    made = {"role": message.role, "content": message.text}
    if isinstance(message, ChatMessageTool):
        made["tool_call_id"] = message.tool_call_id
    if isinstance(message, ChatMessageAssistant) and message.tool_calls:
        made["tool_calls"] = [
            {"id": call.id, "function": {"name": call.function, "arguments": json.dumps(call.arguments)}}
            for call in message.tool_calls
        ]
    return made


async def replay(conversation: Conversation, strategy: CompactionStrategy) -> list[list[Any]]:
    starts = request_starts(conversation)
    messages = [to_inspect(message, at < starts[0]) for at, message in enumerate(conversation.messages)]
    # Arguments are counted as they were recorded.
    recorded = dict(zip((str(message.id) for message in messages), conversation.messages, strict=True))

    async def count_tokens(counted: list[ChatMessage], config: Any = None) -> int:
        known = [{**recorded.get(str(each.id), from_inspect(each)), "content": each.text} for each in counted]
        return sum(
            new_parser(exact()).read(each, 0).tokens for each in known if each["content"] or each.get("tool_calls")
        )

    model = get_model("mockllm/model", memoize=False)
    model.api.count_tokens = count_tokens  # type: ignore[method-assign, assignment]
    set_model_info("mockllm/model", ModelInfo(context_length=WINDOW))
    handler = compaction(strategy, messages[: starts[0]], model=model)
    found, sent, known = [], [], 0
    for start in starts:
        try:
            sent = (await handler.compact_input(messages[:start]))[0]
        except RuntimeError:
            sent = [*sent, *messages[known:start]]
        known = start
        usage = ModelUsage(input_tokens=await count_tokens(sent))
        await handler.record_output(sent, ModelOutput(model="mockllm/model", usage=usage))
        found.append(differences(conversation.messages[:start], [from_inspect(each) for each in sent]))
    return found


async def record(name: str, strategy: type[CompactionStrategy], **parameters: Any) -> None:
    known = {key: await replay(each, strategy(**parameters)) for key, each in conversations().items()}
    write_recording(name, "inspect-ai 0.3.285", known, **parameters)


async def record_all() -> None:
    await record("inspect_trim", CompactionTrim)
    await record("inspect_trim.small", CompactionTrim, threshold=9_000, preserve=0.5)
    await record("inspect_edit", CompactionEdit)
    await record("inspect_edit.small", CompactionEdit, threshold=20_000, keep_tool_uses=5, exclude_tools=["grep"])


if __name__ == "__main__":
    asyncio.run(record_all())
