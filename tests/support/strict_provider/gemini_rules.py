"""Gemini's generateContent: the rules of its contents. The sentences are Google's, as public issue threads quote them.

A part whose text is empty is taken for a part without data; that this holds for every model is not confirmed.
"""

import base64
import json
from itertools import pairwise
from typing import Any

from strict_provider.exchange import Json, RefusalError
from strict_provider.seals import opened

SIGNING_MODELS = ("gemini-3", "gemini-4")  # which want their thought signatures back
PASSES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")  # Google's own stand-ins

TOP_FIELDS = {
    *("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"),
    *("cachedContent", "labels", "model", "store", "serviceTier"),
}
DATA = {
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
}
PART_FIELDS = {*DATA, "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}
CALL_FIELDS = {"id", "name", "args", "partialArgs", "willContinue"}
RESPONSE_FIELDS = {"id", "name", "response", "parts", "willContinue", "scheduling"}

NO_PARTS = "contents.parts must not be empty."
NO_DATA = "required oneof field 'data' must have one initialized field"
AFTER_USER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
AFTER_CALL = "Please ensure that function response turn comes immediately after a function call turn."
NUMBER = (
    "Please ensure that the number of function response parts is equal to the number of function call parts "
    "of the function call turn."
)
UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
    "for more details."
)
ALTERNATION = "Please ensure that multiturn requests alternate between user and model."


def check(body: Json, model: str, alternate: bool) -> None:
    """Raise RefusalError for the first rule that a request breaks."""
    contents = body.get("contents") or []
    if strange := body.keys() - TOP_FIELDS:
        raise RefusalError(f'Invalid JSON payload received. Unknown name "{min(strange)}": Cannot find field.')
    if not contents:
        raise RefusalError("* GenerateContentRequest.contents: contents is not specified\n")
    for index, content in enumerate(contents):
        _check_fields(content, f"contents[{index}]")
    if faults := [fault for index, content in enumerate(contents) for fault in _faults(content, index)]:
        raise RefusalError("".join(f"* GenerateContentRequest.contents[{fault}\n" for fault in faults))
    for content in contents:
        if content.get("role", "user") not in ("user", "model"):
            raise RefusalError("Please use a valid role: user, model.")
    _check_turns(contents)
    _check_signatures(contents, model)
    if alternate and any(a.get("role") == b.get("role") for a, b in pairwise(contents)):
        raise RefusalError(ALTERNATION)


# Fields: what cannot be read as the API's protocol buffers


def _check_fields(content: Json, path: str) -> None:
    _check_names(content, {"role", "parts"}, path)
    for number, part in enumerate(content.get("parts") or ()):
        place = f"{path}.parts[{number}]"
        _check_names(part, PART_FIELDS, place)
        call, response = part.get("functionCall"), part.get("functionResponse")
        if call is not None:
            _check_names(call, CALL_FIELDS, f"{place}.function_call")
            _check_object(call, "args", f"{place}.function_call")
        if response is not None:
            _check_names(response, RESPONSE_FIELDS, f"{place}.function_response")
            _check_object(response, "response", f"{place}.function_response")


def _check_names(value: Json, known: set[str], path: str) -> None:
    if strange := value.keys() - known:
        words = f"Unknown name \"{min(strange)}\" at '{path}': Cannot find field."
        raise RefusalError(f"Invalid JSON payload received. {words}")


def _check_object(value: Json, name: str, path: str) -> None:
    field = value.get(name, {})
    if isinstance(field, list):
        words = f"Unknown name \"{name}\" at '{path}': Proto field is not repeating, cannot start list."
        raise RefusalError(f"Invalid JSON payload received. {words}")
    if not isinstance(field, dict):
        kind = "type.googleapis.com/google.protobuf.Struct"
        raise RefusalError(f"Invalid value at '{path}.{name}' ({kind}), {json.dumps(field)}")


def _faults(content: Json, index: int) -> list[str]:
    """What a content lacks, in the words of the API's validator."""
    parts = content.get("parts") or []
    faults = [] if parts else [f"{index}].parts: {NO_PARTS}"]
    for number, part in enumerate(parts):
        if not any(part.get(name) not in (None, "") for name in DATA):
            faults.append(f"{index}].parts[{number}].data: {NO_DATA}")
        if "functionResponse" in part and not part["functionResponse"].get("name"):
            faults.append(f"{index}].parts[{number}].function_response.name: Name cannot be empty.")
    return faults


# Turns


def _count(content: Json, name: str) -> int:
    return sum(name in part for part in content["parts"])


def _check_turns(contents: list[Json]) -> None:
    """A turn with calls follows the user or responses, and as many responses follow it, at once."""
    asked = 0
    before: Json | None = None
    for content in contents:
        calls, responses = _count(content, "functionCall"), _count(content, "functionResponse")
        if calls and content.get("role") != "model":
            raise RefusalError(AFTER_USER)
        if responses and content.get("role") == "model":
            raise RefusalError(AFTER_CALL)
        if responses and not asked:
            raise RefusalError(AFTER_CALL)
        if responses != asked:
            raise RefusalError(NUMBER)
        if calls and (before is None or before.get("role") == "model"):
            raise RefusalError(AFTER_USER)
        asked, before = calls, content
    if asked:
        raise RefusalError(NUMBER)


# Thought signatures


def _check_signatures(contents: list[Json], model: str) -> None:
    """Signatures are the API's own; models that sign want one on the first call of each step of the current turn."""
    for content in contents:
        for part in content["parts"]:
            if "thoughtSignature" in part and not _is_own(part["thoughtSignature"]):
                raise RefusalError("Corrupted thought signature.")
    if model.startswith(SIGNING_MODELS):
        for index in range(_current_turn(contents), len(contents)):
            first = next((part for part in contents[index]["parts"] if "functionCall" in part), None)
            if first is not None and "thoughtSignature" not in first:
                raise RefusalError(UNSIGNED.format(first["functionCall"].get("name"), index + 1))


def _is_own(signature: Any) -> bool:
    return signature in PASSES or opened(signature) is not None or _is_pass(signature)


def _is_pass(signature: Any) -> bool:
    """Whether it is a stand-in in the base64 that client libraries put bytes in."""
    return signature in [base64.b64encode(text.encode()).decode() for text in PASSES]


def _current_turn(contents: list[Json]) -> int:
    """Where the current turn begins: with the user's latest content that is no function response."""
    spoken = (
        n for n, each in enumerate(contents) if each.get("role") != "model" and not _count(each, "functionResponse")
    )
    return max(spoken, default=0)
