"""Read session files of coding agents as the conversations that the agents would send next.

`load` reads a file's text, of any supported agent. To read the files of another agent, write a `Reader`: `fields`,
`listed`, `objects` and `text` look into parsed JSON of any shape, and `conversation` turns messages in the order of a
log into a conversation that can be sent: calls are paired with results, and blocks that the API would reject are
dropped.
"""

from autoprune.apps.sessions import places
from autoprune.apps.sessions._json import Object, compact, decode, dump, fields, listed, objects, text
from autoprune.apps.sessions._loading import (
    READABLE,
    READERS,
    AgentLog,
    Session,
    agent_log,
    find_reader,
    load,
    plugin_readers,
    recordings,
)
from autoprune.apps.sessions._recording import (
    LARGEST_PROMPT,
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    Recording,
    Request,
    Usage,
    bad_record,
    note,
)
from autoprune.apps.sessions._sending import (
    NO_RESULT,
    assistant,
    conversation,
    function_call,
    function_response,
    image,
    stretch,
    text_block,
    tool_call,
    tool_result,
)

__all__ = [
    "LARGEST_PROMPT",
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
    "assistant",
    "bad_record",
    "compact",
    "conversation",
    "decode",
    "dump",
    "fields",
    "find_reader",
    "function_call",
    "function_response",
    "image",
    "listed",
    "load",
    "note",
    "objects",
    "places",
    "plugin_readers",
    "recordings",
    "stretch",
    "text",
    "text_block",
    "tool_call",
    "tool_result",
]
