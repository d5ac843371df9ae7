"""One text summed up by itself."""

import asyncio
import time
from typing import Any

import pytest
from chat_client import Client
from tables import each_row

from autoprune import Chunked, OpenAISummarizer, SettingsError, asummarize_text, summarize_text
from autoprune.summarizers.brief import Brief
from autoprune.tokens import exact

LONG = "".join(f"line {at} of the text\n" for at in range(2_000))


def made(summarizer: Any, how: str, text: str = LONG, **limits: Any) -> str:
    if how == "sync":
        return summarize_text(text, summarizer, **limits)
    return asyncio.run(asummarize_text(text, summarizer, **limits))


HOW = pytest.mark.parametrize("how", ["sync", "async"])


@HOW
@each_row("text", ["", " \n", "short", "word " * 900])
def test_a_text_that_fits_is_returned_without_a_call(text: str, how: str):
    def asked(brief: Brief) -> str:
        raise AssertionError("a model was asked")

    assert made(asked, how, text) == text


async def awaited(brief: Brief) -> str:
    return "In a word."


@HOW
def test_an_awaitable_is_awaited(how: str):
    assert made(awaited, how) == "In a word."


def fails(brief: Brief) -> str:
    raise ConnectionError("gone")


@HOW
@each_row("summarizer", [None, fails, lambda brief: "", lambda brief: time.sleep(60)])
def test_without_a_summary_the_text_is_cut_with_a_mark(summarizer: Any, how: str):
    text = made(summarizer, how, max_tokens=200, max_seconds=0.3)
    assert exact()(text) <= 200
    assert text.startswith("line 0 of the text\n")
    assert text.rstrip().endswith("line 1999 of the text")
    assert "left out" in text


@HOW
def test_a_summary_that_is_too_long_is_cut(how: str):
    text = made(lambda brief: "mine " * 3_000, how, max_tokens=100)
    assert exact()(text) <= 100
    assert text.startswith("mine")


@HOW
@each_row("style", ["snapshot", "free"])
def test_a_model_gets_instructions_for_a_single_text(style: str, how: str):
    client = Client("Lines.")
    told: list[str] = []
    create = client.create
    client.create = lambda **asked: told.append(asked["messages"][0]["content"]) or create(**asked)  # type: ignore
    instructions = "Be brief." if style == "free" else None
    summarizer = OpenAISummarizer(client, "m", style=style, instructions=instructions)  # type: ignore[arg-type]
    assert made(summarizer, how) == "Lines."
    assert ("The record is one text" in told[0]) == (style != "free")


@HOW
def test_a_text_beyond_the_window_is_summed_up_in_parts(how: str):
    parts: list[Brief] = []

    def inner(brief: Brief) -> str:
        parts.append(brief)
        return "A part."

    assert made(Chunked(inner, 6_000), how) == "A part."
    read = "".join(one.words for part in parts[:-1] for one in part.utterances)
    assert len(parts) > 2
    assert all(f"line {at} of" in read for at in range(2_000))


def test_a_text_without_line_ends_is_read_in_parts_too():
    parts: list[Brief] = []

    def inner(brief: Brief) -> str:
        parts.append(brief)
        return "A part."

    assert summarize_text("abc " * 20_000, Chunked(inner, 6_000)) == "A part."
    assert len(parts) > 2


@each_row("text", [5, None, b"bytes", ["a"]])
def test_a_value_that_is_not_a_text_is_an_error(text: Any):
    with pytest.raises(SettingsError, match=r"the text to sum up is .*: give a str"):
        summarize_text(text)


@each_row("max_tokens", [0, -1, True, "9", None])
def test_an_invalid_limit_is_an_error(max_tokens: Any):
    with pytest.raises(SettingsError, match="max_tokens is"):
        summarize_text("a", max_tokens=max_tokens)
