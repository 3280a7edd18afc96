"""Class of the object that the fixture ``latspan_capture`` returns."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from latspan._instrument import auto_instrument, instrumented, uninstrument
from latspan._recording import NO_DEFAULT, Distribution, RequestRecord, Snapshot
from latspan._sdk import read_config
from latspan._segments import Kind
from latspan._units import TimeUnit
from latspan.testing._capture import Captured, capture

if TYPE_CHECKING:
    from pandas import DataFrame

    from latspan.reports import DiagnosisReport

__all__ = ["LatspanCapture", "recording_fixture"]

_SERIES_ATTRIBUTES: Final = "LATSPAN_SERIES_ATTRIBUTES"

_Default = TypeVar("_Default", bound=float | None)


class LatspanCapture:
    """
    Values and spans that the running test has recorded so far.

    The queries are those of :class:`latspan.Snapshot`, with the same arguments and errors; each
    answers from a new snapshot.

    Args:
        captured: Recorded data.
    """

    def __init__(self, captured: Captured) -> None:
        self._captured = captured

    def snapshot(self) -> Snapshot:
        """Return the histograms of this test so far."""
        return self._captured.snapshot()

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """Every finished request of this test, in the order in which they ended."""
        return self._captured.records

    def spans_as_dict(
        self, *, times: bool = True, attributes: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return this test's finished spans as trees; see :func:`latspan.testing.spans_as_dict`."""
        return self._captured.spans_as_dict(times=times, attributes=attributes)

    @overload
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        **where: str,
    ) -> float: ...
    @overload
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        default: _Default,
        **where: str,
    ) -> float | _Default: ...
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        default: Any = NO_DEFAULT,
        **where: str,
    ) -> Any:
        """
        Return a percentile of a metric: ``latspan_capture.percentile("ttft", 95, unit="ms")``.

        Args:
            metric: A metric's name or alias.
            percentile: 0, or in [1, 100].
            unit: Unit of the result.
            kind: ``request``, ``inner_request``, ``call``, ``http`` or ``stage``; if not given,
                the outermost of them that was recorded.
            default: Result if there are too few values or none; if not given, these cases raise.
            where: Attributes that must be equal, for example ``inference_path="chat"``.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1: a fraction.
            NotEnoughValuesError: There are too few values; the message contains the number needed.
            EmptyHistogramError: There are no values.
            UnknownNameError: There is no such metric, unit, kind or attribute; or the value of an
                attribute was never recorded; or only a kind inside the outermost has the metric.
        """
        return self.snapshot().percentile(
            metric, percentile, unit=unit, kind=kind, default=default, **where
        )

    def metric(self, name: str, *, kind: Kind | str | None = None, **where: str) -> Distribution:
        """Return the distribution of a metric; see :meth:`percentile`."""
        return self.snapshot().metric(name, kind=kind, **where)

    def segment(self, name: str, *, kind: Kind | str | None = None, **where: str) -> Distribution:
        """
        Return the distribution of a segment: ``latspan_capture.segment("queue").percentile(95)``.

        It has ``percentile``, ``count`` and ``fraction_above``; for arguments see
        :meth:`percentile`.
        """
        return self.snapshot().segment(name, kind=kind, **where)

    def count(self, *, kind: Kind | str | None = None, **where: str) -> int:
        """Return the number of records of a kind; see :meth:`percentile` for the arguments."""
        return self.snapshot().count(kind=kind, **where)

    def segments(self, *, kind: Kind | str | None = None) -> tuple[str, ...]:
        """Return the names of the recorded segments; see :meth:`latspan.Snapshot.segments`."""
        return self.snapshot().segments(kind=kind)

    def where(self, **where: str) -> Snapshot:
        """Return the part with these attributes; see :meth:`latspan.Snapshot.where`."""
        return self.snapshot().where(**where)

    def group_by(self, attribute: str) -> dict[str | None, Snapshot]:
        """Return one part per value of an attribute; see :meth:`latspan.Snapshot.group_by`."""
        return self.snapshot().group_by(attribute)

    def to_dict(self, *, unit: TimeUnit = "ms") -> dict[str, Any]:
        """Return one row of plain values per series; see :meth:`latspan.Snapshot.to_dict`."""
        return self.snapshot().to_dict(unit=unit)

    def diagnose(
        self,
        goal: str = "p95 duration",
        *,
        limit_ms: float | None = None,
        kind: Kind | str | None = None,
    ) -> DiagnosisReport:
        """
        Return the one delay to fix; see :func:`latspan.diagnose`.

        A failing test shows it: ``assert percentile < 500, latspan_capture.diagnose("p95 ttft")``.
        """
        from latspan._report import diagnose

        return diagnose(goal, limit_ms=limit_ms, kind=kind, snapshot=self.snapshot())

    def to_pandas(self, *, unit: TimeUnit = "ms") -> DataFrame:
        """Return the rows as a table; see :meth:`latspan.Snapshot.to_pandas`."""
        return self.snapshot().to_pandas(unit=unit)


@contextmanager
def recording_fixture() -> Generator[LatspanCapture]:
    """Record inside the block, with every supported installed client instrumented."""
    before = set(instrumented())
    added = set(auto_instrument()) - before
    variables = {_SERIES_ATTRIBUTES: os.environ.get(_SERIES_ATTRIBUTES, "")}
    try:
        with capture(series_attributes=read_config({}, variables).series_attributes) as captured:
            yield LatspanCapture(captured)
    finally:
        if added:
            uninstrument(*added)
