"""How often real assistants compact a session of 300,000 tokens in a window of 200,000, with autoprune and without it.

    npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai
    ASSISTANTS=FOLDER python benchmarks/compacted.py [--share 0.9] [claude codex gemini opencode]

Each assistant reads fifty files before the strict provider of the tests, which refuses prompts above the window:
directly, through `autoprune run`, and through it with the assistant's own compaction switched off. With `--share` the
safe zone is this share of the size from which on the assistant compacts; without it `run` decides.

The bill is what the provider reports for all requests, at the model's prices. The model never needs a file again, so a
compaction costs its own request and a cold prompt, and saves whatever it drops. The fact is one that the user stated in
the first message: "kept" means that it is in the last prompt, as it was said.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

# First, because `conversations` is a module there and here.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from long_session import CASES, FILES, Session, play

HEAD = "assistant  how               requests  compactions  largest   bill  share  fact"


def run(name: str, options: Sequence[str] | None, *, compacts: bool = True) -> Session:
    """Play a session in a scratch folder."""
    prefix = Path(os.environ["ASSISTANTS"]).resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return play(name, Path(folder), prefix, options, compacts=compacts)


def compare(name: str, share: float | None) -> None:
    """Play an assistant's three sessions, and print a line for each."""
    case = CASES[name]("")
    options = [] if share is None else ["--safe-zone", str(int(share * case.point))]
    direct = run(name, None)
    through, off = run(name, options), run(name, options, compacts=False)
    base = direct.bill(case.model)
    for how, session in (("directly", direct), ("run", through), ("run, switched off", off)):
        bill = session.bill(case.model)
        print(
            f"{name:9}  {how:17} {len(session.provider.requests):8}  {session.compactions:11}  {session.largest:7,}  "
            f"{bill:5.2f}  {bill / base:5.2f}  {'kept' if session.has_fact else 'lost'}",
            flush=True,
        )
        if session.read < FILES or session.done.returncode:
            print(f"  read {session.read} of {FILES} files, exit code {session.done.returncode}")
        for refusal in session.provider.refusals:
            print(f"  refused with {refusal.status}: {refusal.message[:58]}")


def main() -> None:
    """Compare all assistants, or those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("assistants", nargs="*", default=[*CASES], help="by default all of them")
    parser.add_argument("--share", type=float, help="the safe zone, as a share of the size at which it compacts")
    options = parser.parse_args()
    print(HEAD)
    for name in options.assistants:
        compare(name, options.share)


if __name__ == "__main__":
    main()
