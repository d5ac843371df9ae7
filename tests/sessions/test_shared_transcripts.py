"""Every recorded session of the shared folder is read, by its own agent's reader, into what a provider accepts.

The figures are those of the folder's own table. The check of calls and results here shares no code with the readers.
"""

import json
import re
from pathlib import Path

import pytest
from faults import faults
from tables import each_row

from autoprune.apps.sessions import NO_RESULT, READERS, Session, load, plugin_readers

FOLDER = Path(__file__).parents[3] / "shared" / "transcripts"
AGENTS = (*(reader.name for reader in READERS), *plugin_readers())
FILES = sorted(path for path in FOLDER.glob("*--*.json*") if path.name.startswith(AGENTS))
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \| [\d.]+ \| [\d,]+ \| (?P<results>[\d,]+) \|", re.MULTILINE)
# Where fewer results are sent than the table counts in the file, and why.

pytestmark = pytest.mark.full  # the readers' own tests read a session of each agent
needs_transcripts = pytest.mark.skipif(not FILES, reason="the shared transcripts are not here")


def is_result(value: object) -> bool:
    """Whether a part of a message is a result that the log held."""
    match value:
        case {"type": "tool_result", "content": payload} | {"role": "tool", "content": payload}:
            return payload != NO_RESULT
        case {"functionResponse": {"response": payload}}:
            return payload != {"error": NO_RESULT}
        case {"type": "function_call_output" | "custom_tool_call_output", "output": payload}:
            return payload != "aborted"
    return False


def results(session: Session) -> int:
    """How many results of the log stand in the messages."""
    parts = [part for message in session.messages for part in message.get("parts", message.get("content")) or []]
    return sum(map(is_result, session.messages)) + sum(map(is_result, parts))


def sessions(path: Path) -> list[Session]:
    """Every conversation of a file."""
    text = path.read_text(encoding="utf-8")
    first = load(text, path.name)
    return [first, *(load(text, path.name, run) for run in range(2, first.conversations + 1))]


@needs_transcripts
@each_row("path", FILES or [FOLDER], ids=lambda path: path.name[:60])
def test_a_shared_transcript_becomes_a_conversation_that_its_provider_accepts(path: Path):
    found = sessions(path)
    assert all(session.agent and session.agent.startswith(path.name.split("--")[0]) for session in found)
    assert [faults(session) for session in found] == [[] for _ in found]
    assert all(len(session.messages) > 5 for session in found)


@needs_transcripts
@each_row("path", FILES or [FOLDER], ids=lambda path: path.name[:60])
def test_a_shared_transcript_is_written_back_as_a_list_of_messages(path: Path):
    session = sessions(path)[0]
    assert json.loads(session.write(session.messages)) == session.messages


@needs_transcripts
def test_every_file_of_the_shared_table_is_read():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = {row["file"] for row in ROW.finditer(table)}
    assert {path.name for path in FILES} == {name for name in named if name.startswith(AGENTS)}
