"""Wire formats: everything known about the messages of each API, and about the results inside their texts.

`anthropic`, `bedrock`, `chat`, `gemini` and `responses` each hold one API: how its messages are read, its rules with
the texts of its errors, and their repair.

A format is a module, or any object, with a name and four functions (`Format`). It reads messages with a `Parser`, which
tracks the open calls of earlier messages. Import everything that a new format needs from here; docs/formats.md has an
example. To ship a format, add its file to this folder and one line to `SHIPPED`. A package that registers a format
under the entry point group `autoprune.formats` makes it available by name, as in `PruneArgs(format="name")`.

`problems` names the rules that a conversation breaks, with the provider's error messages; `repair` repairs most of them
and lists its changes. Both take the name of a provider, or detect the provider from the messages. `check_accepted` is
for pruners: it raises an error if a provider would reject the pruned conversation. A provider is a `Provider`, a value
with a name, rules and their repair, and a line in `_validation`.

    parsing            `Format`, `Parser`, `parse`
    texts              reads calls and results inside texts
    dialects           `Dialect`, and how to add one
    xml_tool_result    the XML dialect; the other shipped dialects are private
    _rules             problems, repairs, the pairing of calls and results; `_block_repair` repairs messages of blocks
"""

from autoprune.conversation.messages import fields, fields_of, items_of, listed, nested, with_items
from autoprune.conversation.transcript import Entry, Location, Path, Speaker, Thought, ToolCall, ToolInput, ToolResult
from autoprune.tokens import MESSAGE_TOKENS, NAME_TOKENS, Count
from autoprune.wire import texts
from autoprune.wire._detection import (
    SHIPPED,
    check_formats,
    dominant_format,
    find_formats,
    is_from_model,
    new_parser,
    recognize,
    roles_in,
)
from autoprune.wire._media import find_medium, is_media, media
from autoprune.wire._parts import (
    Payload,
    as_json,
    encrypted_tokens,
    join_entries,
    json_text,
    payload,
    text_block,
    tokens,
)
from autoprune.wire._rules import (
    BEGINNING,
    EMPTY,
    NO_RESULT,
    NO_WORDS,
    OpenCalls,
    Problem,
    Provider,
    Repair,
    Repaired,
    Round,
)
from autoprune.wire._validation import (
    PROVIDERS,
    UNREPAIRED,
    USER_FIRST,
    check_accepted,
    find_provider,
    problems,
    repair,
)
from autoprune.wire.parsing import UNKNOWN, Format, Parser, native_call, native_result, parse, seen_block

__all__ = [
    "BEGINNING",
    "EMPTY",
    "MESSAGE_TOKENS",
    "NAME_TOKENS",
    "NO_RESULT",
    "NO_WORDS",
    "PROVIDERS",
    "SHIPPED",
    "UNKNOWN",
    "UNREPAIRED",
    "USER_FIRST",
    "Count",
    "Entry",
    "Format",
    "Location",
    "OpenCalls",
    "Parser",
    "Path",
    "Payload",
    "Problem",
    "Provider",
    "Repair",
    "Repaired",
    "Round",
    "Speaker",
    "Thought",
    "ToolCall",
    "ToolInput",
    "ToolResult",
    "as_json",
    "check_accepted",
    "check_formats",
    "dominant_format",
    "encrypted_tokens",
    "fields",
    "fields_of",
    "find_formats",
    "find_medium",
    "find_provider",
    "is_from_model",
    "is_media",
    "items_of",
    "join_entries",
    "json_text",
    "listed",
    "media",
    "native_call",
    "native_result",
    "nested",
    "new_parser",
    "parse",
    "payload",
    "problems",
    "recognize",
    "repair",
    "roles_in",
    "seen_block",
    "text_block",
    "texts",
    "tokens",
    "with_items",
]
