"""The compaction rule of each client: the prompt size, and the requests that ask for it. Changes no request.

    rule = rule_of("claude", user)
    rule.point(200_000)  # 167_000: prompts above it are compacted; None if the client never compacts

Clients measure their prompts by the `usage` of the provider's answers, so a pruned prompt counts as it was sent. Two
clients estimate their unpruned history instead: pruning does not change when those compact, so they have no point.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autoprune.apps.clients._assistants import opencode_config
from autoprune.apps.clients._claude_cli import claude_settings
from autoprune.apps.clients._codex_cli import codex_setting
from autoprune.apps.clients._routing import User, get_in, is_on
from autoprune.errors import ClientError


@dataclass(frozen=True)
class CompactionRule:
    """The prompt size at which a client compacts by itself, in the provider's tokens.

    The room is the window without the `headroom` for a reply. The client compacts above the smallest of: `share` of the
    room, the room without `buffer`, and `limit`. `window` is the window that the user's settings give the model. By the
    beginnings of models' names: `headrooms` that differ, `windows` of the client's own list, and `largest`, the most
    that the user lets it fill. A client that `counts_history` compacts by an estimate of its unpruned history.
    `setting` names what the user has set; it is "" for the client's default.
    """

    share: float = 1.0
    headroom: int = 0
    headrooms: Mapping[str, int] = field(default_factory=dict)
    buffer: int = 0
    limit: int | None = None
    window: int | None = None
    windows: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    is_on: bool = True
    counts_history: bool = False
    setting: str = ""

    def window_for(self, window: int | None, model: str | None = None) -> int | None:
        """Return the window that the client assumes for a model whose window is `window`; None if nobody knows it."""
        known = self.window or _first(self.windows, model) or window
        return min(known, _first(self.largest, model) or known) if known else None

    def point(self, window: int | None, model: str | None = None) -> int | None:
        """Return the size of a prompt above which the client compacts by itself; None if it never does."""
        return self.end(window, model) if self.is_on else None

    def end(self, window: int | None, model: str | None = None) -> int | None:
        """Return the size above which the client compacts or, if that is off, soon after which a session ends."""
        if self.counts_history:
            return None
        size = self.window_for(window, model)
        if size is None:
            return self.limit
        room = size - (_first(self.headrooms, model) or self.headroom)
        found = min(math.floor(self.share * room), room - self.buffer, self.limit or room)
        return found if found > 0 else None

    def sentence(self, client: str, window: int | None, model: str | None = None) -> str:
        """Say when a client compacts by itself, with the title of the client."""
        by = f"by {self.setting}" if self.setting else "its default"
        if self.counts_history and self.is_on:
            return f"{client} compacts by its own estimate of the unpruned history"
        size, whole = self.point(window, model), self.window_for(window, model)
        if size is None:
            return f"{client} never compacts by itself{f' ({by})' if self.setting else ''}"
        of = f" of {whole / 1_000:,.0f}k" if whole else ""
        return f"{client} compacts at about {size / 1_000:,.0f}k{of} tokens ({by})"


NO_VERSION = r"(?!-\d{1,2}(?![\db]))"  # claude-opus-5 is not claude-opus-5-5, but gemma-4 is gemma-4-31b

# The defaults, each from the program of the version named


# Claude Code 2.1.332, and 33 compactions in recorded sessions of 2.1.5 to 2.1.226. It leaves room for a summary of at
# most 20,000 tokens, and 13,000 more. (Until 2.1.19 it left 32,000 for the summary, and compacted at 155k of 200k.)
CLAUDE = CompactionRule(headroom=20_000, buffer=13_000)
CLAUDE_WINDOW, CLAUDE_PERCENT = "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"
CLAUDE_OFF = re.compile(r'(?<!\\)"autoCompactEnabled"\s*:\s*false')
CLAUDE_LEAST = 100_000  # tokens: a smaller window in its settings counts as this
CLAUDE_SHORT = 200_000  # the window without that of a million tokens
# Codex 0.171.0: `ModelInfo::auto_compact_token_limit`, the list of models that it comes with, and the windows that it
# logs. A model that it does not know gets the usual window, and no setting makes a window larger than its largest.
# Recorded sessions of 0.118 to 0.142 were compacted at 188k to 241k of 272k: those versions add an estimate of the
# model's earlier reasoning. (The window of gpt-5.3-codex-spark is that of ChatGPT's list, in recorded sessions.)
CODEX_USUAL, CODEX_WIDE, CODEX_LARGE = 272_000, 500_000, 872_000
CODEX_RED, CODEX_SPARK = {"gpt-daybreak-red": 372_000}, {"gpt-5.3-codex-spark": 128_000}
CODEX = CompactionRule(
    share=0.9,
    windows={"gpt-6.2-sol": CODEX_WIDE, "gpt-6.1": CODEX_WIDE, **CODEX_RED, **CODEX_SPARK, "": CODEX_USUAL},
    largest={**CODEX_RED, **dict.fromkeys(("gpt-6", "gpt-5.6", "gpt-daybreak"), CODEX_LARGE), "": CODEX_USUAL},
)
# Gemini CLI 0.61.0, `chatCompressionService.ts` and `tokenLimits.ts`. It cuts only before words of the user, so a
# session with one request is never compacted.
GEMINI = CompactionRule(share=0.5, windows={"gemma-4": 256_000, "": 1_048_576})
# opencode 1.18.33, `session/overflow.ts`: by default it leaves the room of a reply, at most 32,000 tokens. If its list
# of models has a limit for the input alone, as for OpenAI's newer models, it leaves 20,000 of that.
OPENCODE_REPLY, OPENCODE_RESERVE = 32_000, 20_000
OPENCODE = CompactionRule(headroom=OPENCODE_REPLY, headrooms=dict.fromkeys(("gpt-5", "gpt-6"), OPENCODE_RESERVE))
# Qwen Code 0.24.4, `computeThresholds`. 0.15.10 compacts at 0.7 of the window.
QWEN = CompactionRule(share=0.85, buffer=33_000)
# pi 1.6.0, `compaction.ts`.
PI = CompactionRule(headroom=16_384)
# Copilot CLI 1.0.102 compacts in the background at 0.8 of the window and waits for it at 0.95; Cline 3.0.65 compacts
# at 0.9 of the room for the prompt. Both estimate the history themselves.
COPILOT, CLINE = CompactionRule(counts_history=True), CompactionRule(counts_history=True)
NEVER = CompactionRule(is_on=False)


# What a user has set


def _claude_rule(user: User) -> CompactionRule:
    environ, settings = claude_settings(user)
    off = next((name for name in ("DISABLE_COMPACT", "DISABLE_AUTO_COMPACT") if is_on(environ.get(name))), None)
    # A large file with the state of all projects, so it is not parsed.
    state = user.read(user.folder_of("CLAUDE_CONFIG_DIR") / ".claude.json") or ""
    if not off and settings.get("autoCompactEnabled", not CLAUDE_OFF.search(state)) is False:
        off = "autoCompactEnabled"
    rule, largest = CLAUDE, {}
    reply = to_number(environ.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS"))
    if reply and reply < CLAUDE.headroom:
        rule = replace(rule, headroom=int(reply), setting="CLAUDE_CODE_MAX_OUTPUT_TOKENS")
    if window := to_number(environ.get(CLAUDE_WINDOW)):
        largest, rule = {"": window}, replace(rule, setting=CLAUDE_WINDOW)
    elif largest := dict(_claude_windows(settings)):
        rule = replace(rule, setting="autoCompactWindow")
    percent = to_number(environ.get(CLAUDE_PERCENT))
    if percent and percent <= 100:
        rule = replace(rule, share=percent / 100, setting=CLAUDE_PERCENT)
    sizes = {name: max(CLAUDE_LEAST, int(size)) for name, size in largest.items()}
    if is_on(environ.get("CLAUDE_CODE_DISABLE_1M_CONTEXT")):
        sizes = {name: min(CLAUDE_SHORT, size) for name, size in {**sizes, "": sizes.get("", CLAUDE_SHORT)}.items()}
    return replace(rule, largest=sizes, is_on=not off, setting=off or rule.setting)


def _claude_windows(settings: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the windows that Claude Code may fill, by model, and for any other model by ""."""
    by_model = get_in(settings, "modelSettings")
    models = by_model if isinstance(by_model, Mapping) else {}
    for name, value in ({**models, "": settings}).items():
        if size := to_number(get_in(value, "autoCompactWindow")):
            yield name, size


def _codex_rule(user: User) -> CompactionRule:
    keys = ("model_context_window", "model_auto_compact_token_limit")
    window, limit = (to_number(codex_setting(user, key)) for key in keys)
    named = " and ".join(key for key, value in zip(keys, (window, limit), strict=True) if value)
    return replace(CODEX, window=int(window or 0) or None, limit=int(limit or 0) or None, setting=named)


def _gemini_rule(user: User) -> CompactionRule:
    share, where = _first_setting(user, ".gemini", "model", "compressionThreshold")
    return replace(GEMINI, share=share, setting=where) if share else GEMINI


def _qwen_rule(user: User) -> CompactionRule:
    own = to_number(_first_setting(user, ".qwen", "model", "generationConfig", "contextWindowSize")[0])
    rule = replace(QWEN, window=int(own) if own else None)
    old, where = _first_setting(user, ".qwen", "model", "chatCompression", "contextPercentageThreshold")
    if old == 0:
        return replace(rule, is_on=False, setting=where)
    share, where = (old, where) if old else _first_setting(user, ".qwen", "context", "autoCompactThreshold")
    return replace(rule, share=share, setting=where) if share else rule


def _first_setting(user: User, own: str, *names: str) -> tuple[float | None, str]:
    """Return a number in a client's settings.json, the project's first, with its name; (None, "") if there is none."""
    for folder in (user.folder, user.home):
        value = to_number(get_in(user.json(folder / own / "settings.json"), *names))
        if value is not None:
            return value, ".".join(names)
    return None, ""


def _opencode_rule(user: User) -> CompactionRule:
    config = opencode_config(user)
    off = "OPENCODE_DISABLE_AUTOCOMPACT" if is_on(user.environ.get("OPENCODE_DISABLE_AUTOCOMPACT")) else ""
    if not off and get_in(config, "compaction", "auto") is False:
        off = "compaction.auto"
    provider, _, model = str(user.option("-m", "--model") or config.get("model") or "").partition("/")
    limits = get_in(config, "provider", provider, "models", model, "limit")
    context, room, output = (to_number(get_in(limits, each)) for each in ("context", "input", "output"))
    most = to_number(user.environ.get("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX")) or OPENCODE_REPLY
    reply = int(min(output or most, most))
    reserved = to_number(get_in(config, "compaction", "reserved"))
    headroom = int(min(OPENCODE_RESERVE, reply) if reserved is None else reserved) if room else reply
    window = room or context
    rule = replace(OPENCODE, headroom=headroom, headrooms={}, window=int(window)) if window else OPENCODE
    return replace(rule, is_on=not off, setting=off or ("the limit of its model" if window else ""))


def _pi_rule(user: User) -> CompactionRule:
    rule = PI
    for folder in (user.folder_of("PI_CODING_AGENT_DIR", ".pi", "agent"), user.folder / ".pi"):  # the last one counts
        own = get_in(user.json(folder / "settings.json"), "compaction")
        reserve = to_number(get_in(own, "reserveTokens"))
        if reserve is not None:
            rule = replace(rule, headroom=int(reserve), setting="compaction.reserveTokens")
        if isinstance(switch := get_in(own, "enabled"), bool):
            rule = replace(rule, is_on=switch, setting=rule.setting if switch else "compaction.enabled")
    return rule


def _cline_rule(user: User) -> CompactionRule:
    is_off = user.option("--compaction") == "off"
    return replace(CLINE, is_on=False, setting="--compaction off") if is_off else CLINE


RULES: Mapping[str, Callable[[User], CompactionRule]] = {
    "claude": _claude_rule,
    "codex": _codex_rule,
    "gemini": _gemini_rule,
    "opencode": _opencode_rule,
    "qwen": _qwen_rule,
    "copilot": lambda user: COPILOT,
    "cline": _cline_rule,
    "pi": _pi_rule,
    "mini": lambda user: NEVER,
}


def rule_of(client_name: str, user: User) -> CompactionRule:
    """Return the compaction rule of a client with the user's settings. Raises ClientError if they cannot be read."""
    if client_name not in RULES:
        raise ClientError(f"it is not known when {client_name!r} compacts")
    return RULES[client_name](user)


# Requests, by which alone the proxy knows a client


# The beginnings of User-Agent headers: claude-cli/2.1.332, codex_exec/0.171.0, GeminiCLI/0.61.0, opencode/1.18.33,
# QwenCode/0.15.10, pi/1.6.0, and pi-coding-agent for older versions of pi.
AGENTS = {
    "claude-cli": CLAUDE,
    "codex": CODEX,
    "geminicli": GEMINI,
    "opencode": OPENCODE,
    "qwencode": QWEN,
    "pi/": PI,
    "pi-coding-agent": PI,
}
# Copilot CLI's mark of a compaction, and Codex' data on its turn, as JSON.
COPILOT_MARK = ("x-interaction-type", "conversation-compaction")
CODEX_TURN = "x-codex-turn-metadata"
CLIENT_HEADERS = ("user-agent", COPILOT_MARK[0], CODEX_TURN)  # the only ones that the functions below read
TRIGGER = "compaction_trigger"  # the type of the last item by which Codex asks the API for a compaction
# The beginnings of the last words of the user: Claude Code (newer, older), Codex, opencode (newer, older), Cline.
ASKED = re.compile(
    r"\s*(?:CRITICAL: Respond with TEXT ONLY\. Do NOT call any tools\.|Your task is to create a detailed summary of "
    r"|You are performing a CONTEXT CHECKPOINT COMPACTION\.|Provide a detailed prompt for continuing our conversation"
    r"|Summarize this session for continuation\.)"
)
# The beginnings of system prompts: Gemini CLI, Qwen Code and older Gemini CLI, opencode (newer, older), pi.
SUMMARIZER = re.compile(
    r"\s*You are (?:a specialized system component responsible for distilling chat history"
    r"|the component that summarizes internal chat history|an? (?:anchored )?context summarization a"
    r"|a helpful AI assistant tasked with summarizing conversations)"
)


def rule_for_headers(headers: Mapping[str, str]) -> CompactionRule | None:
    """Return the default rule of the client that sent these headers; None for an unknown client."""
    agent = _header(headers, "user-agent").lower()
    return next((rule for name, rule in AGENTS.items() if agent.startswith(name)), None)


def is_compaction_request(headers: Mapping[str, str], body: Mapping[str, Any]) -> bool:
    """Return whether a request asks for a summary that replaces the conversation, whatever the reason."""
    if _header(headers, COPILOT_MARK[0]) == COPILOT_MARK[1] or _asks_as_codex(headers):
        return True
    last = next(reversed(_messages(body)), None)
    if get_in(last, "type") == TRIGGER:
        return True
    words = _texts(last) if get_in(last, "role") == "user" else ()
    return any(map(ASKED.match, words)) or has_summarizer_prompt(body)


def has_summarizer_prompt(body: Mapping[str, Any]) -> bool:
    """Return whether the system prompt is one for compactions, so that nothing is read from the cache."""
    body, first = _unwrapped(body), next(iter(_messages(body)), None)
    begins = first if get_in(first, "role") in ("system", "developer") else None
    system = [body.get("system"), body.get("instructions"), body.get("systemInstruction"), begins]
    return any(map(SUMMARIZER.match, _texts(system)))


def _messages(body: Mapping[str, Any]) -> list[Any]:
    body = _unwrapped(body)
    return next((body[name] for name in ("messages", "input", "contents") if isinstance(body.get(name), list)), [])


def _unwrapped(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request in a body of Gemini CLI with a Google login; any other body itself."""
    inner = body.get("request")
    return inner if isinstance(inner, Mapping) else body


def _asks_as_codex(headers: Mapping[str, str]) -> bool:
    try:
        turn = json.loads(_header(headers, CODEX_TURN) or "{}")
    except ValueError:
        return False
    return bool(get_in(turn, "request_kind") == "compaction")


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for each, value in headers.items() if each.lower() == name), "")


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a message, or of a system prompt, but not those in results of tools."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case {"type": "tool_result"}:
            return
        case {"text": content} | {"content": content} | {"parts": content}:
            yield from _texts(content)


def _first(sizes: Mapping[str, int], model: str | None) -> int | None:
    """Return the size for the first name that begins a model's name and ends before a part of its version."""
    name = (model or "").rpartition("/")[2].lower()
    return next((size for start, size in sizes.items() if re.match(re.escape(start) + NO_VERSION, name)), None)


def to_number(value: object) -> float | None:
    """Return a number in settings, such as 200000, "200000", "200k" or "1m"; None for anything else, and below 0."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", str(value).strip().lower())
    return float(match[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[match[2]] if match else None
