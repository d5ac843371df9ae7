"""Trae Agent's trajectories: JSON with its exchanges with the model. Read as chat messages.

Each exchange holds only what was new to the model (`chat` of its clients adds that to what it has sent before), so the
conversation is all of them in a row. The results of the last calls are taken from the agent's steps.
"""

from collections.abc import Iterator, Sequence

from autoprune.sessions._json import Object, fields, listed, objects, text
from autoprune.sessions._recorded import Conversation, Message, Reader, bad_record
from autoprune.sessions.as_chat import call, conversation, result, said


def detect(values: Sequence[object]) -> bool:
    """Look for exchanges with a model beside the agent's steps."""
    whole = fields(values[0]) if len(values) == 1 else {}
    return isinstance(whole.get("llm_interactions"), list) and isinstance(whole.get("agent_steps"), list)


def read(values: Sequence[object]) -> list[Conversation]:
    """Return the one conversation. Raises SessionError for an exchange without messages."""
    whole = fields(values[0])
    messages: list[Message] = []
    for at, exchange in enumerate(map(fields, listed(whole.get("llm_interactions"))), 1):
        if not isinstance(exchange.get("input_messages"), list):
            raise bad_record("of llm_interactions has no input_messages", at)
        messages += [_message(record) for record in objects(exchange["input_messages"])]
        messages.append(_answer(fields(exchange.get("response"))))
    return [conversation([*messages, *_last_results(messages, whole)])]


def _message(record: Object) -> Message:
    if done := fields(record.get("tool_result")):
        return _result(done)
    if made := fields(record.get("tool_call")):
        return said("", [_call(made)])
    return {"role": text(record.get("role")) or "user", "content": text(record.get("content"))}


def _answer(response: Object) -> Message:
    return said(text(response.get("content")), [_call(made) for made in objects(response.get("tool_calls"))])


def _call(made: Object) -> Message:
    return call(text(made.get("call_id")), text(made.get("name")), fields(made.get("arguments")))


def _result(done: Object) -> Message:
    """Return the result of a call: what the tool gave back, and its error."""
    error = f"Error: {done['error']}" if done.get("error") else ""
    output = "" if done.get("result") is None else str(done["result"])
    return result(text(done.get("call_id")), "\n".join(part for part in (output, error) if part))


def _last_results(messages: Sequence[Message], whole: Object) -> Iterator[Message]:
    """Return the results of the last answer's calls, which no exchange has sent."""
    calls = {text(made.get("id")) for made in objects(messages[-1].get("tool_calls"))} if messages else set()
    for step in objects(whole.get("agent_steps")):
        yield from (_result(done) for done in objects(step.get("tool_results")) if text(done.get("call_id")) in calls)


READER = Reader("trae", detect, read)
