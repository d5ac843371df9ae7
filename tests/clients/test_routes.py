"""What is set for one run of each client, and which runs are refused."""

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import pytest
from tables import each_row

from autoprune.apps.clients import CLIENTS, Route, User, find_client
from autoprune.errors import ClientError

HOME, FOLDER = PurePath("/home/ann"), PurePath("/work/project")
GATEWAY = "https://gateway.example/llm/v1"
CLAUDE = {"ANTHROPIC_BASE_URL": "http://proxy", "ENABLE_TOOL_SEARCH": "true"}
VENDORS = ("https://api.anthropic.com", "https://api.openai.com", "https://generativelanguage.googleapis.com")


def user(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    files: Mapping[str, Any] | None = None,
    upstream: str | None = None,
) -> User:
    """A user with these files, by absolute path or relative to the home folder. Values other than text become JSON."""
    texts = {HOME / name: text if isinstance(text, str) else json.dumps(text) for name, text in (files or {}).items()}
    return User(environ=environ or {}, arguments=arguments, home=HOME, folder=FOLDER, read=texts.get, upstream=upstream)


def route(client: str, *arguments: str, **given: Any) -> Route:
    return find_client(client).route(user(*arguments, **given)).through("http://proxy", "/tmp/x")


def provider(content: str) -> dict[str, str]:
    """The base addresses in a configuration of opencode."""
    providers = json.loads(content)["provider"]
    return {name: each["options"]["baseURL"] for name, each in providers.items()}


def test_a_variable_routes_claude_code():
    assert route("claude", "-p", "Hi.") == Route(VENDORS[0], CLAUDE, ("-p", "Hi."))


@each_row(
    "given, value",
    [
        ({}, "true"),
        ({"upstream": VENDORS[0]}, "true"),
        ({"environ": {"ENABLE_TOOL_SEARCH": "auto:5"}}, None),
        ({"environ": {"ENABLE_TOOL_SEARCH": ""}}, None),
        ({"files": {".claude/settings.json": {"env": {"ENABLE_TOOL_SEARCH": "false"}}}}, None),
        ({"environ": {"ANTHROPIC_BASE_URL": GATEWAY}}, None),
        ({"upstream": GATEWAY}, None),
    ],
)
def test_claude_code_keeps_its_tool_search_unless_the_user_decides_it(given: dict[str, Any], value: str | None):
    assert route("claude", **given).environ.get("ENABLE_TOOL_SEARCH") == value


def test_the_address_in_claude_codes_settings_becomes_the_upstream_and_an_option_replaces_it():
    routed = route("claude", "-c", files={".claude/settings.json": {"env": {"ANTHROPIC_BASE_URL": GATEWAY}}})
    assert routed.upstream == "https://gateway.example"
    assert routed.arguments == ("--settings", '{"env": {"ANTHROPIC_BASE_URL": "http://proxy/llm/v1"}}', "-c")


@each_row("name", ["settings.json", "settings.local.json"])
def test_a_projects_settings_choose_the_address_only_if_the_user_set_the_same(name: str):
    files = {f"/work/project/.claude/{name}": {"env": {"ANTHROPIC_BASE_URL": GATEWAY}}}
    with pytest.raises(ClientError, match=r"settings in /work/project/.claude set ANTHROPIC_BASE_URL to https://gate"):
        route("claude", files=files)
    said = route("claude", files=files, environ={"ANTHROPIC_BASE_URL": GATEWAY})
    assert said.upstream == route("claude", files=files, upstream=GATEWAY).upstream == "https://gateway.example"
    assert said.arguments == ("--settings", '{"env": {"ANTHROPIC_BASE_URL": "http://proxy/llm/v1"}}')
    own = json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://lab:1"}})
    assert route("claude", "--settings", own, files=files).upstream == "http://lab:1"


def test_given_settings_of_claude_code_are_passed_on_with_the_proxys_address():
    given = {"model": "opus", "env": {"ANTHROPIC_BASE_URL": GATEWAY, "A": "1"}}
    own = {".claude/settings.json": {"env": {"ANTHROPIC_BASE_URL": "http://lab:1"}}, "/work/project/mine.json": given}
    for option in (("--settings", "mine.json"), ("--settings=mine.json",), ("--settings", json.dumps(given))):
        routed = route("claude", "-c", *option, files=own)
        assert routed.upstream == "https://gateway.example"
        assert routed.arguments == ("--settings", "/tmp/x/settings.json", "-c")
        env = {"ANTHROPIC_BASE_URL": "http://proxy/llm/v1", "A": "1"}
        assert json.loads(routed.files["settings.json"]) == {"model": "opus", "env": env}
    others = ("--settings", '{"model": "opus"}')
    assert route("claude", *others) == Route(VENDORS[0], CLAUDE, others)


@each_row(
    "client, file, text",
    [
        ("gemini", ".gemini/.env", f'# mine\nexport GOOGLE_GEMINI_BASE_URL = "{GATEWAY}"'),
        ("gemini", ".env", f"GOOGLE_GEMINI_BASE_URL={GATEWAY} # the lab's"),
        ("qwen", ".qwen/.env", f"OPENAI_API_KEY=k\nOPENAI_BASE_URL='{GATEWAY}'"),
        ("mini", ".config/mini-swe-agent/.env", f"OPENAI_API_BASE='{GATEWAY}'\nMSWEA_MODEL_NAME=openai/m\n"),
    ],
)
def test_an_address_in_the_users_env_file_is_the_upstream(client: str, file: str, text: str):
    routed = route(client, files={file: text})
    assert routed.upstream == "https://gateway.example"
    assert {*routed.environ.values()} == {"http://proxy/llm/v1"}


def test_a_variable_and_an_upstream_take_precedence_over_an_env_file():
    files = {"/work/project/.env": f"OPENAI_BASE_URL={GATEWAY}"}
    assert route("qwen", files=files, environ={"OPENAI_BASE_URL": "http://lab:1/v1"}).upstream == "http://lab:1"
    assert route("qwen", files=files, upstream="http://lab:1/v1").upstream == "http://lab:1"


def test_a_variable_that_opencodes_sdks_read_is_the_upstream():
    assert route("opencode", "-m", "openai/gpt-5", environ={"OPENAI_BASE_URL": GATEWAY}).upstream == GATEWAY[:23]


def test_a_variable_in_opencodes_configuration_is_expanded():
    lab = {"provider": {"lab": {"options": {"baseURL": "{env:LAB}/v1"}}}}
    routed = route(
        "opencode", "-m", "lab/m", files={".config/opencode/opencode.json": lab}, environ={"LAB": "http://lab:1"}
    )
    assert routed.upstream == "http://lab:1"


@each_row(
    "arguments, files, upstream, first",
    [
        ((), {}, VENDORS[1], 'openai_base_url="http://proxy/v1"'),
        (("exec", "-c", f'openai_base_url="{GATEWAY}"'), {}, GATEWAY[:23], 'openai_base_url="http://proxy/llm/v1"'),
        ((f"-copenai_base_url={GATEWAY}",), {}, GATEWAY[:23], 'openai_base_url="http://proxy/llm/v1"'),
        ((f"--config=openai_base_url={GATEWAY}",), {}, GATEWAY[:23], 'openai_base_url="http://proxy/llm/v1"'),
        ((), {"config.toml": f'openai_base_url = "{GATEWAY}"'}, GATEWAY[:23], 'openai_base_url="http://proxy/llm/v1"'),
        (
            ("--profile", "fast"),
            {
                "config.toml": '[profiles.fast]\nmodel_provider = "lab"\n[model_providers.lab]\n'
                'base_url = "http://lab:8000/v1"'
            },
            "http://lab:8000",
            'model_providers.lab.base_url="http://proxy/v1"',
        ),
        (
            (),
            {"auth.json": {"OPENAI_API_KEY": None, "tokens": {"access_token": "t"}}},
            "https://chatgpt.com",
            'openai_base_url="http://proxy/backend-api/codex"',
        ),
        ((), {"auth.json": {"auth_mode": "apikey", "tokens": None}}, VENDORS[1], 'openai_base_url="http://proxy/v1"'),
    ],
)
def test_an_override_of_its_providers_key_routes_codex(
    arguments: tuple[str, ...], files: dict[str, Any], upstream: str, first: str
):
    routed = route("codex", *arguments, files={f".codex/{name}": text for name, text in files.items()})
    quiet = "error,codex_api::endpoint::responses_websocket=off"
    assert (routed.upstream, routed.environ) == (upstream, {"RUST_LOG": quiet})
    assert routed.arguments[:2] == ("-c", first)
    assert not any(GATEWAY in argument for argument in routed.arguments)


@each_row(
    "login, upstream, environ",
    [
        ("gemini-api-key", VENDORS[2], {"GOOGLE_GEMINI_BASE_URL": "http://proxy"}),
        ("oauth-personal", "https://cloudcode-pa.googleapis.com", {"CODE_ASSIST_ENDPOINT": "http://proxy"}),
    ],
)
def test_the_variable_of_its_login_routes_gemini_cli(login: str, upstream: str, environ: dict[str, str]):
    settings = {".gemini/settings.json": {"security": {"auth": {"selectedType": login}}}}
    assert route("gemini", files=settings) == Route(upstream, environ)


def test_opencode_is_routed_in_the_models_provider_and_keeps_the_users_configuration():
    own = (
        '{"theme": "dark", /* mine */ "provider": {"lab": {"options": {"baseURL": "http://lab:1/v1", "apiKey": "k"},}}}'
    )
    routed = route("opencode", "run", "-m", "lab/m", environ={"OPENCODE_CONFIG_CONTENT": own})
    assert (routed.upstream, routed.arguments) == ("http://lab:1", ("run", "-m", "lab/m"))
    assert json.loads(routed.environ["OPENCODE_CONFIG_CONTENT"]) == {
        "theme": "dark",
        "provider": {"lab": {"options": {"baseURL": "http://proxy/v1", "apiKey": "k"}}},
    }


def test_opencode_without_a_model_is_routed_in_three_providers():
    routed = route("opencode")
    assert routed.upstream is None  # the proxy knows it by the path
    assert provider(routed.environ["OPENCODE_CONFIG_CONTENT"]) == {
        "anthropic": "http://proxy/v1",
        "openai": "http://proxy/v1",
        "google": "http://proxy/v1beta",
    }


def test_a_configured_address_decides_and_the_other_providers_are_not_routed():
    project = {"/work/opencode.jsonc": {"provider": {"openai": {"options": {"baseURL": GATEWAY}}}}}
    routed = route("opencode", files=project)
    assert routed.upstream == "https://gateway.example"
    assert provider(routed.environ["OPENCODE_CONFIG_CONTENT"]) == {"openai": "http://proxy/llm/v1"}


def test_a_temporary_extension_routes_pi():
    models = {".pi/agent/models.json": {"providers": {"lab": {"baseUrl": "http://lab:1/v1"}}}}
    routed = route("pi", "--model", "lab/m", files=models)
    assert (routed.upstream, routed.arguments) == (
        "http://lab:1",
        ("--extension", "/tmp/x/proxy.ts", "--model", "lab/m"),
    )
    line = '  pi.registerProvider("lab", { baseUrl: "http://proxy/v1" });'
    assert routed.files == {"proxy.ts": f"export default function (pi) {{\n{line}\n}}\n"}


def test_a_copy_of_its_providers_routes_cline():
    mine = {"settings": {"apiKey": "k", "baseUrl": GATEWAY}}
    settings = {"lastUsedProvider": "openai-compatible", "providers": {"openai-compatible": mine, "other": {}}}
    routed = route("cline", files={".cline/data/settings/providers.json": settings})
    assert routed.environ == {
        "CLINE_PROVIDER_SETTINGS_PATH": "/tmp/x/providers.json",
        "CLINE_SESSION_BACKEND_MODE": "local",  # a daemon would outlive the copy
    }
    assert json.loads(routed.files["providers.json"]) == {
        "lastUsedProvider": "openai-compatible",
        "providers": {
            "openai-compatible": {"settings": {"apiKey": "k", "baseUrl": "http://proxy/llm/v1"}},
            "other": {},
        },
    }


PROVIDERS = {"lastUsedProvider": "lab", "providers": {"lab": {"settings": {"apiKey": "k", "baseUrl": GATEWAY}}}}
WRONG = {"lastUsedProvider": "lab", "providers": {"lab": {"settings": {"apiKey": "k", "baseUrl": "http://wrong"}}}}


@each_row(
    "arguments, environ, folder, kept",
    [
        (("--data-dir", "/data", "Hi."), {}, "/data", ("Hi.",)),
        (("--data-dir=/data", "Hi."), {}, "/data", ("Hi.",)),
        (("--data-dir", "/first", "--data-dir", "/data"), {}, "/data", ()),
        (("--data-dir", "data"), {}, "/work/project/data", ()),
        (("--cwd", "/other", "--data-dir", "data"), {}, "/other/data", ("--cwd", "/other")),
        (("-c", "sub", "--data-dir", "data"), {}, "/work/project/sub/data", ("-c", "sub")),
        ((), {"CLINE_SANDBOX": "1", "CLINE_SANDBOX_DATA_DIR": "/data"}, "/data", ()),
        ((), {"CLINE_SANDBOX": "1", "TMPDIR": "/scratch"}, "/scratch/cline-sandbox", ()),
        (("--data-dir", "/data"), {"CLINE_PROVIDER_SETTINGS_PATH": "/wrong.json"}, "/data", ()),
        (("--data-dir", "/data"), {"CLINE_SANDBOX_DATA_DIR": "/wrong"}, "/data", ()),
    ],
)
def test_variables_replace_clines_data_folder_option_which_would_overwrite_the_address(
    arguments: tuple[str, ...], environ: dict[str, str], folder: str, kept: tuple[str, ...]
):
    files = {f"{folder}/settings/providers.json": PROVIDERS, ".cline/data/settings/providers.json": WRONG}
    routed = route("cline", *arguments, environ=environ, files={**files, "/wrong.json": WRONG})
    assert (routed.upstream, routed.arguments) == ("https://gateway.example", kept)
    assert routed.environ == {
        "CLINE_PROVIDER_SETTINGS_PATH": "/tmp/x/providers.json",
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_SANDBOX": "0",
        "CLINE_DATA_DIR": folder,
        "CLINE_DB_DATA_DIR": f"{folder}/db",
        "CLINE_SESSION_DATA_DIR": f"{folder}/sessions",
        "CLINE_TEAM_DATA_DIR": f"{folder}/teams",
        "CLINE_HOOKS_LOG_PATH": f"{folder}/logs/hooks.jsonl",
    }


@each_row(
    "arguments, environ, file",
    [
        (("--config", "/c"), {}, "/c/data/settings/providers.json"),
        (("--config", "c"), {}, "/work/project/c/data/settings/providers.json"),
        ((), {"CLINE_DIR": "/c"}, "/c/data/settings/providers.json"),
        (("--config", "/c"), {"CLINE_DIR": "/d"}, "/c/data/settings/providers.json"),
        (("--config", "/c"), {"CLINE_DATA_DIR": "/d"}, "/d/settings/providers.json"),
        (("--", "--data-dir", "/d"), {}, ".cline/data/settings/providers.json"),
        ((), {"CLINE_SANDBOX": "0", "CLINE_SANDBOX_DATA_DIR": "/d"}, ".cline/data/settings/providers.json"),
        (("--config", "/c"), {"CLINE_PROVIDER_SETTINGS_PATH": "/p.json"}, "/p.json"),
    ],
)
def test_the_providers_of_cline_are_read_where_cline_reads_them(
    arguments: tuple[str, ...], environ: dict[str, str], file: str
):
    routed = route("cline", *arguments, environ=environ, files={file: PROVIDERS})
    assert (routed.upstream, routed.arguments) == ("https://gateway.example", arguments)
    assert routed.environ.keys() == {"CLINE_PROVIDER_SETTINGS_PATH", "CLINE_SESSION_BACKEND_MODE"}


def test_cline_finds_its_own_models_beside_the_copy_of_its_providers():
    settings = ".cline/data/settings"
    files = {f"{settings}/providers.json": PROVIDERS, f"{settings}/models.json": '{"own": 1}'}
    assert route("cline", files=files).files["models.json"] == '{"own": 1}'


def test_a_profile_of_codex_is_a_file_merged_into_its_configuration():
    config = "[model_providers.lab]\nbase_url = 'http://wrong/v1'\nname = 'lab'\n"
    profile = f"model_provider = 'lab'\n[model_providers.lab]\nbase_url = '{GATEWAY}'\n"
    files = {".codex/config.toml": config, ".codex/lab.config.toml": profile}
    for given in (("-p", "lab"), ("-plab",), ("exec", "--profile=lab")):
        routed = route("codex", *given, files=files)
        assert routed.upstream == "https://gateway.example"
        assert routed.arguments == ("-c", 'model_providers.lab.base_url="http://proxy/llm/v1"', *given)
    assert route("codex", files=files).upstream == "https://api.openai.com"


@each_row(
    "arguments, model",
    [
        (("-m", "a"), "a"),
        (("-ma",), "a"),
        (("--model=a",), "a"),
        (("-m", "b", "--model", "a"), "a"),
        (("-m", "a", "--", "-m", "b"), "a"),
        (("-m",), None),
        (("--modest", "a"), None),
        ((), None),
    ],
)
def test_the_value_of_an_option_is_found_as_the_clients_find_it(arguments: tuple[str, ...], model: str | None):
    assert user(*arguments).option("-m", "--model") == model


@each_row(
    "client, arguments",
    [
        ("claude", ("--bg", "Hi.")),
        ("claude", ("-p", "--cloud=x")),
        ("claude", ("attach", "1")),
        ("codex", ("--remote", "ws://lab:1")),
        ("codex", ("cloud",)),
        ("opencode", ("run", "--attach", "http://lab:1", "Hi.")),
        ("opencode", ("attach", "http://lab:1")),
    ],
)
def test_a_run_in_which_another_process_calls_the_model_is_refused(client: str, arguments: tuple[str, ...]):
    with pytest.raises(
        ClientError, match=r"would bypass the proxy with .*, because another process then calls the model"
    ):
        route(client, *arguments)
    assert route(client, "run", "--", *arguments)


@each_row(
    "client, arguments, environ, set",
    [
        ("qwen", (), {"OPENAI_BASE_URL": GATEWAY}, {"OPENAI_BASE_URL": "http://proxy/llm/v1"}),
        (
            "copilot",
            (),
            {"COPILOT_PROVIDER_BASE_URL": GATEWAY},
            {
                "COPILOT_PROVIDER_BASE_URL": "http://proxy/llm/v1",
                "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "900000",
            },
        ),
        (
            "mini",
            ("-m", "openai/m"),
            {"OPENAI_API_BASE": GATEWAY},
            {"OPENAI_BASE_URL": "http://proxy/llm/v1", "OPENAI_API_BASE": "http://proxy/llm/v1"},
        ),
    ],
)
def test_variables_route_the_others(
    client: str, arguments: tuple[str, ...], environ: dict[str, str], set: dict[str, str]
):
    assert route(client, *arguments, environ=environ) == Route("https://gateway.example", set, arguments)


def test_an_option_routes_qwen_code_if_it_or_a_setting_is_in_use():
    settings = {".qwen/settings.json": {"security": {"auth": {"baseUrl": GATEWAY}}}}
    for routed in (
        route("qwen", "-p", "Hi.", files=settings),
        route("qwen", "-p", "Hi.", "--openai-base-url", GATEWAY),
    ):
        assert routed.upstream == "https://gateway.example"
        assert routed.arguments == ("--openai-base-url", "http://proxy/llm/v1", "-p", "Hi.")


@pytest.mark.parametrize("client", [client.name for client in CLIENTS if client.name not in ("cline", "copilot")])
def test_a_given_upstream_replaces_the_vendors_and_keeps_the_paths(client: str):
    usual, other = route(client), route(client, upstream="http://127.0.0.1:9")
    assert other.upstream == "http://127.0.0.1:9"
    environ = {name: value for name, value in usual.environ.items() if name != "ENABLE_TOOL_SEARCH"}
    assert (other.environ, other.arguments, other.files) == (environ, usual.arguments, usual.files)


def test_an_upstreams_own_path_is_used():
    assert route("codex", upstream=GATEWAY).arguments == ("-c", 'openai_base_url="http://proxy/llm/v1"')


@each_row(
    "client, given, words",
    [
        ("claude", {"environ": {"CLAUDE_CODE_USE_BEDROCK": "1"}}, "because CLAUDE_CODE_USE_BEDROCK is set"),
        (
            "claude",
            {"files": {".claude/settings.json": {"env": {"CLAUDE_CODE_USE_VERTEX": "true"}}}},
            "because CLAUDE_CODE_USE_VERTEX is set",
        ),
        ("claude", {"environ": {"ANTHROPIC_BASE_URL": "here"}}, "ANTHROPIC_BASE_URL is 'here': give an address"),
        ("claude", {"environ": {"ANTHROPIC_BASE_URL": "http://lab:port"}}, "ANTHROPIC_BASE_URL is 'http://lab:port'"),
        ("claude", {"environ": {"ANTHROPIC_BASE_URL": "http://[::1/"}}, "ANTHROPIC_BASE_URL is 'http://[::1/'"),
        (
            "claude",
            {"files": {".claude/settings.json": {"env": {"CLAUDE_CODE_USE_BEDROCK": True}}}},
            "because CLAUDE_CODE_USE_BEDROCK is set",
        ),
        ("claude", {"files": {".claude/settings.json": "{"}}, "/home/ann/.claude/settings.json is not valid JSON"),
        ("codex", {"files": {".codex/config.toml": 'model_provider = "ollama"'}}, "the model provider ollama"),
        ("codex", {"files": {".codex/config.toml": 'model_provider = "lab"'}}, "no model_providers.lab.base_url"),
        ("codex", {"files": {".codex/config.toml": "= 1"}}, "/home/ann/.codex/config.toml is not valid TOML"),
        (
            "gemini",
            {"files": {".gemini/settings.json": {"security": {"auth": {"selectedType": "vertex-ai"}}}}},
            "with the login vertex-ai: set GEMINI_API_KEY",
        ),
        (
            "gemini",
            {"files": {"/work/.env": f"GOOGLE_GEMINI_BASE_URL={GATEWAY}"}},
            "/work/.env sets GOOGLE_GEMINI_BASE_URL: set it in the environment to use that address, or give --upstream",
        ),
        (
            "opencode",
            {"files": {".local/share/opencode/auth.json": {"openai": {"type": "oauth"}}}},
            "logged in to openai by subscription",
        ),
        (
            "opencode",
            {"files": {".config/opencode/opencode.json": {"model": "lab/m"}}},
            "provider lab has no baseURL in its configuration: give it with --upstream",
        ),
        ("pi", {"files": {".pi/agent/settings.json": {"defaultProvider": "lab"}}}, "pi's provider lab is not known"),
        (
            "qwen",
            {"files": {".qwen/settings.json": {"security": {"auth": {"selectedType": "qwen-oauth"}}}}},
            "with the login qwen-oauth",
        ),
        (
            "qwen",
            {
                "arguments": ("-m", "lab"),
                "files": {".qwen/settings.json": {"modelProviders": {"openai": [{"id": "lab", "baseUrl": GATEWAY}]}}},
            },
            f"sets the baseUrl of lab: remove that, and set OPENAI_BASE_URL to {GATEWAY}",
        ),
        ("copilot", {}, "would send requests to GitHub and bypass the proxy: set COPILOT_PROVIDER_BASE_URL"),
        ("cline", {"arguments": ("auth", "openai")}, "run `cline auth …` without autoprune"),
        ("cline", {}, "`cline auth openai-compatible -k KEY -m MODEL -b https://api.openai.com/v1` adds one"),
        (
            "cline",
            {
                "files": {
                    ".cline/data/settings/providers.json": {
                        "lastUsedProvider": "cline",
                        "providers": {"cline": {"settings": {"auth": {"accessToken": "t"}}}},
                    }
                }
            },
            "with the login of its provider cline",
        ),
        (
            "mini",
            {"environ": {"OPENAI_API_BASE": GATEWAY, "ANTHROPIC_API_BASE": "http://lab:1"}},
            "openai and anthropic have different addresses",
        ),
    ],
)
def test_a_client_that_would_bypass_the_proxy_is_refused(client: str, given: dict[str, Any], words: str):
    with pytest.raises(ClientError, match=re.escape(words)):
        route(
            client, *given.get("arguments", ()), **{name: each for name, each in given.items() if name != "arguments"}
        )


@pytest.mark.parametrize("variables", [[1], "x", {"ANTHROPIC_BASE_URL": None, "CLAUDE_CODE_USE_BEDROCK": False}])
def test_empty_or_broken_variables_in_claude_codes_settings_change_nothing(variables: Any):
    assert route("claude", files={".claude/settings.json": {"env": variables}}) == route("claude")


def test_a_switch_that_is_off_refuses_nothing():
    assert route("claude", environ={"CLAUDE_CODE_USE_BEDROCK": "0"}).upstream == VENDORS[0]


def test_an_unknown_client_is_an_error_that_suggests_the_nearest():
    with pytest.raises(ClientError, match=r"there is no client 'claud' \(did you mean claude\?\)$"):
        find_client("claud")
