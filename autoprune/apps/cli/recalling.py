"""Get cleared content back, by the id in its placeholder or by words in it: `autoprune recall`, and `autoprune mcp`."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

import autoprune.apps.cli.options as options
from autoprune import __version__
from autoprune.apps.cli.ledgers import ledger_folder
from autoprune.conversation.archive import Directory, answer, recall, tool_definition
from autoprune.conversation.edits import TOOL
from autoprune.conversation.limited_archive import (
    LimitedDirectory,
    nearest_folder,
    project_folder,
    recall_anywhere,
    search,
)
from autoprune.errors import ArchiveError, SettingsError, how_to_install

EXAMPLES = options.examples(
    "recall 104839926617352", "recall --search load_settings", "recall 104839926617352 --archive cleared"
)
MCP_EXAMPLES = options.examples("mcp", "mcp --archive cleared")
SEARCH = {
    "name": "search",
    "description": "Search the cleared tool results of this project. Returns the ids of those that have any of the "
    "words, those with all of them together first, each with one line of it.",
    "input_schema": {
        "type": "object",
        "properties": {"words": {"type": "string", "description": "Words or names, such as load_settings."}},
        "required": ["words"],
    },
}
DEFINITIONS: Sequence[Mapping[str, Any]] = (tool_definition("anthropic"), SEARCH)

ArchiveFolder = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        envvar="AUTOPRUNE_ARCHIVE",
        show_envvar=False,
        help="Look in this folder, not in what `autoprune run` has kept. Default: AUTOPRUNE_ARCHIVE.",
    ),
]


def recall_content(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The id after 'autoprune recall' in a placeholder.")
    ] = None,
    words: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", help="List the content with these words, the best match first."),
    ] = None,
    archive: ArchiveFolder = None,
) -> None:
    """Print the content that a placeholder stands for, or search it.

    Without an archive, this is what `autoprune run` has kept: under an ID in any project, for a search in this one.
    """
    if (id is None) == (words is None):
        raise typer.BadParameter("give an ID, or --search WORDS")
    text = list_found(words, archive) if words is not None else find_content(id or "", archive)
    # Bytes, so that the content is printed unchanged in any encoding of standard output.
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))


def find_content(id: str, archive: str | None) -> str:
    """Return the content with an id: in an archive, or kept for any project. Raises ArchiveError if it is not found."""
    _check_folder(archive)
    return recall(Directory(archive), id) if archive else recall_anywhere(archive_parent(), id)


def list_found(words: str, archive: str | None) -> str:
    """Search an archive, or what was kept for this project. Raises ArchiveError if nothing is found."""
    _check_folder(archive)
    folder = archive or nearest_folder(archive_parent(), os.getcwd())
    found = search(LimitedDirectory(folder), words) if folder else []
    if not found:
        where = archive or "what `autoprune run` has kept for this project"
        raise ArchiveError(f"nothing in {where} has any of the words {words!r}")
    return "".join(f"{f'{each.id}  {each.what}'.rstrip()}\n    line {each.number}: {each.line}\n" for each in found)


def _check_folder(archive: str | None) -> None:
    if archive and not os.path.isdir(archive):
        raise ArchiveError(f"there is no folder {archive}: give the --archive with which the session was pruned")


def archive_parent() -> str:
    """Return the folder with the archives of all projects of this user."""
    return str(ledger_folder().parent / "archive")


def own_memory() -> str:
    """Return the folder with the past of conversations, for a proxy that is started later."""
    return str(ledger_folder().parent / "conversations")


def own_archive() -> str:
    """Return the archive for the working directory, with content that is too old removed."""
    archive = LimitedDirectory(project_folder(archive_parent(), os.getcwd()))
    archive.tidy()
    return archive.path


def serve_tools(archive: ArchiveFolder = None) -> None:
    """Serve cleared content to an assistant over MCP.

    The server is for assistants without a shell, and uses standard input and output. The tool `recall` returns what
    `autoprune recall ID` prints, or some of its lines; `search` what `--search` prints.
    """
    asyncio.run(_serve(archive))


async def _serve(archive: str | None) -> None:
    """Answer until standard input ends. The SDK redirects what anything else prints to standard error."""
    if sys.stdin is None:
        raise SettingsError("standard input is closed: an assistant that starts the server writes to it")
    try:
        import mcp_types as types  # the second version of the SDK
        from mcp.server import Server
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        raise SettingsError(f"an MCP server needs mcp 2: {how_to_install('mcp')}") from error

    async def list_tools(context: object, params: object) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=True)
        return types.ListToolsResult(tools=[types.Tool(**each, annotations=hints) for each in DEFINITIONS])

    async def call_tool(context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        text, is_error = await asyncio.to_thread(call, params.name, params.arguments or {}, archive)
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)

    server = Server("autoprune", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
    # Ctrl-C ends the process at once: asyncio would wait for the next line of standard input.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def call(tool: str, arguments: Mapping[str, object], archive: str | None) -> tuple[str, bool]:
    """Return the text of a tool's result, and whether it is an error. Lone surrogates become "?"."""
    is_error = False
    try:
        if tool == TOOL:
            text = answer(arguments, partial(find_content, archive=archive))
        elif tool == SEARCH["name"] and isinstance(words := arguments.get("words"), str):
            text = list_found(words, archive)
        else:
            raise ArchiveError(f"{tool} with {arguments}: call {TOOL} with an id, or {SEARCH['name']} with words")
    except (ArchiveError, OSError) as error:
        text, is_error = f"Error: {error}", True
    return text.encode("utf-8", "replace").decode(), is_error
