"""Reader of OpenHands' output: a run per line with a `history` of events, or a list of events. Returns chat messages.

The rules are those of OpenHands' `conversation_memory` and `view` modules.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

from autoprune.apps.sessions import (
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Object,
    Reader,
    assistant,
    bad_record,
    conversation,
    dollars,
    fields,
    image,
    listed,
    note,
    objects,
    parse_time,
    stretch,
    text,
    tool_call,
    tool_result,
)

from prunebench.readers.request_fields import parse_usage

Event = Object
SPOKEN = "message"  # the action of a message by the user or the agent
DIGITS = 9  # decimals of a dollar that are kept: differences of accumulated costs have floating-point noise
# Events that the model never sees.
UNSENT_ACTIONS = frozenset(
    ("change_agent_state", "condensation", "condensation_request", "loop_recovery", "null", "pause", "recall", "resume")
)
UNSENT_OBSERVATIONS = frozenset(("agent_state_changed", "loop_detection", "null", "recall"))


def detect(values: Sequence[object]) -> bool:
    """Look for a history, or a list, whose entries are actions or observations, in the first runs."""
    return any(map(_is_event, (event for value in values[:5] for event in _history(value)[:20])))


def read(values: Sequence[object]) -> list[Conversation]:
    """Read a conversation per run. Raises SessionError for a line without a history."""
    return [_run_conversation(events) for events in _histories_of_runs(values)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read a conversation per run as its stretches between condensations. Raises SessionError like `read`."""
    return [_stretches(events, fields(value)) for events, value in zip(_histories_of_runs(values), values, strict=True)]


def _histories_of_runs(values: Sequence[object]) -> list[list[Event]]:
    runs = [_history(value) for value in values]
    for at, (value, events) in enumerate(zip(values, runs, strict=True), 1):
        # A run whose agent could not be started has an empty history and an error.
        if not events and not text(fields(value).get("error")):
            raise bad_record("is not a run of OpenHands: it has no history of events", at)
    return runs


def _stretches(events: Sequence[Event], run: Object) -> list[Conversation]:
    """Split a run at its condensations. Answers that a condensation kept are not new requests."""
    answered = _answers_by_response(events, run)
    ends = [at for at, event in enumerate(events) if event.get("action") == "condensation"]
    stretches: list[Conversation] = []
    for start, end in pairwise([0, *ends, len(events)]):
        kept = {id(event) for event in events[:start]}  # by identity, since ids may be missing
        said = _view_messages(events[:end])
        timed = ((each, None if id(event) in kept else _event_moment(event, each, answered)) for event, each in said)
        stretches.append(stretch("openai_chat", timed))
    return stretches


def _event_moment(event: Event, message: Message, answered: Mapping[str, Answer]) -> Moment:
    """Return the recorded data of an event.

    `answered` holds the answers by response id, and under "" the answer for actions without a response.
    """
    time, response = parse_time(event.get("timestamp")), text(_response(event).get("id"))
    if message["role"] != "assistant":
        return time
    return replace(answered.get(response, answered[""]), time=time)


def _answers_by_response(events: Sequence[Event], run: Object) -> dict[str, Answer]:
    """Collect the answers by response id.

    The usage is in the response, or else in the run's metrics. The cost of a response is the increase of the run's
    accumulated cost.
    """
    metered = {text(each.get("response_id")): each for each in objects(fields(run.get("metrics")).get("token_usages"))}
    model = text(fields(fields(run.get("metadata")).get("llm_config")).get("model"))
    answered = {"": Answer(model=model)}
    spent = 0.0
    for event in events:
        response, total = _response(event), dollars(fields(event.get("llm_metrics")).get("accumulated_cost"))
        name = text(response.get("id"))
        if name and name not in answered:
            counted = fields(response.get("usage")) or fields(metered.get(name))
            cost = round(total - spent, DIGITS) if total else None
            answered[name] = Answer(model=text(response.get("model")) or model, usage=parse_usage(counted, cost))
        # Condensers cost money too, which must not count towards the next response.
        spent = total or spent
    return answered


def _history(value: object) -> list[Event]:
    """Return the events of a conversation; early histories hold pairs of an action and its observation."""
    events: list[Event] = []
    history = listed(fields(value).get("history"))
    for item in listed(value) or history:
        events += objects(item) if isinstance(item, list) else objects([item])
    return list(_complete(map(_nest, events) if history and any(map(_is_flat, events)) else events))


def _run_conversation(events: Sequence[Event]) -> Conversation:
    messages = [message for _, message in _view_messages(events)]
    context = sum(event.get("observation") == "recall" for event in _view(events))
    summaries = sum(event.get("action") == "condensation" for event in events)
    system = () if any(message["role"] == "system" for message in messages) else (NO_SYSTEM_PROMPT,)
    notes = [
        *system,
        *note("condensations", summaries),
        *note("workspace context and knowledge that OpenHands words itself, left out", context),
    ]
    return conversation("openai_chat", messages, None, notes)


def _view_messages(events: Sequence[Event]) -> Iterator[tuple[Event, Message]]:
    """Yield the messages to send, each with its event."""
    calls = {_call_id(event) for event in events if _is_bare_call(event)}
    for event in _one_action_per_response(_view(events)):
        yield from ((event, message) for message in _event_message(event, calls))


def _view(events: Sequence[Event]) -> list[Event]:
    """Return the events that condensations did not drop, with the newest summary in place of the dropped events."""
    condensed = [fields(event.get("args")) for event in events if event.get("action") == "condensation"]
    named = {each for args in condensed for each in listed(args.get("forgotten_event_ids")) if isinstance(each, int)}
    spans = [(args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")) for args in condensed]
    ranges = _merge_spans((start, end) for start, end in spans if isinstance(start, int) and isinstance(end, int))
    kept = [event for event in events if not _is_in(event.get("id"), named, ranges)]
    # Of all summaries, only the newest one is sent.
    for args in reversed(condensed):
        offset = args.get("summary_offset")
        if text(args.get("summary")) and isinstance(offset, int):
            kept.insert(offset, {"observation": "condense", "content": args["summary"]})
            break
    return kept


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping spans of ids, which include their ends, and sort them."""
    apart: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if apart and start <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return apart


def _is_in(event_id: object, named: set[int], spans: Sequence[tuple[int, int]]) -> bool:
    if not isinstance(event_id, int):
        return False
    before = bisect_right(spans, event_id, key=itemgetter(0))
    return event_id in named or (before > 0 and event_id <= spans[before - 1][1])


def _response(event: Event) -> Event:
    """Return the model's response that contains an action."""
    return fields(fields(event.get("tool_call_metadata")).get("model_response"))


def _one_action_per_response(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events, but only the first action of each response.

    A response with several calls has an action for each call.
    """
    seen: set[str] = set()
    for event in events:
        response = text(_response(event).get("id"))
        if "action" not in event or not response:
            yield event
        elif response not in seen:
            seen.add(response)
            yield event


def _response_calls(event: Event) -> list[Event]:
    """Return the calls of the response that contains an action."""
    return objects(_response_message(event).get("tool_calls"))


def _response_message(event: Event) -> Event:
    choice = next(iter(objects(_response(event).get("choices"))), None)
    return fields(fields(choice).get("message"))


def _is_bare_call(event: Event) -> bool:
    """Whether an agent's action is a call that the model wrote as text."""
    is_call = "action" in event and text(event["action"]) not in (*UNSENT_ACTIONS, "system", "message", "finish")
    return is_call and event.get("source") != "user" and not _response_calls(event)


def _event_message(event: Event, calls: set[str]) -> Iterator[Message]:
    """Yield the message of an event, if OpenHands sends it; `calls` are the ids of calls written as text."""
    if "action" in event:
        if text(event["action"]) not in UNSENT_ACTIONS:
            yield _action(event)
    elif text(event.get("observation")) not in UNSENT_OBSERVATIONS:
        yield _observation(event, calls)


def _action(event: Event) -> Message:
    args = fields(event.get("args"))
    by_user = event.get("source") == "user"
    match event["action"]:
        case "system":
            return {"role": "system", "content": text(args.get("content"))}
        case "message":
            return _user_or_agent_message(args, by_user)
        case "finish":
            return assistant(_last_words(event, args))
    if by_user:
        return {"role": "user", "content": f"The user's action: {text(event.get('message'))}"}
    if calls := _response_calls(event):
        return assistant(text(_response_message(event).get("content")), [_response_call(each) for each in calls])
    shown = {name: value for name, value in args.items() if name != "thought"}
    return assistant(text(args.get("thought")), [tool_call(_call_id(event), text(event["action"]), shown)])


def _user_or_agent_message(args: Event, by_user: bool) -> Message:
    """Create a message of the user or the agent; only the user's messages have pictures."""
    images = args.get("image_urls") or args.get("images_urls")  # its name until October 2024
    content, urls = text(args.get("content")), [url for url in listed(images) if isinstance(url, str)]
    if not by_user:
        return assistant(content)
    shown = [{"type": "text", "text": content}, *map(image, urls)]
    return {"role": "user", "content": shown if urls else content}


def _last_words(event: Event, args: Event) -> str:
    """Join the agent's final thought and its answer, unless they are equal."""
    content, thought = text(_response_message(event).get("content")), text(args.get("thought"))
    return "\n".join(part for part in dict.fromkeys((thought, content)) if part)


def _response_call(raw: Event) -> Message:
    function = fields(raw.get("function"))
    return tool_call(text(raw.get("id")), text(function.get("name")), text(function.get("arguments")))


def _call_id(event: Event, name: str = "id") -> str:
    """Create an id for a call without one, from the id of its event."""
    return f"event_{event.get(name)}"


def _observation(event: Event, calls: set[str]) -> Message:
    """Convert an observation to a result, or to a user message if no call caused it."""
    content = _observation_text(event)
    metadata = fields(event.get("tool_call_metadata"))
    if metadata:
        return tool_result(text(metadata.get("tool_call_id")), content)
    if _call_id(event, "cause") in calls:
        return tool_result(_call_id(event, "cause"), content)
    return {"role": "user", "content": content}


def _observation_text(event: Event) -> str:
    """Return the text of an observation as the model sees it."""
    content = text(event.get("content"))
    if event.get("observation") == "error":
        return f"{content}\n[Error occurred in processing last action]"
    if event.get("observation") != "run":
        return content
    seen = fields(fields(event.get("extras")).get("metadata"))
    lines = [f"{text(seen.get('prefix'))}{content}{text(seen.get('suffix'))}"]
    if directory := text(seen.get("working_dir")):
        lines.append(f"[Current working directory: {directory}]")
    if interpreter := text(seen.get("py_interpreter_path")):
        lines.append(f"[Python interpreter: {interpreter}]")
    exit_code = seen.get("exit_code", fields(event.get("extras")).get("exit_code", -1))
    if exit_code != -1:
        lines.append(f"[Command finished with exit code {exit_code}]")
    return "\n".join(lines)


# Events of 2024 have no source and, in some files, no cause. Events in the resolver's output, also of 2025, are flat:
# the fields of an action or observation are at the same level as its name.


NOT_FLAT = frozenset(("args", "source", "observation", "role"))  # fields of other records, not of flat actions


def _is_flat(event: Event) -> bool:
    """Whether an object is an action of OpenHands with its fields at the same level as its name."""
    is_openhands = "thought" in event or "wait_for_response" in event
    return is_openhands and isinstance(event.get("action"), str) and not NOT_FLAT & event.keys()


def _nest(event: Event) -> Event:
    """Convert a flat event to the usual nested form; other events are returned unchanged."""
    if {"args", "extras", "source"} & event.keys():
        return event
    if isinstance(event.get("action"), str):
        return {"action": event["action"], "args": {name: each for name, each in event.items() if name != "action"}}
    if isinstance(event.get("observation"), str) and isinstance(event.get("content"), str):
        others = {name: each for name, each in event.items() if name not in ("observation", "content")}
        return {"observation": event["observation"], "content": event["content"], "extras": others}
    return event


def _is_event(event: Event) -> bool:
    """Whether an object is an action or an observation, with or without a source."""
    if "source" in event:  # in events of OpenHands' later SDK, actions and observations are objects
        return isinstance(event.get("action"), str) or isinstance(event.get("observation"), str)
    is_action = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    is_observation = isinstance(event.get("observation"), str) and isinstance(event.get("content"), str)
    return is_action or (is_observation and isinstance(event.get("extras"), dict))


def _complete(events: Iterable[Event]) -> Iterator[Event]:
    """Add the fields that only later versions write: ids, sources and causes.

    An observation belongs to the previous action. The first message is the user's, and so is a message right after one
    of the agent's, which waited for it. All other actions are the agent's.
    """
    action: Event = {}
    is_users_turn = True
    for number, event in enumerate(events):
        completed = event
        if "source" not in event and _is_event(event):
            if "action" in event:
                waits = fields(event.get("args")).get("wait_for_response") is True
                is_users = event["action"] == SPOKEN and is_users_turn and not waits
                completed = {"id": f"at_{number}", **event, "source": "user" if is_users else "agent"}
            else:
                cause = {"cause": action["id"]} if "id" in action else {}
                completed = {**cause, **event, "source": "environment"}
        yield completed
        if "action" in completed:
            action = completed
            is_users_turn = completed["action"] == SPOKEN and completed.get("source") == "agent"


READER = Reader("openhands", detect, read, record)
