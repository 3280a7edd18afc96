"""
The error tree: what latspan raises at its own surface, never inside someone else's call.

::

    LatspanError
    ├── ConfigError              (ValueError)   a setting that cannot work
    ├── MissingExtraError        (ImportError)  a package behind an extra is absent
    ├── UnknownNameError         (LookupError)  no metric, segment or unit of that name
    ├── InvalidValueError        (TypeError)    a histogram was given something that is no integer
    ├── EmptyHistogramError      (ValueError)   a question about no values at all
    ├── NotEnoughValuesError     (ValueError)   fewer values than the percentile needs
    ├── HistogramFormatError     (ValueError)   text or a file that holds no histogram
    ├── HistogramPrecisionError  (ValueError)   histograms that cannot be one
    ├── HistogramWriteError      (OSError)      a file that takes no more histograms
    ├── InstrumentationError     (RuntimeError) a client library could not be patched
    └── ServerStartError         (RuntimeError) a model server that latspan started is not serving

Messages quote files, addresses and names of others. They are printable and bounded in every error;
what may hold a credential is hidden where the message is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from latspan._shown import printable

__all__ = [
    "ConfigError",
    "EmptyHistogramError",
    "HistogramFormatError",
    "HistogramPrecisionError",
    "HistogramWriteError",
    "InstrumentationError",
    "InvalidValueError",
    "LatspanError",
    "MissingExtraError",
    "NotEnoughValuesError",
    "ServerStartError",
    "UnknownNameError",
]


_LONGEST: Final = 2_000
"""Characters of a message: a list of all settings or metrics fits in."""


class LatspanError(Exception):
    """
    Base of every error that latspan raises.

    Args:
        message: What is wrong, with the value that was wrong.
        hint: How to mend it; printed on a line of its own as ``hint: …``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(message, longest=_LONGEST)
        self.hint = None if hint is None else printable(hint, longest=_LONGEST)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ConfigError(LatspanError, ValueError):
    """A setting has a value that cannot work."""


class MissingExtraError(LatspanError, ImportError):
    """
    A package that belongs to one of latspan's extras is not installed.

    Args:
        package: The import package that is missing.
        extra: The extra of latspan that brings it.
    """

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(
            f"the package '{package}' is not installed",
            hint=f"pip install 'latspan[{extra}]'",
        )
        self.package = package
        self.extra = extra


class UnknownNameError(LatspanError, LookupError):
    """No metric, segment, unit, setting, attribute, kind or degradation has the given name."""


class InvalidValueError(LatspanError, TypeError):
    """A histogram was given a value that is no integer."""


class EmptyHistogramError(LatspanError, ValueError):
    """Nothing was recorded, so there is no honest number to give."""


class NotEnoughValuesError(LatspanError, ValueError):
    """
    A percentile was asked of fewer values than it needs.

    Args:
        what: The distribution that was asked, in words.
        percentile: The percentile asked for, in (0, 100).
        count: Values there are.
        needed: Values it takes: ``ceil(100 / (100 - percentile))``.
    """

    def __init__(self, what: str, *, percentile: float, count: int, needed: int) -> None:
        super().__init__(
            f"p{percentile:g} of {what} needs {needed} values, there are {count}",
            hint=f"record {needed - count} more, or ask for a lower percentile",
        )
        self.percentile = percentile
        self.count = count
        self.needed = needed


class HistogramFormatError(LatspanError, ValueError):
    """Text or a file is not what a histogram is written as, or was damaged since."""


class HistogramPrecisionError(LatspanError, ValueError):
    """Histograms of different precision were to become one."""


class HistogramWriteError(LatspanError, OSError):
    """A file of histograms could not be opened for writing, or did not take an interval."""


class InstrumentationError(LatspanError, RuntimeError):
    """A client library could not be patched, or its patch could not be taken off again."""


class ServerStartError(LatspanError, RuntimeError):
    """
    A model server that latspan was to start is not serving.

    Args:
        message: What happened.
        hint: How to mend it.
        log: The last lines that the server wrote; they follow the message.
    """

    def __init__(self, message: str, *, hint: str | None = None, log: Iterable[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.message = "\n".join([self.message, *map(printable, log)])
