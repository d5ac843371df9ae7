"""Pruning for the OpenAI Agents SDK: each request to the model is pruned.

    config = RunConfig(call_model_input_filter=call_model_input_filter("50k"))
    result = await Runner.run(agent, "Find the error.", run_config=config)

The items and the session of the run are not changed.
"""

from collections.abc import Callable
from typing import Any

from agents import Agent, AgentOutputSchema, AgentOutputSchemaBase, FunctionTool, Handoff, handoff
from agents.run import CallModelData, ModelInputData

from autoprune.integrations._hooks import Pruning, RequestPruner, cannot_send
from autoprune.planning.view import Strategy

PATH = "/v1/responses"  # the SDK's items are those of the Responses API, with every model
IN_SETTINGS = "the agent's ModelSettings for them with PruneArgs(thinking_policy='report'), or "


def call_model_input_filter(
    pruning: Pruning, *, strategy: str | Strategy | None = None
) -> Callable[[CallModelData[Any]], ModelInputData]:
    """Create a filter for a `RunConfig` that prunes the items of each request.

    `pruning` is a safe zone, settings, or a pruner. Items that are not pruned stay the same objects, as the SDK
    requires. The instructions and the schemas of the agent's function tools, handoffs and output are counted; for
    hosted tools and those of MCP servers, give `overhead_tokens` in the settings.

    The filter raises SettingsError if the request needs parameters, which a filter cannot add (`docs/thinking.md`).
    """
    pruner = RequestPruner(pruning, strategy)

    def filter_input(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        model = getattr(data.agent.model, "model", data.agent.model)  # the pruner ignores anything but a string
        beside = {"instructions": given.instructions, "tools": _schemas(data.agent), "model": model}
        sent = pruner.prune({**beside, "input": given.input}, PATH)
        if sent.result and sent.result.request_parameters:
            raise cannot_send("a filter", sent.result.request_parameters, IN_SETTINGS)
        return ModelInputData(input=sent.body["input"], instructions=given.instructions)

    return filter_input


def _schemas(agent: Agent[Any]) -> list[dict[str, Any]]:
    """Return the schemas that a request sends: those of the function tools, the handoffs and the output."""
    tools = (tool for tool in agent.tools if isinstance(tool, FunctionTool))  # only these have a schema here
    handoffs = (each if isinstance(each, Handoff) else handoff(each) for each in agent.handoffs)
    return [
        *(_schema(tool.name, tool.params_json_schema, tool.description) for tool in tools),
        *(_schema(each.tool_name, each.input_json_schema, each.tool_description) for each in handoffs),
        *_output_schemas(agent.output_type),
    ]


def _output_schemas(output: Any) -> list[dict[str, Any]]:
    """Return the schema of an agent's output; none for a text."""
    if output is None or output is str:
        return []
    read = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
    return [] if read.is_plain_text() else [_schema(read.name(), read.json_schema())]


def _schema(name: str, parameters: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": True}
