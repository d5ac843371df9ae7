"""Redaction of secrets in commands and texts."""

import pytest

from autoprune.apps.cli.run import redact, redact_arguments


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--openai-api-key", "sk-1 2", "-p", "Fix"), ("--openai-api-key", "…", "-p", "Fix")),
        (("--api-key=sk-1 2",), ("--api-key=…",)),
        (("--token", "--verbose"), ("--token", "--verbose")),
        (("-c", 'lab.bearer_token="sk-1"'), ("-c", 'lab.bearer_token="…"')),
        (("-c", "lab={ api_key = 'sk-1', wire = 'chat' }"), ("-c", "lab={ api_key = '…', wire = 'chat' }")),
        (("GITHUB_PAT=sk-1", "x"), ("GITHUB_PAT=…", "x")),
        (("-H", "x-api-key: sk-1"), ("-H", "x-api-key: …")),
        (("-p", "What is the key handling?"), ("-p", "What is the key handling?")),
        (("--max-tokens", "5"), ("--max-tokens", "5")),
    ],
)
def test_arguments_are_redacted(arguments: tuple[str, ...], shown: tuple[str, ...]):
    assert (*redact_arguments(arguments),) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            r'{"Authorization":"Bearer sk-1", "password": "a\"sk-1", "apiKey": "", "model": "m"}',
            '{"Authorization":"…", "password": "…", "apiKey": "…", "model": "m"}',
        ),
        ("https://user:sk-1@gateway.example/v1?api_key=sk-1&v=2", "https://…@gateway.example/v1?api_key=…&v=2"),
        ('base_url="http://127.0.0.1:1/v1"', 'base_url="http://127.0.0.1:1/v1"'),
        ("MAX_PROMPT_TOKENS=900000", "MAX_PROMPT_TOKENS=900000"),
    ],
)
def test_texts_are_redacted(text: str, shown: str):
    assert redact(text) == shown
