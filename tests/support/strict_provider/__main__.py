"""The provider from the shell: `python -m tests.support.strict_provider --port 8000`, or its folder."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from threading import Event

# The package is imported by its own name, wherever it is started from; its folder would hide `anthropic`.
FOLDER = Path(__file__).resolve().parent
sys.path = [str(FOLDER.parent), str(FOLDER.parents[2]), *(each for each in sys.path if Path(each) != FOLDER)]

from strict_provider.scripts import agent_script  # noqa: E402
from strict_provider.server import serve  # noqa: E402


def main() -> None:
    """Serve a script of a coding agent until interrupted."""
    parser = ArgumentParser(prog="strict_provider", description="A model provider that plays a script and is strict.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--turns", type=int, default=30, help="turns with tool calls in the script")
    parser.add_argument("--tasks", type=int, default=3, help="tool loops that the turns are divided into")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strict-alternation", action="store_true", help="user and assistant must take turns")
    options = parser.parse_args()
    script = agent_script(options.turns, options.seed, options.tasks)
    with serve(script, strict_alternation=options.strict_alternation, port=options.port) as provider:
        print(f"{provider.url}/v1 (openai), {provider.url} (anthropic, google-genai, boto3)", flush=True)
        try:
            Event().wait()
        except KeyboardInterrupt:
            print(f"{len(provider.requests)} requests, {len(provider.refusals)} refused")


if __name__ == "__main__":
    main()
