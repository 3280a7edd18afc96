"""A request gets the samples of its server and of its process as attributes."""

from __future__ import annotations

import pytest

from latspan import semconv
from latspan._live.otel.spans import only_missing
from latspan._live.scraping import Monitor
from latspan._live.scraping._sample_buffer import Sample
from latspan._model.segments import Side
from latspan.testing import ManualClock

S = 1_000_000_000
RUNNING, WAITING = semconv.LATSPAN_REQUESTS_RUNNING, semconv.LATSPAN_REQUESTS_WAITING
SAMPLED = semconv.LATSPAN_SAMPLED_ATTRIBUTES


@pytest.fixture
def monitor() -> Monitor:
    """Samples of two servers, the first with two pages, all taken at 5 s."""
    made = Monitor(
        ManualClock().monotonic_ns,
        servers=["http://one:1", "http://two:2/metrics"],
        interval_s=1.0,
    )
    said = [{RUNNING: 2, WAITING: 1}, {RUNNING: 3}, {RUNNING: 7}]
    pages = [page for server in made._servers.values() for page in server.pages]  # pyright: ignore[reportPrivateUsage]
    for page, gauges in zip(pages, said, strict=True):
        page.history.add(5 * S, Sample(gauges=gauges))
    return made


@pytest.mark.parametrize(
    ("server", "side", "expected"),
    [
        (("one", 1), Side.CLIENT, {RUNNING: 3, WAITING: 1, SAMPLED: [RUNNING, WAITING]}),
        (("ONE", 1), Side.CLIENT, {RUNNING: 3, WAITING: 1, SAMPLED: [RUNNING, WAITING]}),
        (("two", 2), Side.CLIENT, {RUNNING: 7, SAMPLED: [RUNNING]}),
        (("two", 1), Side.CLIENT, {}),
        (None, Side.CLIENT, {}),
        (None, Side.SERVER, {RUNNING: 7, WAITING: 1, SAMPLED: [RUNNING, WAITING]}),
    ],
    ids=["a call", "in capitals", "another", "another port", "a request", "a served request"],
)
def test_a_request_gets_the_samples_of_its_server(
    monitor: Monitor,
    server: tuple[str, int] | None,
    side: Side,
    expected: dict[str, object],
) -> None:
    """The greatest value over its pages; a served request gets the greatest over all servers."""
    assert monitor()(5 * S, 6 * S, server, side) == expected


def test_without_a_sample_no_attribute_is_set(monitor: Monitor) -> None:
    """Not even the list of sampled attributes."""
    assert monitor()(7 * S, 8 * S, ("one", 1), Side.CLIENT) == {}


def test_no_samples_exist_before_start() -> None:
    """Nor are there attributes of the host if it is not monitored."""
    observation = Monitor(ManualClock().monotonic_ns, interval_s=1.0)()

    assert observation(0, S, None, Side.CLIENT) == {}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {RUNNING: 2, WAITING: 1, "exact": 0.5, SAMPLED: [RUNNING, WAITING]}),
        ({WAITING: 9}, {RUNNING: 2, "exact": 0.5, SAMPLED: [RUNNING]}),
        ({RUNNING: 9, WAITING: 9}, {"exact": 0.5}),
    ],
    ids=["nothing", "one", "all"],
)
def test_attributes_set_by_the_request_have_priority(
    said: dict[str, float], expected: dict[str, object]
) -> None:
    """They are not listed as sampled."""
    parent_context = {RUNNING: 2, WAITING: 1, "exact": 0.5, SAMPLED: [RUNNING, WAITING]}

    assert only_missing(parent_context, said) == expected
