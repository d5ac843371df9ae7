"""Record what LastNObservations of SWE-agent, and of the fork of "The Complexity Trap", send.

Needs checkouts of github.com/SWE-agent/SWE-agent (recorded at 3ea751c) and of
github.com/Recursive-Safeguarding/the-complexity-trap (at 1b07dec), and `pip install pydantic`
beside autoprune. Only the file with the history processors is loaded, since the package itself wants a container
runtime; what else that file imports are types for annotations.

    python tests/originals/swe_agent.py SWE-agent the-complexity-trap
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]

from policy_originals import arguments, conversations, differences, request_starts, write_recording  # noqa: E402

KINDS = {"system": "system_prompt", "assistant": "action", "tool": "observation"}


def history_processors(checkout: str) -> ModuleType:
    """Load sweagent/agent/history_processors.py, with stand-ins for the modules of types and models."""
    types = ModuleType("sweagent.types")
    for name in ("History", "HistoryItem", "Turns", "SummaryMetadata"):
        setattr(types, name, Any)
    sys.modules["sweagent.types"] = types
    models = ModuleType("sweagent.agent.models")
    models.AbstractModel = object
    sys.modules["sweagent.agent.models"] = models
    log = ModuleType("sweagent.utils.log")
    log.get_logger = MagicMock()
    sys.modules["sweagent.utils.log"] = log
    path = Path(checkout) / "sweagent" / "agent" / "history_processors.py"
    spec = importlib.util.spec_from_file_location(f"processors_{len(sys.modules)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def history(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the agent's history. The first message of the user is the instance template, which is an observation."""
    items = [{**each, "message_type": KINDS.get(each["role"], "user")} for each in messages]
    first = next((each for each in items if each["role"] == "user"), None)
    if first:
        first["message_type"] = "observation"
    return items


def sent(processor: Any) -> dict[str, list[list[Any]]]:
    """Process the whole history before each request, as the agent does."""
    found = {}
    for name, known in conversations().items():
        starts = request_starts(known)
        found[name] = [
            differences(known.messages, processor(history(known.messages[:start]))) if start else [] for start in starts
        ]
    return found


def main(swe_agent: str, trap: str) -> None:
    """Write the recordings."""
    new = history_processors(swe_agent).LastNObservations
    write_recording("swe_agent", "SWE-agent 1.1.0 at 3ea751c, n=5", sent(new(n=5)))
    polling = "SWE-agent 1.1.0 at 3ea751c, n=5, polling=10"
    write_recording("swe_agent_polling", polling, sent(new(n=5, polling=10)))
    fork = history_processors(trap).LastNObservations
    write_recording("complexity_trap", "the-complexity-trap at 1b07dec, n=10", sent(fork(n=10)))


if __name__ == "__main__":
    main(*arguments())
