"""Reader of OpenTelemetry traces in OTLP JSON whose spans record calls of a model. Returns Chat Completions messages.

The span of a call holds its whole input. So calls form a chain if each input begins with the input before, and the
last input of a chain with its answer is the conversation. Chains that begin differently are other conversations, such
as those of sub-agents, unless they hold what remains of an earlier chain after a compaction:

    span 1   system, user                                -> calls a
    span 2   system, user, calls a, result a             -> done
    read     system, user, calls a, result a, done       with requests before messages 2 and 4

Names of attributes are those of OpenTelemetry's GenAI conventions, today's and those of version 1.36, of OpenInference
and of OpenLLMetry. Log records, which may hold the contents too, are not read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from autoprune.apps.sessions._json import Object, compact, fields, listed, objects, parse_json, text, try_parse
from autoprune.apps.sessions._recording import (
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    Usage,
    build_usage,
    note,
    parse_milliseconds,
)
from autoprune.apps.sessions._sending import CHAT, NO_RESULT, assistant, conversation, image, tool_call, tool_result
from autoprune.errors import SessionError

# Calls of a model, in `openinference.span.kind`, `gen_ai.operation.name` and OpenLLMetry's `llm.request.type`.
OPERATIONS = ("LLM", "chat", "completion", "generate_content", "text_completion")
SESSIONS = ("gen_ai.conversation.id", "session.id")
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
USAGE, TOKENS = "gen_ai.usage.", "llm.token_count."
# The prompt with its cached tokens, those read from the cache and written to it, and the output; older names last.
COUNTS = (
    (f"{USAGE}input_tokens", f"{USAGE}prompt_tokens", f"{TOKENS}prompt"),
    (f"{USAGE}cache_read.input_tokens", f"{USAGE}cache_read_input_tokens", f"{TOKENS}prompt_details.cache_read"),
    (
        *(f"{USAGE}cache_write.input_tokens", f"{USAGE}cache_creation.input_tokens"),
        *(f"{USAGE}cache_creation_input_tokens", f"{TOKENS}prompt_details.cache_write"),
    ),
    (f"{USAGE}output_tokens", f"{USAGE}completion_tokens", f"{TOKENS}completion"),
)
DETAILS = "gen_ai.client.inference.operation.details"  # the event that may hold the contents instead of the span
EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
SYSTEM = "system"
ROLES = {"assistant": "assistant", "model": "assistant", "tool": "tool", SYSTEM: SYSTEM, "developer": SYSTEM}
INFIXES = ("message", "message_content", "tool_call")  # segments of OpenInference's names that only repeat the type
TEXTS, THOUGHTS = (None, "text", "input_text", "output_text"), ("reasoning", "thinking", "redacted_thinking")
CALLS, RESULTS = ("tool_call", "tool_use", "function"), ("tool_call_response", "tool_result")
LATEST = 10**21  # nanoseconds since the epoch: a larger number is not a time
NOT_RECORDED = (
    "its LLM spans ({}) hold no contents of messages, which instrumentations record only if told to: set "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true for those of OpenTelemetry; for those of OpenInference, "
    "OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_INPUT_MESSAGES must not be true"
)


@dataclass(frozen=True, eq=False)
class ModelCall:
    """A call of the model: the messages of its input and its answer, both of Chat Completions.

    `others` counts the parts in them of types that have no place in Chat Completions.
    """

    session: str
    start: float | None
    end: float | None
    model: str
    usage: Usage | None
    messages: list[Message]
    answer: list[Message]
    others: int


def read_calls(values: Sequence[object]) -> tuple[list[ModelCall], list[str]]:
    """Read the calls in all LLM spans, with notes on the spans that cannot be read.

    Raises SessionError if there are no LLM spans, or none of them holds its input.
    """
    spans = [(text(span.get("traceId")), span, each) for value in values for span, each in _spans(fields(value))]
    # Often only some spans of a trace name its session.
    sessions = {trace: name for trace, _, each in reversed(spans) if (name := text(_first(each, *SESSIONS)))}
    of_model = [(trace, span, each) for trace, span, each in spans if _is_of_model(each)]
    calls, problems = [], []
    for trace, span, each in of_model:
        try:
            calls.append(_call(span, each, text(_first(each, *SESSIONS)) or sessions.get(trace, trace)))
        except SessionError as error:
            problems.append(error)
    readable = [call for call in calls if any(each.get("content") for each in call.messages)]
    if not readable and problems:
        raise problems[0]
    if not readable:
        raise SessionError(NOT_RECORDED.format(len(of_model)) if of_model else "none of its spans is a call of a model")
    silent = note("LLM spans without the contents of their messages, left out", len(calls) - len(readable))
    broken = note(f"LLM spans left out, since {problems[0]}" if problems else "", len(problems))
    return readable, [*silent, *broken]


def _spans(value: Object) -> Iterator[tuple[Object, Object]]:
    """Yield the spans in a line, with their attributes and those of their resource."""
    for resource in objects(value.get("resourceSpans")):
        common = _attributes(fields(resource.get("resource")))
        for scope in objects(resource.get("scopeSpans")):
            yield from ((span, common | _attributes(span)) for span in objects(scope.get("spans")))


def _attributes(record: Object) -> dict[str, object]:
    """Return the attributes of a span or an event; a span's include those of the event with its details."""
    details = [event for event in objects(record.get("events")) if event.get("name") == DETAILS]
    return {name: value for each in (*details, record) for name, value in _decode_pairs(each.get("attributes")).items()}


def _decode_pairs(pairs: object) -> dict[str, object]:
    return {text(pair.get("key")): _decode(pair.get("value")) for pair in objects(pairs)}


def _decode(value: object) -> object:
    """Return a value of OTLP JSON, such as `{"intValue": "12"}`."""
    for kind, content in fields(value).items():
        if kind == "arrayValue":
            return [_decode(each) for each in listed(fields(content).get("values"))]
        if kind == "kvlistValue":
            return _decode_pairs(fields(content).get("values"))
        return _integer(content) if kind == "intValue" else content
    return None


def _integer(value: object) -> int:
    """Return an integer, which OTLP writes as text; 0 for anything else."""
    try:
        return int(value) if isinstance(value, str | int) else 0
    except ValueError:
        return 0


def _time(nanoseconds: object) -> float | None:
    return parse_milliseconds(min(_integer(nanoseconds), LATEST) / 1e6)


def _first(attributes: Object, *names: str) -> object:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _is_of_model(attributes: Object) -> bool:
    """Return whether a span is a call of a model: spans of agents and workflows repeat those in them."""
    operation = _first(attributes, "openinference.span.kind", "gen_ai.operation.name", "llm.request.type")
    return operation in OPERATIONS if operation else bool(_first(attributes, *MODELS))


def _call(span: Object, attributes: Object, session: str) -> ModelCall:
    """Read a call. Raises SessionError for an attribute that is broken JSON."""
    given, answers = _recorded(span, attributes)
    kinds = [_kind(part, _role(each)) for each in (*given, *answers[:1]) for part in _parts(each)]
    return ModelCall(
        session,
        _time(span.get("startTimeUnixNano")),
        _time(span.get("endTimeUnixNano")),
        text(_first(attributes, *MODELS)),
        build_usage(*(_first(attributes, *names) for names in COUNTS)),
        [message for each in given for message in _messages(each)],
        [message for each in answers for message in _messages({"role": "assistant", **each})],
        kinds.count("other"),
    )


def _recorded(span: Object, attributes: Object) -> tuple[list[Object], list[Object]]:
    """Return the messages of a call's input and of its answer as they are recorded."""
    events = [(text(event.get("name")), event) for event in objects(span.get("events"))]
    given = (
        _listed(attributes, "gen_ai.input.messages")
        or _unflatten(attributes, "llm.input_messages.")
        or _unflatten(attributes, "gen_ai.prompt.")
        or _listed(attributes, "gen_ai.prompt")
        or [_event_message(name, event) for name, event in events if EVENT.fullmatch(name)]
    )
    answers = (
        # Each message is an alternative answer, and the caller continues with the first.
        _listed(attributes, "gen_ai.output.messages")[:1]
        or _unflatten(attributes, "llm.output_messages.")
        or _unflatten(attributes, "gen_ai.completion.")
        or _listed(attributes, "gen_ai.completion")[:1]
        or [_event_message(name, event) for name, event in events if name == "gen_ai.choice"][:1]
    )
    system: Object = {"role": SYSTEM, "parts": _listed(attributes, "gen_ai.system_instructions")}
    # Some instrumentations record the instructions in the messages too.
    is_new = any(_messages(system)) and [*_messages(system)] != [*_messages(given[0])] if given else False
    return [system, *given] if is_new else given, answers


def _listed(attributes: Object, name: str) -> list[Object]:
    """Return the items of an attribute, which is a list, its JSON text, or another text."""
    value = attributes.get(name)
    if text(value).lstrip().startswith(("[", "{")):
        value = parse_json(text(value), f"the attribute {name} (perhaps cut off by a limit on its length)")
    return _items(value or None)


def _items(value: object) -> list[Object]:
    """Return the objects in a list, or a single one. Any other value becomes an object with a text as its content."""
    values = [each for each in (value if isinstance(value, list) else [value]) if each is not None]
    return [
        each if isinstance(each, dict) else {"content": each if isinstance(each, str) else compact(each)}
        for each in values
    ]


def _event_message(name: str, event: Object) -> Object:
    """Return the message in an event of version 1.36. Its fields, or all of it, may be JSON text."""
    decoded = {key: (try_parse(text(value)), value) for key, value in _attributes(event).items()}
    body = {key: parsed if isinstance(parsed, list | dict) else value for key, (parsed, value) in decoded.items()}
    body |= fields(body.get("gen_ai.event.content"))
    if name != "gen_ai.choice":
        return {"role": name.split(".")[1], **body}
    message = body.get("message")
    return {"role": "assistant", **body, **(fields(message) or {"content": message})}


def _unflatten(attributes: Object, prefix: str) -> list[Object]:
    """Return the list of objects that is recorded as one attribute for each field, such as `<prefix>0.message.role`."""
    root: dict[str, object] = {}
    for name in attributes:
        path = [each for each in name.removeprefix(prefix).split(".") if each not in INFIXES]
        if name.startswith(prefix) and path:
            node = root
            for step in path[:-1]:
                inner = node.get(step)
                within: dict[str, object] = inner if isinstance(inner, dict) else {}
                node[step] = within
                node = within
            node[path[-1]] = attributes[name]
    return objects(_with_lists(root)) if root else []


def _with_lists(node: object) -> object:
    """Turn objects whose fields are numbers into lists."""
    if not isinstance(node, dict):
        return node
    if all(map(str.isdecimal, node)):
        return [_with_lists(node[name]) for name in sorted(node, key=int)]
    return {name: _with_lists(value) for name, value in node.items()}


# From recorded messages to those of Chat Completions


def _messages(recorded: Object) -> Iterator[Message]:
    """Yield a recorded message, its results first. The model's thinking is left out."""
    role = _role(recorded)
    parts = [(_kind(part, role), part) for part in _parts(recorded)]
    results = [part for kind, part in parts if kind == "result"]
    calls = [part for kind, part in parts if kind == "call"] + objects(recorded.get("tool_calls"))
    pictures = [image(_picture(part)) for kind, part in parts if kind == "picture"]
    content = "\n".join(_text(part) for kind, part in parts if kind in ("text", "other"))
    yield from map(_tool_result, results)
    if role == "tool" and not results:
        yield tool_result(text(_first(recorded, "tool_call_id", "id")), content)
    elif calls or role == "assistant":
        yield assistant(content, [*map(_tool_call, calls)])
    elif pictures or content:
        said = [{"type": "text", "text": content}, *pictures] if pictures else content
        yield {"role": "user" if role == "tool" else role, "content": said}


def _role(recorded: Object) -> str:
    return ROLES.get(text(recorded.get("role")), "user")


def _parts(recorded: Object) -> list[Object]:
    """Return the parts of a recorded message, whose content may be a text too."""
    return _items(_first(recorded, "parts", "contents", "content", "text"))


def _kind(part: Object, role: str) -> str:
    """Classify a part. Parts of kind "other" are read as JSON text."""
    kind = part.get("type")
    if kind in THOUGHTS:
        return "thought"
    if kind in CALLS or kind in RESULTS:
        return "call" if kind in CALLS else "result"
    if _picture(part) and role == "user":
        return "picture"
    return "text" if kind in TEXTS and isinstance(_first(part, "content", "text"), str) else "other"


def _text(part: Object) -> str:
    return text(_first(part, "content", "text")) if _kind(part, "") == "text" else compact(part)


def _tool_result(part: Object) -> Message:
    """Return a result as text: a text, texts, or JSON."""
    response = _first(part, "response", "result", "content")
    parts = _items(response)
    is_text = all(_kind(each, "") == "text" for each in parts)
    content = "\n".join(map(_text, parts)) if is_text else compact(response)
    return tool_result(text(_first(part, "id", "tool_use_id")), content)


def _tool_call(part: Object) -> Message:
    function = fields(part.get("function")) or part
    arguments = _first(function, "arguments", "input")
    return tool_call(text(part.get("id")), text(function.get("name")), {} if arguments is None else arguments)


def _picture(part: Object) -> str:
    """Return the URL of a picture; "" for any other part."""
    match part:
        case {"type": "image", "image": {"image": {"url": str(url)}}} | {"modality": "image", "uri": str(url)}:
            return url
        case {"type": "blob", "modality": "image", "content": str(data)}:
            return f"data:{text(part.get('mime_type'))};base64,{data}"
    return ""


LONG = 100  # characters: a later input that quotes a longer answer holds it as a summary


def detect(values: Sequence[object]) -> bool:
    """Look for a line or a file with resources' spans."""
    return any(isinstance(fields(value).get("resourceSpans"), list) for value in values)


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the conversations of each session or trace, the longest first. Raises SessionError like `read_calls`."""
    calls, notes = read_calls(values)
    last = [chains[-1] for chains in _conversations(calls)]
    return [_sendable(chain, NO_RESULT, (*notes, *_notes(chain))) for chain in last]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read each conversation as its stretches between compactions. Raises SessionError like `read`."""
    calls, notes = read_calls(values)
    return [[_sendable(chain, None, notes) for chain in chains] for chains in _conversations(calls)]


def _sendable(chain: Sequence[ModelCall], missing: str | None, notes: Sequence[str]) -> Conversation:
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


def _is_answered(call: ModelCall, messages: Sequence[Message]) -> bool:
    return [each["role"] for each in messages[len(call.messages) :][:1]] == ["assistant"]


def _notes(chain: Sequence[ModelCall]) -> list[str]:
    messages = [*chain[-1].messages, *chain[-1].answer]
    answered = [len(call.messages) for call in chain if _is_answered(call, messages)]
    return [
        *(() if messages[0]["role"] == SYSTEM else (NO_SYSTEM_PROMPT,)),
        *note("parts of other types, read as JSON text", chain[-1].others),
        *note("requests without an answer, left out", len(chain) - len(answered)),
        *note("requests repeated with the same input, left out", len(answered) - len(set(answered))),
    ]


# From calls to conversations


def _conversations(calls: Sequence[ModelCall]) -> list[list[list[ModelCall]]]:
    """Divide calls into conversations, each as its chains between compactions. A session's longest comes first."""
    sessions: dict[str, list[ModelCall]] = {}
    for call in sorted(calls, key=lambda each: each.start or 0.0):
        sessions.setdefault(call.session, []).append(call)
    found = []
    for each in sessions.values():
        joined = _join(_chains(each))
        found += sorted(joined, key=lambda chains: -sum(len(chain[-1].messages) for chain in chains))
    return found


def _chains(calls: Sequence[ModelCall]) -> list[list[ModelCall]]:
    """Divide a session's calls, in order of time, into chains in which each input begins with the input before."""
    chains: list[list[ModelCall]] = []
    for call in calls:
        begun = [chain for chain in chains if call.messages[: len(chain[-1].messages)] == chain[-1].messages]
        if begun:
            max(begun, key=lambda chain: len(chain[-1].messages)).append(call)
        else:
            chains.append([call])
    return chains


def _join(chains: Sequence[list[ModelCall]]) -> list[list[list[ModelCall]]]:
    """Join each chain with the one that it continues after a compaction."""
    joined: list[list[list[ModelCall]]] = []
    for chain in chains:
        before = next((each for each in reversed(joined) if _continues(each[-1][-1], chain[0])), None)
        if before is None:
            joined.append(before := [])
        before.append(chain)
    return joined


def _continues(before: ModelCall, after: ModelCall) -> bool:
    """Return whether an input is what a compaction left of an earlier call.

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
