"""
Exceptions of latspan's own functions; a call of an instrumented library never raises one.

::

    LatspanError
    ├── ConfigError              (ValueError)   a setting has an invalid value
    ├── MissingExtraError        (ImportError)  a package of an extra is not installed
    ├── UnknownNameError         (LookupError)  a given name does not exist
    ├── InvalidValueError        (TypeError)    a value for a histogram is not an integer
    ├── EmptyHistogramError      (ValueError)   the queried histogram has no values
    ├── NotEnoughValuesError     (ValueError)   fewer values than the percentile needs
    │   └── UndeterminedPercentileError         requests without a value decide the percentile
    ├── HistogramFormatError     (ValueError)   text or a file does not hold a valid histogram
    ├── HistogramPrecisionError  (ValueError)   histograms differ in precision
    ├── HistogramWriteError      (OSError)      a log of histograms cannot be written
    ├── RecordingError           (ValueError)   a file or folder is not readable or not writable
    ├── MeasurementError         (RuntimeError) a load test cannot begin
    ├── InstrumentationError     (RuntimeError) a client library cannot be instrumented
    └── ServerStartError         (RuntimeError) a model server did not start, or has ended

Messages quote files, addresses and names that latspan did not choose. Every message is therefore
printable and limited in length. The code that builds a message hides credentials.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from latspan._base.shown import printable

__all__ = [
    "ConfigError",
    "EmptyHistogramError",
    "HistogramFormatError",
    "HistogramPrecisionError",
    "HistogramWriteError",
    "InstrumentationError",
    "InvalidValueError",
    "LatspanError",
    "MeasurementError",
    "MissingExtraError",
    "NotEnoughValuesError",
    "RecordingError",
    "ServerStartError",
    "UndeterminedPercentileError",
    "UnknownNameError",
]


_MAX_MESSAGE_LENGTH: Final = 2_000
"""Maximum length of a message, in characters: enough for a list of all settings or metrics."""


class LatspanError(Exception):
    """
    Base of every error that latspan raises.

    Args:
        message: Description of the error, with the wrong value.
        hint: Way to fix it; printed on its own line as ``hint: …``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(message, max_length=_MAX_MESSAGE_LENGTH)
        self.hint = None if hint is None else printable(hint, max_length=_MAX_MESSAGE_LENGTH)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ConfigError(LatspanError, ValueError):
    """A setting has an invalid value."""


class MissingExtraError(LatspanError, ImportError):
    """
    A package of one of latspan's extras is not installed.

    Args:
        package: Import name of the missing package.
        extra: Extra of latspan that installs it.
    """

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(
            f"the package '{package}' is not installed",
            hint=f"pip install 'latspan[{extra}]'",
        )
        self.package = package
        self.extra = extra


class UnknownNameError(LatspanError, LookupError):
    """
    No metric, segment, unit, setting, attribute, kind or degradation has the given name.

    A query also raises it for an attribute value that was never recorded. A query without a kind is
    about the outermost recorded kind of timeline, for example `request`. The query raises this
    error if that kind has no values of the metric, but an inner kind has them, for example `call`.
    """


class InvalidValueError(LatspanError, TypeError):
    """A value for a histogram is not an integer."""


class EmptyHistogramError(LatspanError, ValueError):
    """The queried histogram has no values, so no number can be returned."""


class NotEnoughValuesError(LatspanError, ValueError):
    """
    There are fewer values than the requested percentile needs.

    Args:
        what: Description of the queried values, for example ``ttft``.
        percentile: The requested percentile, in (0, 100).
        count: Number of values.
        needed: Required number of values: ``ceil(100 / (100 - percentile))``.
    """

    def __init__(self, what: str, *, percentile: float, count: int, needed: int) -> None:
        super().__init__(
            f"p{percentile:g} of {what} needs {needed} values, there are {count}",
            hint=f"record {needed - count} more, or query a lower percentile",
        )
        self.percentile = percentile
        self.count = count
        self.needed = needed


class UndeterminedPercentileError(NotEnoughValuesError):
    """
    A percentile, or a fraction, depends on requests that were given up or failed.

    A request that its caller gave up would have taken at least as long as the caller waited, and a
    failed one never got what the metric measures. If the percentile may be one of these, it is not
    a number.

    Args:
        message: Description of what is known.
        hint: The queries that have an answer.
        percentile: The requested percentile; NaN if a fraction was requested.
        low: Smallest possible value in the requested unit; infinite if the percentile is one of
            the failed requests.
        count: Number of values, known or not.
        needed: See :class:`NotEnoughValuesError`.
        cut: Number of values that are not known because the caller gave up.
        failed: Number of values that do not exist because the request failed.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        percentile: float,
        low: float,
        count: int,
        needed: int,
        cut: int,
        failed: int,
    ) -> None:
        LatspanError.__init__(self, message, hint=hint)
        self.percentile = percentile
        self.low = low
        self.count = count
        self.needed = needed
        self.cut = cut
        self.failed = failed


class HistogramFormatError(LatspanError, ValueError):
    """Text or a file does not have the format of a histogram, or was damaged."""


class HistogramPrecisionError(LatspanError, ValueError):
    """Histograms differ in precision, or have less precision than latspan's own."""


class HistogramWriteError(LatspanError, OSError):
    """
    A histogram log could not be opened for writing, or an interval could not be written to it.
    """


class RecordingError(LatspanError, ValueError):
    """A recording or another input file cannot be read, or a folder cannot hold a recording."""


class MeasurementError(LatspanError, RuntimeError):
    """A load test cannot begin, for example because its first request did not succeed."""


class InstrumentationError(LatspanError, RuntimeError):
    """A client library cannot be instrumented, or :func:`latspan.warm` does not support it."""


class ServerStartError(LatspanError, RuntimeError):
    """
    A model server of :mod:`latspan.testing` could not be started, or is not running.

    Args:
        message: Description of the failure.
        hint: Way to fix it.
        log: Last lines that the server logged; they follow the message.
    """

    def __init__(self, message: str, *, hint: str | None = None, log: Iterable[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.message = "\n".join([self.message, *map(printable, log)])
