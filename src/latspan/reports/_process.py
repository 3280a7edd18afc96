"""Report and diagnosis of what this process recorded, or of a recording of several processes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from latspan._live import sdk as _sdk
from latspan._live.instrument import instrumented_libraries, loaded_clients
from latspan._live.process.runtime import current_runtime
from latspan._model.metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan._model.segments import Kind, kind_named
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._model.recording import Snapshot
    from latspan._model.recording.folder import Recording
    from latspan._study.diagnose import Diagnosis
    from latspan.reports import DiagnosisReport, Report

_NOTHING_RECORDED = "hint: latspan doctor -- PROGRAM shows what latspan saw of a program, and why"


def report(snapshot: Snapshot | None = None) -> Report:
    """
    Return a report on where requests and calls spent their time: ``print(latspan.report())``.

    The tables of calls show everything recorded since :func:`latspan.configure`. The waterfalls,
    the tables of requests and the diagnosis at the end cover only the latest requests and calls,
    whose number the setting ``keep_records`` limits.

    Args:
        snapshot: Data to report on, for example of a test; if not given, everything recorded by
            this process so far.

    Returns:
        A report that ``print`` shows as text and a notebook as HTML.

    Raises:
        MissingExtraError: The package ``rich`` of the extra ``study`` is not installed.
    """
    runtime = current_runtime()
    expected = DEFAULT_EXPECTATIONS if runtime is None else runtime.expected
    if snapshot is not None:
        return report_of_snapshot(snapshot, expected)
    own = _sdk.snapshot()
    return replace(report_of_snapshot(own, expected), note=_missing(own))


def _missing(snapshot: Snapshot) -> str:
    """Return what a report lacks because the program has not switched it on."""
    has_calls = any(each.kind is Kind.CALL for each in snapshot.records)
    if not snapshot.records or has_calls or instrumented_libraries():
        return ""
    clients = loaded_clients()
    if not clients:
        return ""
    return (
        f"{', '.join(clients)}: not instrumented, so calls are not recorded, and their time is in"
        " no segment of their own; call latspan.auto_instrument()."
    )


def diagnose(
    goal: str = "p95 duration",
    *,
    limit_ms: float | None = None,
    kind: Kind | str | None = None,
    snapshot: Snapshot | None = None,
) -> DiagnosisReport:
    """
    Return the one delay to fix: ``print(latspan.diagnose("p95 ttft <= 500ms"))``.

    The diagnosis covers the latest requests and calls, whose number the setting ``keep_records``
    limits. A :doc:`recording <guides/recording>` has all of them, and more facts on each.

    Args:
        goal: Percentile and metric to explain: ``duration``, ``ttft`` or ``ttfv``. It can have a
            limit; if the limit is met, there is nothing to fix.
        limit_ms: Limit in milliseconds, if the goal does not have it.
        kind: ``request`` or ``call``; if not given, requests if there are any.
        snapshot: Data to diagnose, for example of a test; if not given, everything recorded by
            this process so far.

    Returns:
        A diagnosis that ``print`` shows as text and a notebook as HTML.

    Raises:
        ConfigError: ``goal`` or ``limit_ms`` is not valid, or ``kind`` is a kind other than
            ``request`` and ``call``.
        UnknownNameError: There is no such metric, or no such kind.
        MissingExtraError: The extra ``study`` is not installed.
    """
    from latspan.reports import DiagnosisReport
    from latspan.reports._extra import needs_study

    with needs_study():
        from latspan._study.diagnose import diagnose, parse_goal

    wanted = None if kind is None else kind_named(kind)
    data = _sdk.snapshot() if snapshot is None else snapshot
    parsed = parse_goal(goal, limit_ms=limit_ms, kind=wanted)
    notes = () if data.empty_reason is None else (data.empty_reason,)
    return DiagnosisReport(diagnose(data.records, parsed, notes=notes))


def report_of_snapshot(snapshot: Snapshot, expected: Expectations) -> Report:
    """
    Return a report on a snapshot.

    Args:
        snapshot: The snapshot.
        expected: Expectations that streams were measured against.

    Raises:
        MissingExtraError: The package ``rich`` of the extra ``study`` is not installed.
    """
    from latspan.reports import Report

    return Report(snapshot, expected, closing=_closing(snapshot))


def report_of_recording(
    recording: Recording, expected: Expectations, *, empty_reason: str | None = None
) -> Report:
    """
    Return a report on all requests of a recording.

    Args:
        recording: The recording.
        expected: Expectations that streams were measured against.
        empty_reason: Why nothing was recorded, if nothing was and the reason is known.

    Raises:
        MissingExtraError: The package ``rich`` of the extra ``study`` is not installed.
        OSError: A file cannot be read.
    """
    from latspan.reports import Report

    snapshot, closing = _read(recording)
    notes = recording.notes
    if not snapshot.series and not notes and empty_reason is None:
        notes = (_NOTHING_RECORDED,)
    return Report(
        replace(snapshot, empty_reason=empty_reason),
        expected,
        "\n".join(notes),
        closing=closing,
    )


def reports_of_parts(
    recording: Recording,
    expected: Expectations,
    where: Mapping[str, str],
    by: str | None = None,
) -> list[Report]:
    """
    Return a report on some requests of a recording, and one for each value of an attribute.

    Args:
        recording: The recording; its files are read twice.
        expected: Expectations that streams were measured against.
        where: Value of each attribute that the requests must have.
        by: Attribute by whose values the requests are divided, if they are.

    Raises:
        ConfigError: No request has an attribute of ``where``, or none has the attribute ``by``.
        MissingExtraError: The extra ``study`` is not installed.
        RecordingError: A file cannot be read.
    """
    from latspan.reports import DiagnosisReport, Report
    from latspan.reports._extra import needs_study

    with needs_study():
        from latspan._study.diagnose import diagnose_recording
        from latspan._study.table import PartsReader
    reader = PartsReader(recording, where, by)
    closings: dict[str, DiagnosisReport | None] = {}
    whole: DiagnosisReport | None = None
    # Calls outside any request may have an attribute that no request has.
    with suppress(ConfigError):
        found = diagnose_recording(recording, where=where, by=by, beside=reader)
        # A part that is too small states how many requests it needs.
        whole = DiagnosisReport(found, is_brief=True) if where else _brief(found)
        for each in found.groups:
            if each.group is not None:
                closings[each.group[1]] = DiagnosisReport(each, is_brief=True)
    notes = "\n".join((*recording.notes, *reader.division.notes))
    selected = [f"{name}={value}" for name, value in where.items()]
    reports = [Report(reader.snapshot(), expected, notes, whole, ", ".join(selected))]
    for value, part in reader.parts().items():
        named = ", ".join((*selected, f"{by}={value}"))
        reports.append(Report(part, expected, closing=closings.get(value), selected=named))
    return reports


def _read(recording: Recording) -> tuple[Snapshot, DiagnosisReport | None]:
    """Return the snapshot of a recording and its diagnosis; its lines are read once."""
    try:
        from latspan._study.diagnose import diagnose_recording
    except ImportError:
        return recording.snapshot(), None
    from latspan._model.recording.folder import SnapshotReader

    reader = SnapshotReader(recording)
    closing = _brief(diagnose_recording(recording, beside=reader))
    return reader.snapshot(), closing


def _closing(snapshot: Snapshot) -> DiagnosisReport | None:
    """Return the diagnosis; ``None`` if there are too few requests, or numpy is missing."""
    try:
        from latspan._study.diagnose import diagnose, parse_goal
    except ImportError:
        return None
    return _brief(diagnose(snapshot.records, parse_goal("p95 duration")))


def _brief(diagnosis: Diagnosis) -> DiagnosisReport | None:
    from latspan._study.diagnose import Conclusion
    from latspan.reports import DiagnosisReport

    if diagnosis.conclusion in (Conclusion.TOO_FEW, Conclusion.UNRELIABLE):
        return None
    return DiagnosisReport(diagnosis, is_brief=True)
