"""Write the public recorded sessions of sessions.json into a folder, from local clones of their repositories.

git clone --mirror https://github.com/entireio/cli clones/entireio/cli     and so for each repository
python benchmarks/sessions.py clones sessions
autoprune replay sessions --prices anthropic

The manifest holds no text: it names repository, branch, commit, path and the sha256 of each file. Nothing is
downloaded, and what differs from its sha256 is not written. The sessions hold names and paths of those who recorded
them, so they are not part of this repository.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MANIFEST = Path(__file__).with_suffix(".json")
Entry = Mapping[str, str]


def blob(clone: Path, revision: str, path: str) -> bytes:
    """Read a file of a clone at a revision; empty if there is none."""
    command = ["git", f"--git-dir={clone}", "cat-file", "blob", f"{revision}:{path}"]
    return subprocess.run(command, capture_output=True, check=False).stdout


def session(clones: Path, entry: Entry) -> bytes | None:
    """The bytes of a session; None if no clone has them."""
    clone = clones / entry["repository"]
    clone = clone / ".git" if (clone / ".git").exists() else clone
    for revision in (entry["commit"], entry["branch"], f"origin/{entry['branch']}"):
        found = blob(clone, revision, entry["path"])
        if hashlib.sha256(found).hexdigest() == entry["sha256"]:
            return found
    return None


def main() -> int:
    """Write the sessions, list the missing ones, and return 0 if there are none."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("clones", type=Path, help="a folder with a clone of each repository, at owner/name")
    options.add_argument("target", type=Path, help="the folder to write to")
    given = options.parse_args()
    entries: list[Entry] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    given.target.mkdir(parents=True, exist_ok=True)
    missing = 0
    for entry in entries:
        data = session(given.clones, entry)
        if data is None:
            missing += 1
            print(f"not found: {entry['path']} of {entry['repository']}", file=sys.stderr)
        else:
            (given.target / entry["name"]).write_bytes(data)
    print(f"{len(entries) - missing} of {len(entries)} sessions written to {given.target}")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
