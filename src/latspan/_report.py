"""Report on what this process, or the processes of one run, recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from latspan import _runtime, _sdk
from latspan._metrics import DEFAULT_EXPECTATIONS, Expectations

if TYPE_CHECKING:
    from latspan._recording import Snapshot
    from latspan.reports import Report

__all__ = ["report", "report_of_run"]

_NOTHING_RECORDED = "hint: latspan doctor -- PROGRAM shows what latspan saw of a program, and why"


def report(snapshot: Snapshot | None = None) -> Report:
    """
    Return a report on where requests and calls spent their time: ``print(latspan.report())``.

    The tables of calls show everything recorded since :func:`latspan.configure`. The waterfalls,
    the tables of requests and the last sentence cover only the latest requests and calls, whose
    number the setting ``keep_records`` limits.

    Args:
        snapshot: Data to report on, for example of a test; if not given, everything recorded by
            this process so far.

    Returns:
        A report that ``print`` shows as text and a notebook as HTML.

    Raises:
        MissingExtraError: The package ``rich`` of the extra ``study`` is not installed.
    """
    from latspan.reports import Report

    runtime = _runtime.current()
    expected = DEFAULT_EXPECTATIONS if runtime is None else runtime.expected
    return Report(_sdk.snapshot() if snapshot is None else snapshot, expected)


def report_of_run(folder: str | os.PathLike[str], expected: Expectations) -> Report:
    """
    Return a report on all processes of one run.

    Args:
        folder: Folder in which the processes wrote their records.
        expected: Expectations that streams were measured against.

    Raises:
        MissingExtraError: The package ``rich`` of the extra ``study`` is not installed.
    """
    from latspan._clock import SystemClock
    from latspan._recording import MOST_RECORDS, Recorder, read_records
    from latspan.reports import Report

    records, processes, is_cut = read_records(folder)
    recorder = Recorder(SystemClock(), keep=None)
    for record in records:
        recorder.record(record)
    notes: list[str] = []
    if not records:
        notes.append(_NOTHING_RECORDED)
    if processes > 1:
        notes.append(f"Merged from {processes:,} processes.")
    if is_cut:
        notes.append(f"Of each process, the first {MOST_RECORDS:,} records are included.")
    return Report(recorder.snapshot(), expected, " ".join(notes))
