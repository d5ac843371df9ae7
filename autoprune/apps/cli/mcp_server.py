"""`autoprune mcp`: an MCP server with the tools `recall` and `search`, over what was cleared. Writes nothing."""

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import autoprune.apps.cli.options as options
from autoprune import __version__
from autoprune.apps.cli.recalling import ArchiveFolder, find_content, list_found
from autoprune.conversation.archive import answer, tool_definition
from autoprune.conversation.edits import TOOL
from autoprune.errors import ArchiveError, SettingsError, how_to_install

EXAMPLES = options.examples("mcp", "mcp --archive cleared")
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
