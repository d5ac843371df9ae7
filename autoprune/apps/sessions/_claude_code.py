"""Reader of Claude Code's session logs: JSONL, a tree of lines without a system prompt. Returns Anthropic messages."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from autoprune.apps.sessions._json import Object, compact, fields, listed, objects, text
from autoprune.apps.sessions._recording import (
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    Usage,
    bad_record,
    besides,
    branch,
    build_usage,
    find_parents,
    lost_parents,
    note,
    parse_time,
    token_count,
)
from autoprune.apps.sessions._sending import ANTHROPIC, content_blocks, conversation, stretch, without_thoughts
from autoprune.settings.models import FAST

Line = Object
SPOKEN = ("user", "assistant")  # types of lines with an API message
ABANDONED = "lines of abandoned branches, left out"
SYNTHETIC = "<synthetic>"  # the model of messages that Claude Code wrote itself


def detect(values: Sequence[object]) -> bool:
    """Look for a line of a user or an assistant with a parent and a message of the Anthropic API."""
    return any(
        line.get("type") in SPOKEN and "parentUuid" in line and _is_message(line.get("message"))
        for line in map(fields, values)
    )


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "parts" not in value  # Qwen Code's similar logs have parts, as Gemini's API


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the conversation in a log, or in a sub-agent's log. Raises SessionError for a message without content."""
    own, others = _own_lines(values)
    lines = _relink(own)
    chain = _thread(lines)
    messages = (message for message, _ in _messages_of_thread(chain, lines))
    notes = (NO_SYSTEM_PROMPT, *lost_parents(own, "parentUuid"), *_thread_notes(chain, lines, len(others)))
    return [conversation(ANTHROPIC, messages, None, notes)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation in a log as its stretches between compactions. Raises SessionError like `read`."""
    lines, others = _own_lines(values)
    known = {**lines, **others, **_reported(values)}
    # Lines of a response without an id all have its usage: they are known by their own ids, and not counted again.
    paid = [answer for response, answer in _answers(known, ()).items() if response not in known]
    paid += _rounds(known.values())
    stretches: list[Conversation] = []
    # From the last stretch back to the first: each is read as if the log ended before the next compaction.
    while lines:
        lines = _relink(lines)
        chain = _thread(lines)
        before = _lines_before(lines, text(chain[0]["uuid"])) if chain and _begins_stretch(chain[0]) else {}
        spoken = ((without_thoughts(message), moment) for message, moment in _messages_of_thread(chain, lines, before))
        read = stretch(ANTHROPIC, spoken)
        trigger = text(fields(chain[0].get("compactMetadata")).get("trigger")) if before else ""
        notes = (*read.notes, *note(ABANDONED, _left_out(chain, lines)[1]))
        stretches.append(replace(read, notes=notes, trigger=trigger))
        lines = before
    if stretches:
        stretches[0] = replace(stretches[0], besides=besides(paid, stretches))
    return [stretches[::-1]]


def _reported(values: Sequence[object]) -> dict[str, Line]:
    """Return the lines of sub-agents that `progress` lines repeat, by uuid. Each may also have its own log."""
    reports = (fields(fields(line.get("data")).get("message")) for line in map(fields, values))
    return {uuid: line for line in reports if (uuid := text(line.get("uuid")))}


def _own_lines(values: Sequence[object]) -> tuple[dict[str, Line], dict[str, Line]]:
    """Return the main agent's lines and the other lines, by uuid. Raises SessionError for missing content."""
    for at, line in enumerate(map(fields, values), 1):
        if line.get("type") in SPOKEN and not isinstance(fields(line.get("message")).get("content"), str | list):
            raise bad_record(f"is a line of type {line['type']} without a message that has content", at)
    tree = {uuid: line for line in map(fields, values) if (uuid := text(line.get("uuid")))}
    own = {uuid: line for uuid, line in tree.items() if line.get("isSidechain") is not True}
    # In a sub-agent's own log, all lines are marked as a sidechain.
    lines = own if any(line.get("type") in SPOKEN for line in own.values()) else tree
    return _follow_turns(lines), {uuid: line for uuid, line in tree.items() if uuid not in lines}


def _follow_turns(lines: Mapping[str, Line]) -> dict[str, Line]:
    """Attach lines behind the progress of hooks to the newest line of their turn.

    A hook's `progress` lines may hang on the first call of a turn, and the next prompt on them, although the turn went
    on. Users go back to a prompt, never into a turn, so a prompt that hangs on no message follows the whole turn.

        prompt 1 ── call a ── result a ── call b ── result b ── answer
                       └── progress ── prompt 2                    └── prompt 2, attached here
    """
    order = {uuid: at for at, uuid in enumerate(lines)}
    attached: dict[str, Line] = {}
    turns: dict[str, str] = {}  # the line that began the turn of each line
    newest: dict[tuple[str, bool], str] = {}  # of each turn: the newest line, and the newest that is not the model's
    for uuid, line in lines.items():
        named = _parent(line)
        parent, hangs_on = named, fields(lines.get(named)).get("type")
        while parent in attached and attached[parent].get("type") == "progress":
            parent = _parent(attached[parent])
        is_prompt = _is_prompt(line)
        if hangs_on == "progress" or (is_prompt and hangs_on not in SPOKEN):
            last = newest.get((turns.get(parent, ""), line.get("type") == "assistant"), parent)
            parent = max(parent, last, key=lambda each: order.get(each, -1))
        attached[uuid] = {**line, "parentUuid": parent} if parent != named else line
        turns[uuid] = uuid if is_prompt or _is_boundary(line) else turns.get(parent, uuid)
        if line.get("type") != "progress":
            newest[turns[uuid], False] = uuid
        if line.get("type") not in ("assistant", "progress"):
            newest[turns[uuid], True] = uuid
    return attached


def _is_prompt(line: Line) -> bool:
    """Return whether a line is the user's words, not a result or a message that Claude Code added to a turn."""
    is_result = any(block.get("type") == "tool_result" for block in _content_blocks(line))
    return line.get("type") == "user" and line.get("isMeta") is not True and not is_result


def _relink(lines: dict[str, Line]) -> dict[str, Line]:
    """Attach each line whose parent was lost to the line before it in the log, except for summaries.

    Claude Code itself does not repair the chain: when it resumes such a log, it drops everything before the gap.
    """
    parents = find_parents(lines, "parentUuid")
    return {
        uuid: {**line, "parentUuid": "" if _is_summary(line) and _parent(line) not in lines else parents[uuid]}
        for uuid, line in lines.items()
    }


def _lines_before(lines: dict[str, Line], uuid: str) -> dict[str, Line]:
    return dict(takewhile(lambda named: named[0] != uuid, lines.items()))


def _content_blocks(line: Line) -> list[Object]:
    return content_blocks(fields(line.get("message")).get("content"))


def _parent(line: Line) -> str:
    return text(line.get("parentUuid"))


def _response_id(line: Line) -> str:
    """Return what the lines of a response share: its id, or that of its request if each line has a new id.

    Forks of sessions give each copied line a new id of its own. A response whose stream broke has the request's id of
    the response that replaced it, and its own `msg_` id.
    """
    id = text(fields(line.get("message")).get("id"))
    return (id if id.startswith("msg_") else text(line.get("requestId")) or id) or text(line.get("uuid"))


def _is_own_report(line: Line) -> bool:
    """Return whether Claude Code wrote the line itself to report a failed request."""
    return line.get("isApiErrorMessage") is True


def _responses(lines: Mapping[str, Line]) -> dict[str, list[Object]]:
    """Collect the blocks of each response, which span several lines, perhaps on different branches."""
    collected: dict[str, dict[str, Object]] = {}
    for line in lines.values():
        if line.get("type") == "assistant" and not _is_own_report(line):
            blocks = collected.setdefault(_response_id(line), {})
            for block in _content_blocks(line):
                # Anthropic rejects thoughts without a signature.
                if block.get("type") != "thinking" or block.get("signature"):
                    blocks.setdefault(_block_key(block), block)
    return {response: list(blocks.values()) for response, blocks in collected.items()}


def _block_key(block: Object) -> str:
    """Return a key that is equal for copies of a block on other lines."""
    return f"{block.get('type')}:{block.get('id') or block.get('signature') or block.get('text') or block.get('data')}"


def _answers(lines: Mapping[str, Line], before: Container[str]) -> dict[str, Answer]:
    """Collect the recorded data of each response of a model, except for responses `before` a compaction.

    The usage is that of the response's last line: earlier lines, written while the response streams, count less output.
    """
    answers: dict[str, Answer] = {}
    for uuid, line in lines.items():
        message, time = fields(line.get("message")), parse_time(line.get("timestamp"))
        if line.get("type") == "assistant" and uuid not in before and message.get("model") != SYNTHETIC:
            begun = Answer(time, _model(message))
            first = answers.setdefault(_response_id(line), begun)
            cost = line.get("costUSD") or (first.usage and first.usage.cost)  # only in logs until mid-2025
            length = first.characters + len(compact(message.get("content")))
            usage = _usage(message, cost) or first.usage
            prompts = _prompts(message)
            id = _prompt_id(line, prompts, prompts[-1]) if prompts else _request_id(line)
            answers[_response_id(line)] = replace(first, usage=usage, end=time, id=id, characters=length)
    return answers


def _model(message: Object) -> str:
    """Return the model of a response. In fast mode it has another price, and another name in the price list."""
    model, is_fast = text(message.get("model")), fields(message.get("usage")).get("speed") == "fast"
    return f"{model}{FAST}" if model and is_fast else model


def _usage(message: Object, cost: object) -> Usage | None:
    """Return the usage of a response, of its last prompt if the API sent several with results of its own tools."""
    usage, prompts = fields(message.get("usage")), _prompts(message)
    if len(prompts) > 1:
        # The answer's text is that of all of them.
        return _counted({**_iterations(message)[prompts[-1]], "output_tokens": usage.get("output_tokens")}, cost)
    return _counted(usage, cost)


def _rounds(lines: Iterable[Line]) -> Iterator[Answer]:
    """Yield what the API has sent within responses besides their last prompts: also compactions, and to an advisor."""
    newest = {_response_id(line): line for line in lines if line.get("type") == "assistant" and _request_id(line)}
    for line in newest.values():
        message, time = fields(line.get("message")), parse_time(line.get("timestamp"))
        prompts = _prompts(message)
        for at, each in enumerate(_iterations(message)):
            if at not in prompts[-1:]:
                usage = _counted({**each, "output_tokens": 0} if each.get("type") == "message" else each)
                yield Answer(time, text(each.get("model")) or _model(message), usage, id=_prompt_id(line, prompts, at))


def _iterations(message: Object) -> list[Object]:
    return objects(fields(message.get("usage")).get("iterations"))


def _prompts(message: Object) -> list[int]:
    """Return the indexes of the iterations that made up the response."""
    return [at for at, each in enumerate(_iterations(message)) if each.get("type") == "message"]


def _prompt_id(line: Line, prompts: Sequence[int], at: int) -> str:
    """Return the id of an iteration: that of the request, if it is or was its first prompt."""
    return _request_id(line) if at in prompts[:1] else f"{_request_id(line)} {at}"


def _request_id(line: Line) -> str:
    return text(line.get("requestId")) or text(fields(line.get("message")).get("id"))


def _counted(usage: Object, cost: object = None) -> Usage | None:
    cached = token_count(usage.get("cache_read_input_tokens"))
    written = token_count(usage.get("cache_creation_input_tokens"))
    prompt = token_count(usage.get("input_tokens")) + cached + written
    split = fields(usage.get("cache_creation"))
    told = usage.get("cache_read_input_tokens")
    return build_usage(prompt, told, written, usage.get("output_tokens"), split=split, cost=cost)


def _messages_of_thread(
    chain: Sequence[Line], lines: Mapping[str, Line], before: Container[str] = ()
) -> Iterator[tuple[Message, Moment]]:
    """Yield the messages of a thread, each with its recorded data.

    `before` are the lines before a compaction: responses that the compaction kept are not new requests.
    """
    responses = _responses(lines)
    answers = _answers(lines, before)
    spoken: set[str] = set()
    for line in chain:
        kind = line.get("type")
        if kind == "user":
            yield {"role": "user", "content": _content_blocks(line)}, parse_time(line.get("timestamp"))
        elif kind == "assistant" and (response := _response_id(line)) in responses and response not in spoken:
            spoken.add(response)
            yield {"role": "assistant", "content": responses[response]}, answers.get(response)
        elif kind == "attachment" and (typed := _queued_blocks(line)):
            yield {"role": "user", "content": typed}, parse_time(line.get("timestamp"))
    yield from _late_results(chain, lines, responses)


def _queued_blocks(line: Line) -> list[Object]:
    """Return the blocks that the user typed while the model worked; none for other attachments."""
    attachment = fields(line.get("attachment"))
    return content_blocks(attachment.get("prompt")) if attachment.get("type") == "queued_command" else []


def _late_results(
    chain: Sequence[Line], lines: Mapping[str, Line], responses: Mapping[str, list[Object]]
) -> Iterator[tuple[Message, Moment]]:
    """Yield results outside the thread: all but one result of parallel calls are on separate branches."""
    on_thread = {text(line.get("uuid")) for line in chain}
    made = {_response_id(line) for line in chain if line.get("type") == "assistant"} & set(responses)
    calls = {text(block.get("id")) for response in made for block in responses[response]}
    for line in chain:
        if line.get("type") == "user":
            calls -= {text(block.get("tool_use_id")) for block in _content_blocks(line)}
    for uuid, line in lines.items():
        if line.get("type") == "user" and uuid not in on_thread:
            results = [block for block in _content_blocks(line) if text(block.get("tool_use_id")) in calls]
            if results:
                yield {"role": "user", "content": results}, parse_time(line.get("timestamp"))


def _thread_notes(chain: Sequence[Line], lines: Mapping[str, Line], others: int) -> Iterator[str]:
    kinds = [text(fields(line.get("attachment")).get("type")) for line in chain if line.get("type") == "attachment"]
    said = sum(line.get("type") == "attachment" and bool(_queued_blocks(line)) for line in chain)
    cleared = any(listed(fields(line.get("microcompactMetadata")).get("compactedToolIds")) for line in chain)
    failed = sum(_is_own_report(line) for line in chain)
    yield from note("lines of sub-agents, left out", others)
    summarized, left = _left_out(chain, lines)
    yield from note("lines before the last compaction, left out", summarized)
    yield from note(ABANDONED, left)
    yield from note("reports of failed requests, left out", failed)
    yield from note("messages typed while the model worked, without the words that Claude Code adds", said)
    yield from note("reminders that Claude Code adds itself, left out", len(kinds) - said)
    yield from ("results that Claude Code had cleared in its prompt stand here whole",) if cleared else ()


def _left_out(chain: Sequence[Line], lines: Mapping[str, Line]) -> tuple[int, int]:
    """Count the messages that were summarized, and those on abandoned branches."""
    on_thread = {text(line.get("uuid")) for line in chain}
    responses = {_response_id(line) for line in chain if line.get("type") == "assistant"}
    order = {uuid: at for at, uuid in enumerate(lines)}
    start = order[text(chain[0]["uuid"])] if chain and _begins_stretch(chain[0]) else 0
    summarized = left = 0
    for uuid, line in lines.items():
        if line.get("type") in SPOKEN and uuid not in on_thread:
            summarized += order[uuid] < start
            left += order[uuid] > start and not _is_part(line, responses)
    return summarized, left


def _is_part(line: Line, responses: set[str]) -> bool:
    """Return whether a line outside the thread still belongs to it: a result, or a block of one of its responses."""
    if line.get("type") == "assistant":
        return _response_id(line) in responses
    return any(block.get("type") == "tool_result" for block in _content_blocks(line))


# The thread: the lines of the next request, from the newest message back to the last compaction. The log
# is a tree by `uuid` and `parentUuid`. The rules are those of the Claude Agent SDK: its `sessions` module, and its
# `SDKCompactBoundaryMessage` type, which says how messages that a compaction kept are linked to its summary.


def _is_boundary(line: Line) -> bool:
    """Return whether a line ends a compaction: of all earlier lines, only those that the line names are sent again."""
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary"


def _is_summary(line: Line) -> bool:
    return line.get("isCompactSummary") is True


def _begins_stretch(line: Line) -> bool:
    """Return whether a thread begins with a compaction: its boundary, or its summary if the boundary was lost."""
    return _is_boundary(line) or _is_summary(line)


def _thread(lines: dict[str, Line]) -> list[Line]:
    """List the lines of the conversation in order. `lines` are one agent's lines by uuid, in the order of the log."""
    parents = _parents(lines)
    last = next((uuid for uuid in reversed(lines) if lines[uuid].get("type") in SPOKEN), "")
    boundaries = {uuid for uuid, line in lines.items() if _is_boundary(line)}
    chain = [lines[uuid] for uuid in branch(last, parents, boundaries)]
    return [*chain, *_waiting(lines, parents, last)]


def _waiting(lines: dict[str, Line], parents: Mapping[str, str], last: str) -> Iterator[Line]:
    """Yield the lines after the last message: reminders, and messages that the user typed meanwhile."""
    uuids = iter(lines)
    for uuid in uuids:
        if uuid == last:
            break
    for uuid in uuids:
        if parents[uuid] == last:
            yield lines[uuid]
            last = uuid


def _parents(lines: dict[str, Line]) -> dict[str, str]:
    """Find the parent of each line. Messages that the last compaction kept follow its summary."""
    parents = {uuid: _parent(line) for uuid, line in lines.items()}
    boundary = next((lines[uuid] for uuid in reversed(lines) if _is_boundary(lines[uuid])), {})
    anchor, kept = _find_kept_messages(fields(boundary.get("compactMetadata")), parents)
    if not kept or anchor not in lines or not all(uuid in lines for uuid in kept):
        return parents
    behind = {uuid: kept[-1] for uuid, parent in parents.items() if parent == anchor}
    return {**parents, **behind, **dict(zip(kept, [anchor, *kept], strict=False))}


def _find_kept_messages(metadata: Line, parents: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """Find the uuids of a compaction's summary and of the messages that the compaction kept.

    The log gives the kept messages as a list, or as the ends of a chain.
    """
    named, segment = fields(metadata.get("preservedMessages")), fields(metadata.get("preservedSegment"))
    if named:
        return text(named.get("anchorUuid")), [text(uuid) for uuid in listed(named.get("uuids"))]
    head = text(segment.get("headUuid"))
    chain = branch(text(segment.get("tailUuid")), parents, (head,))
    return text(segment.get("anchorUuid")), chain if head in chain else []


PLACES = tuple(
    f"{folder}/projects/{files}"
    for folder in (".claude", ".config/claude")
    for files in ("*/*.jsonl", "**/agent-*.jsonl")
)
READER = Reader("claude-code", detect, read, record, PLACES)
