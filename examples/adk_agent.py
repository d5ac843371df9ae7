"""A Google ADK agent with pruned prompts, offline with a scripted model.

pip install '.[adk]' && python examples/adk_agent.py
"""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.integrations.adk import before_model_callback

DAYS = 8


def read_log(day: int) -> str:
    """Read the log of a day."""
    return f"day {day}: INFO all is well\n" * 400


class Scripted(BaseLlm):
    """A model that reads one log after the other and records the size of its last prompt."""

    model: str = "scripted"
    characters: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer a request."""
        self.characters = len(str([content.model_dump(exclude_none=True) for content in llm_request.contents]))
        day = 1 + sum(content.role == "model" for content in llm_request.contents)
        call = types.Part(function_call=types.FunctionCall(id=f"call_{day}", name="read_log", args={"day": day}))
        part = call if day <= DAYS else types.Part(text="All is well.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main() -> None:
    """Read logs, and print how much of them the last request contained."""
    model = Scripted()
    pruner = AgenticConversationPruner(PruneArgs("8k", model="gemini-2.5-pro"))
    agent = LlmAgent(name="reader", model=model, tools=[read_log], before_model_callback=before_model_callback(pruner))
    async with InMemoryRunner(agent=agent, app_name="logs") as runner:
        session = await runner.session_service.create_session(app_name="logs", user_id="ann")
        task = types.Content(role="user", parts=[types.Part(text="Read the logs.")])
        events = [event async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=task)]
    print(events[-1].content.parts[0].text)
    results = [answer.response for event in events for answer in event.get_function_responses()]
    print(f"results in the session: {len(str(results)):,} characters")
    print(f"sent with the last request: {model.characters:,} characters")


if __name__ == "__main__":
    asyncio.run(main())
