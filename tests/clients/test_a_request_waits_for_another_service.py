"""An HTTP request of the application's own code is a segment of the request around it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import latspan
from latspan import Kind
from latspan.testing import capture
from tests.clients.test_excluded_urls_leave_no_trace import CASES, Get
from tests.support.loopback import Loopback, whole


@pytest.mark.parametrize(
    "get",
    [
        pytest.param(get, id=f"{library} {at}")
        for at, (library, _, get) in enumerate(CASES)
        if find_spec(library) is not None
    ],
)
def test_the_segment_lasts_as_long_as_the_exchange(get: Get) -> None:
    """Each client reads the body to its end."""
    with Loopback([whole()]) as server, capture() as seen:
        with latspan.request("ask"):
            get(server.url)
        exchange, request = seen.records
    assert (exchange.kind, request.kind) == (Kind.HTTP, Kind.REQUEST)
    times = {total.name: total.duration_ns for total in request.segment_totals}
    host = server.url.removeprefix("http://")
    assert times.keys() <= {f"http {host}", "application", "event_loop"}
    assert times[f"http {host}"] == exchange.duration_ns
    assert sum(times.values()) == request.duration_ns
