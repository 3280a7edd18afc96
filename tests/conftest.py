"""Configuration and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import pytest
from hypothesis import is_hypothesis_test, settings

from latspan.testing import _capture

# A bug in latspan fails these tests. The tests of latspan's users are not affected.
_capture.raises_bugs = True

# On a busy machine any event loop is late. Only the tests of that have a segment for it.
_capture.watches_loops = False

# A deadline asserts a duration, and the machine may be busy.
settings.register_profile("latspan", deadline=None)
settings.load_profile("latspan")

# A shell makes its background programs ignore interrupts, and their children inherit this. A test
# that interrupts a program would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MEASURED = pytest.StashKey[list[str]]()

Measured = Callable[[str, Sequence[float]], float]


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """
    Record a distribution for the summary of the test run, and return its median.

    For a test that asserts a median, the summary shows the spread: ``measured("queue", errors)``,
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


_SELDOM: Final = (20_000, 20, 20)
"""Thresholds of the garbage collector; Python's own take 4 % of the time of all tests."""

_SIGNS: Final = {
    "alone": re.compile(r"\bmark\.alone\b|\bmeasured\b"),
    "undisturbed": re.compile(r"\bmark\.undisturbed\b"),
}
"""What matches in every file with tests that run in a process of this name."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Do not import files without tests that measure, if only those are wanted."""
    phase = os.environ.get("LATSPAN_TESTS", "")
    if phase not in _SIGNS or collection_path.suffix != ".py":
        return None
    return None if _sign_in(collection_path, phase) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Deselect the tests that another pytest process runs, according to ``LATSPAN_TESTS``.

    Tests that measure milliseconds run ``alone``: those with the marker of that name, and those
    with the fixture ``measured``. Of these, the ones with the marker ``undisturbed`` run when no
    other suite runs. All others can run ``together`` with other suites.
    """
    phase = os.environ.get("LATSPAN_TESTS")
    if phase not in {*_SIGNS, "together"}:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if _phase_of(item) == phase else left_out).append(item)
    if phase == "together":
        _check_signs(left_out)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def _phase_of(item: pytest.Item) -> str:
    if item.get_closest_marker("undisturbed") is not None:
        return "undisturbed"
    fixtures = getattr(item, "fixturenames", ())
    measures = "measured" in fixtures or item.get_closest_marker("alone") is not None
    return "alone" if measures else "together"


def _check_signs(items: Sequence[pytest.Item]) -> None:
    """Fail if no process would run a test, because its file does not show that it measures."""
    files = {(item.path, _phase_of(item)) for item in items}
    unseen = [(str(path), phase) for path, phase in files if not _sign_in(path, phase)]
    if unseen:
        what = (
            "'mark.undisturbed', or for tests that run alone 'mark.alone' or 'measured', must be"
            f" in the file of each such test: {sorted(unseen)}"
        )
        raise pytest.UsageError(what)


def _sign_in(path: Path, phase: str) -> bool:
    return _SIGNS[phase].search(path.read_text()) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """
    Record no coverage during a test that runs the same code often, which it would slow.

    These are the tests with the marker ``repetitive`` and those that Hypothesis repeats.
    """
    coverage = sys.modules.get("coverage")
    recording = None if coverage is None else coverage.Coverage.current()
    if recording is None or not _is_repetitive(item):
        return (yield)
    recording.stop()
    try:
        return (yield)
    finally:
        recording.start()


def _is_repetitive(item: pytest.Item) -> bool:
    function = getattr(item, "function", None)
    return item.get_closest_marker("repetitive") is not None or is_hypothesis_test(function)


def pytest_collection_finish(session: pytest.Session) -> None:
    """
    Exempt what exists before the first test from garbage collection, and let it run less often.

    Many tests collect garbage. Most libraries and test modules are imported by now, and looking
    through their objects takes 0.3 s each time. Tests that need a collection request it.
    """
    del session
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)


@pytest.fixture(scope="module", autouse=True)
def _imported_by_earlier_tests() -> None:
    """Exempt what exists before each file too: clients import most of their modules on use."""
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the distributions that were measured against real servers."""
    lines = config.stash.get(_MEASURED, None)
    if lines:
        terminalreporter.section("measured against real servers")
        for line in lines:
            terminalreporter.line(line)
