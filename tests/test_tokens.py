"""Counts are tiktoken's, exactly, although nothing is downloaded.

tiktoken fetches its vocabularies on first use. The same vocabularies are inside the splintr-rs wheel: written out in
tiktoken's file format they must have the very SHA-256 that tiktoken demands. So `tiktoken_cache` writes them to
a folder that tiktoken takes for its cache, and the real `tiktoken.get_encoding` loads and verifies them. If one byte
were wrong, tiktoken would discard the file and reach for the network.
"""

import base64
import json
import math
import os
import random
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha1
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.completion_usage import PromptTokensDetails
from profiles import examples, size
from splintr import Tokenizer
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.tokens import (
    CHECK_CHARACTERS,
    KEPT,
    MAX_PIECES,
    ExactCounter,
    Memo,
    calibration,
    exact,
    for_model,
    scale_tokens,
)

ROOT = Path(__file__).parent.parent
ORDINARY_TOKENS = {"o200k_base": 199_998, "cl100k_base": 100_256}
MILLION = 1_000_000
# tiktoken's cache is keyed by a hash of this URL.
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
both_encodings = each_row("encoding", list(ORDINARY_TOKENS))
many_examples = examples(300)


@pytest.fixture(scope="session", autouse=True)
def tiktoken_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with tiktoken's vocabulary files, which tiktoken takes for its cache."""
    folder = tmp_path_factory.mktemp("tiktoken")
    for encoding, number in ORDINARY_TOKENS.items():
        splintr = Tokenizer.from_pretrained(encoding)
        lines = (base64.b64encode(splintr.decode_token_bytes(rank)) + b" %d\n" % rank for rank in range(number))
        key = sha1(VOCABULARY_URL.format(encoding).encode()).hexdigest()
        (folder / key).write_bytes(b"".join(lines))
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["TIKTOKEN_CACHE_DIR"]
    else:
        os.environ["TIKTOKEN_CACHE_DIR"] = before


def reference(encoding: str, text: str) -> int:
    """What tiktoken counts."""
    return len(tiktoken.get_encoding(encoding).encode_ordinary(text))


# Text of every kind, more than 5 MB in all


def code() -> str:
    folder = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(folder.rglob("*.py")) if "site-packages" not in path.parts]
    random.Random(0).shuffle(files)
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files[:250])[:2_000_000]


def logs() -> str:
    chance = random.Random(1)
    levels = ("INFO ", "WARN ", "\x1b[31mERROR\x1b[0m", "DEBUG")
    return "\n".join(
        f"2024-02-{chance.randrange(1, 29):02}T{chance.randrange(24):02}:{chance.randrange(60):02}:00.{at:06}Z "
        f"[{chance.choice(levels)}] pid={chance.randrange(99999)} 0x{chance.getrandbits(64):016x} "
        f"GET /api/v{chance.randrange(4)}/users/{chance.getrandbits(30)}?q=%20a&b={chance.random():.5f} "
        f"{chance.randrange(200, 600)} {chance.randrange(5000)}ms\tat com.example.Main$Inner.run(Main.java:{at})"
        for at in range(3_500)
    )


def json_text() -> str:
    chance = random.Random(2)
    rows = [
        {"id": at, "name": f"Zoë “{at}”", "x": chance.random(), "tags": ["a", None, True], "path": "C:\\tmp\\é"}
        for at in range(2_000)
    ]
    return json.dumps(rows) + json.dumps(rows[:1_000], indent=4, ensure_ascii=False)


def chinese() -> str:
    chance = random.Random(3)
    phrases = ("这个函数返回一个列表", "如果文件不存在", "则抛出异常", "我们需要修复测试", "數據庫連接失敗", "第3行：")
    marks = (",", "。", "!", "\n", "  ", "「", "」", "、", " API ", "１２３")
    rare = [chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(30_000)]
    common = [chance.choice(phrases) + chance.choice(marks) for _ in range(25_000)]
    return "".join(common) + "".join(rare)


def emoji() -> str:
    chance = random.Random(4)
    signs = ("😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇨🇳🇯🇵", "👍🏽", "❤️", "1️⃣", "🧑🏿‍🚀", "✅", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "™️", " done ", "\n")
    return "".join(chance.choices(signs, k=40_000))


def base64_text() -> str:
    data = random.Random(5).randbytes(400_000)
    return base64.b64encode(data).decode() + "\n" + base64.encodebytes(data[:100_000]).decode()


def minified() -> str:
    """One line of JavaScript."""
    chance = random.Random(6)
    names = [chr(97 + at % 26) + (chr(65 + at // 26) if at >= 26 else "") for at in range(300)]

    def statement() -> str:
        a, b, c = chance.choices(names, k=3)
        return chance.choice(
            (
                f"function {a}({b},{c}){{return {b}?{c}[{chance.randrange(999)}]:void 0}}",
                f"var {a}=!0,{b}=/^[\\w-]+$/gi.test({c}.toString(16));",
                f'{a}.prototype.{b}=async({c},t)=>{{if("{b}"===typeof {c})throw new Error(`${{{a}}}`);}};',
                f"for(let {a}=0;{a}<{b}.length;++{a}){c}&&{c}.push({{...{b}[{a}],x:1e{chance.randrange(9)}}});",
            )
        )

    return "".join(statement() for _ in range(14_000))


def unicode_edges() -> str:
    chance = random.Random(7)
    parts = (
        *("e\u0301", "a\u0300\u0316\u0327", "שלום", "مرحبا بالعالم", "नमस्ते", "ไทย", "한국어", "Ǆǅǆ", "ﬁ", "ſ", "İı"),
        *("\u200b", "\u200d", "\ufeff", "\u2060", "\u202e", "\u00ad", "\x85", "\u2028", "\u2029", "\u00a0", "\u3000"),
        *("\r\n", "\n\r", "\r", "\n", "\r\r\n", "\n\n\n", " \n", "\n ", "\t", "\x0b", "\x0c", "\x1c", "  ", "     "),
        *("it's", "IT'S", "don't", "we'LL", "'s", "'ſ", "’s", "x²", "½", "Ⅷ", "١٢٣", "1234567", "a1b2", "/", "//\n"),
        *("\x00", "\x7f", "\x1b[0m", "\ue000", "\U0010ffff", "\ufffd", "\ufffe", "𝒳", "𐍈", "ÀÉÎ", "CamelCase", "_\r\n"),
    )
    return "".join(chance.choices(parts, k=200_000))


def random_bytes() -> str:
    return random.Random(8).randbytes(500_000).decode("latin-1")


CORPORA: tuple[Callable[[], str], ...] = (
    *(code, logs, json_text, chinese, emoji, base64_text, minified, unicode_edges, random_bytes),
)


@cache
def texts_of(corpus: Callable[[], str]) -> list[str]:
    """Texts of 20,000 characters, so that a difference in one is not made up for by another."""
    text = corpus()
    return [text[at : at + 20_000] for at in range(0, len(text), 20_000)]


@pytest.mark.full
def test_there_are_five_megabytes_to_compare():
    assert sum(len(text.encode()) for corpus in CORPORA for text in texts_of(corpus)) > 5_000_000


@pytest.mark.full
@both_encodings
@each_row("corpus", CORPORA, ids=lambda corpus: corpus.__name__)
def test_counts_are_those_of_tiktoken(encoding: str, corpus: Callable[[], str]):
    texts = texts_of(corpus)
    assert [exact(encoding)(text) for text in texts] == [reference(encoding, text) for text in texts]


@both_encodings
@given(text=st.text())
@many_examples
def test_any_text_counts_as_in_tiktoken(encoding: str, text: str):
    assert exact(encoding)(text) == reference(encoding, text)


TRAPS = st.one_of(
    st.characters(exclude_categories=()),  # with lone surrogates
    st.sampled_from(["\ud83d", "\ude00", "<|", "|>", "<|endoftext|>", "'", "'s", "'LL", "\r\n", "\n", "\r", " ", "\t"]),
    st.sampled_from(["\x85", "\u2028", "\u00a0", "\x00", "/", "}", "ſ", "ǅ", "\u0301", "\u200d", "1", "A", "a", "漢"]),
)


@both_encodings
@given(parts=st.lists(TRAPS, max_size=30))
@many_examples
def test_a_text_full_of_traps_counts_as_in_tiktoken(encoding: str, parts: list[str]):
    text = "".join(parts)
    assert exact(encoding)(text) == reference(encoding, text)


# Traps


@both_encodings
@each_row("text", ["\ud800", "a\udfffb", "\ude00\ud83d", "\ud83d" * 50, "<|endoftext|>\udc80"])
def test_a_lone_surrogate_counts_as_a_replacement_character(encoding: str, text: str):
    replaced = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    assert exact(encoding)(text) == exact(encoding)(replaced) == reference(encoding, text)


@both_encodings
def test_a_pair_of_surrogates_counts_as_the_character_it_spells(encoding: str):
    assert exact(encoding)("\ud83d\ude00") == reference(encoding, "😀")


AROUND = ["", "x", " ", "\n", "=", "a", "7", "'s", "/", "\r\n", "é", "漢", "<|endoftext|>", "\ud83d", "\ude00"]
REPEATED = [
    *map(chr, range(0x180)),
    *"ßſИאआ한漢。、–—…─═█•😀",
    "\u0301",
    "\u200d",
    "\u2028",
    "\u3000",
    "\ufeff",
    "\ud83d",
]
LENGTHS = [2 * KEPT, 9_000, 12_345, 5 * KEPT + 1]


@pytest.mark.full
@both_encodings
@each_row("repeated", REPEATED)
def test_a_long_run_of_a_character_counts_as_in_the_engine(encoding: str, repeated: str):
    """The engine counts every character of it; its counts of shorter texts are tiktoken's."""
    chance = random.Random(ord(repeated))
    count = exact(encoding)
    before, after = chance.choice(AROUND), chance.choice(AROUND)
    texts = [f"{before}{repeated * length}{after}" for length in chance.choices(LENGTHS, k=2)]
    assert list(map(count, texts)) == list(map(count._count, texts))


@both_encodings
@given(parts=st.lists(st.tuples(TRAPS, st.sampled_from([1, 3, KEPT + 400, *LENGTHS])), max_size=6))
@examples(60)
def test_long_runs_among_traps_count_as_in_tiktoken(encoding: str, parts: list[tuple[str, int]]):
    text = "".join(part * times for part, times in parts)
    assert exact(encoding)(text) == reference(encoding, text)


def test_ten_megabytes_of_one_character_are_counted_at_once():
    counter = ExactCounter()
    assert counter("a" * 10 * MILLION) == 10 * MILLION // 8
    assert counter._unchecked > CHECK_CHARACTERS - 50_000  # of the ten million, the engine has seen a few thousand


@pytest.mark.full
@both_encodings
@pytest.mark.parametrize("character", [" ", "\n"])
def test_a_run_of_a_million_white_space_characters(encoding: str, character: str):
    """tiktoken's pattern overflows its stack on such a run: it is given the one piece that the pattern would find."""
    merged = tiktoken.get_encoding(encoding)._encode_single_piece(character * MILLION)
    assert exact(encoding)(character * MILLION) == len(merged)


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base", "o200k_harmony"])
def test_text_that_spells_a_special_token_is_ordinary_text(encoding: str):
    bundled = Tokenizer.from_pretrained("cl100k_base" if encoding == "cl100k_base" else "o200k_base").special_tokens()
    names = sorted({*tiktoken.get_encoding(encoding).special_tokens_set, *bundled})
    texts = [text for name in names for text in (name, f"see {name}\n", name * 3)]
    assert "<|endoftext|>" in texts
    assert [exact(encoding)(text) for text in texts] == [reference(encoding, text) for text in texts]


@pytest.mark.full
@both_encodings
def test_a_line_of_megabytes(encoding: str):
    text = (minified() * 5)[: size(5_000_000)]
    assert "\n" not in text
    assert exact(encoding)(text) == reference(encoding, text)


@pytest.mark.full
def test_the_cache_of_the_engine_does_not_stay_large():
    chance = random.Random(0)

    def million_characters() -> str:
        return " ".join("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(MILLION // 10))

    counter = ExactCounter()
    lengths = []
    for _ in range(CHECK_CHARACTERS // MILLION + 1):
        counter(million_characters())
        lengths.append(counter.tokenizer.cache_len)
    assert lengths[0] > MAX_PIECES
    assert lengths[-1] == 0


# What is loaded, and when


def loaded_by(program: str) -> set[str]:
    """The slow packages in memory after a program."""
    slow = ("splintr", "tiktoken", "openai", "lxml", "genai_prices", "typer", "rich")
    report = f"\nimport sys; print(*(name for name in {slow} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program + report], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


PRUNE = "import autoprune\npruner = autoprune.AgenticConversationPruner(autoprune.PruneArgs({}))\n"
SMALL = "pruner.prune([{'role': 'user', 'content': 'Hello.'}])"


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        pytest.param("import autoprune", set(), marks=pytest.mark.full),
        (PRUNE.format(50) + SMALL, set()),  # its bytes are fewer than its budget
        pytest.param(PRUNE.format(5) + SMALL, {"splintr"}, marks=pytest.mark.full),
        pytest.param(PRUNE.format("50, model='gpt-4o'") + SMALL, {"tiktoken"}, marks=pytest.mark.full),
    ],
)
def test_nothing_slow_is_imported_before_it_is_needed(program: str, loaded: set[str]):
    assert loaded_by(program) == loaded


def test_the_vocabulary_is_loaded_at_the_first_count():
    counter = ExactCounter()
    assert not counter.is_loaded
    assert counter("Hello, world!") == 4
    assert counter.is_loaded


def test_an_encoding_without_a_bundled_vocabulary_is_refused():
    with pytest.raises(SettingsError, match="'p50k_base'; there are o200k_base, o200k_harmony, cl100k_base"):
        ExactCounter("p50k_base")


# The memo


class Recorder:
    """Counts characters, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def test_a_memo_counts_each_text_once():
    count = Recorder()
    memo = Memo(count)
    assert [memo(text) for text in ("ab", "", "c", "ab", "".join(["a", "b"]), "")] == [2, 0, 1, 2, 2, 0]
    assert count.asked == ["ab", "", "c"]


@each_row("returned", [None, math.nan, -0.5, -3, "3"])
def test_a_count_that_is_no_number_is_an_error(returned: Any):
    with pytest.raises(SettingsError, match=f"count returned {returned!r} for a text: give a number"):
        Memo(lambda text: returned)("a")


def test_a_memo_forgets_what_was_not_asked_for_of_late():
    count = Recorder()
    memo = Memo(count, characters=3)
    for text in ("aaa", "bbb", "aaa", "ccc", "aaa", "bbb"):
        assert memo(text) == 3
    assert count.asked == ["aaa", "bbb", "ccc", "bbb"]


@each_row(("asked", "forgotten"), [(5, 0), (20, 0), (21, 10), (30, 10), (31, 20), (95, 80)])
def test_a_memo_keeps_two_generations_at_most(asked: int, forgotten: int):
    texts = [chr(0x4E00 + at) for at in range(asked)]

    def is_kept(text: str) -> bool:
        count = Recorder()
        memo = Memo(count, characters=10)
        for known in (*texts, text):
            memo(known)
        return count.asked == texts

    assert [text for text in texts if is_kept(text)] == texts[forgotten:]


def test_a_text_larger_than_the_memo_is_counted_right():
    count = Recorder()
    memo = Memo(count, characters=3)
    assert [memo(text) for text in ("a" * 50, "a" * 50, "b", "b")] == [50, 50, 1, 1]
    assert count.asked == ["a" * 50, "b"]


# Models


@each_row(
    ("model", "encoding"),
    [
        (None, "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("openai/gpt-4o", "o200k_base"),
        ("ft:gpt-4o:acme::abc", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("azure/gpt-4", "cl100k_base"),
        ("gpt-oss-20b", "o200k_harmony"),
    ],
)
def test_a_model_with_a_known_vocabulary_is_counted_exactly(model: str | None, encoding: str):
    assert for_model(model) == (exact(encoding), None)


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ("claude-sonnet-4-5", "no public vocabulary is known for 'claude-sonnet-4-5'"),
        ("google/gemini-2.5-pro", "no public vocabulary is known for 'google/gemini-2.5-pro'"),
        ("text-davinci-003", "the encoding p50k_base of 'text-davinci-003' is not bundled"),
        ("text-davinci-edit-001", "the encoding p50k_edit of 'text-davinci-edit-001' is not bundled"),
    ],
)
def test_any_other_model_is_estimated_and_the_report_says_so(model: str, note: str):
    fallback = f"tokens are an estimate by o200k_base: {note}"
    assert for_model(model) == (exact("o200k_base"), fallback)
    assert AgenticConversationPruner(PruneArgs("50k", model=model)).prune([]).report.fallbacks == (fallback,)


def test_a_vocabulary_has_one_counter():
    assert exact() is exact("o200k_base") is exact("o200k_harmony")
    assert exact("cl100k_base") is exact("cl100k_base") is not exact()


# Calibration

PROMPT = 1_200
USAGES: dict[str, dict[str, Any]] = {
    "OpenAI Chat": {"prompt_tokens": PROMPT, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1_000}},
    "OpenAI Responses": {"input_tokens": PROMPT, "input_tokens_details": {"cached_tokens": 1_000}, "output_tokens": 9},
    "Anthropic": {"input_tokens": 100, "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 100},
    "Anthropic, no cache": {"input_tokens": PROMPT, "cache_read_input_tokens": None, "output_tokens": 9},
    "Anthropic, all cached": {"input_tokens": 0, "cache_read_input_tokens": PROMPT, "cache_creation_input_tokens": 0},
    "Gemini": {"prompt_token_count": PROMPT, "cached_content_token_count": 1_000, "candidates_token_count": 9},
    "Gemini, REST": {"promptTokenCount": PROMPT, "cachedContentTokenCount": 1_000},
    "Bedrock": {"inputTokens": 100, "cacheReadInputTokens": 1_000, "cacheWriteInputTokens": 100, "outputTokens": 9},
    "Bedrock, no cache": {"inputTokens": PROMPT, "outputTokens": 9, "totalTokens": PROMPT + 9},
}


@each_row("usage", [*USAGES.values(), *(SimpleNamespace(**usage) for usage in USAGES.values())])
def test_calibration_is_the_ratio_of_all_input_tokens_to_counted_ones(usage: object):
    assert calibration(usage, 1_000) == 1.2


def test_a_request_of_one_counted_token_can_be_calibrated():
    assert calibration({"prompt_tokens": 3}, 1) == 3.0


def test_calibration_reads_the_usage_of_the_sdk():
    details = PromptTokensDetails(cached_tokens=1_000)
    chat = CompletionUsage(prompt_tokens=PROMPT, completion_tokens=9, total_tokens=1_209, prompt_tokens_details=details)
    assert calibration(chat, 800) == 1.5


def test_the_usage_of_bedrock_is_that_of_botocores_model():
    known = botocore.session.get_session().get_service_model("bedrock-runtime").shape_for("TokenUsage").members
    assert {*USAGES["Bedrock"], *USAGES["Bedrock, no cache"]} <= set(known)


@each_row(
    ("usage", "counted"),
    [
        *((usage, 10) for usage in (None, {}, {"prompt_tokens": 0}, {"prompt_tokens": None}, {"completion_tokens": 9})),
        (SimpleNamespace(), 10),
        ({"prompt_tokens": 10}, 0),
        ({"prompt_tokens": 10}, -1),
        *(({"prompt_tokens": 10}, counted) for counted in ("x", None, float("nan"), [5])),
        ({"prompt_tokens": -10}, 10),
    ],
)
def test_what_cannot_be_calibrated_is_refused(usage: object, counted: Any):
    said = re.escape(f"input tokens for {counted!r} counted: give a response's usage, and")
    with pytest.raises(SettingsError, match=f"cannot calibrate: the provider reported .* {said}"):
        calibration(usage, counted)


@each_row(
    ("count", "ratio", "tokens"),
    [(100, 1.0, 100), (100, 1.1, 110), (101, 1.1, 112), (3, 1.0001, 4), (0, 1.5, 0), (1000, 0.5, 500), (7, 0.5, 4)],
)
def test_a_scaled_count_is_rounded_up(count: int, ratio: float, tokens: int):
    assert scale_tokens(count, ratio) == tokens
