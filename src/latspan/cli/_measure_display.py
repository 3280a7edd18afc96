"""Progress of a load test: one live line if stderr is a terminal, otherwise an occasional one."""

from __future__ import annotations

import sys
import threading
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from latspan._model.text import count
from latspan._model.units import milliseconds
from latspan._study.render.measurement import load_in_words
from latspan.cli._console import print_message

if TYPE_CHECKING:
    from latspan._load import LoadStep, Progress

_REDRAW_S: Final = 0.5
"""
Time between two drawings on a terminal.

Drawing takes some milliseconds of this process, in which the load generator runs less often.
"""

_LINE_S: Final = 5.0
"""Time between two lines if nothing can be redrawn."""
_MIN_VALUES: Final = 20
"""Number of values from which a running p95 is shown."""


class LiveDisplay:
    """
    Display that reads the running account of a step on a thread of its own.

    Args:
        has_lines: Whether lines are printed if nothing can be redrawn.
    """

    def __init__(self, *, has_lines: bool = True) -> None:
        self._has_lines = has_lines
        self._stop = threading.Event()
        self._shown: _Shown | None = None
        self._thread = threading.Thread(target=self._draw, name="latspan-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def step(self, step: LoadStep, number: int | None, progress: Progress) -> None:
        """Begin to show a step."""
        name = load_in_words(step.schedule.conditions())
        print_message(f"{name}: {_plan(step)}" if number is None else f"step {number + 1}: {name}")
        self._shown = _Shown(step, progress)

    def _draw(self) -> None:
        if _can_redraw():
            self._draw_live()
            return
        while self._has_lines and not self._stop.wait(_LINE_S):
            shown = self._shown
            if shown is not None:
                print_message(f"  {shown.line()}")

    def _draw_live(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not self._stop.wait(_REDRAW_S):
                shown = self._shown
                if shown is not None:
                    live.update(Text(f"  {shown.line()}", no_wrap=True), refresh=True)


def _can_redraw() -> bool:
    """Return whether stderr is a terminal on which rich draws; on a dumb one it draws nothing."""
    stderr: TextIO | None = sys.stderr
    if stderr is None or not stderr.isatty():
        return False
    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal and not console.is_dumb_terminal


class _Shown:
    """The step that is shown."""

    def __init__(self, step: LoadStep, progress: Progress) -> None:
        self._step = step
        self._progress = progress
        self._began_s = monotonic()

    def line(self) -> str:
        """Return the state of the step in one line."""
        progress = self._progress
        total = f" of {progress.total:,}" if progress.total is not None else ""
        parts = [
            f"{progress.phase.value}: {progress.measured:,}{total} measured",
            f"{progress.in_flight:,} in flight",
        ]
        for label, values in (("TTFT", progress.first_token), ("duration", progress.duration)):
            # A copy, because the event loop goes on recording.
            kept = values.copy()
            if kept.count >= _MIN_VALUES:
                p50, p95 = kept.values_at_percentiles((50, 95))
                parts.append(f"{label} p50 {milliseconds(p50)}, p95 {milliseconds(p95)}")
        failures = dict(progress.failures)
        if failures:
            parts.append(", ".join(f"{n:,} {outcome.value}" for outcome, n in failures.items()))
        left_s = self._left_s()
        # How long the last responses take is not known.
        if left_s is not None and round(left_s) > 0:
            parts.append(f"{left_s:,.0f} s left")
        return "; ".join(parts)

    def _left_s(self) -> float | None:
        progress, step = self._progress, self._step
        elapsed_s = monotonic() - self._began_s
        if step.schedule.is_open and step.measured:
            last_ns = step.schedule.offsets_ns[step.warmup + step.measured - 1]
            return max(0.0, last_ns / 1e9 - elapsed_s)
        if not progress.total or not progress.measured:
            return None
        return elapsed_s * (progress.total - progress.measured) / progress.measured


def _plan(step: LoadStep) -> str:
    parts = [f"{step.warmup:,} to warm up"] if step.warmup else []
    if step.measured is not None:
        parts.append(f"{count(step.measured, 'request')} to measure")
    if step.duration_ns is not None:
        parts.append(f"for {step.duration_ns / 1e9:,.4g} s")
    return ", ".join(parts)
