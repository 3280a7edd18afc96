"""Values of many records as arrays, without keeping the records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from math import nan
from typing import TYPE_CHECKING, Any, Final

from latspan import semconv
from latspan._metrics import FROM_START, METRICS, metric_named
from latspan._recording._record import RequestRecord
from latspan._units import in_metric_unit, to_seconds
from latspan.errors import MissingExtraError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["columns", "frame_module"]

_SEGMENT: Final = "segment."
_TOKENS: Final = "tokens."
_FROM_SCHEDULE: Final = ".from_schedule"
_COUNTS: Final = ("input", "cached", "output", "reasoning")
_NUMBERS: Final = frozenset({"start", "ratio", "dispatch_lag"})


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
    records: Iterable[RequestRecord], names: Sequence[str]
) -> dict[str, NDArray[np.float64] | NDArray[np.object_]]:
    """
    Return one array per name; see :meth:`latspan.Recording.columns`.

    Raises:
        MissingExtraError: numpy is not installed.
    """
    numpy = frame_module("numpy")
    numbers: dict[str, array[float]] = {}
    texts: dict[str, list[object]] = {}
    wanted = [_full_name(name) for name in names]
    size = 0
    for record in records:
        for name, value in _values(record, wanted):
            if isinstance(value, float | int) and not isinstance(value, bool) and name not in texts:
                _fill(numbers.setdefault(name, array("d")), nan, size).append(value)
            else:
                if name in numbers:
                    # An attribute that was a number so far, and is not in this record.
                    texts[name] = [None if each != each else each for each in numbers.pop(name)]
                _fill(texts.setdefault(name, []), None, size).append(value)
        size += 1
    result: dict[str, Any] = {}
    for name in wanted or sorted({*numbers, *texts}):
        if name in texts:
            result[name] = _as_objects(numpy, _fill(texts[name], None, size))
        elif name in numbers or _is_number(name):
            column = _fill(numbers.get(name, array("d")), nan, size)
            result[name] = numpy.frombuffer(column, dtype=numpy.float64) if size else numpy.empty(0)
        else:
            result[name] = _as_objects(numpy, [None] * size)
    return {asked: result[name] for asked, name in zip(names, wanted, strict=True)} or result


def _as_objects(numpy: Any, values: list[object]) -> Any:
    column = numpy.empty(len(values), dtype=object)
    column[:] = values
    return column


def _fill(column: Any, default: object, size: int) -> Any:
    """Extend a column by the default for all records that had no value, and return it."""
    missing = size - len(column)
    if missing > 0:
        column.extend([default] * missing)
    return column


def _full_name(name: str) -> str:
    """Return the name of a column without the alias of its metric, such as ``ttft``."""
    metric, dot, rest = name.partition(_FROM_SCHEDULE)
    known = {alias for each in METRICS.values() for alias in each.aliases}
    return metric_named(metric).name + dot + rest if metric in known else name


def _is_number(name: str) -> bool:
    return (
        name in _NUMBERS
        or name in METRICS
        or name.startswith((_SEGMENT, _TOKENS))
        or name.endswith(_FROM_SCHEDULE)
    )


def _values(record: RequestRecord, wanted: Sequence[str]) -> Iterator[tuple[str, object]]:
    values = dict(_all_values(record))
    if not wanted:
        yield from values.items()
        return
    for name in wanted:
        if name in values:
            yield name, values[name]


def _all_values(record: RequestRecord) -> Iterator[tuple[str, object]]:
    yield from record.attributes.items()
    yield from record.details.items()
    yield "kind", record.kind.value
    yield "name", record.name
    yield "outcome", record.outcome.value
    yield "start", to_seconds(record.start_epoch_ns)
    yield "ratio", record.ratio
    lag = record.details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
    if isinstance(lag, float | int):
        yield "dispatch_lag", lag
    for name, (value, _) in {**record.metrics, "duration": (record.duration_ns, None)}.items():
        metric = METRICS.get(name)
        if metric is None:
            continue
        yield name, in_metric_unit(value, metric.unit)
        if name in FROM_START and isinstance(lag, float | int):
            yield name + _FROM_SCHEDULE, to_seconds(value) + lag
    for total in record.segment_totals:
        yield _SEGMENT + total.name, to_seconds(total.duration_ns)
    for name in _COUNTS:
        number = getattr(record.tokens, name)
        if number is not None:
            yield _TOKENS + name, number
