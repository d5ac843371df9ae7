"""Reader of ATIF trajectories, which Harbor and other evaluation tools write. Returns Chat Completions messages.

A trajectory is one JSON object. Each of its steps is a message of the system or the user, or an answer of the model
with the results of its calls. The rules are those of the specification of ATIF, versions 1.0 to 1.8, by Harbor.
"""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import Object, fields, objects, text
from autoprune.apps.sessions._recording import (
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    bad_record,
    build_usage,
    note,
    parse_time,
)
from autoprune.apps.sessions._sending import CHAT, assistant, conversation, stretch, tool_call, tool_result


def detect(values: Sequence[object]) -> bool:
    """Look for the version of the schema, which every trajectory states."""
    return len(values) == 1 and text(fields(values[0]).get("schema_version")).startswith("ATIF")


def read(values: Sequence[object]) -> list[Conversation]:
    """Read a trajectory, and those of its sub-agents in it. Raises SessionError for a step of an unknown source."""
    return [
        conversation(CHAT, (message for message, _ in _messages(each)), notes=_notes(each))
        for each in _trajectories(values)
    ]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read each trajectory as one stretch. Raises SessionError like `read`."""
    return [[stretch(CHAT, _messages(each))] for each in _trajectories(values)]


def _trajectories(values: Sequence[object]) -> Iterator[Object]:
    """Yield the trajectories among values, each before those of its sub-agents."""
    for value in map(fields, values):
        yield value
        yield from _trajectories(objects(value.get("subagent_trajectories")))


def _notes(trajectory: Object) -> list[str]:
    steps = objects(trajectory.get("steps"))
    contents = [step.get("message") for step in steps] + [each.get("content") for step in steps for each in _seen(step)]
    pictures = sum(part.get("type") == "image" for content in contents for part in objects(content))
    own = sum(len(_seen(step)) for step in steps if step.get("source") == "system")
    return [
        *(() if steps and steps[0].get("source") == "system" else (NO_SYSTEM_PROMPT,)),
        *note("results of operations of the system, left out", own),
        *note("pictures in other files, replaced by their paths", pictures),
    ]


def _messages(trajectory: Object) -> Iterator[tuple[Message, Moment]]:
    """Yield the messages of a trajectory, each with its recorded data."""
    default = text(fields(trajectory.get("agent")).get("model_name"))
    for at, step in enumerate(objects(trajectory.get("steps")), 1):
        source = step.get("source")
        if source == "agent":
            yield assistant(_text(step.get("message")), _calls(step)), _answer(step, default)
            yield from ((message, None) for message in _results(step))
        elif source in ("system", "user"):
            yield {"role": source, "content": _text(step.get("message"))}, parse_time(step.get("timestamp"))
        else:
            raise bad_record(f"has the source {source!r}: a step is from the system, the user or the agent", at)


def _answer(step: Object, model: str) -> Moment:
    """Return the recorded data of an answer; None for one that an earlier trajectory holds or no model gave."""
    if step.get("is_copied_context") is True or step.get("llm_call_count") == 0:
        return None
    counted = fields(step.get("metrics"))
    more = fields(counted.get("extra"))
    usage = build_usage(
        counted.get("prompt_tokens"),
        counted.get("cached_tokens"),
        more.get("cache_creation_input_tokens"),
        counted.get("completion_tokens"),
        split=fields(more.get("cache_creation")),
        cost=counted.get("cost_usd"),
    )
    return Answer(parse_time(step.get("timestamp")), text(step.get("model_name")) or model, usage)


def _calls(step: Object) -> list[Message]:
    calls = objects(step.get("tool_calls"))
    return [
        tool_call(text(one.get("tool_call_id")), text(one.get("function_name")), one.get("arguments")) for one in calls
    ]


def _seen(step: Object) -> list[Object]:
    """Return the results that followed a step."""
    return objects(fields(step.get("observation")).get("results"))


def _results(step: Object) -> Iterator[Message]:
    """Yield the results of a step's calls. Without calls, what the model saw next is the user's message.

    Results that name no call belong to the last calls without one, as if a terminal shows the output of several
    commands at once. The other calls then have an empty result.
    """
    names = [text(one.get("tool_call_id")) for one in objects(step.get("tool_calls"))]
    named = {text(each.get("source_call_id")): each for each in _seen(step)}
    others = [each for each in _seen(step) if text(each.get("source_call_id")) not in names]
    silent = [name for name in names if name not in named]
    placed = min(len(others), len(silent))
    shown = named | dict(zip(silent[len(silent) - placed :], others, strict=False))
    for name in names:
        if name in shown or placed:
            yield tool_result(name, _text(fields(shown.get(name)).get("content")))
    for each in others[placed:]:
        yield {"role": "user", "content": _text(each.get("content"))}


def _text(content: object) -> str:
    """Return a content as text: a text, or texts and pictures."""
    parts = (part.get("text") if part.get("type") == "text" else _picture(part) for part in objects(content))
    return text(content) or "\n".join(map(text, parts))


def _picture(part: Object) -> str:
    return f"[{part.get('type')} {text(fields(part.get('source')).get('path'))}]"


READER = Reader("atif", detect, read, record)
