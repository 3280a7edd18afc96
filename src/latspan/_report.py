"""Report on what this process, or the processes of one run, recorded."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from latspan import _runtime, _sdk
from latspan._metrics import DEFAULT_EXPECTATIONS, Expectations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from latspan._recording import Snapshot
    from latspan._recording._record_files import RunRecords
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


def report_of_run(
    folder: str | os.PathLike[str], expected: Expectations, *, empty_reason: str | None = None
) -> Report:
    """
    Return a report on all processes of one run.

    Args:
        folder: Folder in which the processes wrote their records.
        expected: Expectations that streams were measured against.
        empty_reason: Why nothing was recorded, if nothing was and the reason is known.

    Raises:
        MissingExtraError: The package ``rich`` of the extra ``study`` is not installed.
    """
    from latspan._clock import SystemClock
    from latspan._recording import Recorder, read_records
    from latspan.reports import Report

    run = read_records(folder)
    recorder = Recorder(SystemClock(), keep=None)
    for record in run.records:
        recorder.record(record)
    notes = list(_notes(run))
    if not run.records and run.lost == 0 and run.unended == 0 and empty_reason is None:
        notes.append(_NOTHING_RECORDED)
    snapshot = replace(recorder.snapshot(), empty_reason=empty_reason)
    return Report(snapshot, expected, "\n".join(notes))


def _notes(run: RunRecords) -> Iterator[str]:
    """Yield what the reader must know about the records of a run, one line per fact."""
    from latspan._recording import MOST_RECORDS

    if run.processes > 1:
        yield f"Merged from {run.processes:,} processes."
    if run.is_cut:
        yield f"Of each process, the first {MOST_RECORDS:,} records are included."
    if run.lost is None:
        yield (
            "Missing: the temporary folder of the records was deleted before the program ended, and"
            " the records in it are lost."
        )
    elif run.lost:
        records = "record" if run.lost == 1 else "records"
        yield (
            f"Missing: {run.lost:,} {records} of requests or calls could not be written to the"
            " temporary folder; the program's log has the reason. TMPDIR sets another folder."
        )
    if run.unended:
        one = run.unended == 1
        yield (
            f"The last requests of {'1 process' if one else f'{run.unended:,} processes'} may be"
            f" missing: {'it was' if one else 'they were'} replaced by exec, killed or ended by"
            f" os._exit(), or still {'runs' if one else 'run'}."
        )
