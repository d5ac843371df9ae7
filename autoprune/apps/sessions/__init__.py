"""Session files of coding agents, read as the conversations that the agents would send next.

`load` reads a file's text, whichever agent wrote it. A reader of one's own is a `Reader`: it makes a `Conversation` of
parsed JSON with one of the four writers `as_anthropic`, `as_chat`, `as_gemini` and `as_responses`, which pair calls
with results, and with `fields`, `listed`, `objects` and `text`, which look into values of any shape.
"""

from autoprune.apps.sessions import as_anthropic, as_chat, as_gemini, as_responses, places
from autoprune.apps.sessions._files import READABLE, AgentLog, Session, agent_log, decode, load, recordings
from autoprune.apps.sessions._json import Object, compact, dump, fields, listed, objects, text
from autoprune.apps.sessions._readers import READERS
from autoprune.apps.sessions._recorded import (
    NO_RESULT,
    NO_SYSTEM_PROMPT,
    Conversation,
    Message,
    Reader,
    Recording,
    bad_record,
    note,
    stretch,
)
from autoprune.apps.sessions._requests import Answer, Moment, Request, Usage

__all__ = [
    "NO_RESULT",
    "NO_SYSTEM_PROMPT",
    "READABLE",
    "READERS",
    "AgentLog",
    "Answer",
    "Conversation",
    "Message",
    "Moment",
    "Object",
    "Reader",
    "Recording",
    "Request",
    "Session",
    "Usage",
    "agent_log",
    "as_anthropic",
    "as_chat",
    "as_gemini",
    "as_responses",
    "bad_record",
    "compact",
    "decode",
    "dump",
    "fields",
    "listed",
    "load",
    "note",
    "objects",
    "places",
    "recordings",
    "stretch",
    "text",
]
