"""What every test shares."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from statistics import median

import pytest
from hypothesis import settings

from latspan.testing import _capture

# Here, and in no test of a user's, a bug of latspan's own fails the test.
_capture.raises_bugs = True

# A deadline is a timed assertion, and this machine may be busy.
settings.register_profile("latspan", deadline=None)
settings.load_profile("latspan")

# A shell ignores interrupts for what it runs in the background, programs inherit that, and a test
# that interrupts one would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MEASURED = pytest.StashKey[list[str]]()

Measured = Callable[[str, Sequence[float]], float]


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """
    Note a distribution for the end of the test run, and return its median.

    A test that holds a median shows how far the rest lies from it: ``measured("queue", errors)``,
    in milliseconds.
    """
    lines = request.config.stash.setdefault(_MEASURED, [])

    def note(what: str, values_ms: Sequence[float]) -> float:
        ordered = sorted(values_ms)
        middle = median(ordered)
        p95 = ordered[-(-len(ordered) * 95 // 100) - 1]
        lines.append(
            f"{request.node.name}: {what}: median {middle:.3f} ms, p95 {p95:.3f} ms,"
            f" max {ordered[-1]:.3f} ms, n={len(ordered)}"
        )
        return middle

    return note


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Leave out what another pytest process runs, as ``LATSPAN_TESTS`` says.

    Tests that measure milliseconds run ``alone``: those with the marker of that name, and those
    with the fixture ``measured``. All others can run ``together`` with other suites.
    """
    phase = os.environ.get("LATSPAN_TESTS")
    if phase not in {"alone", "together"}:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        runs_alone = "measured" in fixtures or item.get_closest_marker("alone") is not None
        (kept if runs_alone is (phase == "alone") else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what was measured against real servers."""
    lines = config.stash.get(_MEASURED, None)
    if lines:
        terminalreporter.section("measured against real servers")
        for line in lines:
            terminalreporter.line(line)
