"""Formats: how APIs write messages. Dialects: how agents write calls and results into texts.

A format is a module, or any object, with a name and four functions (`Format`). It reads messages with a `Parser`, which
tracks the open calls of earlier messages. Import everything that a new format needs from here; docs/formats.md has an
example. To ship a format, add its file to this folder and one line to `SHIPPED`. A package that registers a format
under the entry point group `autoprune.formats` makes it available by name, as in `PruneArgs(format="name")`.

    anthropic_messages, bedrock_converse, gemini_contents, openai_chat, openai_responses    the formats that ship
    texts              reads calls and results inside texts
    dialects           `Dialect`, and how to add one
    xml_tool_result    the XML dialect; the other shipped dialects are private
    parsing            `Format`, `Parser`, `parse`
"""

from autoprune.conversation.messages import fields, fields_of, listed, nested, with_items
from autoprune.conversation.transcript import Entry, Location, Path, Speaker, Thought, ToolCall, ToolInput, ToolResult
from autoprune.formats import texts
from autoprune.formats._detection import SHIPPED, dominant_format, find_formats, new_parser, recognize
from autoprune.formats._media import find_medium, is_media, media
from autoprune.formats._parts import (
    Payload,
    as_json,
    encrypted_tokens,
    join_entries,
    json_text,
    payload,
    seen_block,
    text_block,
    tokens,
)
from autoprune.formats.parsing import UNKNOWN, Format, Parser, native_call, native_result, parse
from autoprune.tokens import MESSAGE_TOKENS, NAME_TOKENS, Count

__all__ = [
    "MESSAGE_TOKENS",
    "NAME_TOKENS",
    "SHIPPED",
    "UNKNOWN",
    "Count",
    "Entry",
    "Format",
    "Location",
    "Parser",
    "Path",
    "Payload",
    "Speaker",
    "Thought",
    "ToolCall",
    "ToolInput",
    "ToolResult",
    "as_json",
    "dominant_format",
    "encrypted_tokens",
    "fields",
    "fields_of",
    "find_formats",
    "find_medium",
    "is_media",
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
    "recognize",
    "seen_block",
    "text_block",
    "texts",
    "tokens",
    "with_items",
]
