"""What a digest keeps of recorded sessions at a tenth of their size.

python benchmarks/digests.py PATH…              session files, or folders with session files; all their runs
python benchmarks/digests.py PATH… --folds 4    the same, folded in four steps, each from the digest before it
python benchmarks/digests.py PATH… --pruned     as a prune with a safe zone of a tenth of the tokens leaves it
python benchmarks/digests.py PATH… --missing    what is missing as well

Four figures: edited files that the digest names; the user's requests that it keeps (word for word, or marked as
shortened with 200 characters and the sentence that asks); errors among the last five that it mentions; and commands
that it calls "ok" although their last result says that they failed. The script reads the sessions by its own rules,
not by those of the digest.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoprune import ConversationPruner, PruneArgs
from autoprune.apps import sessions
from autoprune.facts.utterances import utterances
from autoprune.summarizers.brief import Brief, Written
from autoprune.summarizers.digest import Digest
from autoprune.tokens import exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

COUNT = exact()
SHARE = 10  # a digest has one of this many tokens
LAST_ERRORS = 5
LEAST_KEPT = 200  # characters of a shortened request
ASKING = re.compile(
    r"(?i)[?？]\s*$|^(?:please|can you|could you|let'?s|now|also|ok,?|fix|add|make|do|don'?t|never|use|write|run)\b"
)
# Text that agents' programs add to user messages.
ADDED = re.compile(
    r"<(system-reminder|environment_context|environment_details|user_instructions|permissions instructions"
    r"|local-command-[a-z]+|command-[a-z]+|task-notification|turn_aborted|skills?_instructions|skill|INSTRUCTIONS"
    r"|plugins_instructions|apps_instructions|app-context|collaboration_mode|personality_spec|model_switch"
    r"|system_notification|current_datetime|file_content|folder_content|persisted-output|bash-[a-z]+|ide_[a-z_]+)\b"
    r"[^>]*>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
MENTIONED = re.compile(r"<(?:task|user_query|feedback|answer|user_message|user_input)[^>]*>|</\w+>")
NOT_ASKED = (
    *("This session is being continued from a previous conversation", "Base directory for this skill:", "Caveat: "),
    *("[Request interrupted by user", "Stop hook feedback", "# AGENTS.md instructions", "API Error", "/"),
    *("Read the output file to retrieve",),
)
WRITERS = re.compile(r"(?i)write|edit|create|replace|insert|patch|str_replace|delete_file|remove_file")
FAILED = re.compile(
    r"(?s)\A(?:<tool_use_error>|[Ee]rror[: ]|ERROR|fatal:|Exit code:? [1-9])|exited with code [1-9]|exit code:? [1-9]"
    r"|<returncode>[1-9]|\A.{0,200}verification failed|\"exit_code\":\s*[1-9]|No replacement was performed"
)
RAN_BADLY = re.compile(
    r"(?m)^(?:error|fatal|ERROR|FAIL|FAILED)\b[:\s]|\b[1-9]\d* (?:failed|errors?)\b|^E  +\w|rejected\]|panic:"
)
REDIRECTED = re.compile(r" (?:2>&1|2>/dev/null)(?= |\Z)")
PATH = r"(['\"]?)([\w@+.~/\[\]-]+)"
SHELL_WRITES = (
    re.compile(rf"(?<![\d&<>-])>{{1,2}}\s*{PATH}"),
    re.compile(rf"\btee\s+(?:-a\s+)?{PATH}"),
    re.compile(rf"\b(?:sed|perl)\s+(?:-\w+\s+)*-p?i[^|;&\n]*\s{PATH}\s*(?:$|[|;&\n])", re.MULTILINE),
    re.compile(rf"(?:^|[;&|\n]\s*)(?:cp|mv)\s+(?:-\w+\s+)*\S+\s+{PATH}\s*(?:$|[|;&\n])"),
)
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)


@dataclass
class Call:
    """A call in a session, with its result if there is one."""

    name: str
    arguments: dict[str, Any] | str
    text: str | None = None
    is_error: bool = False

    @property
    def command(self) -> str:
        """The shell command; "" for other tools."""
        if isinstance(self.arguments, str):
            return ""
        found = self.arguments.get("command") or self.arguments.get("cmd") or ""
        if isinstance(found, list):
            return str(found[-1]) if found else ""
        return str(found) if not {"path", "file_path"} & self.arguments.keys() else ""

    @property
    def failed(self) -> bool:
        """Whether the call failed, according to a flag or to the agent's error text."""
        return self.is_error or bool(self.text and FAILED.search(self.text[:300] + "\n" + self.text[-200:]))


@dataclass
class Facts:
    """The user's requests and the calls of a session."""

    requests: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def edited(self) -> list[str]:
        """The files that successful calls changed."""
        return list(dict.fromkeys(path for path in self._edited() if path and not path.startswith("/dev/")))

    def _edited(self) -> Iterator[str]:
        opened = ""
        for call in self.calls:
            if call.failed or call.text is None:
                continue
            known = call.arguments if isinstance(call.arguments, dict) else {}
            patch = call.arguments if isinstance(call.arguments, str) else str(known.get("input") or call.command)
            if "*** Begin Patch" in patch:
                yield from PATCHED.findall(patch)
            elif call.command:
                if match := re.match(r"(?:open|create) ['\"]?([^\s'\"]+)", call.command):
                    opened = match[1]
                if re.match(r"(?:edit|insert) \d+|create \S", call.command):
                    yield opened
                yield from _written(call.command)
            elif WRITERS.search(call.name) and known.get("command") != "view":
                named = (known.get(name) for name in ("file_path", "path", "filename", "target_file", "notebook_path"))
                yield next((str(path) for path in named if path), "")

    def errors(self) -> list[Call]:
        """The last failed calls."""
        return [call for call in self.calls if call.failed][-LAST_ERRORS:]

    def bad(self) -> set[str]:
        """The commands whose last result reports a failure."""
        last = {call.command: call for call in self.calls if call.command and call.text is not None}
        return {name for name, call in last.items() if call.failed or RAN_BADLY.search((call.text or "")[-2_000:])}


def _written(command: str) -> Iterator[str]:
    bare = re.sub(r"<<-?\s*['\"]?(\w+)['\"]?(.*?)\n.*?^\s*\1\b", r"\2\n", command, flags=re.DOTALL | re.MULTILINE)
    bare = re.sub(r"'[^'\n]*[\s;|][^'\n]*'|\"[^\"\n]*[\s;|][^\"\n]*\"", "''", bare)
    for pattern in SHELL_WRITES:
        for _, path in pattern.findall(bare):
            if re.search(r"[A-Za-z]", path) and ("/" in path or "." in path):
                yield path


def facts(messages: Iterable[Any]) -> Facts:
    """Collect the facts of messages, in any format of sessions."""
    found, known = Facts(), {}
    for message in messages:
        _take(message, found, known)
    return found


def _take(message: Any, found: Facts, known: dict[str, Call]) -> None:
    match message:
        case {"type": "function_call" | "custom_tool_call", "call_id": str(id), "name": str(name)}:
            _call(found, known, id, name, message.get("arguments", message.get("input")))
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(id), "output": output}:
            _result(known, id, output)
        case {"role": "tool", "tool_call_id": str(id), "content": content}:
            _result(known, id, content)
        case {"role": "assistant", "tool_calls": list(calls)}:
            for call in calls:
                _call(found, known, call["id"], call["function"]["name"], call["function"]["arguments"])
        case {"role": "user" | "assistant" | "model" as role, **rest}:
            _content(role, rest.get("content", rest.get("parts")), found, known)


def _content(role: str, content: Any, found: Facts, known: dict[str, Call]) -> None:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    for block in blocks:
        match block:
            case {"type": "tool_use", "id": str(id), "name": str(name), "input": given}:
                _call(found, known, id, name, given)
            case {"type": "tool_result", "tool_use_id": str(id)}:
                _result(known, id, block.get("content"), is_error=bool(block.get("is_error")))
            case {"functionCall": {"name": str(name), **call}} | {"function_call": {"name": str(name), **call}}:
                _call(found, known, name, name, call.get("args"))
            case {"functionResponse": {"name": str(name), **given}} | {
                "function_response": {"name": str(name), **given}
            }:
                _result(known, name, given.get("response"))
            case {"text": str(text)} if role == "user":
                words = MENTIONED.sub("", ADDED.sub("", text)).strip()
                if words and not words.startswith(NOT_ASKED):
                    found.requests.append(words)


def _call(found: Facts, known: dict[str, Call], id: str, name: str, given: Any) -> None:
    if isinstance(given, str):
        with suppress(ValueError):
            given = json.loads(given)
    known[id] = Call(name, given if isinstance(given, dict) else str(given))
    found.calls.append(known[id])


def _result(known: dict[str, Call], id: str, content: Any, *, is_error: bool = False) -> None:
    if isinstance(content, list):
        content = "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    if call := known.get(id):
        call.text = content if isinstance(content, str) else json.dumps(content)
        call.is_error = is_error


# What is kept


def names(digest: str, path: str) -> bool:
    """Whether a digest names a file: by its whole path, or by its last parts."""
    parts = path.strip("/").split("/")
    *folders, name = path.rsplit("/", 1)
    is_in_folder = any(f"\n{folder}\n" in digest for folder in folders) and f"- {name} →" in digest
    return is_in_folder or any("/".join(parts[start:]) in digest for start in range(max(1, len(parts) - 1)))


def keeps_request(digest: str, request: str) -> bool:
    """Whether a digest keeps a request."""
    words, text = " ".join(request.split()), " ".join(MENTIONED.sub("", digest).split())
    if words in text:
        return True
    begins, ends = _shared(words, text), _shared(words[::-1], text[::-1])
    if begins + ends < LEAST_KEPT or not ("left out" in text or "…" in text):
        return False
    sentences = [one for one in re.split(r"(?<=[.!?？。])\s+|\n+", request) if len(one.split()) > 2]
    asking = [one for one in sentences if ASKING.search(one.strip())] or sentences[:1] or sentences
    return any(" ".join(one.split())[:80] in text for one in asking[:1] + asking[-1:])


def _shared(words: str, text: str) -> int:
    """The length of the prefix of `words` that occurs in a text."""
    least, most = 0, len(words)
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if words[:middle] in text else (least, middle - 1)
    return least


def mentions_error(digest: str, call: Call) -> bool:
    """Whether a digest mentions a failed call, by the call or by its output."""
    text = " ".join(digest.split())
    part = _essential(call.command)
    known = call.arguments if isinstance(call.arguments, dict) else {}
    path = str(next((known[name] for name in ("file_path", "path", "filename") if known.get(name)), ""))
    touched = part in text if part else bool(path) and names(text, path)
    lines = [" ".join(line.split()) for line in (call.text or "").split("\n") if len(line.split()) > 2]
    return any(line[:60] in text for line in lines) or (touched and "failed" in text)


def _essential(command: str) -> str:
    words = re.sub(r"^(?:cd \S+ (?:&&|;) |\w+=\S+ )+", "", " ".join(command.split()))
    return words[:40]


def false_ok(digest: str, facts: Facts) -> list[str]:
    """The commands that a digest calls "ok" although their last result reports a failure.

    A command goes by the longest of the listed names that it begins or ends with: `git stash pop` failed, if both are
    listed, and `git stash` did not.
    """
    section = digest.partition("\n## Commands, and how they went last")[2].partition("\n## ")[0]
    listed = {match[1]: match[2] for match in re.finditer(r"^- (.*) → (\w+)", section, re.MULTILINE)}
    bad = (REDIRECTED.sub("", " ".join(command.split())) for command in facts.bad())
    named = ([name for name in listed if command.startswith(name) or command.endswith(name)] for command in bad)
    return sorted({name for names in named if names and listed[name := max(names, key=len)] == "ok"})


# Measuring


@dataclass
class Score:
    """The number of kept items, and of all items."""

    kept: int = 0
    total: int = 0

    def add(self, kept: Iterable[bool]) -> None:
        """Count more items."""
        for one in kept:
            self.kept += one
            self.total += 1

    def __str__(self) -> str:
        """The score as text, such as 19/20."""
        return f"{self.kept}/{self.total}"


def digest_of(messages: list[Any], folds: int) -> str:
    """The digest of all messages at a tenth of their tokens, made in `folds` steps."""
    transcript = parse(messages, new_parser(COUNT), 0)
    said = utterances(transcript.entries)
    text = ""
    for number in range(folds):
        start, stop = len(said) * number // folds, len(said) * (number + 1) // folds
        room = sum(entry.tokens for entry in transcript.entries[:stop]) // SHARE
        answer = Digest()(Brief(said[start:stop], text, max(room, 1), COUNT))
        text = answer.text if isinstance(answer, Written) else ""
    return text


def prune_to_text(messages: list[Any]) -> str:
    """The remaining text of a conversation after a prune."""
    total = sum(entry.tokens for entry in parse(messages, new_parser(COUNT), 0).entries)
    left = ConversationPruner(PruneArgs(max(total // SHARE, 1))).prune_conversations(messages)
    return "\n".join(_strings(left))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def conversations(paths: Iterable[Path]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the conversations of some files, with their names."""
    for path in paths:
        if path.is_dir():
            yield from conversations(sorted(path.glob("*.json*")))
        elif path.name != "index.json":
            text = path.read_text(encoding="utf-8")
            first = sessions.load(text, path.name)
            for run in range(1, first.conversations + 1):
                name = f"{path.stem}{f' #{run}' if run > 1 else ''}"
                yield name, sessions.load(text, path.name, run).messages if run > 1 else first.messages


def main() -> int:
    """Print the figures, with those of all sessions in the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="session files, or folders with session files")
    parser.add_argument("--folds", type=int, default=1, help="steps in which the digest is made")
    parser.add_argument("--pruned", action="store_true", help="prune with a safe zone of a tenth of the tokens")
    parser.add_argument("--missing", action="store_true", help="print what is missing as well")
    options = parser.parse_args()
    files, requests, errors, wrong = Score(), Score(), Score(), 0
    for name, messages in conversations(options.paths):
        held = facts(messages)
        digest = prune_to_text(messages) if options.pruned else digest_of(messages, options.folds)
        edited = [(path, names(digest, path)) for path in held.edited()]
        asked = [(request, keeps_request(digest, request)) for request in held.requests]
        told = [(call, mentions_error(digest, call)) for call in held.errors()]
        false = false_ok(digest, held)
        wrong += len(false)
        for score, rows in ((files, edited), (requests, asked), (errors, told)):
            score.add(kept for _, kept in rows)
        mine = [f"{sum(kept for _, kept in rows)}/{len(rows)}" for rows in (edited, asked, told)]
        print(f"{name[:60]:60} {mine[0]:>7} {mine[1]:>7} {mine[2]:>5} {len(false):>3}")
        if options.missing:
            for title, rows in (("file", edited), ("request", asked)):
                for row, kept in rows:
                    if not kept:
                        print(f"    {title}: {' '.join(row.split())[:150]}")
            for call, kept in told:
                if not kept:
                    print(f"    error: {call.name} {' '.join(str(call.arguments).split())[:120]}")
            for command in false:
                print(f"    false ok: {command}")
    print(f"{'files, requests, errors, false ok':60} {files!s:>7} {requests!s:>7} {errors!s:>5} {wrong:>3}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
