"""Messages of any format as plain text: who says what, without the texts that the agent's program adds.

The user may also speak through a tool: with an answer to its question, or a reason for refusing a call. The names and
texts below are those that agents such as Claude Code, Codex, Gemini CLI, Cline and SWE-agent write.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
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


# Elements that programs add on separate lines: the state of the machine, reminders, the output of commands.
ADDED = (
    *("environment_context", "environment_details", "user_instructions", "permissions instructions", "INSTRUCTIONS"),
    *("system-reminder", "system_reminder", "system_notification"),
    *("local-command-caveat", "local-command-stdout", "local-command-stderr"),
    *("command-message", "task-notification", "user-prompt-submit-hook", "turn_aborted", "skills_instructions"),
    *("ide_opened_file", "ide_selection", "current_datetime", "collaboration_mode", "plugins_instructions"),
    *("skill", "persisted-output", "bash-stdout", "bash-stderr", "apps_instructions", "app-context"),
    *("personality_spec", "model_switch", "teammate-message", "new-diagnostics", "sql_tables", "reminder"),
    *("session_context", "subagent_notification"),
)
ATTACHED = ("file_content", "folder_content", "url_content")  # Cline's copies of mentioned files and pages
# Tags around the user's words and actions.
WRAPPED = re.compile(r"\A<(task|feedback|user_message|answer|user_query)>(.*?)</\1>", re.DOTALL)
COMMAND = re.compile(r"^[ \t]*<(command-name|command-args|bash-input)>([^<]*)</\1>", re.MULTILINE)
# Commands to the program, not to the agent.
TO_PROGRAM = re.compile(
    r"^[ \t]*<command-name>/?(?:add-dir|clear|compact|config|context|copy|cost|doctor|exit|export|fast|help|hooks|ide"
    r"|login|logout|mcp|memory|model|output-style|permissions|plugins?|quit|resume|rewind|status|statusline|theme|usage|vim)"
    r"</command-name>",
    re.MULTILINE,
)
LINE = re.compile(
    r"^(?:# AGENTS\.md instructions for [^\n]*|\[Request interrupted by user[^\n\]]*\][ \t]*"
    r"|Read the output file to retrieve the result: [^\n]*|Full transcript available at: [^\n]*"
    r"|If you need specific details from before [^\n]* read the full transcript at: [^\n]*"
    r"|Caveat: The messages below were generated by the user while running local commands[^\n]*)$",
    re.MULTILINE,
)
# The beginnings of texts that are wholly a program's: the output of a hook, a skill, a demonstration.
WHOLE = re.compile(
    r"\s*(?:(?:Stop|SubagentStop|PreToolUse|PostToolUse|UserPromptSubmit|SessionStart)(?::[\w-]+)? hook \w+"
    r"|Base directory for this skill: |Here is a demonstration of how to correctly accomplish this task"
    r"|\[ERROR\] You did not use a tool in your previous response"
    r"|Please continue with the next step, or if the task is complete or you need clarification, use the '\w+' tool"
    r"|ERROR! Your Patch is empty\. Please provide a patch|This is the Gemini CLI\. We are setting up the context)"
)
# How programs send instruction files and skills in user messages: Codex, Claude Code, Gemini CLI and Qwen Code.
INSTRUCTIONS = re.compile(
    r"^(?:# AGENTS\.md instructions for |[ \t]*<(?:INSTRUCTIONS|user_instructions|permissions instructions"
    r"|skills_instructions|apps_instructions|plugins_instructions)>|# claudeMd\b|Contents of \S.*\.md \("
    r"|--- Context from: \S|Base directory for this skill: )",
    re.MULTILINE,
)
# Texts that programs write in place of a missing answer of the model.
FILLERS = frozenset(("No response requested.", "(no content)", "[no content]"))
ENDS = "[Error occurred in processing last action]"  # the end of a text that is wholly a program's
ARGUMENTS = "\nARGUMENTS:"  # at the end of a skill: the arguments that the user gave it
# The beginnings of a program's summary of the conversation before this one.
CONTINUES = ("This session is being continued from a previous conversation", "Another language model started to solve")
# A text has no line of a program's without one of these.
MARKS = ("[Request", "# AGENTS", "Caveat:", "Read the output file", "Full transcript", "If you need specific details")
# Tools by which the model invokes a skill: beside their result is the skill, with the arguments of the model.
SKILLS = frozenset(("Skill", "skill", "activate_skill", "use_skill", "load_skill"))
ATTRIBUTE = re.compile(r"""(?:path|url)=["']([^"'\n]{1,300})""")


def user_words(words: str | Sequence[str]) -> str:
    """Find the user's words in the texts of a message; "" if the program wrote all texts.

    Give a sequence if the message has several texts, since a program may have written one of them, such as the prompt
    of a command that the user gave. Anything in the middle of a line is the user's, whatever it looks like.
    """
    if isinstance(words, str):
        return _words_of_text(words)
    at = next((at for at, text in enumerate(words) if _is_command(text)), len(words))
    return "\n\n".join(filter(None, map(_words_of_text, (*words[: at + 1], *words[at + 2 :]))))


def user_words_beside(words: Sequence[str], tools: Iterable[str]) -> str:
    """Find the user's words in a message that also holds results of `tools`."""
    return "" if SKILLS.intersection(tools) else user_words(words)


def model_words(words: str) -> str:
    """Return the model's words; "" if a program wrote the text in place of an answer."""
    return "" if words.strip() in FILLERS else words


def _is_command(text: str) -> bool:
    """Return whether a text is a user's command to the agent, which the program follows with a prompt."""
    return "<command-message>" in text and COMMAND.search(text) is not None and not TO_PROGRAM.search(text)


def holds_instructions(words: Sequence[str], tools: Iterable[str]) -> bool:
    """Return whether a message holds an instruction file or a skill. `tools` are those of the results in it."""
    return not SKILLS.isdisjoint(tools) or any(INSTRUCTIONS.search(text) is not None for text in words)


def is_continuation(words: str) -> bool:
    """Return whether a message is a program's summary of the conversation before this one, and not a request."""
    return words.startswith(CONTINUES)


def _words_of_text(words: str) -> str:
    if "<" in words or any(mark in words for mark in MARKS):
        for name in (*ADDED, *ATTACHED):
            if f"<{name}" in words:
                words = _remove_elements(words, name)
        words = LINE.sub("", COMMAND.sub(r"\2", TO_PROGRAM.sub("", words))).strip()
        words = WRAPPED.sub(r"\2", words)
    words = words.strip()
    if WHOLE.match(words) or words.endswith(ENDS):
        return words.rpartition(ARGUMENTS)[2].strip() if ARGUMENTS in words else ""
    return words


def _remove_elements(words: str, name: str) -> str:
    """Remove the elements with a name; an attachment becomes a mention of its path."""
    start = re.compile(rf"^[ \t]*<{re.escape(name)}(?:\s[^<>\n]*)?>", re.MULTILINE)
    end = f"</{name}>"
    kept, at = [], 0
    while match := start.search(words, at):
        stop = words.find(end, match.end())
        if stop < 0:
            break
        kept.append(words[at : match.start()])
        if name in ATTACHED and (path := ATTRIBUTE.search(match[0])):
            kept.append(f"[attached: {path[1]}]")
        at = stop + len(end)
    return "".join((*kept, words[at:]))


@dataclass(frozen=True)
class Utterance:
    """A message as plain text: its speaker, its words, its calls and its results.

    `words` are the texts of the message without its results, calls and thinking, separated by blank lines; each image,
    audio, document or other medium is a line such as "[image]". Results know their call (`result.call`). `texts` are
    the same texts one by one, or () if they are unknown.

    `is_answer`: the user said the words through a tool, to answer a question or to refuse a call. `after_request`: a
    user's request precedes this message, and is not summarized because it stays in the conversation.
    """

    speaker: Speaker
    words: str
    calls: tuple[ToolCall, ...] = field(default=())
    results: tuple[ToolResult, ...] = field(default=())
    texts: tuple[str, ...] = field(default=(), repr=False, compare=False)
    is_answer: bool = False
    after_request: bool = False

    @property
    def user_words(self) -> str:
        """The user's own words, without texts that the agent's harness adds, such as reminders and the environment."""
        texts = self.texts or (self.words,)
        return user_words_beside(texts, (result.tool for result in self.results))

    @property
    def user_request(self) -> str:
        """The user's request; "" if the message holds no request.

        Answers through a tool are not requests, nor is a harness's summary of an earlier conversation.
        """
        words = "" if self.is_answer or self.speaker is not Speaker.USER else self.user_words
        return "" if is_continuation(words) else words

    @property
    def earlier_summary(self) -> str:
        """A harness's summary of an earlier conversation, passed on as the user's; "" for other messages."""
        words = self.user_words if self.speaker is Speaker.USER else ""
        return words if is_continuation(words) else ""


def utterances(entries: Iterable[Entry], is_answer: Callable[[ToolResult], bool] = is_answer) -> tuple[Utterance, ...]:
    """Convert the entries of messages to utterances, in order.

    If the user answered through a tool, as `is_answer` recognizes, the words follow as an utterance of the user. The
    lines of folded steps follow as words of the model, which made the calls.
    """
    spoken: list[Utterance] = []
    for entry in entries:
        words = "\n\n".join(entry.texts)
        if words or entry.results or not entry.folded:
            spoken.append(Utterance(entry.speaker, words, entry.calls, entry.results, entry.texts))
        said = (answer_text(result) for result in entry.results if is_answer(result))
        spoken += (Utterance(Speaker.USER, answer, is_answer=True) for answer in said if answer)
        spoken += (Utterance(Speaker.MODEL, each.text) for each in entry.folded)
    return tuple(spoken)


def is_note(entry: Entry) -> bool:
    """Return whether a user's message holds only texts of the agent's program, such as a reminder."""
    tools = (result.tool for result in entry.results)
    return bool(entry.texts) and not user_words_beside(entry.texts, tools)
