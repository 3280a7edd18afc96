"""What the tests of requests and urllib3 share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from latspan.testing import Captured, ManualClock, capture

pytest.importorskip("requests")

from latspan_instrumentation.requests import RequestsInstrumentor, URLLib3Instrumentor


@pytest.fixture(autouse=True, scope="package")
def _followed() -> Iterator[None]:
    """Instrument requests and urllib3, unless they are."""
    mine = [
        instrumentor
        for instrumentor in (URLLib3Instrumentor(), RequestsInstrumentor())
        if not instrumentor.is_instrumented_by_opentelemetry
    ]
    for instrumentor in mine:
        instrumentor.instrument(raise_exception_on_conflict=True)
    yield
    for instrumentor in reversed(mine):
        instrumentor.uninstrument()


@pytest.fixture
def clock() -> ManualClock:
    """The clock that latspan reads and the scripted network moves."""
    return ManualClock()


@pytest.fixture
def seen(clock: ManualClock) -> Iterator[Captured]:
    """What latspan records on that clock."""
    with capture(clock=clock) as captured:
        yield captured


@pytest.fixture
def watched() -> Iterator[Captured]:
    """What latspan records on the machine's clock."""
    with capture() as captured:
        yield captured
