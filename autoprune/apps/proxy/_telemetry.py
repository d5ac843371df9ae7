"""OpenTelemetry metrics and traces of a proxy. Sends figures and names, never texts of a conversation or keys.

    requests ──Exchange──► spans, histograms          sums of `Sessions` ──► counters

Names follow the conventions for generative AI if there is one, and begin with `autoprune.` otherwise. Source:
https://opentelemetry.io/docs/specs/semconv/gen-ai/ (in development, so names may change with it). Needs the extra
`otel`, whose packages are imported only if telemetry is on.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from autoprune.apps.proxy._traffic import BUCKETS, Exchange, Figures, Sessions
from autoprune.errors import SettingsError
from autoprune.tokens import prompt_tokens, spent_tokens

SCOPE = "autoprune"
ENDPOINT, PROTOCOL = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"
HTTP = "http/protobuf"
NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
CLOSING_SECONDS = 2.0  # for the last figures
NANOSECONDS = 1_000_000_000
# As the conventions advise.
OPERATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS = tuple(4**power for power in range(14))
PROVIDERS = {"gemini": "gcp.gemini"}  # other vendors have the same name in the conventions
OPERATIONS = {"gemini": "generate_content"}  # of others "chat"
# Sums by client and model: name, unit, description, figure. The last two may fall.
SUMS: tuple[tuple[str, str, str, Callable[[Figures], float]], ...] = (
    ("autoprune.conversation.requests", "{request}", "Requests of conversations", lambda each: each.requests),
    ("autoprune.tokens.sent", "{token}", "Prompt tokens sent", lambda each: each.after),
    ("autoprune.tokens.pruned", "{token}", "Prompt tokens not sent", lambda each: each.before - each.after),
    ("autoprune.results.cleared", "{result}", "Tool results cleared", lambda each: each.cleared),
    ("autoprune.saved.tokens", "{token}", "Input tokens saved, net of all costs", lambda each: each.saved),
    ("autoprune.saved.cost", "USD", "Dollars saved, net of all costs, at known prices", lambda each: each.dollars),
)


def telemetry_problem(environ: Mapping[str, str]) -> str | None:
    """Why nothing is exported: "" if no endpoint is set, None if nothing prevents it."""
    if not signals(environ):
        return ""
    if environ.get(PROTOCOL, HTTP) != HTTP:
        return f"{PROTOCOL} is {environ[PROTOCOL]}, and only {HTTP} is supported"
    missing = [name for name in NEEDED if not is_installed(name)]
    return "the extra otel is not installed" if missing else None


def signals(environ: Mapping[str, str]) -> set[str]:
    """The signals, of "TRACES" and "METRICS", that the standard variables of OpenTelemetry turn on."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return set()
    return {
        name
        for name in ("TRACES", "METRICS")
        if (environ.get(ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{name}_ENDPOINT"))
        and environ.get(f"OTEL_{name}_EXPORTER", "otlp") == "otlp"
    }


def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor its parent
        return False


@contextmanager
def exporting(environ: Mapping[str, str], version: str) -> Iterator["Telemetry | None"]:
    """Export what a proxy does within the context, to the endpoint that `environ` names; None if there is none."""
    if telemetry_problem(environ) is not None:
        yield None
        return
    # Without a handler, Python prints the exporter's warnings to the terminal, which belongs to the assistant.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    providers = _providers(signals(environ), _resource(environ, version))
    try:
        yield Telemetry(*providers)
    finally:
        # In threads, since the exporters retry for ten seconds if nobody listens, while the assistant's user waits.
        closing = [Thread(target=each.shutdown, daemon=True) for each in providers]
        for each in closing:
            each.start()
        end = time.monotonic() + CLOSING_SECONDS
        for each in closing:
            each.join(max(0.0, end - time.monotonic()))


def _resource(environ: Mapping[str, str], version: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    is_named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if is_named else {"service.name": SCOPE, "service.version": version})


def _providers(wanted: set[str], resource: Any) -> tuple[Any, Any]:
    """The providers of metrics and traces, which export what is wanted and read the standard variables themselves."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if "METRICS" in wanted else []
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    if "TRACES" in wanted:
        traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return MeterProvider(readers, resource=resource, shutdown_on_exit=False), traces


class Telemetry:
    """Records the requests of a proxy with OpenTelemetry's providers of metrics and traces."""

    def __init__(self, metrics: Any, traces: Any) -> None:
        """Create the instruments that count each request."""
        self._meter, self._tracer = metrics.get_meter(SCOPE), traces.get_tracer(SCOPE)
        self._pruning = self._histogram("autoprune.prune.duration", "s", "Time spent on pruning a request", BUCKETS)
        self._duration = self._histogram(
            "gen_ai.client.operation.duration", "s", "Duration of a request", OPERATION_BUCKETS
        )
        self._usage = self._histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens as reported by the provider", TOKEN_BUCKETS
        )

    def _histogram(self, name: str, unit: str, description: str, buckets: Sequence[float]) -> Any:
        return self._meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

    def watch(self, sessions: Sessions) -> None:
        """Export the sums of a proxy's conversations whenever metrics are collected."""
        from opentelemetry.metrics import Observation

        def observe_sums(figure: Callable[[Figures], float]) -> Iterator[Any]:
            for (client, model), known in sessions.sums_by_label().items():
                yield Observation(figure(known), {"autoprune.client": client, "gen_ai.request.model": model})

        def observe_errors() -> Iterator[Any]:
            yield Observation(sessions.refused, {"error.type": "refused"})
            yield Observation(sessions.failed, {"error.type": "unanswered"})

        counter, gauge = self._meter.create_observable_counter, self._meter.create_observable_up_down_counter
        requests = [lambda _: [Observation(sessions.requests)]]
        counter("autoprune.requests", requests, "{request}", "Requests received")
        counter("autoprune.errors", [lambda _: observe_errors()], "{request}", "Requests without a successful answer")
        for name, unit, description, figure in SUMS:
            create = gauge if ".saved." in name else counter
            create(name, [lambda _, figure=figure: observe_sums(figure)], unit, description)

    def note(self, exchange: Exchange) -> None:
        """Record a request of a conversation after its answer."""
        named = {
            "gen_ai.operation.name": OPERATIONS.get(exchange.vendor, "chat"),
            "gen_ai.provider.name": PROVIDERS.get(exchange.vendor, exchange.vendor),
            "gen_ai.request.model": exchange.model,
            **_server(exchange.host),
        }
        if exchange.error:
            named["error.type"] = exchange.error
        tokens = _reported_tokens(exchange.usage)
        self._pruning.record(exchange.point.seconds, {"gen_ai.request.model": exchange.model})
        self._duration.record(exchange.ended - exchange.point.at, named)
        for kind, count in tokens.items():
            self._usage.record(count, named | {"gen_ai.token.type": kind})
        self._trace(exchange, named | {f"gen_ai.usage.{kind}_tokens": count for kind, count in tokens.items()})

    def _trace(self, exchange: Exchange, attributes: Mapping[str, Any]) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        point = exchange.point
        span = self._tracer.start_span(
            f"{attributes['gen_ai.operation.name']} {exchange.model}",
            TraceContextTextMapPropagator().extract(exchange.headers),
            SpanKind.CLIENT,
            {
                **attributes,
                "gen_ai.conversation.id": exchange.conversation,
                "autoprune.client": exchange.client,
                "autoprune.tokens.before": point.before,
                "autoprune.tokens.after": point.after,
                "autoprune.results.cleared": point.cleared,
                "autoprune.prune.duration": point.seconds,
            },
            start_time=int(point.at * NANOSECONDS),
        )
        if exchange.error:
            span.set_status(Status(StatusCode.ERROR, exchange.error))
        span.end(int(exchange.ended * NANOSECONDS))


def _server(host: str) -> dict[str, Any]:
    parts = urlsplit(f"//{host}")
    port = {} if parts.port is None else {"server.port": parts.port}
    return {"server.address": parts.hostname or "", **port}


def _reported_tokens(usage: Mapping[str, Any] | None) -> dict[str, int]:
    """The input and output tokens in a usage; {} if it has none."""
    try:
        read, _ = prompt_tokens(usage)
    except SettingsError:
        return {}
    return {"input": read, "output": spent_tokens(usage) - read}
