"""Claude Code's session logs: JSONL, a tree of lines. Read as Anthropic Messages; the log holds no system prompt."""

from collections.abc import Iterator, Mapping, Sequence

from autoprune.sessions.as_anthropic import Block, Turn, run, words
from autoprune.sessions.claude_code_thread import SPOKEN, Line, is_boundary, thread
from autoprune.sessions.json_values import fields, listed, objects, text
from autoprune.sessions.recording import NO_SYSTEM_PROMPT, Run, counted, wrong

NAME = "claude-code"


def detect(values: Sequence[object]) -> bool:
    """A user's or an assistant's line that holds an API message and a place in the tree."""
    return any(
        line.get("type") in SPOKEN and "parentUuid" in line and isinstance(line.get("message"), dict)
        for line in map(fields, values)
    )


def read(values: Sequence[object]) -> list[Run]:
    """The one conversation of a log, or of a sub-agent's own log. Raises SessionError for a message without content."""
    for at, line in enumerate(map(fields, values), 1):
        if line.get("type") in SPOKEN and not isinstance(fields(line.get("message")).get("content"), str | list):
            raise wrong(f"is a line of type {line['type']} without a message that has content", at)
    tree = {uuid: line for line in map(fields, values) if (uuid := text(line.get("uuid")))}
    own = {uuid: line for uuid, line in tree.items() if line.get("isSidechain") is not True}
    lines = own if any(line.get("type") in SPOKEN for line in own.values()) else tree
    chain = thread(lines)
    responses = _responses(lines)
    turns = [*_turns(chain, responses), *_late(chain, lines, responses)]
    return [run(turns, None, (NO_SYSTEM_PROMPT, *_notes(chain, lines, len(tree) - len(lines))))]


def _content(line: Line) -> list[Block]:
    content = fields(line.get("message")).get("content")
    return words(content) if isinstance(content, str) else objects(content)


def _response_id(line: Line) -> str:
    return text(fields(line.get("message")).get("id")) or text(line.get("uuid"))


def _is_own_report(line: Line) -> bool:
    """Whether Claude Code wrote the line to say that a request failed."""
    return line.get("isApiErrorMessage") is True


def _responses(lines: Mapping[str, Line]) -> dict[str, list[Block]]:
    """The blocks of each response. One response is spread over several lines, which may lie on different branches."""
    found: dict[str, dict[str, Block]] = {}
    for line in lines.values():
        if line.get("type") == "assistant" and not _is_own_report(line):
            blocks = found.setdefault(_response_id(line), {})
            for block in _content(line):
                if block.get("type") != "thinking" or block.get("signature"):
                    blocks.setdefault(_identity(block), block)
    return {response: list(blocks.values()) for response, blocks in found.items()}


def _identity(block: Block) -> str:
    """What tells a block from a copy of it on another line."""
    return f"{block.get('type')}:{block.get('id') or block.get('signature') or block.get('text') or block.get('data')}"


def _turns(chain: Sequence[Line], responses: Mapping[str, list[Block]]) -> Iterator[Turn]:
    spoken: set[str] = set()
    for line in chain:
        kind = line.get("type")
        if kind == "user":
            yield Turn("user", _content(line))
        elif kind == "assistant" and (response := _response_id(line)) in responses and response not in spoken:
            spoken.add(response)
            yield Turn("assistant", responses[response])
        elif kind == "attachment" and (typed := _typed(line)):
            yield Turn("user", typed)


def _typed(line: Line) -> list[Block]:
    """What the user typed while the model worked; nothing for any other attachment."""
    attachment = fields(line.get("attachment"))
    prompt = attachment.get("prompt") if attachment.get("type") == "queued_command" else None
    return words(prompt) if isinstance(prompt, str) else objects(prompt)


def _late(chain: Sequence[Line], lines: Mapping[str, Line], responses: Mapping[str, list[Block]]) -> Iterator[Turn]:
    """Results beside the thread: of calls made in parallel, all but one hang on a branch of their own."""
    on_thread = {text(line.get("uuid")) for line in chain}
    made = {_response_id(line) for line in chain if line.get("type") == "assistant"} & set(responses)
    calls = {text(block.get("id")) for response in made for block in responses[response]}
    for line in chain:
        calls -= {text(block.get("tool_use_id")) for block in _content(line)} if line.get("type") == "user" else set()
    for uuid, line in lines.items():
        if line.get("type") == "user" and uuid not in on_thread:
            yield Turn("user", [block for block in _content(line) if text(block.get("tool_use_id")) in calls])


def _notes(chain: Sequence[Line], lines: Mapping[str, Line], others: int) -> Iterator[str]:
    kinds = [text(fields(line.get("attachment")).get("type")) for line in chain if line.get("type") == "attachment"]
    said = sum(line.get("type") == "attachment" and bool(_typed(line)) for line in chain)
    cleared = any(listed(fields(line.get("microcompactMetadata")).get("compactedToolIds")) for line in chain)
    failed = sum(_is_own_report(line) for line in chain)
    yield from counted("lines of sub-agents, left out", others)
    yield from _branches(chain, lines)
    yield from counted("reports of failed requests, left out", failed)
    yield from counted("messages typed while the model worked, without the words that Claude Code adds", said)
    yield from counted("reminders that Claude Code words itself, left out", len(kinds) - said)
    yield from ("results that Claude Code had cleared in its prompt stand here whole",) if cleared else ()


def _branches(chain: Sequence[Line], lines: Mapping[str, Line]) -> Iterator[str]:
    """How many lines were summarized, and how many lie on branches that were left."""
    on_thread = {text(line.get("uuid")) for line in chain}
    responses = {_response_id(line) for line in chain if line.get("type") == "assistant"}
    order = {uuid: at for at, uuid in enumerate(lines)}
    start = order[text(chain[0]["uuid"])] if chain and is_boundary(chain[0]) else 0
    summarized = left = 0
    for uuid, line in lines.items():
        if line.get("type") in SPOKEN and uuid not in on_thread:
            summarized += order[uuid] < start
            left += order[uuid] > start and not _is_part(line, responses)
    yield from counted("lines before the last compaction, left out", summarized)
    yield from counted("lines of branches that were left, left out", left)


def _is_part(line: Line, responses: set[str]) -> bool:
    """Whether a line beside the thread belongs to it all the same: a result, or a block of a response on it."""
    if line.get("type") == "assistant":
        return _response_id(line) in responses
    return any(block.get("type") == "tool_result" for block in _content(line))
