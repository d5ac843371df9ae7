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


TEXT = {"text": "Wait."}
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
        (
            [CONVERSE_GO, CONVERSE_GO],
            "A conversation must alternate between user and assistant roles. "
            "Make sure the conversation alternates between user and assistant roles and try again.",
        ),
        (
            [CONVERSE_GO, CONVERSE_SAID | {"content": []}],
            "The content field in the Message object at messages.1 is empty. "
            "Add a ContentBlock object to the content field and try again.",
        ),
        (
            [CONVERSE_GO | {"content": [{"text": " "}]}],
            "The text field in the ContentBlock object at messages.0.content.0 is blank. "
            "Add text to the text field, and try again.",
        ),
        (
            [CONVERSE_GO, converse_use("a"), {"role": "user", "content": [TEXT, *converse_results("a")["content"]]}],
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ),
        (
            [CONVERSE_GO, converse_results("a") | {"role": "assistant"}],
            "messages.1: `tool_result` blocks can only be in `user` messages",
        ),
        (
            [converse_use("a") | {"role": "user"}],
            "messages.0: `tool_use` blocks can only be in `assistant` messages",
        ),
        (
            [{"role": "user", "content": [{"reasoningContent": {"reasoningText": TEXT}}]}],
            "messages.0: `thinking` blocks can only be in `assistant` messages",
        ),
        (
            [CONVERSE_GO, converse_use("a", "b"), converse_results("a")],
            "Expected toolResult blocks at messages.2.content for the following Ids: b",
        ),
        (
            [CONVERSE_GO, converse_use("a")],
            "Expected toolResult blocks at messages.2.content for the following Ids: a",
        ),
        (
            [converse_results("a")],
            "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks "
            "of previous turn.",
        ),
        (
            [CONVERSE_GO, converse_use("a"), converse_results("a", "a")],
            "The toolResult blocks at messages.2.content contain duplicate Ids: a",
        ),
        (
            [CONVERSE_GO, converse_use("a"), converse_results("a", status="error", content=[])],
            "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",
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
