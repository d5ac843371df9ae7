"""Conversations to test with in the formats of Gemini and of OpenAI Responses: built by hand, and by hypothesis."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

from conversations import SENTENCE, Message, Request
from google.genai import types
from hypothesis import strategies as st
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter
from strategies_hypothesis import PIXEL, TOOLS, WORDS, texts, xml_results

ITEMS: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
NAMES = st.sampled_from(TOOLS[:-1])
ARGUMENTS = st.sampled_from(({"path": "a.py", "lines": [1, 40]}, {"path": "見.md"}, {}, {"deep": {"a": [None, True]}}))
SIGNATURE = "c2lnbmVk" * 20
RAW = ("args", "response")
OPENING = {"role": "user", "parts": [{"text": "Fix it."}]}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
MEDIA = (
    IMAGE,
    {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}},
    {"inlineData": {"mimeType": "audio/wav", "data": "AAAA" * 400}},
)


def gemini(*requests: Request) -> list[Message]:
    """`conversations.openai_chat` as Gemini's contents, without its system prompt; calls have no ids."""
    contents: list[Message] = [dict(OPENING)]
    for number, request in enumerate(requests):
        if isinstance(request, str):
            contents.append({"role": "model", "parts": [{"text": "It is done."}]})
            contents.append({"role": "user", "parts": [{"text": request}]})
            continue
        call = {"functionCall": {"name": "read_file", "args": {"path": f"{number}.py"}}}
        outputs = [{"output": SENTENCE if text is None else text} for text in request]
        answers = [{"functionResponse": {"name": "read_file", "response": output}} for output in outputs]
        contents.append({"role": "model", "parts": [call] * len(request)})
        contents.append({"role": "user", "parts": answers})
    return contents


def responses(*requests: Request) -> list[Message]:
    """`conversations.openai_chat` as items of OpenAI Responses, without its system prompt."""
    items: list[Message] = [{"role": "user", "content": "Fix it."}]
    for number, request in enumerate(requests):
        if isinstance(request, str):
            said = {"type": "output_text", "text": "It is done.", "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [said]})
            items.append({"role": "user", "content": request})
            continue
        ids = [f"call_{number}_{index}" for index in range(len(request))]
        function = {"type": "function_call", "name": "read_file", "arguments": f'{{"path": "{number}.py"}}'}
        items += [{**function, "call_id": id} for id in ids]
        for id, text in zip(ids, request, strict=True):
            output = SENTENCE if text is None else text
            items.append({"type": "function_call_output", "call_id": id, "output": output})
    return items


# Gemini


def snake(value: Any) -> Any:
    """A content in snake_case, as the SDK takes dicts; what a tool was given and what it answered stays."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("[A-Z]", _lower, name): item if name in RAW else snake(item) for name, item in value.items()}


def _lower(letter: re.Match[str]) -> str:
    return f"_{letter[0].lower()}"


def sdk(content: dict[str, Any]) -> types.Content:
    """A content as google-genai's object, which holds bytes, and no lone surrogates."""
    return types.Content.model_validate_json(json.dumps(content).replace("\\ud800", "?"))


STYLES: tuple[Callable[[Any], Any], ...] = (copy.deepcopy, snake, sdk)
PAYLOADS = st.one_of(
    *[texts().map(lambda text, name=name: {name: text}) for name in ("output", "output", "result", "content", "error")],
    texts().map(lambda text: {"stdout": text, "exit_code": 0, "files": [{"name": "a.py"}, None]}),
    texts().map(lambda text: {"error": {"code": 7, "message": text}, "output": None}),
    texts().map(lambda text: {"content": [{"type": "text", "text": text}], "isError": True}),
    st.sampled_from(({}, {"rows": [1, 2, [3, True]]}, {"output": ""}, {"output": 7}, {"text": 'a "quoted"\n\0text'})),
)
SPOKEN = WORDS.map(lambda text: {"text": text})
THOUGHTS = WORDS.map(lambda text: {"text": text, "thought": True, "thoughtSignature": SIGNATURE})
RUN_CODE = (
    {"executableCode": {"code": "print(1)", "language": "PYTHON"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
)
BEFORE = st.one_of(SPOKEN.map(lambda part: [part]), THOUGHTS.map(lambda part: [part]), st.just(list(RUN_CODE)))


@st.composite
def gemini_rounds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Parallel calls, with ids on both sides or on one or without, and as many responses in the next content."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3))
    calls = [{"functionCall": {"name": name, "args": draw(ARGUMENTS)}} for name in names]
    answers = [{"functionResponse": {"name": name, "response": draw(PAYLOADS)}} for name in names]
    ids = draw(st.sampled_from(("none", "calls", "both", "both")))
    for index, (call, answer) in enumerate(zip(calls, answers, strict=True)):
        if ids != "none":
            call["functionCall"]["id"] = f"call_{index}"
        if ids == "both":
            answer["functionResponse"]["id"] = f"call_{index}"
    if draw(st.booleans()):
        calls[0]["thoughtSignature"] = SIGNATURE
    if draw(st.integers(0, 5)) == 0:
        answers[0]["functionResponse"]["parts"] = [IMAGE]
    order = draw(st.permutations(answers)) if ids == "both" else answers
    after = draw(st.sampled_from(([], [], [], [{"text": "And now?"}])))
    role = draw(st.sampled_from(("user", "user", "function"))) if not after else "user"
    before = draw(st.one_of(st.just([]), BEFORE))
    return [{"role": "model", "parts": [*before, *calls]}, {"role": role, "parts": [*order, *after]}]


@st.composite
def gemini_turns(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What the user says, with media and XML results among the words, and what the model does until it answers."""
    parts = st.one_of(SPOKEN, SPOKEN, xml_results().map(lambda text: {"text": text}), st.sampled_from(MEDIA))
    user: dict[str, Any] = {"role": "user", "parts": draw(st.lists(parts, min_size=1, max_size=3))}
    if draw(st.integers(0, 5)) == 0:
        del user["role"]
    rounds = draw(st.lists(gemini_rounds(), min_size=1, max_size=4))
    answer = {"role": "model", "parts": draw(st.lists(st.one_of(SPOKEN, THOUGHTS), min_size=1, max_size=2))}
    return [user, *(content for made in rounds for content in made), answer]


@st.composite
def gemini_conversations(draw: st.DrawFn) -> list[Any]:
    """A conversation of one or two turns that may end anywhere: wire dicts, snake_case dicts and SDK objects, mixed."""
    turns = draw(st.lists(gemini_turns(), min_size=1, max_size=2))
    contents = [content for turn in turns for content in turn]
    styles = draw(st.sampled_from(((copy.deepcopy,), (snake,), (sdk,), STYLES)))
    return [draw(st.sampled_from(styles))(content) for content in cut(draw, contents)]


def cut(draw: st.DrawFn, messages: list[Any]) -> list[Any]:
    """All of a conversation mostly, or its beginning."""
    return messages[: draw(st.integers(1, len(messages)))] if draw(st.integers(0, 3)) == 0 else messages


# OpenAI Responses


def item(kind: str, **fields: Any) -> st.SearchStrategy[Any]:
    """An item as a dict, or as the SDK's object, which holds no lone surrogates; never the same object twice."""
    written = json.dumps({"type": kind, **fields})
    as_object = st.builds(lambda: ITEMS.validate_json(written.replace("\\ud800", "?")))
    return st.one_of(st.builds(lambda: json.loads(written)), as_object)


CACHED = {"prompt_cache_breakpoint": {"mode": "explicit"}}
PICTURE = {"type": "input_image", "detail": "low", "image_url": f"data:image/png;base64,{PIXEL}"}
PAGES = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"}
EXTRAS = st.sampled_from(({}, {}, {}, CACHED))
TEXT_BLOCKS = st.builds(lambda text, extra: {"type": "input_text", "text": text, **extra}, texts(), EXTRAS)
BLOCKS = st.lists(st.one_of(TEXT_BLOCKS, TEXT_BLOCKS, st.sampled_from((PICTURE, PAGES))), max_size=3)
TEXTS_OR_BLOCKS = st.one_of(texts(), texts(), texts(), BLOCKS)
OUTCOMES = st.sampled_from(({"type": "exit", "exit_code": 0}, {"type": "exit", "exit_code": 2}, {"type": "timeout"}))
CHUNKS = st.builds(lambda out, err, end: {"stdout": out, "stderr": err, "outcome": end}, texts(), texts(), OUTCOMES)
SHOT = {"type": "computer_screenshot", "image_url": "https://example.com/a.png"}


@st.composite
def calls_and_outputs(draw: st.DrawFn, id: str) -> tuple[Any, Any]:
    """A call of any kind that the caller answers, and its answer."""
    called, answered = draw(
        st.sampled_from((function, function, function, custom, local_shell, shell, patch, computer))
    )(
        draw,
        {"id": f"c_{id}", "call_id": id, "status": "completed"},
        {"id": f"o_{id}", "call_id": id, "status": "completed"},
    )
    return draw(called), draw(answered)


Ids = dict[str, Any]
Items = tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]


def function(draw: st.DrawFn, call: Ids, output: Ids) -> Items:
    """A function's call, and its output."""
    arguments = json.dumps(draw(ARGUMENTS), ensure_ascii=False)
    called = item("function_call", **call, name=draw(NAMES), arguments=arguments)
    return called, item("function_call_output", **output, output=draw(TEXTS_OR_BLOCKS))


def custom(draw: st.DrawFn, call: Ids, output: Ids) -> Items:
    """A custom tool's call, and its output."""
    called = item("custom_tool_call", **call, name=draw(NAMES), input=draw(texts()))
    return called, item("custom_tool_call_output", **output, output=draw(TEXTS_OR_BLOCKS))


def local_shell(draw: st.DrawFn, call: Ids, output: Ids) -> Items:
    """A command for the local shell; its output has the call's id for its own."""
    called = item("local_shell_call", **call, action={"type": "exec", "command": ["ls", "-l"], "env": {}})
    return called, item("local_shell_call_output", id=call["call_id"], output=draw(texts()))


def shell(draw: st.DrawFn, call: Ids, output: Ids) -> Items:
    """Commands for a shell, and what they wrote."""
    called = item("shell_call", **call, action={"commands": ["ls", "pwd"]}, environment={"type": "local"})
    return called, item("shell_call_output", **output, output=draw(st.lists(CHUNKS, max_size=3)))


def patch(draw: st.DrawFn, call: Ids, output: Ids) -> Items:
    """A patch, and a log of how that went, if there is one."""
    called = item("apply_patch_call", **call, operation={"type": "update_file", "path": "a.py", "diff": draw(texts())})
    said = draw(
        st.sampled_from(({}, {"output": None}, {"output": draw(texts())}, {"status": "failed", "output": "no"}))
    )
    return called, item("apply_patch_call_output", **{**output, **said})


def computer(draw: st.DrawFn, call: Ids, output: Ids) -> Items:
    """A click, and a picture of what it led to."""
    click = {"type": "click", "x": 1, "y": 2, "button": "left"}
    called = item("computer_call", **call, action=click, pending_safety_checks=[])
    return called, item("computer_call_output", **output, output=SHOT)


@st.composite
def reasoning(draw: st.DrawFn) -> Any:
    """What the model thought: a summary, and what only the provider can read."""
    summary = [{"type": "summary_text", "text": text} for text in draw(st.lists(WORDS, max_size=2))]
    return draw(item("reasoning", id="rs_1", summary=summary, encrypted_content=SIGNATURE * draw(st.integers(1, 9))))


@st.composite
def spoken(draw: st.DrawFn) -> Any:
    """What the model says: a message of the SDK's, or an easy one."""
    text = {"type": "output_text", "text": draw(WORDS), "annotations": []}
    typed = item("message", id="msg_1", role="assistant", status="completed", content=[text])
    return draw(st.one_of(typed, typed, WORDS.map(lambda text: {"role": "assistant", "content": text})))


@st.composite
def hosted(draw: st.DrawFn) -> Any:
    """What a tool of the provider's did."""
    arguments = {"id": "mcp_1", "server_label": "files", "name": draw(NAMES), "arguments": '{"path": "a.py"}'}
    failed = {"error": {"type": "http_error", "code": 500, "message": "down"}, "status": "failed"}
    return draw(
        st.one_of(
            item("mcp_call", **arguments, output=draw(texts()), status="completed"),
            item("mcp_call", **arguments, **failed),
            item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "why"}),
            item("image_generation_call", id="ig_1", status="completed", result=PIXEL),
            item(
                "mcp_list_tools", id="l_1", server_label="files", tools=[{"name": "read", "input_schema": {"a": [1]}}]
            ),
            item("code_interpreter_call", id="ci_1", code="1", container_id="c", status="completed", outputs=None),
        )
    )


NUMBERS = st.integers(1, 10**6)  # ids of items, which must differ


@st.composite
def approvals(draw: st.DrawFn) -> list[Any]:
    """A request for approval, the user's answer, and the call, if it was approved."""
    number = draw(NUMBERS)
    call = {"server_label": "files", "name": draw(NAMES), "arguments": '{"path": "a.py"}'}
    asked = draw(item("mcp_approval_request", id=f"mcpr_{number}", **call))
    answer = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{number}", "approve": draw(st.booleans())}
    if not answer["approve"]:
        return [asked, answer]
    done = {"output": draw(texts()), "status": "completed", "approval_request_id": f"mcpr_{number}"}
    return [asked, answer, draw(item("mcp_call", id=f"mcp_{number}", **call, **done))]


@st.composite
def programs(draw: st.DrawFn) -> list[Any]:
    """A program, a call that it made, the call's output, and its own."""
    number = draw(NUMBERS)
    id, caller = f"prog_{number}", {"caller": {"type": "program", "caller_id": f"prog_{number}"}}
    call = {"type": "function_call", "call_id": f"p_{number}", "name": draw(NAMES), "arguments": "{}", **caller}
    output = {"type": "function_call_output", "call_id": f"p_{number}", "output": draw(texts()), **caller}
    started = {"type": "program", "id": f"pr_{number}", "call_id": id, "code": "read()", "fingerprint": "f"}
    ended = {
        "type": "program_output",
        "id": f"po_{number}",
        "call_id": id,
        "result": draw(texts()),
        "status": "completed",
    }
    return [started, call, output, ended]


@st.composite
def searches(draw: st.DrawFn) -> list[Any]:
    """A search for tools by the provider or by the client, and the tools that were found."""
    execution = draw(st.sampled_from(("client", "server")))
    id = {"call_id": f"search_{draw(NUMBERS)}"} if execution == "client" else {}
    found = {"status": "completed", "tools": [{"type": "function", "name": "deploy"}]}
    return [
        {"type": "tool_search_call", "execution": execution, **id, "arguments": {}},
        {"type": "tool_search_output", "execution": execution, **id, **found},
    ]


@st.composite
def response_rounds(draw: st.DrawFn) -> list[Any]:
    """What the model answers with calls, in several items, and the answers to those calls in any order."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.one_of(approvals(), programs(), searches()))
    ids = draw(st.lists(st.sampled_from(("call_1", "call_2", "call_3")), min_size=1, max_size=3, unique=True))
    pairs = [draw(calls_and_outputs(id)) for id in ids]
    before = draw(st.lists(st.one_of(reasoning(), spoken(), hosted()), max_size=2))
    return [*before, *(call for call, _ in pairs), *draw(st.permutations([output for _, output in pairs]))]


@st.composite
def response_turns(draw: st.DrawFn) -> list[Any]:
    """What the user says, in each of the shapes of a message, and what the model does until it answers."""
    words = st.one_of(WORDS, WORDS, xml_results())
    block = st.one_of(words.map(lambda text: {"type": "input_text", "text": text}), st.sampled_from((PICTURE, PAGES)))
    content = draw(st.one_of(words, st.lists(block, min_size=1, max_size=3)))
    user = {"role": draw(st.sampled_from(("user", "user", "user", "developer"))), "content": content}
    rounds = draw(st.lists(response_rounds(), min_size=1, max_size=4))
    typed = {"type": "message"} if draw(st.booleans()) else {}
    return [{**typed, **user}, *(one for made in rounds for one in made), draw(spoken())]


@st.composite
def responses_conversations(draw: st.DrawFn) -> list[Any]:
    """A conversation of one or two turns that may end anywhere: dicts, and the SDK's objects for what came back."""
    start = draw(
        st.sampled_from(
            ([], [], [{"role": "system", "content": "You fix bugs."}], [{"type": "item_reference", "id": "msg_0"}])
        )
    )
    if draw(st.integers(0, 5)) == 0:
        start = [*start, draw(item("compaction", id="cmp_1", encrypted_content=SIGNATURE))]
    turns = draw(st.lists(response_turns(), min_size=1, max_size=2))
    if len(turns) > 1 and draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from(("compaction", "context_compaction")))
        turns.insert(1, [{"type": kind, "encrypted_content": SIGNATURE}])
    return [copy.deepcopy(one) for one in cut(draw, [*start, *(one for turn in turns for one in turn)])]
