"""A LangChain agent with pruned prompts. It needs no API key: its scripted model reads the documentation.

python examples/langchain_agent.py
"""

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from autoprune import AgenticConversationPruner, Report
from autoprune.integrations.langchain import PruningMiddleware

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))


@tool
def read_page(name: str) -> str:
    """Read a page of the documentation."""
    return (DOCS / name).read_text(encoding="utf-8")


class Script(FakeMessagesListChatModel):
    """A model that plays a list of answers."""

    def bind_tools(self, tools: Any, **options: Any) -> "Script":
        """Return the model itself: its answers already contain the tool calls."""
        return self


def script() -> list[Any]:
    """The model's script: read all pages, one at a time."""
    asked = [
        AIMessage("", tool_calls=[{"id": f"call_{at}", "name": "read_page", "args": {"name": name}}])
        for at, name in enumerate(PAGES)
    ]
    return [*asked, AIMessage("I have read all pages.")]


def told(report: Report) -> str:
    """Describe what pruning did before a request."""
    tokens = f"{report.tokens_before:,} → {report.tokens_after:,} tokens"
    return f"{tokens}, {report.results_cleared} of {report.results} results cleared"


def main() -> None:
    """Run the agent, and print a line for each prompt that was pruned."""
    pruner = AgenticConversationPruner("20k", on_pruned=lambda event: print(told(event.report)))
    agent = create_agent(Script(responses=script()), [read_page], middleware=[PruningMiddleware(pruner)])
    asked = {"messages": [{"role": "user", "content": "Read all pages."}]}
    messages = agent.invoke(asked, {"recursion_limit": 200})["messages"]
    kept = sum(len(message.content) for message in messages if isinstance(message, ToolMessage))
    print(f"{messages[-1].text} The agent's state still holds their {kept:,} characters.")


if __name__ == "__main__":
    main()
