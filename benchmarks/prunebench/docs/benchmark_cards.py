"""Runs a context policy over a conversation, and describes the first change that it makes in one line."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoprune.apps.policies import PolicyPrompts
from autoprune.formats import new_parser, parse
from autoprune.tokens import exact

from prunebench.policies import Published

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from policy_conversations import all_conversations
from policy_originals import RECORDINGS, WINDOW, recording

LONGEST = 90  # characters of a text that are shown
NOT_RUN = ("headroom",)  # calls a package that few have, so its example is what was recorded


def example(policy: Published) -> str:
    """Describe the first change of a policy, with its defaults or else with the parameters of its recording."""
    names = [policy.name, *sorted(path.stem for path in RECORDINGS.glob(f"{policy.name}.*.json"))]
    if policy.name in NOT_RUN:
        return next(change for name in names for change in _recorded_changes(name))
    known = [recording(name)["parameters"] for name in names if (RECORDINGS / f"{name}.json").exists()]
    for parameters in ({}, *(each for each in known if each)):
        if change := next(_changes(policy, parameters), ""):
            return f"{change}{_given(parameters)}"
    return "it changes nothing in the conversations of the tests."


def _given(parameters: dict[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    return f" (with {given})" if given else ""


def _recorded_changes(name: str) -> Iterator[str]:
    """Describe the results that an original changed in its recording, where the whole new text was recorded."""
    known = recording(name)
    for conversation, sent in known["sent"].items():
        messages = all_conversations()[conversation].messages
        for request, differences in sent["samples"].items():
            for each in differences:
                if isinstance(each, dict) and each["role"] == "tool" and not each["text"].startswith("sha256:"):
                    change = _change([messages[each["of"]]], [{**messages[each["of"]], "content": each["text"]}])
                    yield f"request {int(request) + 1} of “{conversation}”: {change}{_given(known['parameters'])}"


def _changes(policy: Published, parameters: dict[str, Any]) -> Iterator[str]:
    count = exact()
    for name, known in all_conversations().items():
        transcript = parse(known.messages, new_parser(count, wants_inputs=True), 0)
        prompts = PolicyPrompts(
            policy.new(**parameters),
            transcript,
            transcript.requests,
            window=WINDOW,
            pauses=known.pauses,
            count_message=lambda message: new_parser(count).read(message, 0).tokens,
        )
        for request, start in enumerate(transcript.requests):
            sent = prompts.prune(known.messages[:start]).conversation
            if change := _change(known.messages[:start], sent):
                yield f"request {request + 1} of “{name}”: {change}"
                break


def _change(recorded: list[dict[str, Any]], sent: list[dict[str, Any]]) -> str:
    """Describe how a prompt differs from the recorded messages; "" if it does not."""
    results = {each.get("tool_call_id"): each for each in recorded if each["role"] == "tool"}
    own = {id(each) for each in recorded}
    there = {id(each) for each in sent}
    changed = [each for each in sent if id(each) not in own]
    texts = [each for each in changed if each["role"] == "tool" and each["tool_call_id"] in results]
    if texts:
        before, after = results[texts[0]["tool_call_id"]]["content"], texts[0]["content"]
        more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
        return f"{_shown(before)} ({len(before):,} characters) → {_shown(after)} ({len(after):,}){more}"
    missing = [at for at, each in enumerate(recorded) if id(each) not in there]
    if changed:
        kinds = f"{changed[0]['role']} message"
        said = str(changed[0].get("content") or changed[0].get("tool_calls"))
        return f"{len(missing)} messages → {_shown(said)} ({kinds})" if missing else f"a new {kinds}: {_shown(said)}"
    return f"messages {missing[0] + 1} to {missing[-1] + 1} of {len(recorded)} → not sent" if missing else ""


def _shown(text: str) -> str:
    """The beginning of a text as code."""
    line = " ".join(text.split()).replace("`", "'").replace("|", "¦")
    return f"`{line if len(line) <= LONGEST else line[: LONGEST - 1] + '…'}`"
