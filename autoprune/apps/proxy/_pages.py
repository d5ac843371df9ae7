"""The pages that the proxy serves itself: the main page with its state and payloads, and the metrics.

    /?token=…               sets a cookie and redirects to /, so that the token does not stay in the address
    /                       the page, with its files under /autoprune/
    /autoprune/state        the conversations as JSON; ?session=NAME gives the details of that one only
    /autoprune/recall/ID    a cleared payload, as text
    /metrics                for Prometheus

The page shows tool output, so it needs the token. Metrics are only figures, so programs on this machine may read them
without the token. Answers cannot be framed or cached, and only the page's scripts can run.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import accumulate
from operator import attrgetter
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from autoprune.apps.frontend.markup import asset
from autoprune.apps.proxy._application import Proxy, header_dict
from autoprune.apps.proxy._configuration import TOKEN_QUERY, Settings, cookie_name, quote_token
from autoprune.apps.proxy._pruning import DisplayedResult
from autoprune.apps.proxy._traffic import BUCKETS, ClientSession, ClientSessions, Label, TrafficSums
from autoprune.conversation.edits import sentence
from autoprune.economics import life_text

Json: TypeAlias = dict[str, Any]

STATE, RECALL, FILES = "/autoprune/state", "/autoprune/recall/", "/autoprune/"
CONTENT_TYPES: Mapping[str, str] = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
PAGE, REFUSAL, STYLE = "index.html", "refused.html", "page.css"
FREE = ("/metrics", f"{FILES}{STYLE}")  # no token needed, unless other machines can reach the proxy
SCRIPTS = ("page.js", "cleared.js", "session.js", "words.js")
SHARED_SCRIPTS = ("chart.js", "columns.js", "dom.js", "numbers.js")  # of `apps.frontend`
BASE_STYLE = "base.css"
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
TAG_BYTES = 8
PAID = "the rewrite was paid for anyway"
NUMBERED = re.compile(r"^request (\d+)(?=:)")  # the start of a strategy's decision; strategies count requests from 0

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOTALS: Mapping[str, tuple[str, str]] = {
    "requests": ("autoprune_requests_total", "Requests received."),
    "passed": ("autoprune_requests_passed_total", "Requests that were forwarded without being read."),
    "refused": ("autoprune_requests_refused_total", "Requests that the upstream answered with status 400 or above."),
    "failed": ("autoprune_requests_failed_total", "Requests that the upstream did not answer."),
}
# By client and model: name, type, help.
BY_LABEL: Mapping[str, tuple[str, str, str]] = {
    "sessions": ("autoprune_sessions_total", "counter", "Conversations."),
    "requests": ("autoprune_conversation_requests_total", "counter", "Requests in conversations."),
    "before": ("autoprune_prompt_tokens_before_total", "counter", "Prompt tokens without pruning."),
    "after": ("autoprune_prompt_tokens_after_total", "counter", "Prompt tokens sent."),
    "cleared": ("autoprune_results_cleared_total", "counter", "Tool results cleared."),
    "saved": (
        "autoprune_saved_input_tokens",
        "gauge",
        "Input tokens saved by pruning, net of its costs; negative if it has lost.",
    ),
    "cold": (
        "autoprune_cold_requests_total",
        "counter",
        "Requests in conversations before which the provider's cache had expired. Retries are not counted.",
    ),
    "saved_cold": (
        "autoprune_saved_cold_input_tokens",
        "gauge",
        "The part of autoprune_saved_input_tokens from prunes at cold requests.",
    ),
}
TIMES = "autoprune_pruning_seconds"


class Pages:
    """The ASGI application for the proxy's own pages."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._files = {name: asset(f"page/{name}", "autoprune.apps.proxy") for name in (PAGE, REFUSAL, STYLE, *SCRIPTS)}
        self._files |= {name: asset(name) for name in SHARED_SCRIPTS}
        self._files[STYLE] = asset(BASE_STYLE) + self._files[STYLE]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._authorize(Request(scope))
        response.headers.update(SECURITY_HEADERS)
        await response(scope, receive, send)

    async def _authorize(self, request: Request) -> Response:
        headers, path = header_dict(request.scope), request.url.path
        if reason := self._proxy.guard.foreign_objection(headers):
            return PlainTextResponse(f"autoprune: {reason}\n", 403)
        is_free = path in FREE and not self._proxy.settings.is_open
        if not is_free and not self._proxy.guard.may_view(headers, request.url.query):
            return self._file_response(REFUSAL, 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("autoprune: use GET\n", 405, {"allow": "GET, HEAD"})
        return await self._page_at(request, path)

    async def _page_at(self, request: Request, path: str) -> Response:
        if path == "/":
            return self._set_cookie(request) if TOKEN_QUERY in request.query_params else self._file_response(PAGE)
        if path == "/metrics":
            text = metrics(self._proxy.sessions)
            return Response(text.encode("utf-8", "replace"), media_type=METRICS_TYPE)
        if path == STATE:
            return self._state_response(request)
        if path.startswith(RECALL):
            return await self._payload_response(path.removeprefix(RECALL))
        name = path.removeprefix(FILES)
        return self._file_response(name) if name in self._files else PlainTextResponse("autoprune: not found\n", 404)

    def _file_response(self, name: str, status: int = 200) -> Response:
        return Response(self._files[name], status, media_type=CONTENT_TYPES[name.rpartition(".")[2]])

    def _set_cookie(self, request: Request) -> Response:
        """Store the token in a cookie, and redirect to the address without it."""
        response = RedirectResponse("/", 303)
        name = cookie_name(request.headers.get("host", ""))
        response.set_cookie(name, quote_token(self._proxy.settings.token), httponly=True, samesite="strict")
        return response

    def _state_response(self, request: Request) -> Response:
        wanted = request.query_params.get("session")
        tag = f'"{state_tag(self._proxy.sessions, wanted)}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        content = json.dumps(state_json(self._proxy.settings, self._proxy.sessions, wanted))
        return Response(content, headers={"etag": tag}, media_type="application/json")

    async def _payload_response(self, id: str) -> Response:
        text = await self._proxy.lanes.recall(id)
        if text is None:
            message = f"autoprune: no payload {id!r}: only the newest are kept, and none survives a restart\n"
            return PlainTextResponse(message.encode("utf-8", "replace"), 404)
        return PlainTextResponse(text.encode("utf-8", "replace"))


# The state, as JSON: no payloads and no keys


def state_tag(sessions: ClientSessions, wanted: str | None = None) -> str:
    """Compute a digest of the state, for an ETag."""
    known = [(each.name, each.requests, each.refused, each.failed) for each in sessions]
    totals = wanted, sessions.requests, sessions.passed, sessions.refused, sessions.failed
    return blake2b(repr((totals, known)).encode(), digest_size=TAG_BYTES).hexdigest()


def state_json(settings: Settings, sessions: ClientSessions, wanted: str | None = None) -> Json:
    """Return the state of a proxy as JSON, the newest conversation first.

    Each conversation has its requests, cleared results and decisions. If `wanted` names a conversation, only that
    conversation has them, and the others have only their sums.
    """
    known = sorted(sessions, key=attrgetter("started"), reverse=True)
    return {
        "upstream": urlsplit(settings.upstream).hostname if settings.upstream else None,
        "strategy": settings.strategy,
        **{name: getattr(sessions, name) for name in ("requests", "passed", "why", "refused", "failed")},
        "saved": _saved_in(sessions),
        "sessions": [session_json(each, in_full=wanted in (None, each.name)) for each in known],
    }


def _saved_in(sessions: ClientSessions) -> Json:
    """Return what pruning has saved: input tokens, and dollars if all conversations are known, and their prices."""
    money = [each.ledger.total.money for each in sessions]
    known = [each for each in money if each is not None]
    return {
        "tokens": sum(each.saved for each in sessions.sums_by_label().values()),
        "money": None if sessions.has_dropped or len(known) < len(money) else sum(known),
    }


def session_json(session: ClientSession, *, in_full: bool) -> Json:
    """Return a conversation with its sums; in full, also its requests, its cleared results and the reasons."""
    client, model = session.label
    known = {name: getattr(session, name) for name in ("name", "path", "started", "requests", "refused", "failed")}
    sums, last = session.sums, session.points[-1]
    summary: Json = {
        **known,
        "at": session.ended,
        "client": client,
        "agent": session.client,
        "model": model,
        "safe_zone": session.safe_zone,
        "compact_at": session.compact_at,
        "compactions_avoided": session.avoided,
        "tokens": {"before": sums.before, "after": sums.after},
        "prompt": {"before": last.before, "after": last.after},
        "results_cleared": sums.cleared,
        "saved": savings_json(session),
        "cache": {"life": life_text(session.ledger.prices.life), "from": session.life_from},
    }
    return {**summary, **_details_json(session)} if in_full else summary


def savings_json(session: ClientSession) -> Json:
    """Return the savings from pruning, negative for a loss: input tokens, dollars, and the share of the bill.

    `pays_from` is the number of the first request at which pruning pays, None if it never does. `cold` are the tokens
    that prunes at cold requests have saved.
    """
    total, unpruned = session.ledger.total, session.ledger.unpruned
    return {
        "tokens": total.net,
        "cold": session.ledger.cold.net,
        "money": total.money,
        "share": total.net / unpruned if unpruned else 0.0,
        "pays_from": None if math.isinf(total.pays_from) else total.pays_from,
        "prices": {"write": total.prices.write, "read": total.prices.read, "note": total.prices.note},
    }


def _details_json(session: ClientSession) -> Json:
    return {
        "points": [vars(each) for each in session.points],
        "cleared": [{**vars(each), "reason": explain(each)} for each in session.cleared],
        "decisions": [*map(count_from_one, session.decisions)],
        "notes": [{"note": note, "requests": requests} for note, requests in session.notes.items()],
    }


def explain(cleared: DisplayedResult) -> str:
    """Return why a result was cleared; at a cold request, add that the rewrite was paid for anyway."""
    reason = sentence(cleared.reason)
    if not cleared.is_cold or PAID in reason:
        return reason
    rest = reason.removeprefix("cold")
    return f"cold: {PAID}{rest}" if rest.startswith(",") else f"{reason}; cold: {PAID}"


def count_from_one(decision: str) -> str:
    """Renumber the request in a decision, since the page counts requests from 1."""
    return NUMBERED.sub(lambda match: f"request {int(match[1]) + 1}", decision)


# Metrics. Source: https://prometheus.io/docs/instrumenting/exposition_formats/, "Text-based format".


def metrics(sessions: ClientSessions) -> str:
    """Write the metrics of a proxy, labeled by client and model: there are too many sessions for labels."""
    figures = sessions.sums_by_label()
    return "".join(f"{line}\n" for line in (*_total_lines(sessions), *_label_lines(figures), *_time_lines(figures)))


def _total_lines(sessions: ClientSessions) -> Iterator[str]:
    for field, (name, text) in TOTALS.items():
        yield from (*_metric_head(name, "counter", text), f"{name} {getattr(sessions, field)}")


def _label_lines(figures: Mapping[Label, TrafficSums]) -> Iterator[str]:
    for field, (name, kind, text) in BY_LABEL.items():
        yield from _metric_head(name, kind, text)
        for (client, model), known in sorted(figures.items()):
            yield f'{name}{{client="{escape_label(client)}",model="{escape_label(model)}"}} {getattr(known, field)}'


def _time_lines(figures: Mapping[Label, TrafficSums]) -> Iterator[str]:
    total = sum(figures.values(), TrafficSums())
    *below, count = accumulate(total.times)
    yield from _metric_head(TIMES, "histogram", "Time spent on pruning a request.")
    yield from (f'{TIMES}_bucket{{le="{most}"}} {number}' for most, number in zip(BUCKETS, below, strict=True))
    yield from (f'{TIMES}_bucket{{le="+Inf"}} {count}', f"{TIMES}_sum {total.seconds}", f"{TIMES}_count {count}")


def _metric_head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def escape_label(value: str) -> str:
    """Escape the value of a label for double quotes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
