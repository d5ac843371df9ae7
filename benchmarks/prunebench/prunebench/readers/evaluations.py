"""Readers of evaluation logs: Inspect's (JSON with samples) and tau-bench's (a list of tasks). Return chat messages.

The rules are those of Inspect's `ChatMessage` types, its OpenAI provider and its log's attachments.
"""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions import (
    Answer,
    Conversation,
    Message,
    Moment,
    Object,
    Reader,
    Usage,
    bad_record,
    build_usage,
    conversation,
    fields,
    image,
    listed,
    note,
    objects,
    parse_time,
    stretch,
    text,
    token_count,
    tool_call,
    tool_result,
    unrecorded_answers,
)
from autoprune.errors import SessionError

from prunebench.readers.request_fields import requested_cache_life

ATTACHMENT = "attachment://"  # prefix of a reference into the attachments of a sample


def _detect_inspect(values: Sequence[object]) -> bool:
    """Look for an evaluation with its samples or its plan."""
    whole = fields(values[0]) if len(values) == 1 else {}
    return isinstance(whole.get("eval"), dict) and ("samples" in whole or "plan" in whole)


def _read_inspect(values: Sequence[object]) -> list[Conversation]:
    """Read a conversation per sample and epoch.

    Raises SessionError if there are no samples, or if a message has no role.
    """
    return [_sample_conversation(sample) for sample in _samples(values)]


def _record_inspect(values: Sequence[object]) -> list[list[Conversation]]:
    """Read a conversation per sample and epoch, each as one stretch. Raises SessionError like `read`."""
    model = text(fields(fields(values[0]).get("eval")).get("model"))
    samples = _samples(values)
    return [
        [stretch("openai_chat", zip(_sample_messages(sample), _moments(sample, model), strict=True))]
        for sample in samples
    ]


def _samples(values: Sequence[object]) -> list[Object]:
    samples = objects(fields(values[0]).get("samples"))
    if not samples:
        raise SessionError("the log holds no samples, only the evaluation's header")
    for at, sample in enumerate(samples, 1):
        if not all(text(fields(record).get("role")) for record in listed(sample.get("messages"))):
            raise bad_record("of the samples has a message without a role", at)
    return samples


def _sample_conversation(sample: Object) -> Conversation:
    parts = [part for record in objects(sample.get("messages")) for part in objects(record.get("content"))]
    left = sum(part.get("type") not in ("text", "image") for part in parts)
    notes = note("reasoning and other parts besides text and pictures, left out", left)
    return conversation("openai_chat", _sample_messages(sample), notes=notes)


def _sample_messages(sample: Object) -> list[Message]:
    attachments = fields(sample.get("attachments"))
    return [_chat_message(record, attachments) for record in objects(sample.get("messages"))]


def _moments(sample: Object, model: str) -> Iterator[Moment]:
    """Yield the recorded data of each message, from the sample's events.

    Events refer to answers by id, and to results by the ids of their calls. `model` is the evaluation's model, for
    answers whose message and event name none.
    """
    by_id: dict[str, Moment] = {}
    for event in objects(sample.get("events")):
        time = parse_time(event.get("completed")) or parse_time(event.get("timestamp"))
        if event.get("event") == "tool":
            by_id[text(event.get("id"))] = time
        elif event.get("event") == "model":
            choices = objects(fields(event.get("output")).get("choices"))
            answer = _event_answer(event, time, model)
            by_id |= {text(fields(each.get("message")).get("id")): answer for each in choices}
    for record in objects(sample.get("messages")):
        is_models = record["role"] == "assistant"
        moment = by_id.get(text(record.get("id" if is_models else "tool_call_id")))
        unknown = Answer(model=text(record.get("model")) or model) if is_models else None
        # An answer and a call may have equal ids, so an answer takes only an answer, any other message only a time.
        yield moment if isinstance(moment, Answer) == is_models else unknown


def _event_answer(event: Object, time: float | None, model: str) -> Answer:
    """Read the event of a model call, which holds the request and the provider's response."""
    output, call = fields(event.get("output")), fields(event.get("call"))
    usage = _usage(fields(output.get("usage")), fields(fields(call.get("response")).get("usage")))
    named = text(output.get("model")) or text(event.get("model")) or model
    return Answer(time, named, usage, cache_life=requested_cache_life(fields(call.get("request"))))


def _usage(usage: Object, own: Object) -> Usage | None:
    """Read the usage of an output.

    Providers differ in what they count as input, but the total always includes the whole prompt. Only the provider's
    `own` usage says which cache was written.
    """
    made = token_count(usage.get("output_tokens"))
    prompt = max(token_count(usage.get("total_tokens")) - made, 0)
    cached, written = usage.get("input_tokens_cache_read"), usage.get("input_tokens_cache_write")
    split = fields(own.get("cache_creation"))
    return build_usage(prompt, cached, written, made, split=split, cost=usage.get("total_cost"))


def _chat_message(record: Object, attachments: Object) -> Message:
    content = _resolve_content(record.get("content"), attachments)
    if record["role"] == "tool":
        error = text(fields(record.get("error")).get("message"))
        return tool_result(text(record.get("tool_call_id")), f"Error: {error}" if error else content)
    message: Message = {"role": record["role"], "content": content}
    calls = [_chat_call(made) for made in objects(record.get("tool_calls"))]
    return {**message, "content": content or None, "tool_calls": calls} if calls else message


def _chat_call(made: Object) -> Message:
    return tool_call(text(made.get("id")), text(made.get("function")), fields(made.get("arguments")))


def _resolve_content(content: object, attachments: Object) -> object:
    """Replace references to the log's attachments in a text, or in blocks of text and pictures, by their content."""
    if isinstance(content, str):
        return _resolve_attachment(content, attachments)
    return list(_content_blocks(objects(content), attachments))


def _content_blocks(parts: Sequence[Object], attachments: Object) -> Iterator[Message]:
    for part in parts:
        if part.get("type") == "text":
            yield {"type": "text", "text": _resolve_attachment(text(part.get("text")), attachments)}
        elif part.get("type") == "image":
            yield image(_resolve_attachment(text(part.get("image")), attachments))


def _resolve_attachment(value: str, attachments: Object) -> str:
    attachment = attachments.get(value.removeprefix(ATTACHMENT)) if value.startswith(ATTACHMENT) else None
    return attachment if isinstance(attachment, str) else value


# tau-bench


def _detect_tau(values: Sequence[object]) -> bool:
    """Look for a list of tasks with a `traj` each."""
    tasks = listed(values[0]) if len(values) == 1 else ()
    return bool(tasks) and all("traj" in fields(task) for task in tasks)


def _read_tau(values: Sequence[object]) -> list[Conversation]:
    """Read a conversation per task and trial. Raises SessionError for a message without a role."""
    return [conversation("openai_chat", messages) for messages in _trials(values)]


def _record_tau(values: Sequence[object]) -> list[list[Conversation]]:
    """Read a conversation per task and trial, each as one stretch. Raises SessionError like `read`."""
    return [[stretch("openai_chat", zip(run, unrecorded_answers(run), strict=True))] for run in _trials(values)]


def _trials(values: Sequence[object]) -> Iterator[list[Message]]:
    for at, task in enumerate(listed(values[0]), 1):
        messages = [dict(fields(message)) for message in listed(fields(task).get("traj"))]
        if not all(isinstance(message.get("role"), str) for message in messages):
            raise bad_record("of the tasks has a message without a role", at)
        yield messages


INSPECT = Reader("inspect", _detect_inspect, _read_inspect, _record_inspect)
TAU_BENCH = Reader("tau-bench", _detect_tau, _read_tau, _record_tau)
