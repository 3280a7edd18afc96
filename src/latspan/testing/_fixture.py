"""Class of the object that the fixture ``latspan_capture`` returns."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from latspan._base.text import texts_of
from latspan._live.instrument import auto_instrument, instrumented, uninstrument
from latspan._live.sdk import read_config
from latspan._model.goals import parse_percentile_goal
from latspan._model.recording import NO_DEFAULT, Distribution, RequestRecord
from latspan._model.segments import Kind
from latspan._model.units import TimeUnit
from latspan.errors import ConfigError
from latspan.testing._assertions import Undecided, add_to_baseline, check_no_worse, check_target
from latspan.testing._capture import Captured, capture

if TYPE_CHECKING:
    from latspan.reports import DiagnosisReport

_SERIES_ATTRIBUTES: Final = "LATSPAN_SERIES_ATTRIBUTES"

_Default = TypeVar("_Default", bound=float | None)


class LatspanCapture(Captured):
    """
    Values and spans that the running test has recorded so far.

    The query methods are those of :class:`latspan.Snapshot`, with the same arguments and errors.
    Each takes a new snapshot. For any other query, use the result of :meth:`snapshot`.

    Args:
        captured: Recorded data.
        saves_baselines: Whether runs are added to baselines instead of being compared.
    """

    __slots__ = ("_saves_baselines",)

    def __init__(self, captured: Captured, *, saves_baselines: bool = False) -> None:
        super().__init__(captured.snapshot, lambda: captured.spans)
        self._saves_baselines = saves_baselines

    @overload
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        **where: str | float,
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
        **where: str | float,
    ) -> float | _Default: ...
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        default: Any = NO_DEFAULT,
        **where: str | float,
    ) -> Any:
        """
        Return a percentile of a metric: ``latspan_capture.percentile("ttft", 95, unit="ms")``.

        Args:
            metric: A metric's name or alias.
            percentile: 0, or in [1, 100].
            unit: Unit of the result.
            kind: ``request``, ``inner_request``, ``call``, ``http`` or ``stage``; if not given,
                the outermost of them that was recorded.
            default: Result if there are too few values or none, or if the percentile is not known;
                if not given, these cases raise.
            where: Attributes that must be equal, for example ``inference_path="chat"``. With
                ``outcome="completed"``, only the values of completed requests count.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1: a fraction.
            NotEnoughValuesError: There are too few values; the message contains the number needed.
            UndeterminedPercentileError: It depends on requests that were given up or failed; see
                :meth:`percentile_bounds`.
            EmptyHistogramError: There are no values.
            UnknownNameError: There is no such metric, unit, kind or attribute; or the value of an
                attribute was never recorded; or only an inner kind has the metric.
        """
        return self.snapshot().percentile(
            metric, percentile, unit=unit, kind=kind, default=default, **where
        )

    def percentile_bounds(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        **where: str | float,
    ) -> tuple[float, float]:
        """
        Return the smallest and the largest value that a percentile may have.

        They are equal if it is known. A request that was given up counts with the time that its
        caller waited for the first, and as infinitely slow for the second. For the arguments and
        errors, see :meth:`percentile`.
        """
        return self.snapshot().percentile_bounds(metric, percentile, unit=unit, kind=kind, **where)

    def metric(
        self, name: str, *, kind: Kind | str | None = None, **where: str | float
    ) -> Distribution:
        """Return the distribution of a metric; see :meth:`percentile`."""
        return self.snapshot().metric(name, kind=kind, **where)

    def segment(
        self, name: str, *, kind: Kind | str | None = None, **where: str | float
    ) -> Distribution:
        """
        Return the distribution of a segment: ``latspan_capture.segment("queue").percentile(95)``.

        The result has ``percentile``, ``count`` and ``fraction_above``. For ``kind`` and the
        attributes, see :meth:`percentile`.
        """
        return self.snapshot().segment(name, kind=kind, **where)

    def count(self, *, kind: Kind | str | None = None, **where: str | float) -> int:
        """Return the number of records of a kind; see :meth:`percentile` for the arguments."""
        return self.snapshot().count(kind=kind, **where)

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
        from latspan.reports._process import diagnose

        return diagnose(goal, limit_ms=limit_ms, kind=kind, snapshot=self.snapshot())

    def assert_target(
        self,
        goal: str,
        *,
        limit_ms: float | None = None,
        kind: Kind | str | None = None,
        confidence: float = 0.95,
        undecided: Undecided = "fail",
        **where: str | float,
    ) -> None:
        """
        Fail the test unless a target is proven: ``assert_target("p95 ttft <= 500ms")``.

        A failed request misses the target. The proof is an exact binomial test. With 95 %
        confidence, a p95 needs 59 requests without a miss or 93 with one miss, and a p99 needs 299
        without a miss.

        Args:
            goal: Percentile, metric and limit: ``p95 ttft <= 500ms``, ``p99 duration <= 10s``.
            limit_ms: Limit in milliseconds, more than 0, if the goal does not have it.
            kind: Kind of the requests that are judged, for example ``call``; see
                :meth:`percentile`.
            confidence: In (0.5, 1).
            undecided: ``fail`` or ``skip`` the test if there are too few requests for a proof.
            where: Attributes that must be equal, for example ``inference_path="chat"``.

        Raises:
            AssertionError: The target is missed, or undecided; the message has the numbers.
            ConfigError: An argument is invalid.
            EmptyHistogramError: There are no values.
            UnknownNameError: There is no such metric, kind or attribute.
        """
        __tracebackhide__ = True
        asked = parse_percentile_goal(goal, limit_ms=limit_ms)
        if limit_ms is not None and parse_percentile_goal(goal).limit_ns is not None:
            raise ConfigError(
                f"'{goal}' has a limit, and limit_ms is {limit_ms:g}", hint="leave out limit_ms"
            )
        check_target(
            self._with(where),
            asked,
            kind=self._kind_of(asked.metric, kind, where),
            confidence=confidence,
            undecided=undecided,
        )

    def assert_no_worse(
        self,
        baseline: str | os.PathLike[str],
        goal: str = "p95 duration",
        *,
        margin: float | None = None,
        kind: Kind | str | None = None,
        changed: Collection[str] = (),
        undecided: Undecided = "skip",
        **where: str | float,
    ) -> None:
        """
        Fail the test if it became slower than a baseline: ``assert_no_worse("chat.json")``.

        The test is one run; the runs of the baseline show how much runs differ by chance, so a
        baseline should have five. ``pytest --latspan-save-baselines`` adds a run to the baseline
        instead of comparing. Other percentiles, segments and failed requests are checked too.

        Args:
            baseline: Baseline file, or a folder of recordings.
            goal: Percentile and metric: ``p95 ttft``, ``p99 duration``.
            margin: Largest ratio of the test's percentile to the baseline's that is still no worse:
                1.1 allows 10 % more. If not given, 1.1 below p90, and 1.2 from p90 on.
            kind: ``request`` or ``call``; see :meth:`percentile`.
            changed: Conditions that were changed on purpose, for example ``machine``.
            undecided: ``fail`` or ``skip`` the test if the result is undecided.
            where: Attributes that a record of the test must have to be compared, for example
                ``inference_path="chat"``.

        Raises:
            AssertionError: The test became slower, or the comparison cannot be interpreted; the
                message states why.
            ConfigError: There is no baseline, or an argument is invalid.
            RecordingError: The baseline cannot be read.
            EmptyHistogramError: There are no values.
            UnknownNameError: There is no such metric, kind or attribute.
            MissingExtraError: The extra ``study`` is not installed.
        """
        __tracebackhide__ = True
        asked = parse_percentile_goal(goal)
        if asked.limit_ns is not None:
            raise ConfigError(
                f"'{goal}' has a limit, but assert_no_worse() compares with a baseline only",
                hint=f"assert_no_worse(..., '{asked}'), and assert_target('{goal}') for the limit",
            )
        found = self._kind_of(asked.metric, kind, where)
        if self._saves_baselines:
            add_to_baseline(self._with(where), baseline, found)
            return
        check_no_worse(
            self._with(where),
            baseline,
            asked,
            kind=found,
            margin=margin,
            changed=changed,
            undecided=undecided,
        )

    def _kind_of(
        self, metric: str, kind: Kind | str | None, where: Mapping[str, str | float]
    ) -> Kind:
        """Return the kind for which a question is answered; raise if there are no values."""
        found = self.metric(metric, kind=kind, **where)
        if found.kind is None:
            # Raises the error that explains why there are no values.
            found.percentile(50)
        return found.kind or Kind.REQUEST

    def _with(self, where: Mapping[str, str | float]) -> list[RequestRecord]:
        """Return the records with some attributes."""
        texts = texts_of(where)
        return [
            record
            for record in self.records
            if all(
                {**record.attributes, "outcome": record.outcome, "side": record.side}.get(name)
                == value
                for name, value in texts.items()
            )
        ]


@contextmanager
def recording_fixture(*, saves_baselines: bool = False) -> Generator[LatspanCapture]:
    """
    Record inside the block, with every supported installed client instrumented.

    Args:
        saves_baselines: Whether runs are added to baselines instead of being compared.
    """
    before = set(instrumented())
    added = set(auto_instrument()) - before
    variables = {_SERIES_ATTRIBUTES: os.environ.get(_SERIES_ATTRIBUTES, "")}
    try:
        with capture(series_attributes=read_config({}, variables).series_attributes) as captured:
            yield LatspanCapture(captured, saves_baselines=saves_baselines)
    finally:
        if added:
            uninstrument(*added)
