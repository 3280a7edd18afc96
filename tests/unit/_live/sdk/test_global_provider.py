"""The global provider sends to the current configuration, and keeps no earlier one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import latspan
from latspan._live.sdk import _global_provider
from support.receivers import Receiver, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver that latspan sends to, in a process without a global provider."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(_global_provider, "_lead", None)
    with receiving() as running:
        monkeypatch.setenv("LATSPAN_ENDPOINT", running.url)
        yield running
        latspan.shutdown()


def end_a_span(name: str) -> None:
    trace.get_tracer_provider().get_tracer("shop").start_span(name).end()


def processors() -> int:
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    return len(provider._active_span_processor._span_processors)  # pyright: ignore[reportPrivateUsage]


def test_repeated_configuration_adds_one_processor(receiver: Receiver) -> None:
    """Each span is exported once, by the configuration that is active when it ends."""
    for number in range(5):
        latspan.configure(set_global_provider=number != 3)
        end_a_span(str(number))
    latspan.shutdown()
    end_a_span("after the end")

    assert processors() == 1
    assert [span.name for span in receiver.all_spans] == ["0", "1", "2", "3", "4"]


def test_the_applications_global_provider_is_not_changed(receiver: Receiver) -> None:
    """It was set before latspan was configured."""
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))

    latspan.configure(set_global_provider=True)

    assert processors() == 0
