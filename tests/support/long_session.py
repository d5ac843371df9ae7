"""A session of 300,000 tokens in a window of 200,000 for real assistants, and what the provider saw of it.

The user's first message states a fact. No answer of the model repeats it, so whatever remains of it after a compaction
is the assistant's doing. The model asks for one file after the other, and never for one again.
"""

import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import real_assistants as assistants
from reading_tasks import KINDS, strings
from real_assistants import CODEX, END, GEMINI, GEMINI_CLI, OPENCODE, OPENCODE_RUN, PI, TASK, Assistant
from strict_provider.counting import tokens
from strict_provider.exchange import RefusalError, Request
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider, serve

from autoprune.economics import prices
from autoprune.tokens import prompt_tokens, spent_tokens

WINDOW = 200_000
FILES, FILE_TOKENS = 50, 5_800
READ = ("log", "csv", "markdown", "access log", "json rows")
FACT = "Amber Kestrel"
# What a request for a summary says: in its last message, or in the system prompt (Gemini CLI).
INSTRUCTIONS = (
    "create a detailed summary of",
    "CONTEXT CHECKPOINT COMPACTION",
    "<state_snapshot>",
    "anchored summary",
    "Create a concise checkpoint of the user's request",
)
SUMMARY = "<summary>\n<state_snapshot>\n{}\n</state_snapshot>\n</summary>"
# Gemini CLI only compacts in front of a message of the user, so a hook speaks for the user until all is read.
GO_ON = f"""test $(wc -l < done.txt) -ge {FILES} || echo '{{"decision": "block", "reason": "Go on."}}'"""


@dataclass(frozen=True)
class Case:
    """An assistant with a model. It compacts from `point` tokens on, and never if it is `without_compaction`.

    After `turn` files the model says something to the user.
    """

    assistant: Assistant
    without_compaction: Assistant
    model: str
    point: int
    turn: int = FILES


def claude(url: str) -> Case:
    """Claude Code. It counts 20,000 tokens for the answer and 13,000 more off the window."""
    model = "claude-sonnet-4-5"
    own = {"ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(WINDOW)}
    given = with_settings(assistants.claude(model), own)
    return Case(given, with_settings(given, {"DISABLE_AUTO_COMPACT": "1"}), model, 167_000)


def codex(url: str) -> Case:
    """Codex with whole results. It compacts at 90 % of the window that it is told of: too late if that is wrong."""

    def told(window: int) -> Assistant:
        settings = (f'openai_base_url="{url}/v1"', "tool_output_token_limit=12000", f"model_context_window={window}")
        options = (word for each in settings for word in ("-c", each))
        command, *others = CODEX.arguments
        return with_settings(replace(CODEX, arguments=(command, *options, *others)))

    return Case(told(WINDOW), told(WINDOW * 5 // 4), "gpt-5.1-codex", 180_000)


def gemini(url: str) -> Case:
    """Gemini CLI. It masks old results by itself, so no prompt has 150,000 tokens: it is told to compact far below."""

    def told(threshold: float) -> Assistant:
        model = {**GEMINI["model"], "compressionThreshold": threshold}
        hooks = {"AfterAgent": [{"hooks": [{"type": "command", "command": GO_ON}]}]}
        files = {".gemini/settings.json": {**GEMINI, "model": model, "hooks": hooks}}
        return with_settings(replace(GEMINI_CLI, files=files), {"GOOGLE_GEMINI_BASE_URL": url})

    return Case(told(0.1), told(1.0), "gemini-3.1-pro-preview", 104_857, turn=9)


def opencode(url: str) -> Case:
    """The assistant opencode. It counts the longest answer off the window."""
    lab = OPENCODE["provider"]["lab"]
    models = {"gpt-5.1": {"name": "m", "limit": {"context": WINDOW, "output": 8_000}}}
    provider = {**lab, "options": {**lab["options"], "baseURL": f"{url}/v1"}, "models": models}
    files = {".config/opencode/opencode.json": {"provider": {"lab": provider}}}
    arguments = tuple("lab/gpt-5.1" if each == "lab/m" else each for each in OPENCODE_RUN.arguments)
    given = with_settings(replace(OPENCODE_RUN, arguments=arguments, files=files))
    return Case(given, with_settings(given, {"OPENCODE_DISABLE_AUTOCOMPACT": "1"}), "gpt-5.1", 192_000)


def pi(url: str) -> Case:
    """The assistant pi with Anthropic's API. In the middle of a turn it compacts only after a refusal."""

    def told(compacts: bool) -> Assistant:
        settings = {"compaction": {"enabled": compacts}}
        models = {"providers": {"anthropic": {"baseUrl": url}}}
        return with_settings(replace(PI, files={".pi/agent/settings.json": settings, ".pi/agent/models.json": models}))

    return Case(told(compacts=True), told(compacts=False), "claude-opus-4-5", 183_616)


CASES: dict[str, Callable[[str], Case]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
    "pi": pi,
}


def with_settings(assistant: Assistant, environ: dict[str, str] | None = None) -> Assistant:
    """The assistant with more variables, and with a task that states the fact."""
    told = f"The release is called {FACT}. {TASK}"
    arguments = tuple(told if each == TASK else each for each in assistant.arguments)
    return replace(assistant, arguments=arguments, environ={**assistant.environ, **(environ or {})})


def files() -> dict[str, str]:
    """Fifty logs, tables and lists, by their paths."""
    return {f"notes/{number:02}.txt": note(READ[number % len(READ)], number) for number in range(FILES)}


def note(kind: str, number: int) -> str:
    """Lines of one kind, 5,800 tokens of them."""
    lines, made, room = KINDS[kind](random.Random(f"{kind} {number}")), [f"# {kind} {number}"], FILE_TOKENS
    while room > 0:
        made.append(next(lines))
        room -= tokens(made[-1]) + 1  # for the end of the line
    return "\n".join(made)


@dataclass
class Reading:
    """A model that reads the files with a shell, and sums up if it is asked to."""

    tool: Callable[[str], Call]
    turn: int
    asked: int = 0
    has_paused: bool = False

    def __call__(self, request: Request) -> Turn:
        """Answer a request. Raises RefusalError for a prompt above the window."""
        if (size := tokens(request.body)) > WINDOW:
            raise too_long(request, size)
        if is_compaction(request):
            return Turn(SUMMARY.format("\n".join(f"I read note {number}: figures." for number in range(self.asked))))
        number = self.asked
        if number >= FILES:
            return Turn(END)
        self.has_paused = number > 0 and number % self.turn == 0 and not self.has_paused
        if self.has_paused:
            return Turn(f"{number} notes are read.")
        self.asked += 1
        call = self.tool(f"cat notes/{number:02}.txt && echo {number:02} >> done.txt")
        thinking = f"Note {number} comes next." if number % 5 else ""
        return Turn(f"I read note {number}." if number % 2 else "", (call,), thinking)


def too_long(request: Request, size: int) -> RefusalError:
    """The refusal of a prompt above the window, in the words of the request's API."""
    if "contents" in request.body:
        return RefusalError(f"The input token count ({size}) exceeds the maximum number of tokens allowed ({WINDOW}).")
    if "input" in request.body:
        words = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return RefusalError(words, param="input", code="context_length_exceeded")
    if request.path.endswith("/chat/completions"):
        words = f"This model's maximum context length is {WINDOW} tokens, but your messages resulted in {size} tokens."
        return RefusalError(words, param="messages", code="context_length_exceeded")
    return RefusalError(f"prompt is too long: {size} tokens > {WINDOW} maximum")


def is_compaction(request: Request) -> bool:
    """Whether an assistant asks for a summary of its conversation."""
    body = request.body
    last: Any = (body.get("messages") or body.get("input") or body.get("contents") or [{}])[-1]
    asked = [*strings(last), *strings(body.get("systemInstruction"))]
    return last.get("type") == "compaction_trigger" or any(each in text for text in asked for each in INSTRUCTIONS)


def is_aside(request: Request) -> bool:
    """Whether a request is beside the conversation, such as for a title."""
    return assistants.is_aside(request) and not is_compaction(request)


@dataclass(frozen=True)
class Session:
    """What became of a session: the provider, the program's result, and how many files it read."""

    provider: Provider
    done: subprocess.CompletedProcess[str]
    read: int

    @property
    def conversation(self) -> list[Request]:
        """The requests without those that are beside the conversation."""
        return [request for request in self.provider.requests if not is_aside(request)]

    @property
    def compactions(self) -> int:
        """How often the assistant compacted. Gemini CLI asks twice in a row: it has its summary checked."""
        return sum(is_asked for is_asked, _ in groupby(self.conversation, is_compaction))

    @property
    def largest(self) -> int:
        """The tokens of the largest prompt."""
        return max(tokens(request.body) for request in self.conversation)

    @property
    def has_fact(self) -> bool:
        """Whether the last prompt has the user's fact."""
        last = next(each for each in reversed(self.conversation) if not is_compaction(each))
        return any(FACT in text for text in strings(last.body))

    def bill(self, model: str) -> float:
        """The cost of all answers in dollars, by the usage that came with them."""
        at = prices(None, model)
        usages = [each.get("usage") or each.get("usageMetadata") for each in self.provider.answers]
        cost = sum(
            at.request(prompt, held, spent_tokens(usage) - prompt)
            for usage in usages
            if usage
            for prompt, held in (prompt_tokens(usage),)
        )
        return cost * (at.input_price or 0.0)


def play(name: str, folder: Path, prefix: Path, options: Sequence[str] | None, *, compacts: bool = True) -> Session:
    """Play the session with an assistant, directly or (with `options`) through `autoprune run`."""
    known = CASES[name]("")
    with serve(Reading(known.assistant.tool, known.turn)) as provider:
        provider.play.is_aside = is_aside
        case = CASES[name](provider.url)
        given = case.assistant if compacts else case.without_compaction
        done = assistants.run(given, folder, prefix, options, files())
    written = folder / "project" / "done.txt"
    return Session(provider, done, len(written.read_text().split()) if written.exists() else 0)
