"""What a policy and its original send, in a form that compares them: the differences to the recorded messages.

A recording of an original is a file of fixtures/policies/, made by a driver in tests/originals/. It is named after the
policy; a second one, with other parameters, is named <policy>.<variant>:

    {"original": "langchain 1.1.0", "parameters": {}, "sent": {"long work": {"digests": [...], "samples": {...}}}}

There is a request before each answer of the model, and one at the end. `differences` describes what is sent with it:
the indexes of the messages that are sent unchanged, in runs [first, last], and every other message as a mapping of its
role, its text (or the sha256 of a text of more than 300 characters), its calls' arguments, and the index `of` the
recorded message that it is a version of. `digests` are the sha256 of the differences at each request, and `samples` the
differences themselves at some of them, to be read when a digest differs.

Every driver also takes other conversations, such as recorded sessions, and another folder for its recordings. `compare`
then prints where a port first differs from its original in each conversation:

    python tests/support/policy_sessions.py session.jsonl other.json > conversations.json
    python tests/originals/swe_agent.py ... --conversations conversations.json --output recordings
    python tests/support/policy_originals.py compare recordings/swe_agent.json conversations.json
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from autoprune.apps.policies import PolicyPrompts
from autoprune.tokens import Count, exact
from autoprune.wire import new_parser, parse
from policy_conversations import Conversation, all_conversations, read_conversations

from prunebench.policies import POLICIES

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "policies"
SAMPLED = 12  # every 12th request of a recording is kept whole
WINDOW = 200_000  # tokens: the context window of the model
LONGEST = 300  # characters of a text that a recording holds


def differences(recorded: Sequence[dict[str, Any]], sent: Sequence[dict[str, Any]]) -> list[Any]:
    """Describe what is sent, in Chat Completions form, by its differences to the recorded messages.

    A result is a version of the recorded one with the same call id, and an answer of the recorded one with the same
    first call id. Other messages are unchanged if they are equal to a recorded one. Of several such messages, it is
    the first after the one before.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for at, message in enumerate(recorded):
        places.setdefault(_identity(message), []).append(at)
    found: list[Any] = []
    last = -1
    for message in sent:
        known = places.get(_identity(message), ())
        at = next((each for each in known if each > last), known[0] if known else None)
        last = last if at is None else at
        if at is not None and _essence(message) == _essence(recorded[at]):
            if found and isinstance(found[-1], list) and found[-1][1] == at - 1:
                found[-1][1] = at
            else:
                found.append([at, at])
            continue
        found.append({"role": message["role"], **({} if at is None else {"of": at}), **_short(message)})
    return found


def _identity(message: dict[str, Any]) -> tuple[str, str]:
    if message["role"] == "tool":
        return "tool", message["tool_call_id"]
    calls = message.get("tool_calls") or ()
    return message["role"], calls[0]["id"] if calls else str(message.get("content"))


def _essence(message: dict[str, Any]) -> tuple[str, list[Any]]:
    calls = [json.loads(each["function"]["arguments"]) for each in message.get("tool_calls") or ()]
    return str(message.get("content") or ""), calls


def _short(message: dict[str, Any]) -> dict[str, Any]:
    content, calls = _essence(message)
    whole = content if len(content) <= LONGEST else "sha256:" + hashlib.sha256(content.encode()).hexdigest()
    return {"text": whole, **({"calls": calls} if calls else {})}


def sent_by_policy(
    name: str, known: Conversation, *, window: int = WINDOW, count: Count | None = None, **parameters: Any
) -> list[list[Any]]:
    """Return the differences at each request of what a policy sends."""
    counted = count or exact()
    transcript = parse(known.messages, new_parser(counted, wants_inputs=True), 0)
    prompts = PolicyPrompts(
        POLICIES[name].new(**parameters),
        transcript,
        transcript.requests,
        window=window,
        pauses=known.pauses,
        count_message=lambda message: new_parser(counted).read(message, 0).tokens,
    )
    return [
        differences(known.messages, prompts.prune(known.messages[:start]).conversation) for start in transcript.requests
    ]


def recording(name: str) -> dict[str, Any]:
    """Read the recording of an original."""
    found: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def write_recording(name: str, original: str, sent: dict[str, list[list[Any]]], **parameters: Any) -> None:
    """Write a recording; `sent` holds the differences at each request, by conversation."""
    folder = _options()[0].output
    sampled = 1 if folder else SAMPLED
    told = {
        "original": original,
        "parameters": parameters,
        "sent": {key: digested(each, sampled) for key, each in sent.items()},
    }
    folder = folder or RECORDINGS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def digested(requests: Sequence[list[Any]], sampled: int = SAMPLED) -> dict[str, Any]:
    """Shorten the differences at each request to their digests, with samples."""
    digests = [hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()[:16] for each in requests]
    last = len(requests) - 1
    samples = {str(at): each for at, each in enumerate(requests) if at % sampled == sampled - 1 or at == last}
    return {"digests": digests, "samples": samples}


def request_starts(known: Conversation) -> tuple[int, ...]:
    """Return the index of the message that each request precedes; the last request comes at the end."""
    return parse(known.messages, new_parser(len), 0).requests


def conversations() -> dict[str, Conversation]:
    """Return the conversations that a driver runs over: those of --conversations, or else the made-up ones."""
    file = _options()[0].conversations
    return read_conversations(file) if file else all_conversations()


def arguments() -> list[str]:
    """Return the arguments of a driver besides --conversations and --output."""
    return _options()[1]


def _options() -> tuple[argparse.Namespace, list[str]]:
    options = argparse.ArgumentParser(allow_abbrev=False)
    options.add_argument("--conversations", type=Path, help="JSON as policy_conversations.py prints it")
    options.add_argument("--output", type=Path, help="folder of the recordings; fixtures/policies without it")
    return options.parse_known_args()


def compare(file: str, conversations_file: str) -> Iterator[str]:
    """Yield a line for each conversation of a recording made with --output: how the port differs, if it does."""
    recorded = json.loads(Path(file).read_text(encoding="utf-8"))
    known = read_conversations(Path(conversations_file))
    name = Path(file).stem.partition(".")[0]
    for conversation, expected in recorded["sent"].items():
        sent = sent_by_policy(name, known[conversation], **recorded["parameters"])
        found = digested(sent, 1)
        pairs = enumerate(zip_longest(expected["digests"], found["digests"]))
        differing = [at for at, (original, port) in pairs if original != port]
        acted = sum(each != unchanged for each, unchanged in zip(sent, _unchanged(known[conversation]), strict=True))
        yield f"{conversation}: {len(differing)} of {len(sent)} requests differ, {acted} are changed"
        if differing:
            yield from _first_difference(differing[0], expected["samples"], found["samples"])


def _unchanged(known: Conversation) -> list[list[Any]]:
    """Return the differences at each request if nothing is changed."""
    return [differences(known.messages, known.messages[:start]) for start in request_starts(known)]


def _first_difference(request: int, original: dict[str, Any], port: dict[str, Any]) -> Iterator[str]:
    pairs = zip_longest(original.get(str(request), ()), port.get(str(request), ()))
    for at, (expected, found) in enumerate(pairs):
        if expected != found:
            yield f"  request {request}, difference {at}"
            yield f"    original {json.dumps(expected, ensure_ascii=False)}"
            yield f"    port     {json.dumps(found, ensure_ascii=False)}"
            return


if __name__ == "__main__":
    for line in compare(*sys.argv[2:]):
        print(line)
