"""A plain client with an attached pruner, offline with the scripted model of this folder.

python examples/attached_client.py
"""

from typing import Any

from openai import OpenAI
from scripted_model import serve

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.integrations.clients import attach

READ_LOG = {"type": "function", "function": {"name": "read_log", "parameters": {"type": "object", "properties": {}}}}


def conversation(days: int) -> list[Any]:
    """Build a conversation in which the model has read the logs of some days."""
    messages: list[Any] = [{"role": "user", "content": "Read the logs."}]
    for day in range(1, days + 1):
        function = {"name": "read_log", "arguments": f'{{"day": {day}}}'}
        call = {"id": f"call_{day}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"day {day}: INFO all is well\n" * 400})
    return messages


def main() -> None:
    """Send the same conversation twice, and print the size of both prompts in the model's tokens."""
    messages = conversation(days=8)
    with serve() as url, OpenAI(base_url=url, api_key="none") as client:
        for name in ("before", "after"):
            if name == "after":
                attach(client, AgenticConversationPruner(PruneArgs("8k", model="gpt-5")))
            answer = client.chat.completions.create(model="scripted", messages=messages, tools=[READ_LOG])
            print(f"{name}: {answer.usage.prompt_tokens:,} tokens")


if __name__ == "__main__":
    main()
