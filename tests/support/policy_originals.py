"""What a policy and its original send, in a form that compares them: the differences to the recorded messages.

A recording of an original is a file of fixtures/policies/, made by a driver in tests/originals/. It is named after the
policy; a second one, with other parameters, is named <policy>.<variant>:

    {"original": "langchain 1.1.0", "parameters": {}, "sent": {"long work": {"digests": [...], "samples": {...}}}}

There is a request before each answer of the model, and one at the end. `differences` describes what is sent with it:
the indexes of the messages that are sent unchanged, in runs [first, last], and every other message as a mapping of its
role, its text (or the sha256 of a text of more than 300 characters), its calls' arguments, and the index `of` the
recorded message that it is a version of. `digests` are the sha256 of the differences at each request, and `samples` the
differences themselves at some of them, to be read when a digest differs.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from policy_conversations import Conversation, all_conversations

from autoprune.apps.policies import POLICIES, PolicyPrompts
from autoprune.formats import new_parser, parse
from autoprune.tokens import Count, exact

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "policies"
SAMPLED = 12  # every 12th request of a recording is kept whole
WINDOW = 200_000  # tokens: the context window of the model
LONGEST = 300  # characters of a text that a recording holds


def differences(recorded: Sequence[dict[str, Any]], sent: Sequence[dict[str, Any]]) -> list[Any]:
    """Describe what is sent, in Chat Completions form, by its differences to the recorded messages.

    A result is a version of the recorded one with the same call id, and an answer of the recorded one with the same
    first call id. Other messages are unchanged if they are equal to a recorded one.
    """
    places = {_identity(message): at for at, message in enumerate(recorded)}
    found: list[Any] = []
    for message in sent:
        at = places.get(_identity(message))
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
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    told = {"original": original, "parameters": parameters, "sent": {key: digested(each) for key, each in sent.items()}}
    (RECORDINGS / f"{name}.json").write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def digested(requests: Sequence[list[Any]]) -> dict[str, Any]:
    """Shorten the differences at each request to their digests, with samples."""
    digests = [hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()[:16] for each in requests]
    last = len(requests) - 1
    samples = {str(at): each for at, each in enumerate(requests) if at % SAMPLED == SAMPLED - 1 or at == last}
    return {"digests": digests, "samples": samples}


def request_starts(known: Conversation) -> tuple[int, ...]:
    """Return the index of the message that each request precedes; the last request comes at the end."""
    return parse(known.messages, new_parser(len), 0).requests


def conversations() -> dict[str, Conversation]:
    """Return the conversations over which policies are compared."""
    return all_conversations()
