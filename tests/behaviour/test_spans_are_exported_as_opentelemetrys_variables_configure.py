"""OpenTelemetry's variables control TLS, headers and compression, with real receivers."""

from __future__ import annotations

import certifi
import pytest

from latspan.testing import Script, ScriptedServer
from support.programs import driving
from support.receivers import Protocol, Refusing, refusing
from support.tls import CERTIFICATE

pytest.importorskip("openai", reason="the openai client is not installed")

TRUSTED = {
    "OTEL_EXPORTER_OTLP_CERTIFICATE": str(CERTIFICATE),
    # These are for the application's own requests.
    "REQUESTS_CA_BUNDLE": certifi.where(),
    "CURL_CA_BUNDLE": certifi.where(),
}
SHOWN = {
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": str(CERTIFICATE),
    "OTEL_EXPORTER_OTLP_CLIENT_KEY": str(CERTIFICATE),
}
QUIET = {"GRPC_VERBOSITY": "NONE", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}

BOTH = pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])


def arrives(receiver: Refusing, protocol: Protocol, **variables: str) -> bool:
    """Return whether the receiver gets an application's span with these variables."""
    with (
        ScriptedServer(Script.chat(tokens=2)) as model,
        driving(
            "is_driven",
            model.base_url,
            LATSPAN_ENDPOINT=receiver.url,
            LATSPAN_PROTOCOL=protocol,
            **QUIET,
            **variables,
        ) as app,
    ):
        app.hear()
        (_,) = app.calls(1)
        flushed = app.do("flush 10")["flushed"]
    assert flushed == bool(receiver.taken.all_spans)
    return flushed


@BOTH
def test_a_trusted_certificate_is_accepted(protocol: Protocol) -> None:
    with refusing(protocol, None, tls=True) as receiver:
        assert arrives(receiver, protocol, **TRUSTED)


@BOTH
@pytest.mark.parametrize("shown", [{}, SHOWN], ids=["shows none", "shows its own"])
def test_a_client_certificate_is_presented(protocol: Protocol, shown: dict[str, str]) -> None:
    """A receiver that requires one accepts nothing without it."""
    with refusing(protocol, None, tls=True, mutual=True) as receiver:
        assert arrives(receiver, protocol, **TRUSTED, **shown) == bool(shown)


@BOTH
def test_configured_headers_are_sent(protocol: Protocol) -> None:
    with refusing(protocol, None) as receiver:
        assert arrives(
            receiver, protocol, OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20secret"
        )

    assert {sent.get("authorization") for sent in receiver.headers} == {"Bearer secret"}


@BOTH
@pytest.mark.parametrize(
    ("compression", "understood", "came"),
    [("gzip", True, True), ("gzip", False, False), ("none", False, True)],
)
def test_compression_is_configurable(
    protocol: Protocol, compression: str, understood: bool, came: bool
) -> None:
    """A receiver without support for compression cannot read compressed exports."""
    with refusing(protocol, None, compressed=understood) as receiver:
        assert arrives(receiver, protocol, OTEL_EXPORTER_OTLP_COMPRESSION=compression) == came
