"""A Pydantic AI agent with pruned prompts. It needs no API key: its scripted model reads the documentation.

python examples/pydantic_ai_agent.py
"""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from autoprune import AgenticConversationPruner, Report
from autoprune.integrations.pydantic_ai import Pruning

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))


def read_page(name: str) -> str:
    """Read a page of the documentation."""
    return (DOCS / name).read_text(encoding="utf-8")


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The model's script: read all pages, one at a time."""
    number = sum(isinstance(message, ModelResponse) for message in messages)
    if number == len(PAGES):
        return ModelResponse([TextPart("I have read all pages.")])
    return ModelResponse([ToolCallPart("read_page", {"name": PAGES[number]}, f"call_{number}")])


def told(report: Report) -> str:
    """Describe what pruning did before a request."""
    tokens = f"{report.tokens_before:,} → {report.tokens_after:,} tokens"
    return f"{tokens}, {report.results_cleared} of {report.results} results cleared"


def main() -> None:
    """Run the agent, and print a line for each prompt that was pruned."""
    pruner = AgenticConversationPruner("20k", on_pruned=lambda event: print(told(event.report)))
    agent = Agent(FunctionModel(script), tools=[read_page], capabilities=[Pruning(pruner)])
    result = agent.run_sync("Read all pages.")
    parts = [part for message in result.all_messages() for part in message.parts]
    kept = sum(len(str(part.content)) for part in parts if isinstance(part, ToolReturnPart))
    print(f"{result.output} The history still holds their {kept:,} characters.")


if __name__ == "__main__":
    main()
