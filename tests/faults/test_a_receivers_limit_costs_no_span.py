"""Spans that are more than a receiver takes at once arrive all the same, in smaller batches."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider

from latspan._live.otel.export import otlp_spans
from latspan._live.sdk._global_provider import Lead
from latspan._live.sdk._span_export import SpanExport
from support.receivers import Protocol, refusing

CONTENT = "w" * 9_000
"""Of each span; of 512 it is 4.6 MB."""


@pytest.mark.parametrize(
    ("protocol", "longest", "spans", "refuses"),
    [
        ("grpc", None, 512, False),
        ("http/protobuf", 1_048_576, 512, False),
        ("http/protobuf", 200_000, 512, True),
        ("grpc", 200_000, 60, True),
    ],
    ids=["gRPC's own", "nginx's own", "a narrow one", "a narrow one over gRPC"],
)
def test_every_span_arrives(
    monkeypatch: pytest.MonkeyPatch,
    protocol: Protocol,
    longest: int | None,
    spans: int,
    refuses: bool,
) -> None:
    """A usual limit is never reached; a narrower one is found by halving."""
    # Over gRPC the exporter tries again what is too large, for as long as it may.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    with refusing(protocol, None, longest=longest) as receiver:
        address = receiver.url if protocol == "grpc" else f"{receiver.url}/v1/traces"
        export = SpanExport(lambda: otlp_spans(protocol, address))
        provider = TracerProvider(shutdown_on_exit=False)
        Lead(provider).to = export
        tracer = provider.get_tracer("test")
        for number in range(spans):
            tracer.start_span(str(number), attributes={"content": CONTENT}).end()

        assert export.flushing()(60.0)
        assert [reading.value for reading in export.readings()] == [0, 0]
        export.closing()(60.0)

    names = [span.name for span in receiver.taken.all_spans]
    assert sorted(names, key=int) == [str(number) for number in range(spans)]
    sizes = [sent.ByteSize() for sent in receiver.taken.traces]
    assert max(sizes) <= (longest or 1_048_576)
    assert (max(sizes) < 500_000) == refuses
