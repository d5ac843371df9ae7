"""A request to the provider, and what is said against it. Knows no API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

CONVERSATION = "x-conversation"  # the header by which a client names its conversation to the script


@dataclass(frozen=True)
class Request:
    """A POST as it arrived. `path` has no query; the names in `headers` are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Json

    @property
    def conversation(self) -> str | None:
        """The name that the client gave its conversation, if it gave one."""
        return self.headers.get(CONVERSATION)


class RefusalError(Exception):
    """A rule is broken: the provider's own sentence, and the fields that its envelope has beside it."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        """Hold the sentence; `param` and `code` are fields of OpenAI's envelope."""
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code


@dataclass(frozen=True)
class Refusal:
    """A request that was refused, and the words and the status of the answer."""

    request: Request
    status: int
    message: str
