"""What a framework's agent sends: how often prompts break the prefix, how large they are, and what they cost.

    python benchmarks/frameworks.py langchain langgraph pydantic_ai

The agent's model is scripted: it reads forty files of 7 to 10 kB (`tests/support/tool_loops.py`). The safe zone is
20,480 tokens, the bill a share of the unpruned one at Anthropic's prices. Prints a table for each framework.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from tool_loops import SAFE_ZONE, Run

STRATEGIES = ("tool_output_cleanup", "low_water", "cache_aware")


def langchain() -> Iterator[tuple[str, Run]]:
    """Yield runs of LangChain's `create_agent`: how it was pruned, and what it sent."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
    from langchain_loop import CONFIG, INPUT, SYSTEM, Scripted, read_file

    from autoprune.integrations.langchain import PruningMiddleware

    def run(*middleware: object) -> Run:
        model = Scripted()
        create_agent(model, [read_file], system_prompt=SYSTEM, middleware=middleware).invoke(INPUT, CONFIG)
        return model.run

    yield "no pruning", run()
    yield "`ContextEditingMiddleware()`", run(ContextEditingMiddleware())
    own = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=SAFE_ZONE)])
    yield f"the same with `trigger={SAFE_ZONE}`", run(own)
    for strategy in STRATEGIES:
        yield f"`PruningMiddleware`, `{strategy}`", run(PruningMiddleware(SAFE_ZONE, strategy=strategy))


def langgraph() -> Iterator[tuple[str, Run]]:
    """Yield runs of LangGraph's `create_react_agent`."""
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages
    from langchain_loop import CONFIG, INPUT, Scripted, read_file
    from langgraph.prebuilt import create_react_agent

    from autoprune.integrations.langgraph import pre_model_hook

    def run(hook: Callable[[object], object] | None) -> Run:
        model = Scripted()
        with warnings.catch_warnings(action="ignore"):
            create_react_agent(model, [read_file], pre_model_hook=hook).invoke(INPUT, CONFIG)
        return model.run

    def trimmed(state: dict[str, list[object]]) -> dict[str, object]:
        most = {"max_tokens": SAFE_ZONE, "token_counter": count_tokens_approximately}
        return {"llm_input_messages": trim_messages(state["messages"], start_on="ai", strategy="last", **most)}

    yield "no pruning", run(None)
    yield "`trim_messages`", run(trimmed)
    for strategy in STRATEGIES:
        yield f"`pre_model_hook`, `{strategy}`", run(pre_model_hook(SAFE_ZONE, strategy=strategy))


def pydantic_ai() -> Iterator[tuple[str, Run]]:
    """Yield runs of Pydantic AI's `Agent`."""
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai_loop import TASK, Scripted

    from autoprune.integrations.pydantic_ai import Pruning

    def run(*capabilities: object) -> Run:
        scripted = Scripted()
        scripted.agent(*capabilities).run_sync(TASK, usage_limits=UsageLimits(request_limit=None))
        return scripted.run

    yield "no pruning", run()
    for strategy in STRATEGIES:
        yield f"`Pruning`, `{strategy}`", run(Pruning(SAFE_ZONE, strategy=strategy))


FRAMEWORKS = {each.__name__: each for each in (langchain, langgraph, pydantic_ai)}


def table(runs: Iterator[tuple[str, Run]]) -> Iterator[str]:
    """Yield the lines of a table; the first run is the unpruned one."""
    yield "| pruned by | prefix broken | largest prompt | last prompt | bill |"
    yield "|---|---|---|---|---|"
    unpruned = 0.0
    for name, run in runs:
        unpruned = unpruned or run.bill
        tokens = run.tokens
        yield f"| {name} | {run.breaks} | {max(tokens):,} | {tokens[-1]:,} | {run.bill / unpruned:.2f} |"


if __name__ == "__main__":
    for name in sys.argv[1:] or FRAMEWORKS:
        print(f"{name}\n", *table(FRAMEWORKS[name]()), "", sep="\n")
