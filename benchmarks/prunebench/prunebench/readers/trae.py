"""Reader of Trae Agent's trajectories: JSON with its exchanges with the model. Returns chat messages.

Each exchange holds only new messages (`chat` of its clients appends them to the earlier ones), so the conversation
consists of all exchanges in order. The results of the last calls are taken from the agent's steps.
"""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions import (
    Answer,
    Conversation,
    Message,
    Moment,
    Object,
    Reader,
    assistant,
    bad_record,
    build_usage,
    conversation,
    fields,
    listed,
    objects,
    parse_time,
    stretch,
    text,
    token_count,
    tool_call,
    tool_result,
)

APART = ("anthropic", "bedrock")  # providers that count the cached tokens of a prompt separately


def detect(values: Sequence[object]) -> bool:
    """Look for exchanges with a model and the agent's steps."""
    whole = fields(values[0]) if len(values) == 1 else {}
    return isinstance(whole.get("llm_interactions"), list) and isinstance(whole.get("agent_steps"), list)


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the one conversation. Raises SessionError for an exchange without messages."""
    return [conversation("openai_chat", [message for message, _ in _exchange_messages(values)])]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation as one stretch. Raises SessionError like `read`."""
    return [[stretch("openai_chat", _exchange_messages(values))]]


def _exchange_messages(values: Sequence[object]) -> list[tuple[Message, Moment]]:
    """Return the messages of all exchanges with their recorded data; only answers have times."""
    whole = fields(values[0])
    said: list[tuple[Message, Moment]] = []
    for at, exchange in enumerate(map(fields, listed(whole.get("llm_interactions"))), 1):
        if not isinstance(exchange.get("input_messages"), list):
            raise bad_record("of llm_interactions has no input_messages", at)
        said += [(_input_message(record), None) for record in objects(exchange["input_messages"])]
        said.append((_response_message(fields(exchange.get("response"))), _exchange_moment(exchange)))
    last = said[-1][0] if said else {}
    return [*said, *((result, None) for result in _last_results(last, whole))]


def _exchange_moment(exchange: Object) -> Answer:
    response = fields(exchange.get("response"))
    usage = fields(response.get("usage"))
    cached = token_count(usage.get("cache_read_input_tokens"))
    written = token_count(usage.get("cache_creation_input_tokens"))
    apart = cached + written if exchange.get("provider") in APART else 0
    counted = build_usage(
        token_count(usage.get("input_tokens")) + apart,
        usage.get("cache_read_input_tokens"),
        written,
        usage.get("output_tokens"),
    )
    model = text(response.get("model")) or text(exchange.get("model"))
    return Answer(parse_time(exchange.get("timestamp")), model, counted)


def _input_message(record: Object) -> Message:
    if done := fields(record.get("tool_result")):
        return _call_result(done)
    if made := fields(record.get("tool_call")):
        return assistant("", [_exchange_call(made)])
    return {"role": text(record.get("role")) or "user", "content": text(record.get("content"))}


def _response_message(response: Object) -> Message:
    calls = [_exchange_call(made) for made in objects(response.get("tool_calls"))]
    return assistant(text(response.get("content")), calls)


def _exchange_call(made: Object) -> Message:
    return tool_call(text(made.get("call_id")), text(made.get("name")), fields(made.get("arguments")))


def _call_result(done: Object) -> Message:
    """Create the result of a call from the tool's output and its error."""
    error = f"Error: {done['error']}" if done.get("error") else ""
    output = "" if done.get("result") is None else str(done["result"])
    return tool_result(text(done.get("call_id")), "\n".join(part for part in (output, error) if part))


def _last_results(answer: Message, whole: Object) -> Iterator[Message]:
    """Yield the results of the last answer's calls, which are in no exchange."""
    calls = {text(made.get("id")) for made in objects(answer.get("tool_calls"))}
    for step in objects(whole.get("agent_steps")):
        results = objects(step.get("tool_results"))
        yield from (_call_result(done) for done in results if text(done.get("call_id")) in calls)


READER = Reader("trae", detect, read, record)
