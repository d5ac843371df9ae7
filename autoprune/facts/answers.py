"""Find what the user said through a tool: answers to questions, and reasons for refusing a call."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from autoprune.conversation.transcript import ToolResult
from autoprune.facts.calls import arguments, target
from autoprune.facts.outcomes import OPENING, REFUSED, has_failed, is_cleared, is_data, is_refusal

# Tools whose results are the user's words.
ANSWER_TOOLS = (
    *("AskUserQuestion", "ask_user_question"),  # Claude Code, Kimi CLI; Qwen Code, Windsurf
    *("ask_user", "*__ask_user"),  # Gemini CLI, Copilot CLI; MCP servers
    *("ask_followup_question", "AskFollowupQuestionTool", "ask_question"),  # Cline, Roo Code, Kilo Code
    *("plan_mode_respond", "attempt_completion"),  # Cline: what the user says to a plan, or to what was done
    "request_user_input",  # Codex
    *("question", "AskQuestion", "vscode_askQuestions"),  # opencode, Cursor, VS Code
)
# Arguments that show that such a tool asks a server, not a person: DeepWiki's ask_question has a repoName.
ELSEWHERE = frozenset(("repoName", "repo", "repository", "url", "urls", "library", "libraryName", "notebook_id"))
NEAR = 400  # characters between a refusal and the user's words
HEAD = 1_000  # characters that are searched for a refusal
QUESTIONS = ("question", "questions", "prompt", "message", "text", "response")  # arguments with the question
DEEPEST = 4  # levels of lists and objects in arguments that are searched
LONGEST_QUESTION = 500  # characters
LONGEST_TARGET = 120

# What may come before the first word: tags, "Error:", members of a JSON object.
BEFORE = (
    r"(?:\s|<message>[^<]{0,300}</message>(?=\s*<content>)|<(?:tool_use_error|message|content|error|output)>|Error: ?"
    r"|\{|\"(?:status|error|message|output)\":|\"\w+\",)*\"?"
)
SAID = (
    r"(?:[Tt]he user said|with the message|(?:[Ff]eedback|[Rr]eason|[Mm]essage|[Cc]omment)(?: from the user)?)\"?:\s*"
)
REJECTED = re.compile(
    rf"{BEFORE}{REFUSED}(?:.|\n){{0,{NEAR}}}?{SAID}"
    r"(?:\",\s*\"feedback\":\s*\")?(?:</message>\s*<content>\s*)?(?:<(?:feedback|user_message)>\s*)?(?!</)(?=\S)"
)
# How a question fails that nobody answered. The first group are beginnings that only programs write. The others are
# whole texts, since a user may begin an answer with such words.
FAILED_BY_PROGRAM = (
    r"\[?Request interrupted by user|The user interrupted\b|(?:InputValidation|Validation|Abort|Timeout)Error\b"
    r"|MCP error -?\d+|Traceback \(most recent call last\)|Cancelled: parallel tool call|Sibling tool call errored"
    r"|(?:No such|Unknown) (?:tool|function)(?: available)?(?::|\Z)|(?:Tool|Function) not found:"
    r"|No tool named '?[\w.-]+'?\.?\s*\Z"
    r"|Tool '?[\w.-]+'? (?:not found|is not available)|\w+ is (?:unavailable|not available) in \w+ mode"
    r"|(?:[Ee]rror|[Ff]ailed to) (?:call|execut|run|pars|ask)\w*(?: (?:the )?(?:tool|function)\b|:)"
    r"|The tool execution failed\b"
    r"|[Ii]nvalid (?:tool )?(?:input|argument|parameter|param)s?(?: for \S+)?(?::|\Z)|[Ii]nvalid \w+ for tool\b"
    r"|(?:params|arguments) must (?:have|be)\b|Missing (?:value for )?required (?:parameter|argument)"
)
BY_WHOM = r"(?: by (?:the )?user)?(?: for tool use)?(?: after [\d.]+ ?\w+)?[.!\]]*\s*(?:</[\w>/<\s]+)?\Z"
NOT_ANSWERED = (
    r"\[?(?:(?:The |User )?(?:\w+ )?(?i:question|request|prompt|input|call|execution|operation|tool use)"
    r" (?:was |has been )?)?"
    rf"(?:[Tt]imed out|[Aa]borted|[Cc]ancell?ed|[Ii]nterrupted){BY_WHOM}"
    r"|(?:[Tt]imeout|[Tt]imed out)(?: waiting for [^\n]{1,60}|: no (?:answer|response)[^\n]{0,60})?\s*\Z"
    r"|(?:The )?[Uu]ser (?:did not|didn't) (?:answer|respond|reply)[^\n]{0,60}\Z"
    r"|(?:The )?[Uu]ser (?:has )?(?:cancell?ed|declined|dismissed|skipped)\b[^\n]{0,60}\Z"
    r"|No (?:answer|response|reply) from (?:the )?user[^\n]{0,60}\Z"
)
UNANSWERED = re.compile(
    rf"\s*(?:<message>\s*)?(?:<tool_use_error>|(?:\[?(?:[Ee]rror|ERROR)\]?:? ?)?(?:{FAILED_BY_PROGRAM}|{NOT_ANSWERED}))"
)
CLOSING = re.compile(r"\s*You can now continue with (?:the user's|these) answers in mind\.?\s*\Z")
UNCLEAR = re.compile(r"\s*The user wants to clarify these questions\.")
GIVEN = re.compile(r"^[ \t]*- (\"[^\n]*\")\n[ \t]*Answer: ([^\n]*)$", re.MULTILINE)
MADE = re.compile(r"\[(?:answered|refused) ")
TAGS = re.compile(r"</?(?:message|content|answer|feedback|user_message|output|tool_use_error)>")


def is_answer(result: ToolResult, tools: tuple[str, ...] = ANSWER_TOOLS) -> bool:
    """Return whether a result contains the user's own words.

    Such a result is an answer from one of `tools` (names or globs), or a refused call with the user's reason. A
    question that failed has no answer.
    """
    if matches_tool(result.tool, tools) and not _asks_elsewhere(result) and not _is_unanswered(result):
        return True
    return _refusal(result) is not None


def _is_unanswered(result: ToolResult) -> bool:
    """Return whether a question failed: by the format's flag, a program's error message, or a refusal to answer.

    Without the flag only known messages count, since a user may answer with an error message.
    """
    text = result.text[:HEAD]
    if result.is_error or UNANSWERED.match(text) or is_refusal(text):
        return True
    return text[:1] == "{" and has_failed(result.text, None, result.call) is True


def _asks_elsewhere(result: ToolResult) -> bool:
    """Return whether a call asks a server rather than a person."""
    return result.call is not None and not ELSEWHERE.isdisjoint(arguments(result.call))


@lru_cache(maxsize=1_024)
def matches_tool(tool: str, tools: tuple[str, ...]) -> bool:
    """Return whether a tool matches one of the names or globs."""
    return any(fnmatchcase(tool, glob) for glob in tools)


def answer_text(result: ToolResult) -> str:
    """Return the user's words in a result, after the question or the refused call; "" if the result was cleared."""
    if is_cleared(result.text):
        return ""
    match = _refusal(result)
    if match:
        touched = " ".join(target(result.call).split())[:LONGEST_TARGET]
        said = _without_clarification(_strip_tags(result.text[match.end() - result.start :]))
        return f"[refused {result.tool}{f'({touched})' if touched else ''}] {said}" if said else ""
    said = CLOSING.sub("", _strip_tags(result.text))
    values = arguments(result.call) if result.call else {}
    questions = [question for question in dict.fromkeys(_question_texts(values, 0)) if question not in said]
    return "\n".join((f"[answered {result.tool}]", *questions, said)) if said else ""


def is_answer_text(text: str) -> bool:
    """Return whether `answer_text` wrote a text."""
    return MADE.match(text) is not None


def _without_clarification(said: str) -> str:
    """Replace a harness's note that the questions are unclear with the answers in it."""
    if not UNCLEAR.match(said):
        return said
    return "\n".join(f"{match[1]} {match[2]}" for match in GIVEN.finditer(said))


def _refusal(result: ToolResult) -> re.Match[str] | None:
    """Find the refusal before the user's words in the result of a call that the user refused.

    A fetched file or page that begins with such words does not count, unless the format's flag says that the call
    failed: otherwise its author could speak in the user's name.
    """
    match = REJECTED.match(result.piece, result.start, min(result.stop, result.start + HEAD))
    if not match or not (result.is_error or not is_data(result.call)):
        return None
    return match if has_failed(result.text, result.is_error, result.call) else None


def _strip_tags(text: str) -> str:
    """Drop the tags around the user's words."""
    said = TAGS.sub("", OPENING.sub("", text, count=1) if OPENING.match(text) else text).strip()
    return said.removesuffix('"}').rstrip() if said.endswith('"}') and not said.startswith("{") else said


def _question_texts(value: object, depth: int) -> Iterator[str]:
    """Yield the texts of arguments that are named like questions, at any level."""
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for name in QUESTIONS:
            question = value.get(name)
            if isinstance(question, str) and question.strip():
                yield " ".join(question.split())[:LONGEST_QUESTION]
            elif question is not None:
                yield from _question_texts(question, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _question_texts(item, depth + 1)
