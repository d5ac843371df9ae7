"""How often real assistants compact a session of 300,000 tokens in a window of 200,000, with autoprune and without it.

    npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai \
        @earendil-works/pi-coding-agent node@24
    ASSISTANTS=FOLDER python benchmarks/compacted.py [--share 0.9] [claude codex gemini opencode pi]

Each assistant reads fifty files before the strict provider of the tests, which refuses prompts above the window:
directly and through `autoprune run`, and both again with the assistant's own compaction switched off. With `--share`
the safe zone is this share of the size from which on the assistant compacts; without it `run` decides.

The bill is what the provider reports for all requests, at the model's prices. The model never needs a file again, so a
compaction costs its own request and a cold prompt, and saves whatever it drops. The fact is one that the user stated in
the first message: "kept" means that it is in the last prompt, as it was said. `files` are those that were read.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

# First, because `conversations` is a module there and here.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from long_session import CASES, Session, play

HEAD = "client    how           files requests compactions  largest  bill  share  fact"


def main() -> None:
    """Compare the sessions of all assistants, or of those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("assistants", nargs="*", default=[*CASES], help="by default all of them")
    parser.add_argument("--share", type=float, help="the safe zone, as a share of the size at which it compacts")
    options = parser.parse_args()
    print(HEAD)
    for name in options.assistants:
        compare(name, options.share)


def compare(name: str, share: float | None) -> None:
    """Play an assistant's four sessions, and print a line for each."""
    case = CASES[name]("")
    limit = [] if share is None else ["--safe-zone", str(int(share * case.point))]
    direct = run(name, None)
    whole = direct.bill(case.model)
    print_session(name, "directly", direct, case.model, whole)
    print_session(name, "run", run(name, limit), case.model, whole)
    print_session(name, "directly, off", run(name, None, compacts=False), case.model, whole)
    print_session(name, "run, off", run(name, limit, compacts=False), case.model, whole)


def run(name: str, options: Sequence[str] | None, *, compacts: bool = True) -> Session:
    """Play a session in a scratch folder."""
    prefix = Path(os.environ["ASSISTANTS"]).resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return play(name, Path(folder), prefix, options, compacts=compacts)


def print_session(name: str, how: str, session: Session, model: str, whole: float) -> None:
    """Print a session's line, and how it ended if that is not with success."""
    bill = session.bill(model)
    print(
        f"{name:8}  {how:13}{session.read:6}{len(session.provider.requests):9}{session.compactions:12}"
        f"{session.largest:9,}{bill:6.2f}{bill / whole:7.2f}  {'kept' if session.has_fact else 'lost'}",
        flush=True,
    )
    if code := session.done.returncode:
        refusal = next((each.message for each in session.provider.refusals), "it sends nothing more")
        print(f"          ends with {code}: {refusal[:55]}")


if __name__ == "__main__":
    main()
