"""An agent of the OpenAI Agents SDK with pruned prompts, offline with the SDK's scripted model.

pip install '.[openai-agents]' && python examples/openai_agents_agent.py
"""

import asyncio

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.integrations.openai_agents import call_model_input_filter

DAYS = range(1, 9)


@function_tool
def read_log(day: int) -> str:
    """Read the log of a day."""
    return f"day {day}: INFO all is well\n" * 400


async def main() -> None:
    """Read logs, and print how much of them the last request contained."""
    calls = [[function_call("read_log", {"day": day}, call_id=f"call_{day}")] for day in DAYS]
    model = ScriptedModel([*calls, [assistant_message("All is well.")]])
    agent = Agent(name="reader", tools=[read_log], model=model)
    pruner = AgenticConversationPruner(PruneArgs("8k", model="gpt-5"))
    config = RunConfig(call_model_input_filter=call_model_input_filter(pruner), tracing_disabled=True)
    result = await Runner.run(agent, "Read the logs.", run_config=config)
    print(result.final_output)
    print(f"in the run: {len(str(result.to_input_list())):,} characters")
    print(f"sent with the last request: {len(str(model.calls[-1].input)):,} characters")


if __name__ == "__main__":
    asyncio.run(main())
