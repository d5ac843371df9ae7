"""The strict provider refuses what Bedrock's Converse refuses, with the same errors."""

from typing import Any

import pytest
from strict_provider.server import Provider

Messages = list[dict[str, Any]]


def converse_use(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"toolUse": {"toolUseId": id, "name": "grep", "input": {}}} for id in ids]}


def converse_results(*ids: str, **fields: Any) -> dict[str, Any]:
    found = {"content": [{"text": "Found."}]} | fields
    return {"role": "user", "content": [{"toolResult": {"toolUseId": id, **found}} for id in ids]}


CONVERSE_GO = {"role": "user", "content": [{"text": "Go on."}]}
CONVERSE_SAID = {"role": "assistant", "content": [{"text": "Hello."}]}
TOOLS = {"tools": [{"toolSpec": {"name": "grep", "inputSchema": {"json": {"type": "object"}}}}]}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (
            [CONVERSE_SAID],
            "A conversation must start with a user message. "
            "Try again with a conversation that starts with a user message.",
        ),
    ],
)
def test_bedrock_refuses(messages: Messages, words: str, strict_provider: Provider, bedrock_client: Any):
    error = pytest.importorskip("botocore.exceptions").ClientError
    with pytest.raises(error) as refusal:
        bedrock_client.converse(modelId="anthropic.claude", messages=messages, toolConfig=TOOLS)

    assert refusal.value.response["Error"] == {"Code": "ValidationException", "Message": words}
    assert [(each.status, each.message) for each in strict_provider.refusals] == [(400, words)]


def test_bedrock_requires_tools_if_there_are_results(bedrock_client: Any):
    error = pytest.importorskip("botocore.exceptions").ClientError
    with pytest.raises(error, match="The toolConfig field must be defined when using toolUse and toolResult content"):
        bedrock_client.converse(
            modelId="anthropic.claude", messages=[CONVERSE_GO, converse_use("a"), converse_results("a")]
        )
