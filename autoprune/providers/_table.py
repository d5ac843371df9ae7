"""The providers: their names, their rules, and how what breaks them is mended. One row an API."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import autoprune.providers._anthropic as _anthropic
import autoprune.providers._bedrock as _bedrock
import autoprune.providers._gemini as _gemini
import autoprune.providers._openai_chat as _openai_chat
import autoprune.providers._openai_responses as _openai_responses
import autoprune.providers._turns as _turns
from autoprune.providers._problem import OpenCalls, Problem, Round

Rules = Callable[[Sequence[object]], Iterator[Problem]]
Mend = Callable[[Sequence[object], Sequence[Problem], OpenCalls, bool], Round]


@dataclass(frozen=True)
class Provider:
    """An API. `problems` are what it refuses, `alternation` where its local chat templates want roles in turns.

    `mended` makes one round of repairs; it is told whether roles must take turns, as they must where the API itself
    `alternates`. The first message is the user's where it `begins_with_user`.
    """

    problems: Rules
    mended: Mend
    other_names: tuple[str, ...]
    alternation: Rules | None = None
    alternates: bool = False
    begins_with_user: bool = False


PROVIDERS = {
    _anthropic.PROVIDER: Provider(
        _anthropic.problems,
        partial(_turns.mended, _anthropic),
        ("claude", "anthropic_messages"),
        alternation=_anthropic.alternation,
        begins_with_user=True,
    ),
    _bedrock.PROVIDER: Provider(
        _bedrock.problems,
        partial(_turns.mended, _bedrock),
        ("aws", "amazon", "amazon_bedrock", "aws_bedrock", "converse", "bedrock_converse"),
        alternates=True,
        begins_with_user=True,
    ),
    _gemini.PROVIDER: Provider(
        _gemini.problems,
        partial(_turns.mended, _gemini),
        ("google", "genai", "google_genai", "vertex", "vertex_ai", "vertexai"),
        alternation=_gemini.alternation,
        begins_with_user=True,
    ),
    _openai_chat.PROVIDER: Provider(
        _openai_chat.problems,
        _openai_chat.mended,
        ("chat", "chat_completions"),
        alternation=_openai_chat.alternation,
    ),
    _openai_responses.PROVIDER: Provider(_openai_responses.problems, _openai_responses.mended, ("responses",)),
}
NAMES = {other: name for name, provider in PROVIDERS.items() for other in (name, *provider.other_names)}
OPENAI = ("openai", "azure", "azure_openai")  # one of the two, whichever the conversation is written in
USER_FIRST = tuple(name for name, provider in PROVIDERS.items() if provider.begins_with_user)
