"""Values of many records as arrays, without keeping the records."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from math import nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from latspan import semconv
from latspan._base.nanoseconds import to_seconds
from latspan._base.spelling import nearest
from latspan._model.metrics import DURATION, FROM_START, METRIC_NAMES, METRICS, Metric, metric_named
from latspan._model.recording._series import ATTRIBUTES
from latspan._model.segments import SegmentName
from latspan._model.units import in_metric_unit
from latspan.errors import MissingExtraError, UnknownNameError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEGMENT: Final = "segment."
_TOKENS: Final = "tokens."
_FROM_SCHEDULE: Final = ".from_schedule"
_COUNTS: Final = ("input", "cached", "output", "reasoning")
_NUMBERS: Final = frozenset({"start", "ratio", "dispatch_lag"})
_NAMES: Final[Mapping[str, Collection[str]]] = {
    _SEGMENT: frozenset(SegmentName),
    _TOKENS: _COUNTS,
    "": {"kind", "name", "outcome", "streamed", *_NUMBERS, *METRIC_NAMES, *ATTRIBUTES},
}
"""Names that latspan defines, by their prefix. Stages and attributes may have any other name."""

_SIMILAR: Final = 0.85
"""
Similarity from which a name is a misspelt one, as in :func:`latspan._base.spelling.nearest`.
"""


def frame_module(name: str) -> Any:
    """
    Return the module of a data frame library.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        extra = {"pandas": "pandas", "pyarrow": "parquet"}.get(name, "study")
        raise MissingExtraError(name, extra=extra) from error


def columns(
    rows: Iterable[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, NDArray[np.float64] | NDArray[np.object_]]:
    """
    Return one array per name; see :meth:`latspan.Recording.columns`.

    Args:
        rows: Lines of a recording as mappings.
        names: Names of the columns; all that occur if there are none.

    Raises:
        MissingExtraError: numpy is not installed.
        UnknownNameError: No request has a value of that name, which is nearly one that latspan
            defines.
    """
    numpy = frame_module("numpy")
    found: dict[str, _Column] = {}
    size = 0
    if names:
        getters = [(found.setdefault(name, _Column()).append, _getter(name)) for name in names]
        for row in rows:
            for append, get in getters:
                append(get(row))
            size += 1
        if size:
            _refuse_misspelt(found)
    else:
        for row in rows:
            # An attribute may have the name of another column, which takes precedence.
            for name in dict.fromkeys(_names_in(row)):
                found.setdefault(name, _Column(size)).append(_getter(name)(row))
            size += 1
            for column in found.values():
                column.fill(size)
    is_number = {name: _is_number(name) for name in found}
    return {
        name: found[name].array(numpy, as_number=is_number[name])
        for name in (names or sorted(found))
    }


def _refuse_misspelt(found: Mapping[str, _Column]) -> None:
    """Raise an error for a column without a value whose name is nearly one that latspan defines."""
    for name, column in found.items():
        prefix = next((each for each in _NAMES if name.startswith(each)), "")
        rest = name.removeprefix(prefix).removesuffix(_FROM_SCHEDULE)
        if column.is_empty and rest not in _NAMES[prefix]:
            near = nearest(rest, _NAMES[prefix], min_similarity=_SIMILAR)
            if near is not None:
                raise UnknownNameError(
                    f"no request of the recording has '{name}'",
                    hint=f"did you mean '{prefix}{near}'?",
                )


class _Column:
    """
    Values of one name; numbers, until a value of another type is added.

    Args:
        size: Number of earlier rows, which have no value.
    """

    def __init__(self, size: int = 0) -> None:
        self._numbers = array("d", [nan]) * size
        self._objects: list[object] | None = None
        self._known = 0

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value."""
        return self._objects is None and not self._known

    def append(self, value: object) -> None:
        """Add the value of the next row; ``None`` if it has none."""
        if self._objects is None:
            if value is None:
                self._numbers.append(nan)
                return
            if isinstance(value, float | int) and not isinstance(value, bool):
                try:
                    self._numbers.append(value)
                except OverflowError:
                    # An integer that no double can hold becomes an object.
                    pass
                else:
                    self._known += 1
                    return
            self._objects = [None if each != each else each for each in self._numbers]
        self._objects.append(value)

    def fill(self, size: int) -> None:
        """Add a row without a value, unless there are ``size`` already."""
        if len(self._numbers if self._objects is None else self._objects) < size:
            self.append(None)

    def array(self, numpy: Any, *, as_number: bool) -> Any:
        """Return the values: float64, or objects if there are texts or no values at all."""
        if self._objects is None and (self._known or as_number):
            return numpy.frombuffer(self._numbers) if self._numbers else numpy.empty(0)
        objects = self._objects or [None] * len(self._numbers)
        values = numpy.empty(len(objects), dtype=object)
        values[:] = objects
        return values


def _is_number(name: str) -> bool:
    metric = name.removesuffix(_FROM_SCHEDULE)
    return name in _NUMBERS or metric in METRIC_NAMES or name.startswith((_SEGMENT, _TOKENS))


def _names_in(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of each column for which a row has a value."""
    yield from ("kind", "name", "outcome", "start", "ratio")
    if "streamed" in row:
        yield "streamed"
    metrics = row.get("metrics", {})
    scheduled = isinstance(_dispatch_lag(row), float | int)
    if scheduled:
        yield "dispatch_lag"
    for name in dict.fromkeys((DURATION, *metrics)):
        if name in METRICS:
            yield name
            if scheduled and name in FROM_START:
                yield name + _FROM_SCHEDULE
    yield from dict.fromkeys(_SEGMENT + segment[0] for segment in row["segments"])
    yield from (_TOKENS + name for name in _COUNTS if _tokens(name, row) is not None)
    for name in dict.fromkeys((*row.get("attributes", {}), *row.get("details", {}))):
        if name not in _NUMBERS and name not in METRICS:
            yield name


def _getter(name: str) -> Callable[[Mapping[str, Any]], object]:
    """Return the function that returns the value of a column in a row, or ``None``."""
    if name in _OWN:
        return _OWN[name]
    if name.startswith(_SEGMENT):
        return partial(_segment, name.removeprefix(_SEGMENT))
    if name.startswith(_TOKENS):
        return partial(_tokens, name.removeprefix(_TOKENS))
    metric = name.removesuffix(_FROM_SCHEDULE)
    if metric in METRIC_NAMES:
        known = metric_named(metric)
        if metric == name:
            return partial(_metric, known)
        return partial(_metric_from_schedule, known)
    return partial(_attribute, name)


def _dispatch_lag(row: Mapping[str, Any]) -> Any:
    return row.get("details", {}).get(semconv.LATSPAN_LOAD_DISPATCH_LAG)


def _segment(name: str, row: Mapping[str, Any]) -> float | None:
    lengths = [end - start for each, start, end, _ in row["segments"] if each == name]
    return to_seconds(sum(lengths)) if lengths else None


def _tokens(name: str, row: Mapping[str, Any]) -> int | None:
    tokens: Mapping[str, int] = row.get("tokens") or {}
    return tokens.get(name)


def _metric(metric: Metric, row: Mapping[str, Any]) -> float | None:
    if metric.name == DURATION:
        return to_seconds(row["duration_ns"])
    value = row.get("metrics", {}).get(metric.name)
    if value is None:
        return None
    return in_metric_unit(value if isinstance(value, int) else value[0], metric.unit)


def _metric_from_schedule(metric: Metric, row: Mapping[str, Any]) -> float | None:
    value, lag = _metric(metric, row), _dispatch_lag(row)
    if metric.name not in FROM_START or value is None or not isinstance(lag, float | int):
        return None
    return value + lag


def _attribute(name: str, row: Mapping[str, Any]) -> object:
    value = row.get("attributes", {}).get(name)
    return row.get("details", {}).get(name) if value is None else value


_OWN: Final[Mapping[str, Callable[[Mapping[str, Any]], object]]] = {
    "kind": itemgetter("kind"),
    "name": itemgetter("name"),
    "outcome": itemgetter("outcome"),
    "start": lambda row: to_seconds(row["start_epoch_ns"]),
    "ratio": lambda row: row.get("ratio", 1.0),
    "streamed": lambda row: row.get("streamed"),
    "dispatch_lag": _dispatch_lag,
}
"""Columns that every row has, with the function that returns their value."""
