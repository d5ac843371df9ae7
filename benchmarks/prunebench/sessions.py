"""Write the public recorded sessions of sessions.json into a folder for each corpus, from local clones.

python benchmarks/prunebench/sessions.py                   the corpora, and the commands that clone them
python benchmarks/prunebench/sessions.py clones sessions   all of them
python benchmarks/prunebench/sessions.py clones sessions --corpus tau-bench
autoprune replay sessions/tau-bench --prices anthropic

The manifest holds no text: it names the repository, commit, path, license and SHA-256 of each file. Nothing is
downloaded, and what differs from its SHA-256 is not written. The sessions hold names and paths of those who recorded
them, so they are not part of this repository.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).with_suffix(".json")
NAMED = 3  # of the missing sessions of a repository


@dataclass(frozen=True)
class Source:
    """Sessions of one corpus from one commit of a repository.

    `sessions` are keys with the SHA-256 of their files. In `path` and `name`, the path in the repository and the name
    of the written file, `{key}` stands for the key, and `{0}`, `{1}` … for its parts between slashes.
    """

    corpus: str
    repository: str
    branch: str
    commit: str
    license: str
    path: str
    name: str
    sessions: Mapping[str, str]

    def path_of(self, key: str) -> str:
        """The path of a session in the repository."""
        return self.path.format(*key.split("/"), key=key)

    def name_of(self, key: str) -> str:
        """The name of the file that a session is written to."""
        return self.name.format(*key.split("/"), key=key)

    def clone_in(self, clones: Path) -> Path:
        """The git directory of the local clone."""
        clone = clones / self.repository
        return clone / ".git" if (clone / ".git").exists() else clone

    def read(self, clones: Path, key: str) -> bytes | None:
        """Read a session from the local clone; None if the clone does not have it as the manifest describes it."""
        clone = self.clone_in(clones)
        for revision in (self.commit, self.branch, f"origin/{self.branch}") if clone.exists() else ():
            found = read_blob(clone, revision, self.path_of(key))
            if digest(found) == self.sessions[key]:
                return found
        return None

    def command(self, clones: Path) -> str:
        """The command that brings the commit into the local clone, or that makes the clone."""
        clone = self.clone_in(clones)
        if clone.exists():
            return f"git --git-dir={clone} fetch https://github.com/{self.repository} {self.commit}"
        return f"git clone --mirror https://github.com/{self.repository} {clone}"


def read_manifest(manifest: Path = MANIFEST) -> tuple[dict[str, str], list[Source]]:
    """Read the corpora, each with its description, and their sources."""
    known: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
    return known["corpora"], [Source(**each) for each in known["sources"]]


def read_blob(clone: Path, revision: str, path: str) -> bytes:
    """Read a file of a clone at a revision; empty if there is none."""
    command = ["git", f"--git-dir={clone}", "cat-file", "blob", f"{revision}:{path}"]
    return subprocess.run(command, capture_output=True, check=False).stdout


def digest(data: bytes) -> str:
    """The SHA-256 of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def write_source(source: Source, clones: Path, folder: Path) -> list[str]:
    """Write the sessions of a source, unless they are in the folder already. Return the keys of the missing ones."""
    missing = []
    for key, expected in source.sessions.items():
        file = folder / source.name_of(key)
        if file.is_file() and digest(file.read_bytes()) == expected:
            continue
        data = source.read(clones, key)
        if data is None:
            file.unlink(missing_ok=True)
            missing.append(key)
        else:
            file.write_bytes(data)
    return missing


def write_corpus(sources: Sequence[Source], clones: Path, folder: Path) -> Iterator[str]:
    """Write the sessions of a corpus, and yield what is missing from it, or in its folder but not part of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if missing := write_source(source, clones, folder):
            names = ", ".join(map(source.path_of, missing[:NAMED])) + (" …" if len(missing) > NAMED else "")
            yield f"not found: {len(missing)} of {len(source.sessions)} of {source.repository}: {names}; first run"
            yield f"    {source.command(clones)}"
    known = {source.name_of(key) for source in sources for key in source.sessions}
    yield from (f"not part of this corpus: {file}" for file in sorted(folder.iterdir()) if file.name not in known)


def summary(corpus: str, sources: Sequence[Source]) -> str:
    """The number of files in a corpus and their licenses."""
    licenses, count = sorted({source.license for source in sources}), sum(len(source.sessions) for source in sources)
    return f"{corpus}: {count} file{'s' if count > 1 else ''} ({', '.join(licenses)})"


def list_corpora(corpora: Mapping[str, str], sources: Sequence[Source]) -> Iterator[str]:
    """Yield each corpus with its description and the commands that clone its repositories into an empty folder."""
    for corpus, about in corpora.items():
        chosen = [source for source in sources if source.corpus == corpus]
        yield f"{summary(corpus, chosen)}\n    {about}"
        for repository in dict.fromkeys(source.repository for source in chosen):
            yield f"    git clone --mirror https://github.com/{repository} clones/{repository}"


def main() -> int:
    """Write the chosen corpora, say what is missing, and return 0 if nothing is."""
    corpora, sources = read_manifest()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, nargs="?", help="a folder with a clone of each repository, at owner/name")
    parser.add_argument("target", type=Path, nargs="?", help="the folder to write to; each corpus gets one in it")
    parser.add_argument("--corpus", action="append", choices=corpora, help="only this corpus; may be repeated")
    given = parser.parse_args()
    if given.target is None:
        print(*list_corpora(corpora, sources), sep="\n")
        return 0
    is_whole = True
    for corpus in given.corpus or corpora:
        chosen = [source for source in sources if source.corpus == corpus]
        faults = list(write_corpus(chosen, given.clones, given.target / corpus))
        print(f"{summary(corpus, chosen)}, {'NOT ' if faults else ''}complete in {given.target / corpus}")
        print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
        is_whole &= not faults
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
