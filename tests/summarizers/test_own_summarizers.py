"""What a summarizer of a user's own may offer, and the one door that it is written from."""

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from tables import each_row
from test_first_request import Client

import autoprune
from autoprune import Chunked, ConversationPruner, OpenAISummarizer, PruneArgs, SettingsError, summarizers
from autoprune.summarizers import Brief, Digest, Failed, Summarizer, Symbols
from autoprune.summarizers.selection import fallbacks, in_parts, summarizer_named, with_instructions


def chat(number: int = 30) -> list[dict[str, str]]:
    return [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * 100} for at in range(number)]


def second(brief: Brief) -> str:
    return "written by the second"


@dataclass(frozen=True)
class First:
    """Fails, and names who is to be asked then."""

    fallback: Any = second

    def __call__(self, brief: Brief) -> Failed:
        return Failed("no mood")


def test_every_public_name_exists_and_importing_the_package_loads_none():
    assert all(getattr(summarizers, name) for name in summarizers.__all__)
    code = "import sys, autoprune; print([name for name in sys.modules if name.startswith('autoprune.summarizers.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded == "['autoprune.summarizers.brief']\n"
    assert autoprune.Digest is summarizers.Digest


def test_if_a_summarizer_fails_its_own_fallback_is_asked():
    result = ConversationPruner(PruneArgs(2_000), First()).prune(chat())
    assert "written by the second" in str(result.conversation)
    assert result.report.fallbacks == ("the summarizer failed (no mood): its fallback was asked",)


def test_the_last_fallback_is_the_digest_unless_a_summarizer_wants_none():
    assert [*fallbacks(second)] == [Digest()]
    assert [*fallbacks(First())] == [second, Digest()]
    assert [*fallbacks(First(fallback=None))] == [*fallbacks(Digest())] == []
    one = First()
    object.__setattr__(one, "fallback", one)
    assert [*fallbacks(one)] == []


class Odd:
    """Offers what raises, and what is no summarizer."""

    def __call__(self, brief: Brief) -> str:
        return "x"

    def with_instructions(self, instructions: str, alone: bool = False) -> Summarizer:
        raise ValueError(instructions)

    def in_parts(self) -> int:
        return 3


def test_an_optional_method_that_fails_is_ignored():
    odd = Odd()
    assert with_instructions(odd, "x") is in_parts(odd) is odd  # type: ignore[arg-type]


def test_a_summarizer_in_parts_passes_on_style_and_instructions():
    model = OpenAISummarizer(Client("x"), "m", instructions="Be kind.")  # type: ignore[arg-type]
    adapted: Any = with_instructions(Chunked(model, 9_000), "Be brief.")
    assert (adapted.window_tokens, adapted.inner.style) == (9_000, "free")
    assert adapted.inner.instructions == "Be brief.\n\nBe kind."
    alone: Any = with_instructions(model, "Be brief.", alone=True)
    assert alone.instructions == "Be brief."


def test_symbols_say_why_a_function_is_not_asked():
    assert isinstance(Symbols().with_model(second), Failed)
    assert Symbols().with_model(Digest()) == Symbols()


def test_summarizers_are_made_by_name_with_their_parameters():
    assert summarizer_named("digest") == Digest()
    assert summarizer_named("symbols(batch=5)") == Symbols(batch=5)


@each_row(
    ("name", "error"),
    [
        ("symbol", "there is no summarizer 'symbol' (did you mean symbols?)"),
        ("openai", "the summarizer openai needs a model: --model gpt-5-mini"),
        ("symbols(5)", "parameters are given by name"),
        ("symbols(size=5)", "cannot be made"),
        ("symbols(", "cannot be read"),
    ],
)
def test_a_summarizer_that_cannot_be_made_is_an_error(name: str, error: str):
    with pytest.raises(SettingsError, match=re.escape(error)):
        summarizer_named(name)
