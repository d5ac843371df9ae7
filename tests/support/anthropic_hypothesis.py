"""Hypothesis strategies for conversations that Anthropic's Messages API and Bedrock's Converse API take."""

import base64
import copy
from typing import Any

from anthropic.types import Message
from hypothesis import strategies as st
from strategies_hypothesis import PIXEL, WORDS, texts, xml_results

TOOLS = ("read_file", "search_files", "execute_command", "mcp__files__read-all")
INPUTS: tuple[dict[str, Any], ...] = (
    *({}, {"path": "src/見.md", "lines": [1, 40]}, {"command": 'grep -n "a\tb" *.py\n', "timeout": 2.5}),
    *({"path": "a.py", "content": "def f():\n    return '\\n'\n" * 12, "overwrite": True}, {"edits": [{"old": None}]}),
)
QUERY = {"type": "server_tool_use", "id": "srvtoolu_{}", "name": "web_search", "input": {"query": "lxml"}}
PAGE = {"type": "web_search_result", "title": "lxml", "url": "https://lxml.de", "encrypted_content": "Zm9vYmFy" * 40}
MOST_BREAKPOINTS = 4  # of the prompt cache, in one request
NAMES = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
STOPPED = {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 5}}


def words() -> st.SearchStrategy[str]:
    """Words that are not blank, and do not end in white space."""
    return WORDS.map(str.strip).filter(bool)


def outputs() -> st.SearchStrategy[str]:
    """A tool's text that is not blank."""
    return texts().filter(str.strip)


def inputs() -> st.SearchStrategy[dict[str, Any]]:
    """A call's name and input."""
    return st.fixed_dictionaries({"name": st.sampled_from(TOOLS), "input": st.sampled_from(INPUTS)})


# Anthropic

IMAGES: tuple[dict[str, Any], ...] = (
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
)
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}},
    {"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "a b " * 90}},
)
FOUND = {
    "type": "search_result",
    "source": "a.md",
    "title": "A",
    "content": [{"type": "text", "text": "It is so. " * 9}],
}
REFERENCE = {"type": "tool_reference", "tool_name": "deploy"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_{}", "name": "tool_search_tool_bm25", "input": {"query": "deploy"}}
LOADED = {"type": "tool_search_tool_search_result", "tool_references": [REFERENCE]}
PROGRAM = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_9"}}
THOUGHTS: tuple[dict[str, Any], ...] = (
    {"type": "thinking", "thinking": "I should read the file first. " * 9, "signature": "c2lnbmVk" * 30},
    {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ=" * 30},
)


def text_blocks(text: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """A block of text."""
    return text.map(lambda held: {"type": "text", "text": held})


def tool_contents() -> st.SearchStrategy[Any]:
    """What a result may hold: a text mostly; also blocks, or none."""
    block = st.one_of(text_blocks(outputs()), text_blocks(outputs()), st.sampled_from((*IMAGES, *DOCUMENTS, FOUND)))
    rare = st.one_of(st.lists(block, max_size=3), st.lists(block, max_size=3), st.just([REFERENCE]))
    return st.one_of(texts(), texts(), texts(), rare)


@st.composite
def tool_results(draw: st.DrawFn, call_id: str) -> dict[str, Any]:
    """The result of a call. A failed one holds text only."""
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if draw(st.integers(0, 3)) == 0:
        return {**result, "content": draw(outputs()), "is_error": True}
    if draw(st.integers(0, 9)):
        result["content"] = draw(tool_contents())
    return {**result, **draw(st.sampled_from(({}, {}, {"is_error": False})))}


@st.composite
def anthropic_rounds(draw: st.DrawFn, at: int, with_objects: bool) -> list[Any]:
    """The model's answer with calls, and the user's message with their results, in any order, and words after them."""
    ids = [f"toolu_{at}_{index}" for index in range(draw(st.integers(1, 3)))]
    blocks: list[dict[str, Any]] = draw(st.lists(st.sampled_from(THOUGHTS), max_size=2))
    blocks += draw(st.lists(text_blocks(words()), max_size=1))
    if draw(st.integers(0, 4)) == 0:
        blocks += [{**QUERY, "id": f"srvtoolu_{at}"}]
        blocks += [{"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{at}", "content": [PAGE]}]
    if draw(st.integers(0, 9)) == 0:
        blocks += [{**SEARCH, "id": f"srvtoolu_s{at}"}]
        blocks += [{"type": "tool_search_tool_result", "tool_use_id": f"srvtoolu_s{at}", "content": LOADED}]
    caller = draw(st.sampled_from(({}, {}, {}, {}, PROGRAM)))
    blocks += [{"type": "tool_use", "id": id, **draw(inputs()), **caller} for id in ids]
    results = [draw(tool_results(id)) for id in draw(st.permutations(ids))]
    more = st.one_of(text_blocks(words()), text_blocks(xml_results()), st.sampled_from((*IMAGES, *DOCUMENTS)))
    after = draw(st.lists(more, max_size=2)) if draw(st.integers(0, 2)) == 0 else []
    return [draw(answers(blocks, with_objects)), {"role": "user", "content": [*results, *after]}]


@st.composite
def answers(draw: st.DrawFn, blocks: list[dict[str, Any]], with_objects: bool) -> Any:
    """The model's message: plain, with the blocks of a response as its content, or that response itself."""
    kind = draw(st.sampled_from(("plain", "content", "message"))) if with_objects else "plain"
    if kind == "plain":
        return {"role": "assistant", "content": blocks}
    response = Message.model_validate({**NAMES, "content": copy.deepcopy(blocks), **STOPPED})
    return response if kind == "message" else {"role": "assistant", "content": response.content}


@st.composite
def anthropic_talk(draw: st.DrawFn, with_objects: bool) -> list[Any]:
    """The model's words, and the user's, in which there may be XML results."""
    said = draw(words())
    blocks = [*draw(st.lists(st.sampled_from(THOUGHTS), max_size=1)), {"type": "text", "text": said}]
    plain = {"role": "assistant", "content": said}
    answer = draw(st.one_of(st.just(plain), answers(blocks, with_objects)))
    return [answer, draw(anthropic_prompts())]


def anthropic_prompts() -> st.SearchStrategy[dict[str, Any]]:
    """A user's message of words, with or without XML results, images or documents."""
    said = st.one_of(words(), words(), xml_results())
    block = st.one_of(text_blocks(said), st.sampled_from((*IMAGES, *DOCUMENTS)))
    content = st.one_of(said, st.lists(block, min_size=1, max_size=3))
    return content.map(lambda held: {"role": "user", "content": held})


@st.composite
def anthropic_conversations(draw: st.DrawFn, with_objects: bool = True) -> list[Any]:
    """A conversation that Anthropic's API takes, and that may end with the user or the model.

    `with_objects`: whether some of the model's messages are objects of the SDK, or hold some. No two messages share
    an object.
    """
    messages: list[Any] = [draw(anthropic_prompts())]
    for at in range(draw(st.integers(1, 6))):
        step = anthropic_rounds(at, with_objects)
        messages += draw(st.one_of(step, step, step, anthropic_talk(with_objects)))
    if draw(st.integers(0, 3)) == 0:
        messages.append(draw(answers([{"type": "text", "text": "It is done."}], with_objects)))
    apart = [copy.deepcopy(message) for message in messages]
    _compact(draw, apart)
    _mark(draw, [block for message in apart if isinstance(message, dict) for block in _markable(message["content"])])
    return _with_system(draw, apart)


def _compact(draw: st.DrawFn, messages: list[Any]) -> None:
    """Put a compaction, or one that failed, at the start of one of the model's messages, seldom."""
    plain = [each for each in messages if isinstance(each, dict) and each["role"] == "assistant"]
    if draw(st.integers(0, 4)) == 0 and plain:
        chosen = draw(st.sampled_from(plain))
        said = chosen["content"]
        blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
        chosen["content"] = [{"type": "compaction", "content": draw(st.one_of(words(), words(), st.none()))}, *blocks]


def _with_system(draw: st.DrawFn, messages: list[Any]) -> list[Any]:
    """Put system messages behind some of the user's messages that the model answers, seldom."""
    if draw(st.integers(0, 4)):
        return messages
    roles = [each["role"] if isinstance(each, dict) else "assistant" for each in messages]
    places = [at for at in range(1, len(roles) + 1) if roles[at - 1] == "user" and roles[at : at + 1] != ["user"]]
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True))
    said = [{"role": "system", "content": draw(words())} for _ in chosen]
    for at, message in sorted(zip(chosen, said, strict=True), key=lambda pair: -pair[0]):
        messages.insert(at, message)
    return messages


def _markable(content: Any) -> list[dict[str, Any]]:
    """The blocks of a content, and those in results, that may end a stretch of the prompt cache."""
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    inner = [held for block in blocks if block["type"] == "tool_result" for held in _markable(block.get("content"))]
    return [*(block for block in blocks if "thinking" not in block["type"]), *inner]


def _mark(draw: st.DrawFn, blocks: list[dict[str, Any]]) -> None:
    places = st.lists(st.integers(0, max(0, len(blocks) - 1)), max_size=MOST_BREAKPOINTS, unique=True)
    for place in draw(places) if blocks else ():
        blocks[place]["cache_control"] = {"type": "ephemeral"}


# Bedrock

PICTURE = {"image": {"format": "png", "source": {"bytes": base64.b64decode(PIXEL)}}}
STORED = {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}}
PAPER = {"document": {"format": "pdf", "name": "Paper", "source": {"bytes": b"%PDF-1.4\n"}}}
NOTES = {"document": {"format": "txt", "name": "Notes", "source": {"text": "a b " * 90}}}
FILM = {"video": {"format": "mp4", "source": {"bytes": b"\0\0\0\x18ftyp" * 40}}}
CACHE_POINT = {"cachePoint": {"type": "default"}}
REASONS: tuple[dict[str, Any], ...] = (
    {"reasoningContent": {"reasoningText": {"text": "I should read it. " * 9, "signature": "c2lnbmVk" * 30}}},
    {"reasoningContent": {"redactedContent": b"redacted" * 30}},
)
ROWS = st.dictionaries(
    st.sampled_from(("rows", "total", "見")), st.one_of(st.integers(), texts(), st.none()), max_size=3
)


def texts_alone(text: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """A block of text."""
    return text.map(lambda held: {"text": held})


def files(with_bytes: bool) -> tuple[dict[str, Any], ...]:
    """Media blocks that stand for themselves."""
    return (STORED, *((PICTURE, FILM) if with_bytes else ()))


@st.composite
def bedrock_results(draw: st.DrawFn, call_id: str, with_bytes: bool) -> dict[str, Any]:
    """The result of a call. A failed one holds something."""
    said = texts_alone(outputs())
    found = {"searchResult": {"source": "a.md", "title": "A", "content": [{"text": "It is so. " * 9}]}}
    documents = (NOTES, found, *((PAPER,) if with_bytes else ()))
    block = st.one_of(said, said, said, ROWS.map(lambda rows: {"json": rows}), st.sampled_from(documents))
    status = draw(st.sampled_from(({}, {"status": "success"}, {"status": "error"})))
    least = int(status.get("status") == "error")
    content = draw(st.lists(st.one_of(block, block, st.sampled_from(files(with_bytes))), min_size=least, max_size=2))
    return {"toolResult": {"toolUseId": call_id, "content": content, **status}}


@st.composite
def bedrock_rounds(draw: st.DrawFn, at: int, with_bytes: bool) -> list[dict[str, Any]]:
    """The model's answer with calls, and the user's message with their results, in any order, and words after them."""
    ids = [f"tooluse_{at}_{index}" for index in range(draw(st.integers(1, 3)))]
    blocks: list[dict[str, Any]] = draw(st.lists(st.sampled_from(REASONS[: 1 + with_bytes]), max_size=2))
    blocks += draw(st.lists(texts_alone(words()), max_size=1))
    blocks += [{"toolUse": {"toolUseId": id, **draw(inputs())}} for id in ids]
    results = [draw(bedrock_results(id, with_bytes)) for id in draw(st.permutations(ids))]
    more = st.one_of(texts_alone(words()), texts_alone(xml_results()), st.sampled_from(files(with_bytes)))
    after = draw(st.lists(more, max_size=2)) if draw(st.integers(0, 2)) == 0 else []
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": [*results, *after]}]


@st.composite
def bedrock_prompts(draw: st.DrawFn, with_bytes: bool) -> dict[str, Any]:
    """A user's message of words, with or without XML results, and perhaps files beside them."""
    said = draw(st.lists(texts_alone(st.one_of(words(), words(), xml_results())), min_size=1, max_size=2))
    guarded = {"guardContent": {"text": {"text": "Only this.", "qualifiers": ["query"]}}}
    beside = draw(st.lists(st.sampled_from((guarded, NOTES, *files(with_bytes))), max_size=1))
    return {"role": "user", "content": [*said, *beside]}


@st.composite
def bedrock_conversations(draw: st.DrawFn, with_bytes: bool = True) -> list[Any]:
    """A conversation that Bedrock's API takes, and that may end with the user or the model.

    `with_bytes`: whether there may be `bytes` in it, as botocore takes and gives them. No two messages share an object.
    """
    messages: list[Any] = [draw(bedrock_prompts(with_bytes))]
    for at in range(draw(st.integers(1, 6))):
        step = bedrock_rounds(at, with_bytes)
        said = texts_alone(words()).map(lambda block: {"role": "assistant", "content": [block]})
        talk = st.tuples(said, bedrock_prompts(with_bytes)).map(list)
        messages += draw(st.one_of(step, step, step, talk))
    if draw(st.integers(0, 3)) == 0:
        messages.append({"role": "assistant", "content": [{"text": "It is done."}]})
    apart = [copy.deepcopy(message) for message in messages]
    asked = [message for message in apart if message["role"] == "user"]
    for message in draw(st.lists(st.sampled_from(asked), max_size=MOST_BREAKPOINTS, unique_by=id)):
        message["content"].append(copy.deepcopy(CACHE_POINT))
    return apart
