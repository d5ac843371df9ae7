"""Pruning compared with each framework's own way to shorten prompts.

    python benchmarks/integrations.py                       those that are installed
    python benchmarks/integrations.py langchain strands     two of them
    python benchmarks/integrations.py --check               fails if a page of docs/integrations shows other figures

Each framework runs the same loop against the strict provider of the tests: it reads 40 files of 7 to 10 kB, with a safe
zone of 20,480 tokens. The table has the requests, how many were refused, how many prompts did not extend the previous
one, the tokens of the largest and the last prompt, and the bill at Anthropic's prices for cache reads and writes, as a
share of the unpruned one; "–" if the loop did not finish.
"""

import argparse
import asyncio
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from reading_loop import SAFE_ZONE, SCRIPT, TASK, figures_of
from strict_provider.server import Provider, serve

from autoprune import AgenticConversationPruner, PruneArgs

PAGES = Path(__file__).parent.parent / "docs" / "integrations"
TABLE = re.compile(r"^\| pruned by \|.*\n(?:\|.*\n)+", re.MULTILINE)
Run = Callable[[Provider], object]
STRATEGIES = {
    "`tool_output_cleanup`, the literal rule": "tool_output_cleanup",
    "`low_water`": "low_water",
    "`cache_aware`": "cache_aware",
}


def pruner() -> AgenticConversationPruner:
    """Create a new pruner for a loop."""
    return AgenticConversationPruner(PruneArgs(SAFE_ZONE))


def openai_agents() -> Iterator[tuple[str, Run]]:
    """Yield the loops of the OpenAI Agents SDK."""
    import openai_agents_loop as loop
    from agents.extensions import ToolOutputTrimmer

    from autoprune.integrations.openai_agents import call_model_input_filter

    filters = {"unpruned": None, "`ToolOutputTrimmer()`": ToolOutputTrimmer()}
    filters |= {name: call_model_input_filter(pruner(), strategy=strategy) for name, strategy in STRATEGIES.items()}
    for name, given in filters.items():
        yield name, lambda provider, given=given: asyncio.run(loop.run_over_http(provider, given))


def adk() -> Iterator[tuple[str, Run]]:
    """Yield the loops of Google's ADK."""
    import adk_loop as loop
    from google.adk.plugins.context_filter_plugin import ContextFilterPlugin

    from autoprune.integrations.adk import before_model_callback

    hooks: dict[str, dict[str, Any]] = {"unpruned": {}}
    hooks["`ContextFilterPlugin(2)`"] = {"plugins": [ContextFilterPlugin(2)]}
    for name, strategy in STRATEGIES.items():
        hooks[name] = {"callback": before_model_callback(pruner(), strategy=strategy)}
    for name, given in hooks.items():
        yield name, lambda provider, given=given: loop.run(loop.over_http(provider), **given)


def strands() -> Iterator[tuple[str, Run]]:
    """Yield the loops of Strands."""
    import strands_loop as loop
    from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager

    from autoprune.integrations.strands import PruningHook

    options: dict[str, dict[str, Any]] = {"unpruned": {"conversation_manager": NullConversationManager()}}
    options["`SlidingWindowConversationManager()`"] = {"conversation_manager": SlidingWindowConversationManager()}
    each = SlidingWindowConversationManager(per_turn=True)
    options["`SlidingWindowConversationManager(per_turn=True)`"] = {"conversation_manager": each}
    for name, strategy in STRATEGIES.items():
        options[name] = {"hooks": [PruningHook(pruner(), strategy=strategy)]}
    for name, given in options.items():
        yield name, lambda provider, given=given: loop.agent(loop.over_http(provider), **given)(TASK)


def langchain() -> Iterator[tuple[str, Run]]:
    """Yield the loops of LangChain's `create_agent`."""
    import langchain_loop as loop
    from langchain.agents import create_agent
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware

    from autoprune.integrations.langchain import PruningMiddleware

    def run(provider: Provider, given: list[Any]) -> None:
        model = loop.over_http(provider)
        agent = create_agent(model, [loop.read_file], system_prompt=loop.SYSTEM, middleware=given)
        agent.invoke(loop.INPUT, loop.CONFIG)

    edit = ClearToolUsesEdit(trigger=SAFE_ZONE)
    middleware: dict[str, list[Any]] = {"unpruned": [], "`ContextEditingMiddleware()`": [ContextEditingMiddleware()]}
    middleware[f"the same with `trigger={SAFE_ZONE}`"] = [ContextEditingMiddleware(edits=[edit])]
    for name, strategy in STRATEGIES.items():
        middleware[name] = [PruningMiddleware(pruner(), strategy=strategy)]
    for name, given in middleware.items():
        yield name, lambda provider, given=given: run(provider, given)


def langgraph() -> Iterator[tuple[str, Run]]:
    """Yield the loops of LangGraph's `create_react_agent`."""
    import langchain_loop as loop
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages
    from langgraph.prebuilt import create_react_agent

    from autoprune.integrations.langgraph import pre_model_hook

    def trimmed(state: dict[str, list[Any]]) -> dict[str, Any]:
        most: dict[str, Any] = {"max_tokens": SAFE_ZONE, "token_counter": count_tokens_approximately}
        return {"llm_input_messages": trim_messages(state["messages"], strategy="last", start_on="human", **most)}

    def run(provider: Provider, given: Any) -> None:
        agent = create_react_agent(loop.over_http(provider), [loop.read_file], pre_model_hook=given)
        agent.invoke(loop.INPUT, loop.CONFIG)

    hooks = {"unpruned": None, '`trim_messages(start_on="human")`': trimmed}
    hooks |= {name: pre_model_hook(pruner(), strategy=strategy) for name, strategy in STRATEGIES.items()}
    for name, given in hooks.items():
        yield name, lambda provider, given=given: run(provider, given)


def pydantic_ai() -> Iterator[tuple[str, Run]]:
    """Yield the loops of Pydantic AI."""
    import pydantic_ai_loop as loop

    from autoprune.integrations.pydantic_ai import Pruning

    capabilities: dict[str, list[Any]] = {"unpruned": []}
    capabilities |= {name: [Pruning(pruner(), strategy=strategy)] for name, strategy in STRATEGIES.items()}
    for name, given in capabilities.items():
        yield name, lambda provider, given=given: asyncio.run(loop.run_over_http(provider, *given))


def litellm() -> Iterator[tuple[str, Run]]:
    """Yield the loops of LiteLLM's SDK."""
    import litellm_loop as loop
    from litellm import completion
    from litellm.utils import trim_messages

    from autoprune.integrations.litellm import prunes

    def trimmed(messages: list[Any], **options: Any) -> Any:
        return completion(messages=trim_messages(messages, "gpt-4.1", max_tokens=SAFE_ZONE), **options)

    functions = {"unpruned": completion, f"`trim_messages(max_tokens={SAFE_ZONE})`": trimmed}
    functions |= {name: prunes(completion, pruner(), strategy=strategy) for name, strategy in STRATEGIES.items()}
    for name, given in functions.items():
        yield name, lambda provider, given=given: loop.chat(given, provider)


def clients() -> Iterator[tuple[str, Run]]:
    """Yield the loops of the plain client of Anthropic."""
    import anthropic
    from client_loops import MESSAGES

    from autoprune.integrations.clients import attach

    def run(provider: Provider, strategy: str | None) -> None:
        with anthropic.Anthropic(base_url=provider.url, api_key="none", max_retries=0) as client:
            MESSAGES.run(client if strategy is None else attach(client, pruner(), strategy=strategy))

    for name, strategy in {"unpruned": None, **STRATEGIES}.items():
        yield name, lambda provider, strategy=strategy: run(provider, strategy)


FRAMEWORKS: Mapping[str, tuple[str, Callable[[], Iterator[tuple[str, Run]]]]] = {
    "openai-agents": ("agents", openai_agents),
    "adk": ("google.adk", adk),
    "strands": ("strands", strands),
    "langchain": ("langchain_openai", langchain),
    "langgraph": ("langchain_openai", langgraph),
    "pydantic-ai": ("pydantic_ai", pydantic_ai),
    "litellm": ("litellm", litellm),
    "clients": ("anthropic", clients),
}


def row(name: str, run: Run, unpruned: float | None) -> tuple[str, float]:
    """A row of the table, and the bill; `unpruned` is that of the first row."""
    with serve(SCRIPT) as provider:
        try:
            run(provider)
        except Exception:  # of any framework: the table shows rejected requests
            if not provider.refusals:
                raise
    found = figures_of(provider)
    refused = f"request {found.requests}" if provider.refusals else "none"
    share = "–" if provider.refusals else f"{found.bill / (unpruned or found.bill):.2f}"
    cells = name, found.requests, refused, found.breaks, f"{found.largest:,}", f"{found.last:,}", share
    return f"| {' | '.join(map(str, cells))} |", found.bill


def table(loops: Iterator[tuple[str, Run]]) -> Iterator[str]:
    """Yield the lines of the table of a framework."""
    yield "| pruned by | requests | refused | prefix breaks | largest prompt | last prompt | bill |"
    yield "|---|---|---|---|---|---|---|"
    unpruned = None
    for name, run in loops:
        line, bill = row(name, run, unpruned)
        unpruned = unpruned or bill
        yield line


def page_of(name: str) -> Path:
    """Return the page that shows the table of a framework."""
    return PAGES / f"{'langchain' if name == 'langgraph' else name.replace('-', '_')}.md"


def with_table(page: str, name: str, lines: list[str]) -> str:
    """Return the text of a page with another table of a framework; LangGraph's is the second one."""
    tables = list(TABLE.finditer(page))
    shown = tables[1 if name == "langgraph" else 0]
    return f"{page[: shown.start()]}{chr(10).join(lines)}{chr(10)}{page[shown.end() :]}"


def main() -> None:
    """Print a table for each framework that is installed, or for those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", choices=[[], *FRAMEWORKS])
    parser.add_argument("--check", action="store_true", help="fail if a page shows another table")
    parser.add_argument("--write", action="store_true", help="write the tables to the pages")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # the frameworks' messages about rejections
    stale = []
    for name in given.frameworks or FRAMEWORKS:
        package, loops = FRAMEWORKS[name]
        if not (find_spec(package.partition(".")[0]) and find_spec(package)):
            continue
        lines = list(table(loops()))
        print("\n".join(("", name, "", *lines)), flush=True)
        page = page_of(name)
        shown = page.read_text(encoding="utf-8")
        if (current := with_table(shown, name, lines)) != shown:
            stale.append(page.name)
            if given.write:
                page.write_text(current, encoding="utf-8")
    if given.check and stale:
        sys.exit(
            f"the tables on these pages are out of date: {', '.join(stale)}: run benchmarks/integrations.py --write"
        )


if __name__ == "__main__":
    main()
