"""What a summarizer of a user's own may offer, and the one door that it is written from."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from test_first_request import Client

import autoprune
from autoprune import Chunked, ConversationPruner, OpenAISummarizer, PruneArgs, summarizers
from autoprune.summarizers import Brief, Digest, Failed, Summarizer, Symbols, Utterance, read_actions
from autoprune.summarizers.by_name import SUMMARIZERS
from autoprune.summarizers.selection import fallbacks, in_parts, with_instructions, with_style


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


def test_every_name_of_the_door_is_there_and_importing_the_package_loads_none_of_them():
    assert all(getattr(summarizers, name) for name in summarizers.__all__)
    code = "import sys, autoprune; print([name for name in sys.modules if name.startswith('autoprune.summarizers.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded == "['autoprune.summarizers.spent']\n"
    assert autoprune.Digest is summarizers.Digest


def test_where_a_summarizer_fails_its_own_fallback_is_asked():
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


def test_what_a_summarizer_does_not_offer_changes_nothing():
    assert with_style(second, "prose") is with_instructions(second, "Be brief.") is in_parts(second) is second


class Odd:
    """Offers what raises, and what is no summarizer."""

    def __call__(self, brief: Brief) -> str:
        return "x"

    def with_style(self, style: str) -> Summarizer:
        raise ValueError(style)

    def in_parts(self) -> int:
        return 3


def test_an_offer_that_fails_is_none():
    odd = Odd()
    assert with_style(odd, "prose") is in_parts(odd) is odd  # type: ignore[arg-type]


def test_one_that_reads_in_parts_passes_on_what_it_is_told():
    model = OpenAISummarizer(Client("x"), "m", instructions="Be kind.")  # type: ignore[arg-type]
    adapted: Any = with_instructions(with_style(Chunked(model, 9_000), "prose"), "Be brief.")
    assert (adapted.window_tokens, adapted.inner.style) == (9_000, "free")
    assert adapted.inner.instructions == "Be brief.\n\nBe kind."
    alone: Any = with_instructions(model, "Be brief.", alone=True)
    assert alone.instructions == "Be brief."


def test_symbols_say_why_a_function_is_not_asked():
    assert isinstance(Symbols().with_model(second), Failed)
    assert Symbols().with_model(Digest()) == Symbols()


def test_calls_and_results_are_read_for_it():
    assert [*read_actions((Utterance(speaker="user", words="x"),))] == [()]  # type: ignore[arg-type]


def test_the_command_line_knows_the_summarizers_of_the_table():
    assert [*SUMMARIZERS] == ["digest", "openai"]
    assert SUMMARIZERS["digest"](None) is None
