"""Record what deepagents' FilesystemMiddleware makes of tool results.

    python -m venv original && original/bin/pip install deepagents==0.7.32 && original/bin/pip install -e .
    PYTHONPATH=tests/support original/bin/python tests/originals/deepagents_eviction.py

A tool's result passes through the middleware once, as in the agent, and stays as it is then.
"""

from typing import Any

from deepagents.backends.protocol import WriteResult
from deepagents.backends.state import StateBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from policy_originals import conversations, differences, request_starts, write_recording


class Files(StateBackend):
    """Accepts all files, as the agent's state does."""

    def write(self, file_path: str, content: str) -> WriteResult:
        return WriteResult(path=file_path)


def passed(middleware: FilesystemMiddleware, name: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return a result after the middleware."""
    call = {"name": name, "args": {}, "id": message["tool_call_id"], "type": "tool_call"}
    made = ToolMessage(message["content"], tool_call_id=message["tool_call_id"], name=name)
    request = ToolCallRequest(tool_call=call, tool=None, state={}, runtime=None)  # type: ignore[arg-type]
    return {**message, "content": middleware.wrap_tool_call(request, lambda request: made).content}


def history(middleware: FilesystemMiddleware, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {call["id"]: call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()}
    return [
        passed(middleware, names[message["tool_call_id"]], message) if message["role"] == "tool" else message
        for message in messages
    ]


def record(name: str, **parameters: Any) -> None:
    known = {}
    for key, conversation in conversations().items():
        middleware = FilesystemMiddleware(
            backend=Files(), **({"tool_token_limit_before_evict": limit} if (limit := parameters.get("limit")) else {})
        )
        kept, recorded = history(middleware, conversation.messages), conversation.messages
        known[key] = [differences(recorded[:start], kept[:start]) for start in request_starts(conversation)]
    write_recording(name, "deepagents 0.7.32", known, **parameters)


if __name__ == "__main__":
    record("deepagents_eviction")
    record("deepagents_eviction.small", limit=800)
