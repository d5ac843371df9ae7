"""The APIs whose requests carry a conversation: by which path one is known, and where in its body the messages stand.

Sources: the API references of OpenAI (Chat Completions, Responses), Anthropic (Messages, token counting), Google
(generateContent, streamGenerateContent, countTokens; Code Assist wraps the same body in `request`) and Amazon
(Converse, ConverseStream).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Api:
    """One API. `path` matches how its paths end, with the model where that stands there.

    `messages` is the field of the messages, `wrappers` are fields that may hold the whole. What stands in `beside` is
    sent beside the messages and weighs. A value in one of `on_server` says that the provider keeps the history itself.
    """

    format: str
    path: re.Pattern[str]
    messages: str
    beside: tuple[str, ...]
    on_server: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()


# To add an API, add a line. The names of `format` are those of `autoprune.formats`.
APIS = (
    Api("openai_chat", re.compile(r"/chat/completions$"), "messages", ("tools", "functions")),
    Api(
        "openai_responses",
        re.compile(r"/responses(?P<counts>/input_tokens)?$"),
        "input",
        ("instructions", "tools"),
        on_server=("previous_response_id", "conversation"),
    ),
    Api("anthropic", re.compile(r"/messages(?P<counts>/count_tokens)?$"), "messages", ("system", "tools")),
    Api(
        "gemini",
        re.compile(
            r"(?:/models/(?P<model>[^/:]+)|/v1internal):(?:(?P<counts>countTokens)|(?:g|streamG)enerateContent)$"
        ),
        "contents",
        ("systemInstruction", "system_instruction", "tools"),
        on_server=("cachedContent", "cached_content"),
        wrappers=("request", "generateContentRequest"),
    ),
    Api("bedrock", re.compile(r"/model/(?P<model>[^/]+)/converse(?:-stream)?$"), "messages", ("system", "toolConfig")),
)


@dataclass(frozen=True)
class Place:
    """Where the conversation of a request stands: its API, the field that wraps it ("" for none), and the model.

    `counts_only` says that the request asks for a count of tokens and not for an answer.
    """

    api: Api
    wrapper: str
    model: str | None
    counts_only: bool

    def inside(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Return the part of the body in which the messages stand."""
        inner = body[self.wrapper] if self.wrapper else body
        return inner if isinstance(inner, Mapping) else {}

    def messages(self, body: Mapping[str, object]) -> object:
        """Return what stands where the messages should."""
        return self.inside(body).get(self.api.messages)

    def beside(self, body: Mapping[str, object]) -> list[object]:
        """Return what is sent beside the messages."""
        inner = self.inside(body)
        return [inner[name] for name in self.api.beside if inner.get(name)]

    def kept_on_server(self, body: Mapping[str, object]) -> str:
        """Return the field by which the provider keeps the history itself; "" where none does."""
        inner = self.inside(body)
        return next((name for name in self.api.on_server if inner.get(name)), "")

    def replaced(self, body: Mapping[str, object], messages: list[object]) -> dict[str, object]:
        """Return a body with other messages in the place of its own."""
        inner = {**self.inside(body), self.api.messages: messages}
        return {**body, self.wrapper: inner} if self.wrapper else inner


def place(path: str, body: Mapping[str, object]) -> Place | None:
    """Return where a request to a path has its conversation; None where it has none. A query does not count."""
    ending = unquote(urlsplit(path).path).rstrip("/")
    for api in APIS:
        if match := api.path.search(ending):
            found = match.groupdict()
            wrapper = next((name for name in api.wrappers if isinstance(body.get(name), Mapping)), "")
            return Place(api, wrapper, _model(found.get("model"), body), bool(found.get("counts")))
    return None


def _model(in_path: str | None, body: Mapping[str, object]) -> str | None:
    named = in_path or body.get("model")
    return named.removeprefix("models/") if isinstance(named, str) and named else None
