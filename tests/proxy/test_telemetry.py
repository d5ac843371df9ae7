"""OpenTelemetry: what a proxy exports of its requests, and when."""

from typing import Any

import httpx
import pytest
from proxy.conftest import body, eventually
from raw_upstream import Connection, always, answer, serving

from autoprune import __version__
from autoprune.apps.proxy import Settings, Telemetry, exporting, running, telemetry_problem

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACE = "0af7651916cd43dd8448eb211c80319c"
USAGE = b'{"usage": {"input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 7}}'


def test_nothing_is_exported_without_an_endpoint():
    assert telemetry_problem({}) == ""
    assert telemetry_problem({ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}) == ""
    off = {"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"}
    assert telemetry_problem({ENDPOINT: "http://127.0.0.1:9", **off}) == ""
    with exporting({}, __version__) as telemetry:
        assert telemetry is None


def test_another_protocol_is_named_as_the_problem():
    environ = {ENDPOINT: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    said = "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and only http/protobuf is supported"
    assert telemetry_problem(environ) == said


class InMemory:
    """Telemetry whose metrics and spans a test can read."""

    def __init__(self) -> None:
        metrics = pytest.importorskip("opentelemetry.sdk.metrics")
        traces = pytest.importorskip("opentelemetry.sdk.trace")
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._reader, self._exporter = InMemoryMetricReader(), InMemorySpanExporter()
        provider = traces.TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(metrics.MeterProvider([self._reader]), provider)

    @property
    def spans(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def metrics(self) -> dict[str, Any]:
        """The sum of each counter, and the sum and count of each histogram, by name."""
        data = self._reader.get_metrics_data()
        known = (each for one in data.resource_metrics for scope in one.scope_metrics for each in scope.metrics)
        return {each.name: total(each.data.data_points) for each in known}


def total(points: Any) -> Any:
    values = [(point.sum, point.count) if hasattr(point, "count") else point.value for point in points]
    return [sum(each) for each in zip(*values, strict=True)] if isinstance(values[0], tuple) else sum(values)


@pytest.mark.full
def test_a_pruned_request_is_a_span_in_the_clients_trace_and_adds_to_the_metrics():
    known = InMemory()
    headers = {"user-agent": "mini/2.4", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    with (
        serving(always(answer(USAGE))) as upstream,
        running(Settings(upstream.url, "2k", "low_water"), telemetry=known.telemetry) as proxy,
    ):
        assert httpx.post(f"{proxy.url}/v1/messages", content=body(12), headers=headers).status_code == 200
        eventually(lambda: known.spans)
        measured = known.metrics()
        (session,) = proxy.sessions
    (span,) = known.spans
    point = session.points[0]
    assert (span.name, format(span.context.trace_id, "032x")) == ("chat claude-sonnet-4-5", TRACE)
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.conversation.id": session.name,
        "gen_ai.usage.input_tokens": 1_000,
        "gen_ai.usage.output_tokens": 7,
        "server.address": "127.0.0.1",
        "server.port": int(upstream.url.rpartition(":")[2]),
        "autoprune.client": "mini",
        "autoprune.tokens.before": point.before,
        "autoprune.tokens.after": point.after,
        "autoprune.results.cleared": point.cleared,
        "autoprune.prune.duration": point.seconds,
    }
    assert 0 < point.after < point.before
    assert measured["autoprune.tokens.pruned"] == point.before - point.after
    assert measured["autoprune.saved.cost"] == session.total.money
    assert measured["gen_ai.client.token.usage"] == [1_007, 2]
    assert measured["autoprune.prune.duration"] == [point.seconds, 1]
    assert (measured["autoprune.requests"], measured["autoprune.errors"]) == (1, 0)


@pytest.mark.full
def test_a_refusal_and_a_missing_answer_are_errors():
    known = InMemory()

    def hang_up(connection: Connection) -> None:
        connection.request()

    for play in (always(answer(b"{}", status="429 Too Many Requests")), hang_up):
        with serving(play) as upstream, running(Settings(upstream.url), telemetry=known.telemetry) as proxy:
            httpx.post(f"{proxy.url}/v1/messages", content=body(2))
    assert [span.attributes["error.type"] for span in known.spans] == ["429", "unanswered"]
    assert [span.status.is_ok for span in known.spans] == [False, False]


@pytest.mark.full
def test_an_endpoint_gets_metrics_and_traces(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with serving(always(answer(b""))) as collector, serving(always(answer(USAGE))) as upstream:
        monkeypatch.setenv(ENDPOINT, collector.url)
        with (
            exporting({ENDPOINT: collector.url}, __version__) as telemetry,
            running(Settings(upstream.url), telemetry=telemetry) as proxy,
        ):
            httpx.post(f"{proxy.url}/v1/messages", content=body(2))
    sent = {head.split()[1]: content for head, content in collector.requests}
    assert set(sent) == {"/v1/metrics", "/v1/traces"}
    assert not any(b"Mend it" in content for content in sent.values())
