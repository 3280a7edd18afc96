"""One line at the start says what is instrumented and where telemetry goes, and is true."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import latspan
from latspan._live.sdk._config import Config
from latspan._live.sdk._start_line import endpoint_of
from support.receivers import receiving

ON = "latspan is on: "


@pytest.fixture(autouse=True)
def configured_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what other tests have instrumented, and switch latspan off afterwards."""
    monkeypatch.setattr("latspan._live.instrument._discovery._switched_on", {})
    yield
    latspan.shutdown()
    latspan.uninstrument()


@pytest.fixture
def info(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "latspan")
    return caplog


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith(("latspan is", "latspan now"))]


def test_libraries_instrumented_before_configure_are_in_the_line(
    info: pytest.LogCaptureFixture,
) -> None:
    """The line has the libraries, the endpoint without credentials and the service name."""
    names = latspan.auto_instrument()
    with receiving() as receiver:
        latspan.configure(
            endpoint=receiver.url.replace("://", "://user:hush@"), service_name="shop"
        )

        (line,) = lines(info)
        latspan.shutdown()
    libraries = ", ".join(name.removeprefix("latspan_") for name in names)
    assert f"instrumented libraries: {libraries}; " in line
    assert f"endpoint: {receiver.url.replace('://', '://***@')}; service name: shop" in line


def test_libraries_instrumented_after_configure_are_in_the_line(
    info: pytest.LogCaptureFixture,
) -> None:
    """The line waits for them; a second call adds nothing."""
    latspan.configure(export_enabled=False)
    assert lines(info) == []

    latspan.auto_instrument()
    latspan.auto_instrument()

    (line,) = lines(info)
    assert "urllib3" in line
    assert "endpoint: none, because export is off" in line


def test_the_first_request_logs_the_line_if_nothing_is_instrumented(
    info: pytest.LogCaptureFixture,
) -> None:
    """Later libraries have a line of their own, so that the log stays true."""
    latspan.configure(export_enabled=False)
    for _ in range(2):
        with latspan.request("work"):
            pass
    latspan.force_flush()
    latspan.auto_instrument()

    on, more = lines(info)
    assert on.startswith(f"{ON}instrumented libraries: none;")
    assert more.startswith("latspan now instruments ")
    assert more.endswith("urllib3 too")


def test_a_configuration_that_recorded_nothing_ends_with_a_line(
    info: pytest.LogCaptureFixture,
) -> None:
    """A program that forgets auto_instrument() would otherwise end in silence."""
    latspan.configure(export_enabled=False)

    latspan.shutdown()

    (line,) = info.messages
    assert line == (
        "latspan recorded nothing: no client library was instrumented;"
        " hint: call latspan.auto_instrument()"
    )


def test_without_info_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The default level of Python's logging."""
    caplog.set_level(logging.WARNING, "latspan")
    latspan.auto_instrument()

    latspan.configure(export_enabled=False)

    assert caplog.messages == []


@pytest.mark.parametrize(
    ("config", "environment", "endpoint"),
    [
        (Config(), {}, "http://localhost:4318"),
        (Config(endpoint="http://c:4317"), {}, "http://c:4317"),
        (Config(export_enabled=False), {}, "none, because export is off"),
        (
            Config(),
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://u:p@t:1/own"},
            "http://***@t:1/own (spans), http://localhost:4318 (metrics)",
        ),
        (
            Config(),
            {"OTEL_TRACES_EXPORTER": "none"},
            "none (spans), http://localhost:4318 (metrics)",
        ),
    ],
)
def test_the_endpoint_of_each_signal_is_described(
    config: Config, environment: dict[str, Any], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once if both signals have the same, and without credentials."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)

    assert endpoint_of(config) == endpoint


def test_spans_of_an_applications_provider_have_no_endpoint_of_latspan() -> None:
    """The application exports them."""
    assert endpoint_of(Config(), spans_elsewhere=True) == (
        "the application's tracer provider (spans), http://localhost:4318 (metrics)"
    )
