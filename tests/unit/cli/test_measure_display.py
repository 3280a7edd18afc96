"""Progress of a load test, on terminals and elsewhere."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from latspan._load._plan import step_of
from latspan._load._progress import Progress
from latspan._model.goals import Arrivals
from latspan._study.loop._runs import progress_in
from latspan.cli import _measure_display
from latspan.cli._measure_display import LiveDisplay

_DEADLINE_S = 60


class _Stderr(io.StringIO):
    """Standard error that reports when it received the progress of a step."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if " measured; " in text:
            self.shown.set()
        return written


def _display(stderr: _Stderr, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is shown until the first progress."""
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(_measure_display, "_LINE_S", 0.01)
    monkeypatch.setattr(_measure_display, "_REDRAW_S", 0.01)
    step = step_of(Arrivals.POISSON, 2, warmup=10, requests=1_000, duration_ns=None)
    with LiveDisplay() as display:
        display.step(step, None, Progress(step.measured))
        assert stderr.shown.wait(_DEADLINE_S), stderr.getvalue()
    return stderr.getvalue()


@pytest.mark.parametrize("terminal", ["xterm", "dumb", "unknown", ""])
def test_every_terminal_shows_progress(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot move its cursor gets lines."""
    monkeypatch.setenv("TERM", terminal)
    shown = _display(_Stderr(is_terminal=True), monkeypatch)
    assert ("\x1b[2K" in shown) == (terminal in {"xterm", ""})


def test_lines_are_read_by_a_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs are measurements whose stderr is a pipe."""
    shown = _display(_Stderr(is_terminal=False), monkeypatch)
    assert "0 of 1,000 requests" in map(progress_in, shown.splitlines())


def test_lines_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that reads the document has no use for them, so the thread ends at once."""
    stderr = _Stderr(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", stderr)
    with LiveDisplay(has_lines=False):
        for thread in threading.enumerate():
            if thread.name == "latspan-progress":
                thread.join(_DEADLINE_S)
                assert not thread.is_alive()
    assert not stderr.getvalue()


@pytest.mark.parametrize("measured", [500, 1_000])
def test_no_time_is_left_while_the_last_responses_arrive(
    measured: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long these take is not known."""
    step = step_of(Arrivals.CLOSED, 2, warmup=0, requests=1_000, duration_ns=None)
    progress = Progress(step.measured)
    times = iter([0.0, 100.0])
    monkeypatch.setattr(_measure_display, "monotonic", lambda: next(times))
    shown = _measure_display._Shown(step, progress)  # pyright: ignore[reportPrivateUsage]
    progress.measured = measured
    assert ("s left" in shown.line()) == (measured < 1_000)
