"""Reader of OpenTelemetry traces in OTLP JSON whose spans record calls of a model. Returns Chat Completions messages.

The span of a call holds its whole input. So calls form a chain if each input begins with the input before, and the
last input of a chain with its answer is the conversation. Chains that begin differently are other conversations, such
as those of sub-agents, unless they hold what remains of an earlier chain after a compaction:

    span 1   system, user                                -> calls a
    span 2   system, user, calls a, result a             -> done
    read     system, user, calls a, result a, done       with requests before messages 2 and 4

`_spans` reads the calls. Log records, which may hold the contents too, are not read.
"""

from collections.abc import Sequence
from itertools import takewhile

from autoprune.apps.sessions._json import fields, text
from autoprune.apps.sessions._recording import NO_SYSTEM_PROMPT, Answer, Conversation, Message, Moment, Reader, note
from autoprune.apps.sessions._sending import CHAT, NO_RESULT, conversation
from autoprune.apps.sessions._spans import SYSTEM, Call, read_calls

LONG = 100  # characters: a later input that quotes a longer answer holds it as a summary


def detect(values: Sequence[object]) -> bool:
    """Look for a line or a file with resources' spans."""
    return any(isinstance(fields(value).get("resourceSpans"), list) for value in values)


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the conversations of each session or trace, the longest first.

    Raises SessionError if there are no LLM spans, or none of them holds its input.
    """
    calls, notes = read_calls(values)
    last = [chains[-1] for chains in _conversations(calls)]
    return [_sendable(chain, NO_RESULT, (*notes, *_notes(chain))) for chain in last]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read each conversation as its stretches between compactions. Raises SessionError like `read`."""
    calls, notes = read_calls(values)
    return [[_sendable(chain, None, notes) for chain in chains] for chains in _conversations(calls)]


def _sendable(chain: Sequence[Call], missing: str | None, notes: Sequence[str]) -> Conversation:
    """Turn a chain into its conversation. The last message of an input was sent at the start of its call."""
    messages = [*chain[-1].messages, *chain[-1].answer]
    moments: list[Moment] = [None] * len(messages)
    for call in chain:
        place = len(call.messages)
        if place and not isinstance(moments[place - 1], Answer):
            moments[place - 1] = call.start
        if _is_answered(call, messages):
            moments[place] = Answer(call.end, call.model, call.usage)
    return conversation(CHAT, messages, missing, notes, moments)


def _is_answered(call: Call, messages: Sequence[Message]) -> bool:
    return [each["role"] for each in messages[len(call.messages) :][:1]] == ["assistant"]


def _notes(chain: Sequence[Call]) -> list[str]:
    messages = [*chain[-1].messages, *chain[-1].answer]
    answered = [len(call.messages) for call in chain if _is_answered(call, messages)]
    return [
        *(() if messages[0]["role"] == SYSTEM else (NO_SYSTEM_PROMPT,)),
        *note("parts of other types, read as JSON text", chain[-1].others),
        *note("requests without an answer, left out", len(chain) - len(answered)),
        *note("requests repeated with the same input, left out", len(answered) - len(set(answered))),
    ]


# From calls to conversations


def _conversations(calls: Sequence[Call]) -> list[list[list[Call]]]:
    """Divide calls into conversations, each as its chains between compactions. A session's longest comes first."""
    sessions: dict[str, list[Call]] = {}
    for call in sorted(calls, key=lambda each: each.start or 0.0):
        sessions.setdefault(call.session, []).append(call)
    found = []
    for each in sessions.values():
        joined = _join(_chains(each))
        found += sorted(joined, key=lambda chains: -sum(len(chain[-1].messages) for chain in chains))
    return found


def _chains(calls: Sequence[Call]) -> list[list[Call]]:
    """Divide a session's calls, in order of time, into chains in which each input begins with the input before."""
    chains: list[list[Call]] = []
    for call in calls:
        begun = [chain for chain in chains if call.messages[: len(chain[-1].messages)] == chain[-1].messages]
        if begun:
            max(begun, key=lambda chain: len(chain[-1].messages)).append(call)
        else:
            chains.append([call])
    return chains


def _join(chains: Sequence[list[Call]]) -> list[list[list[Call]]]:
    """Join each chain with the one that it continues after a compaction."""
    joined: list[list[list[Call]]] = []
    for chain in chains:
        before = next((each for each in reversed(joined) if _continues(each[-1][-1], chain[0])), None)
        if before is None:
            joined.append(before := [])
        before.append(chain)
    return joined


def _continues(before: Call, after: Call) -> bool:
    """Whether an input is what a compaction left of an earlier call.

    It is later, has the same system prompt, and holds more of the earlier call than the messages that both begin with:
    one of the messages after them, or the text of the answer, which was a summary then.
    """
    old, new = [*before.messages, *before.answer], after.messages
    has_other_prompt = SYSTEM in (old[0]["role"], new[0]["role"]) and old[0] != new[0]
    if has_other_prompt or (after.start or 0.0) < (before.end or 0.0):
        return False
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    summary = next((text(each["content"]) for each in before.answer), "")
    is_quoted = len(summary) > LONG and any(summary in text(each["content"]) for each in new[same:])
    return is_quoted or any(each in old[same:] for each in new[same:])


READER = Reader("otel", detect, read, record)
