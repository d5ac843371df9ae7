"""What stands behind the proxy: which address a request goes to, with which headers, and errors in its own shape."""

import json
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from autoprune.apps.proxy._settings import Settings
from autoprune.apps.proxy._usage import DECODERS

VENDORS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
VERSION = "/v1"  # which the base address of OpenAI's clients has, or something in its place
# What belongs to one connection and not to the message. Source: RFC 9110, section 7.6.1.
HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
OWN = frozenset(("host", "content-length", "x-autoprune-token"))
# What an error of a status is called. Sources: the error references of Gemini's API and of Anthropic's.
GEMINIS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    426: "FAILED_PRECONDITION",
    431: "INVALID_ARGUMENT",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
ANTHROPICS = {400: "invalid_request_error", 403: "permission_error", 431: "invalid_request_error"}

Headers = list[tuple[bytes, bytes]]


def vendor(path: str, headers: Mapping[str, str]) -> str:
    """Return whose API a request is for, by its path and headers."""
    if "anthropic-version" in headers or path.startswith("/v1/messages"):
        return "anthropic"
    if path.startswith(("/v1beta/", "/v1alpha/", "/v1internal", "/upload/v1beta/")) or "x-goog-api-key" in headers:
        return "gemini"
    return "openai"


def address(settings: Settings, path: str, query: str, headers: Mapping[str, str]) -> str:
    """Return the address that a request goes to."""
    whose = vendor(path, headers)
    base = settings.upstream
    if base is None and whose in settings.bases:
        base = settings.bases[whose]
        path = path.removeprefix(VERSION) if whose == "openai" and f"{path}/".startswith(f"{VERSION}/") else path
    # A path that began with anything else, as in GET @elsewhere, would become part of the host.
    whole = f"{(base or VENDORS[whose]).rstrip('/')}/{path.removeprefix('/')}"
    return f"{whole}?{query}" if query else whole


def passed_on(headers: Iterable[tuple[bytes, bytes]], *others: str) -> Headers:
    """Return the headers that go on: all but those of the connection, and those that it names as such."""
    known = [(name, value) for name, value in headers]
    named = (value.decode("latin-1") for name, value in known if name.lower() == b"connection")
    own = {word.strip().lower() for value in named for word in value.split(",")}
    gone = {each.encode("latin-1") for each in {*HOP, *own, *others}}
    return [(name, value) for name, value in known if name.lower() not in gone]


def without_cookie(headers: Headers, name: str) -> Headers:
    """Return headers without one cookie, and with all others."""
    kept: Headers = []
    for header, value in headers:
        if header.lower() == b"cookie":
            pairs = [each for each in value.split(b";") if each.partition(b"=")[0].strip() != name.encode()]
            kept += [(header, b";".join(pairs).strip())] if pairs else []
        else:
            kept.append((header, value))
    return kept


def with_changed(headers: Headers, changed: Mapping[str, str]) -> Headers:
    """Return headers with some in the place of those of the same name."""
    names = {name.lower().encode("latin-1") for name in changed}
    kept = [(name, value) for name, value in headers if name.lower() not in names]
    return [*kept, *((name.encode("latin-1"), value.encode("latin-1")) for name, value in changed.items())]


def with_readable_answer(headers: Headers) -> Headers:
    """Return headers that offer only encodings of an answer in which its usage can be read."""
    return [(name, readable(value) if name.lower() == b"accept-encoding" else value) for name, value in headers]


def readable(accepted: bytes) -> bytes:
    """Return those of the encodings in a header that can be read; identity, which all accept, if there are none."""
    codings = [(each, each.partition(b";")[0].strip().lower().decode("latin-1")) for each in accepted.split(b",")]
    kept = b",".join(each for each, name in codings if name in DECODERS)
    return accepted if len(kept) == len(accepted) else kept.strip() or b"identity"


def error(path: str, headers: Mapping[str, str], status: int, words: str) -> bytes:
    """Return the body of an error as the API writes its own, so that its clients can read it."""
    whose = vendor(path, headers)
    if "/model/" in path:
        body: object = {"message": words}
    elif whose == "anthropic":
        body = {"type": "error", "error": {"type": ANTHROPICS.get(status, "api_error"), "message": words}}
    elif whose == "gemini":
        body = {"error": {"code": status, "message": words, "status": GEMINIS.get(status, "UNKNOWN")}}
    else:
        body = {"error": {"message": words, "type": "api_error", "param": None, "code": "autoprune"}}
    return json.dumps(body).encode()


def host_of(url: str) -> str:
    """Return the host of an address, for words."""
    return urlsplit(url).netloc.rpartition("@")[2]
