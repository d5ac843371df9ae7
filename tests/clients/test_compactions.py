"""When each client compacts by itself, by its defaults and the user's settings, and which requests ask for it."""

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pytest
from tables import each_row

from autoprune.apps.clients import CLIENTS, User, find_client
from autoprune.apps.clients.compactions import is_compaction_request, rule_for_headers, rule_of
from autoprune.errors import ClientError

HOME, FOLDER = PurePath("/home/ann"), PurePath("/work/project")
WORDS = "Fix the failing test in parse.py."


def user(*arguments: str, environ: Mapping[str, str] | None = None, files: Mapping[str, Any] | None = None) -> User:
    """A user with these files, by absolute path or relative to the home folder. Values other than text become JSON."""
    texts = {HOME / name: text if isinstance(text, str) else json.dumps(text) for name, text in (files or {}).items()}
    return User(environ=environ or {}, arguments=arguments, home=HOME, folder=FOLDER, read=texts.get)


def point(client: str, window: int | None, model: str | None = None, *arguments: str, **given: Any) -> int | None:
    return rule_of(client, user(*arguments, **given)).point(window, model)


@each_row(
    "client, model, window, size",
    [
        ("claude", "claude-opus-4-6", 200_000, 167_000),
        ("claude", "claude-opus-5-5", 1_000_000, 967_000),
        ("codex", "gpt-5.5", 1_050_000, 244_800),
        ("codex", "gpt-6.1-sol", 1_050_000, 450_000),
        ("codex", "gpt-6.2-sol", 1_050_000, 450_000),
        ("codex", "gpt-6.2-astra", 1_050_000, 244_800),
        ("codex", "gpt-5.3-codex-spark", None, 115_200),
        ("codex", "a-model-that-it-does-not-know", None, 244_800),
        ("gemini", "gemini-3.1-pro-preview", 1_000_000, 524_288),
        ("gemini", "gemma-4-31b-it", None, 128_000),
        ("opencode", "claude-sonnet-4-5", 200_000, 168_000),
        ("opencode", "gpt-5.1-codex", 272_000, 252_000),
        ("opencode", "gpt-5.5", 922_000, 902_000),
        ("opencode", "a-local-model", 16_384, None),
        ("qwen", "qwen3-coder-plus", 1_000_000, 850_000),
        ("qwen", "qwen3-coder-plus", 131_072, 98_072),
        ("pi", "claude-sonnet-4-5", 200_000, 183_616),
        ("copilot", "gpt-5.5", 400_000, None),
        ("cline", "claude-sonnet-4-5", 200_000, None),
        ("mini", "claude-sonnet-4-5", 200_000, None),
        ("claude", "an-unknown-model", None, None),
    ],
)
def test_a_client_compacts_by_default_above(client: str, model: str, window: int | None, size: int | None):
    assert point(client, window, model) == size


def test_there_is_a_rule_for_each_client():
    assert [rule_of(each.name, user()).setting for each in CLIENTS] == [""] * len(CLIENTS)
    with pytest.raises(ClientError, match=r"not known when 'vim' compacts"):
        rule_of("vim", user())


@each_row(
    "environ, settings, size, setting",
    [
        ({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}, {}, 90_000, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"),
        ({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "99"}, {}, 167_000, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"),
        ({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "0"}, {}, 167_000, ""),
        ({}, {"env": {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}}, 90_000, "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "150k"}, {}, 117_000, "CLAUDE_CODE_AUTO_COMPACT_WINDOW"),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "50000"}, {}, 67_000, "CLAUDE_CODE_AUTO_COMPACT_WINDOW"),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "1m"}, {}, 167_000, "CLAUDE_CODE_AUTO_COMPACT_WINDOW"),
        ({}, {"autoCompactWindow": 150_000}, 117_000, "autoCompactWindow"),
        ({}, {"autoCompactWindow": "auto"}, 167_000, ""),
        ({"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000"}, {}, 179_000, "CLAUDE_CODE_MAX_OUTPUT_TOKENS"),
        ({"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "64000"}, {}, 167_000, ""),
        ({"DISABLE_AUTO_COMPACT": "1"}, {}, None, "DISABLE_AUTO_COMPACT"),
        ({"DISABLE_AUTO_COMPACT": "0"}, {}, 167_000, ""),
        ({"DISABLE_COMPACT": "true"}, {}, None, "DISABLE_COMPACT"),
        ({}, {"autoCompactEnabled": False}, None, "autoCompactEnabled"),
    ],
)
def test_claude_code_compacts_where_its_user_says(
    environ: Mapping[str, str], settings: Mapping[str, Any], size: int | None, setting: str
):
    rule = rule_of("claude", user(environ=environ, files={".claude/settings.json": settings}))
    assert (rule.point(200_000, "claude-opus-4-6"), rule.setting) == (size, setting)


def test_claude_code_also_reads_its_other_settings():
    assert point("claude", 200_000, files={".claude.json": {"autoCompactEnabled": False}}) is None
    project = {"/work/project/.claude/settings.local.json": {"autoCompactEnabled": False}}
    assert point("claude", 200_000, files=project) is None
    assert point("claude", 200_000, None, "--settings", '{"autoCompactEnabled": false}') is None
    assert point("claude", 1_000_000, environ={"CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}) == 167_000


def test_the_window_that_claude_code_may_fill_depends_on_the_model():
    own = {"modelSettings": {"claude-opus-5": {"autoCompactWindow": 400_000}}, "autoCompactWindow": 600_000}
    files = {".claude/settings.json": own}
    models = ("claude-opus-5-20260401", "claude-opus-5", "claude-opus-5-5", "claude-sonnet-5")
    rule = rule_of("claude", user(files=files))
    assert [rule.point(1_000_000, each) for each in models] == [367_000, 367_000, 567_000, 567_000]
    rule = rule_of("claude", user(files=files, environ={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "300k"}))
    assert {rule.point(1_000_000, each) for each in models} == {267_000}
    own["modelSettings"]["claude-opus-5"]["autoCompactWindow"] = 150_000
    rule = rule_of("claude", user(files=files, environ={"CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}))
    assert [rule.point(1_000_000, each) for each in models] == [117_000, 117_000, 167_000, 167_000]


@each_row(
    "arguments, config, model, size",
    [
        ((), "model_auto_compact_token_limit = 150000", "gpt-5.5", 150_000),
        ((), "model_auto_compact_token_limit = 9000000", "gpt-5.5", 244_800),
        ((), "model_context_window = 400_000", "gpt-6-sol", 360_000),
        ((), "model_context_window = 1_000_000", "gpt-6.1-terra", 784_800),
        ((), "model_context_window = 1_000_000", "gpt-5.5", 244_800),
        ((), "model_context_window = 1_000_000", "gpt-daybreak-red-latest", 334_800),
        ((), "model_context_window = 100_000", "a-model-that-it-does-not-know", 90_000),
        (("exec", "-c", "model_auto_compact_token_limit=90000"), "model_context_window = 200000", "gpt-5.5", 90_000),
        (("-p", "fast"), "[profiles.fast]\nmodel_context_window = 128000", "gpt-5.5", 115_200),
    ],
)
def test_codex_compacts_where_its_user_says(arguments: tuple[str, ...], config: str, model: str, size: int):
    assert point("codex", 1_050_000, model, *arguments, files={".codex/config.toml": config}) == size


def test_the_window_in_a_clients_settings_is_known():
    files = {".codex/config.toml": "model_context_window = 400_000"}
    assert rule_of("codex", user(files=files)).window_for(1_050_000, "gpt-6-sol") == 400_000
    assert rule_of("codex", user()).window_for(1_050_000, "gpt-5.5") == 272_000
    files = {".qwen/settings.json": {"model": {"generationConfig": {"contextWindowSize": 64_000}}}}
    assert rule_of("qwen", user(files=files)).window_for(None, "local") == 64_000


@each_row(
    "client, file, settings, size",
    [
        ("gemini", ".gemini/settings.json", {"model": {"compressionThreshold": 0.2}}, 209_715),
        ("gemini", "/work/project/.gemini/settings.json", {"model": {"compressionThreshold": 0.8}}, 838_860),
        ("gemini", ".gemini/settings.json", {"model": {"compressionThreshold": 0}}, 524_288),
        ("qwen", ".qwen/settings.json", {"model": {"chatCompression": {"contextPercentageThreshold": 0}}}, None),
        ("qwen", ".qwen/settings.json", {"model": {"chatCompression": {"contextPercentageThreshold": 0.6}}}, 600_000),
        ("qwen", ".qwen/settings.json", {"context": {"autoCompactThreshold": 0.5}}, 500_000),
        ("pi", ".pi/agent/settings.json", {"compaction": {"reserveTokens": 50_000}}, 950_000),
        ("pi", ".pi/agent/settings.json", {"compaction": {"enabled": False}}, None),
        ("pi", "/work/project/.pi/settings.json", {"compaction": {"reserveTokens": 100_000}}, 900_000),
        ("opencode", ".config/opencode/opencode.json", {"compaction": {"auto": False}}, None),
    ],
)
def test_a_setting_moves_the_point(client: str, file: str, settings: Mapping[str, Any], size: int | None):
    assert point(client, 1_000_000, "a-model", files={file: settings}) == size


@each_row(
    "limit, compaction, size",
    [
        ({"context": 400_000, "output": 8_000}, {}, 392_000),
        ({"context": 400_000, "output": 128_000}, {}, 368_000),
        ({"context": 400_000, "input": 272_000, "output": 128_000}, {}, 252_000),
        ({"context": 400_000, "input": 272_000, "output": 8_000}, {}, 264_000),
        ({"context": 400_000, "input": 272_000, "output": 128_000}, {"reserved": 72_000}, 200_000),
    ],
)
def test_opencode_goes_by_the_limits_of_the_model_in_its_configuration(
    limit: Mapping[str, int], compaction: Mapping[str, int], size: int
):
    config = {"model": "lab/m", "provider": {"lab": {"models": {"m": {"limit": limit}}}}, "compaction": compaction}
    assert point("opencode", None, "m", files={".config/opencode/opencode.json": config}) == size


@each_row(
    "agent, size",
    [
        ("claude-cli/2.1.332 (external, sdk-cli)", 167_000),
        ("codex_exec/0.171.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.171.0)", 244_800),
        ("codex_cli_rs/0.142.5 (Mac OS 15.0; arm64)", 244_800),
        ("GeminiCLI-tui/0.61.0/gemini-3.1-pro-preview (linux; x64; terminal)", 524_288),
        ("opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14", 168_000),
        ("QwenCode/0.15.10 (linux; x64)", 167_000),
        ("pi/1.6.0 (linux; node/v24.21.0; x64)", 183_616),
        ("pi-coding-agent", 183_616),
    ],
)
def test_a_client_is_known_by_its_user_agent(agent: str, size: int):
    rule = rule_for_headers({"User-Agent": agent})
    assert rule is not None
    assert rule.point(200_000, "m") == size
    assert rule_for_headers({"user-agent": f"my-agent/1 {agent}"}) is rule_for_headers({}) is None


@each_row(
    "client, environ, window, sentence",
    [
        ("claude", {}, 200_000, "Claude Code compacts at about 167k of 200k tokens (its default)"),
        (
            "claude",
            {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "60"},
            1_000_000,
            "Claude Code compacts at about 588k of 1,000k tokens (by CLAUDE_AUTOCOMPACT_PCT_OVERRIDE)",
        ),
        ("claude", {"DISABLE_COMPACT": "1"}, 200_000, "Claude Code never compacts by itself (by DISABLE_COMPACT)"),
        ("mini", {}, 200_000, "mini-swe-agent never compacts by itself"),
        ("copilot", {}, 200_000, "Copilot CLI compacts by its own estimate of the unpruned history"),
    ],
)
def test_a_sentence_says_when_a_client_compacts(client: str, environ: Mapping[str, str], window: int, sentence: str):
    assert rule_of(client, user(environ=environ)).sentence(find_client(client).title, window) == sentence


def text(words: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


CLAUDE_ASKS = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use Read, Bash, Grep …"
OLD_CLAUDE_ASKS = "Your task is to create a detailed summary of the conversation so far, paying close attention …"
CODEX_ASKS = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM …"
GEMINI_SAYS = "You are a specialized system component responsible for distilling chat history into a structured XML …"
OLD_GEMINI_SAYS = "You are the component that summarizes internal chat history into a given structure.\n\nWhen the …"
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "1 failed"}
TURN = {"x-codex-turn-metadata": '{"request_kind": "compaction", "compaction": {"trigger": "auto"}}'}


@each_row(
    "headers, body",
    [
        ({}, {"messages": [text(WORDS), {"role": "user", "content": [RESULT, {"type": "text", "text": CLAUDE_ASKS}]}]}),
        ({}, {"messages": [text(WORDS), text(OLD_CLAUDE_ASKS)]}),
        ({}, {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": CODEX_ASKS}]}]}),
        ({}, {"input": [{"type": "compaction_trigger"}]}),
        (TURN, {"input": []}),
        ({"X-Interaction-Type": "conversation-compaction"}, {"messages": [text(WORDS)]}),
        ({}, {"systemInstruction": {"parts": [{"text": GEMINI_SAYS}]}, "contents": []}),
        ({}, {"request": {"systemInstruction": {"parts": [{"text": f"\n{GEMINI_SAYS}"}]}, "contents": []}}),
        ({}, {"messages": [{"role": "system", "content": OLD_GEMINI_SAYS}, text(WORDS)]}),
        ({}, {"system": "You are a context summarization assistant. Your task is …", "messages": [text(WORDS)]}),
        ({}, {"messages": [{"role": "system", "content": "You are a context summarization agent. You …"}]}),
        ({}, {"instructions": "You are an anchored context summarization assistant for …", "input": []}),
        ({}, {"messages": [text("Summarize this session for continuation. Be concise and factual.\n\n## Goal")]}),
    ],
)
def test_a_request_for_a_compaction_is_known(headers: Mapping[str, str], body: Mapping[str, Any]):
    assert is_compaction_request(headers, body)


@each_row(
    "headers, body",
    [
        ({}, {}),
        ({}, {"messages": "none", "input": None, "request": 1}),
        ({"x-codex-turn-metadata": '{"request_kind": "turn"}'}, {"input": "Hi."}),
        ({"x-codex-turn-metadata": "no JSON"}, {"input": []}),
        ({}, {"messages": [text(CLAUDE_ASKS), {"role": "assistant", "content": "A summary."}, text(WORDS)]}),
        ({}, {"messages": [text(f"What does this prompt of an agent mean? {CLAUDE_ASKS}")]}),
        ({}, {"messages": [{"role": "user", "content": [{**RESULT, "content": CLAUDE_ASKS}]}]}),
        ({}, {"input": [{"type": "function_call_output", "call_id": "c", "output": CODEX_ASKS}]}),
        ({}, {"messages": [{"role": "assistant", "content": CODEX_ASKS}]}),
        ({}, {"system": [{"type": "text", "text": "You are Claude Code."}], "messages": [text(WORDS)]}),
    ],
)
def test_any_other_request_is_not(headers: Mapping[str, str], body: Mapping[str, Any]):
    assert not is_compaction_request(headers, body)
