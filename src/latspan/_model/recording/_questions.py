"""
Checks of a question to a snapshot: an error names the question that was probably meant.

A question never returns an answer about other data than it names. A misspelt value is not answered
with zero, and a metric of calls is not returned for a question about requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from latspan._base.spelling import by_similarity, nearest
from latspan._model.metrics import (
    DURATION,
    LATENCY_METRICS,
    METRIC_NAMES,
    TIME_TO_FIRST_CHUNK,
    TIME_TO_FIRST_TOKEN,
    TIME_TO_FIRST_VISIBLE_TOKEN,
    TOKEN_METRICS,
    Metric,
    metric_named,
)
from latspan._model.recording._series import SEGMENT, SeriesKey, is_settable
from latspan._model.segments import (
    KIND_NOUNS,
    SEGMENT_ORDER,
    STAGE_KINDS,
    Kind,
    Outcome,
    Side,
    Source,
)
from latspan._model.tokens import TokenSource
from latspan.errors import UnknownNameError

NO_DEFAULT: Final = object()
"""Value of the argument ``default`` if the caller did not give one; ``None`` is a valid default."""

_OVERFLOW: Final = "overflow"

_VOCABULARIES: Final[dict[str, frozenset[str]]] = {
    "kind": frozenset(map(str, Kind)),
    "side": frozenset(map(str, Side)),
    "outcome": frozenset(map(str, Outcome)),
    "source": frozenset(map(str, (*Source, *TokenSource))),
    "token_type": frozenset({"input", "output"}),
    _OVERFLOW: frozenset({"true"}),
    SEGMENT: frozenset(map(str, (*SEGMENT_ORDER, *STAGE_KINDS))),
}
"""
Values that an attribute can have whether or not they occurred: that no call had the outcome
``error`` is an answer. For segments these are latspan's own; an application adds others.
"""

_SHOWN: Final = 5
"""Maximum number of recorded values in a hint."""

_FROM_START: Final = frozenset({TIME_TO_FIRST_CHUNK, TIME_TO_FIRST_TOKEN})
"""Metrics of calls whose time starts with the call; a user waits from the start of the request."""


_STRICT: Final = frozenset({*LATENCY_METRICS, *TOKEN_METRICS} - {DURATION})
"""
Metrics that not every kind records, so that a question without a kind could be misunderstood. The
others are the duration, counts of events, and metrics of the conventions, whose definitions name
the kind.
"""


def metric_of_question(name: str, recorded: Iterable[SeriesKey]) -> Metric:
    """
    Return the metric of that name or alias.

    Args:
        name: The name in the question.
        recorded: Recorded series; a user may take the name of a segment for a metric.

    Raises:
        UnknownNameError: There is no such metric; the hint suggests a metric or a segment.
    """
    try:
        return metric_named(name)
    except UnknownNameError:
        known = {*SEGMENT_ORDER, *STAGE_KINDS}
        known |= {key.segment for key in recorded if key.segment is not None}
        close = nearest(name, [*known, *METRIC_NAMES])
        if close not in known:
            raise
        meant = f'segment("{close}")'
        hint = f"use {meant}" if close == name else f"did you mean {meant}?"
        raise UnknownNameError(f"no metric '{name}'", hint=hint) from None


def refuse_absent_values(
    known: Collection[SeriesKey],
    where: Mapping[str, str],
    *,
    metric: str | None = None,
    kind: Kind | None = None,
    segment: str | None = None,
    values_may_be_absent: bool = False,
) -> None:
    """
    Raise an error for an attribute in a question that selects nothing because it is mistaken.

    Args:
        known: Every series that was recorded; if there are none, any value may still occur.
        where: Attributes in the question.
        metric: Metric in the question; ``None`` for a question about all metrics.
        kind: Kind in the question, if it names one.
        segment: Segment in the question, if it is about one.
        values_may_be_absent: Whether to accept values that were never recorded, except of
            attributes with a fixed set of values.

    Raises:
        UnknownNameError: A value was never recorded, or the series of the metric, the kind or the
            segment do not have the attribute.
    """
    for name, value in where.items():
        vocabulary = _VOCABULARIES.get(name, frozenset[str]())
        recorded = {text for key in known if (text := key.attribute(name)) is not None}
        if vocabulary and value not in vocabulary | recorded:
            raise UnknownNameError(
                f"no {name} {value!r}",
                hint=f"one of {nearest_values(value, vocabulary | recorded)}",
            )
        # Without an overflow there is no such series, and zero is an answer.
        if not known or values_may_be_absent or name == _OVERFLOW:
            continue
        if not recorded:
            raise UnknownNameError(
                f"no recorded series has the attribute '{name}'",
                hint=f"attributes recorded: {', '.join(_attributes_of(known))}",
            )
        if not vocabulary and value not in recorded:
            raise UnknownNameError(
                f"{name} {value!r} was never recorded",
                hint=f"recorded are {nearest_values(value, recorded)}{_overflow_of(known)}",
            )
        if metric is not None:
            _refuse_absent_attribute(name, value, known, metric, kind)
        if segment is not None and is_settable(name):
            of_segment = [key for key in known if key.segment == segment]
            if of_segment and all(key.attribute(name) is None for key in of_segment):
                raise UnknownNameError(
                    f"no value of {segment} has a {name}", hint=_hint_for_scope(name)
                )


def kind_of_question(
    metric: str, found: AbstractSet[Kind], recorded: Callable[[], AbstractSet[Kind]]
) -> Kind | None:
    """
    Return the kind that a question is about if it does not name one: the outermost recorded kind.

    Args:
        metric: Metric in the question.
        found: Kinds that have values of the metric.
        recorded: Returns the kinds that were recorded with the attributes in the question.

    Returns:
        ``None`` if there are no values of the metric.

    Raises:
        UnknownNameError: The outermost kind does not have the metric, but an inner kind does.
    """
    answered = _first(found)
    if answered in (None, Kind.REQUEST) or metric not in _STRICT:
        return answered
    outermost = _first(found | recorded())
    if outermost is None or outermost in found:
        return outermost
    inner = ", ".join(KIND_NOUNS[kind][1] for kind in Kind if kind in found)
    raise UnknownNameError(
        f"{metric} is recorded for {inner}, not for {KIND_NOUNS[outermost][1]}",
        hint=hint_for_other_kinds(metric, outermost, found),
    )


def hint_for_other_kinds(metric: str, kind: Kind, found: AbstractSet[Kind]) -> str:
    """
    Return the hint for a question about a kind that does not have the metric.

    Args:
        metric: Metric in the question.
        kind: Kind in the question.
        found: Kinds that have values of the metric, at least one.
    """
    hint = f'use kind="{_first(found)}"'
    if kind is Kind.REQUEST and metric in _FROM_START:
        hint += (
            f' for the wait since the start of each call, or "{TIME_TO_FIRST_VISIBLE_TOKEN}"'
            " for the wait since the start of the request"
        )
    return hint


def hint_for_metric(recorded: Iterable[SeriesKey]) -> str:
    """
    Return the hint for a question about a metric without values.

    Args:
        recorded: Series that were recorded.
    """
    metrics = sorted({key.measured_metric for key in recorded} - {SEGMENT})
    return f"metrics recorded: {', '.join(metrics) or 'none'}"


def hint_for_segment(
    name: str, recorded: Collection[str], series: Iterable[SeriesKey], where: Mapping[str, str]
) -> str:
    """
    Return the hint for a question about a segment without values.

    Args:
        name: Name in the question.
        recorded: Names of the recorded segments.
        series: Recorded series.
        where: Attributes in the question.
    """
    if name in recorded:
        of_segment = [key for key in series if key.segment == name]
        for attribute, value in where.items():
            values = {key.attribute(attribute) for key in of_segment} - {None}
            if value not in values:
                recorded_values = nearest_values(value, {str(each) for each in values})
                return f"the values of {attribute} recorded for {name}: {recorded_values or 'none'}"
        return f"no value of {name} has all of these attributes"
    listed = f"segments recorded: {', '.join(recorded) or 'none'}"
    if name in METRIC_NAMES:
        return f"'{name}' is a metric: use metric(\"{name}\")"
    close = nearest(name, recorded)
    return f'did you mean segment("{close}")? {listed}' if close else listed


def _refuse_absent_attribute(
    name: str, value: str, known: Collection[SeriesKey], metric: str, kind: Kind | None
) -> None:
    """Raise an error if the series of the metric, or of its kind, never have the attribute."""
    of_metric = [key for key in known if key.measured_metric == metric]
    kinds = {key.kind for key in of_metric if key.attribute(name) is not None}
    if of_metric and not kinds:
        others = sorted({key.measured_metric for key in known if key.attribute(name) is not None})
        raise UnknownNameError(
            f"{metric} has no attribute '{name}'",
            hint=f'use segment("{value}")'
            if name == SEGMENT
            else f"{_hint_for_scope(name)}; metrics with it: {', '.join(others)}"
            if is_settable(name)
            else f"metrics with it: {', '.join(others)}",
        )
    if kind is not None and kind not in kinds and kind in {key.kind for key in of_metric}:
        raise UnknownNameError(
            f"{KIND_NOUNS[kind][1]} have no attribute '{name}'",
            hint=f'use kind="{_first(kinds)}"'
            + (f", or {_hint_for_scope(name)}" if is_settable(name) else ""),
        )


def _hint_for_scope(attribute: str) -> str:
    """Return the hint about an attribute that an application set on something else only."""
    argument = f"{attribute}=…" if attribute.isidentifier() else f'{{"{attribute}": …}}'
    return (
        f"put the calls and stages into `with latspan.attributes({argument}):`;"
        " latspan.annotate() sets attributes of the request only"
    )


def _overflow_of(known: Iterable[SeriesKey]) -> str:
    """Return the end of a hint if values that are not listed can be in an overflow series."""
    if all(key.subject.overflow is None for key in known):
        return ""
    return '; series above cardinality_limit are counted together, under overflow="true"'


def _attributes_of(known: Iterable[SeriesKey]) -> list[str]:
    return sorted({name for key in known for name in key.attributes})


def nearest_values(value: str, candidates: AbstractSet[str]) -> str:
    """Return the candidates most like the value, nearest first, and the number of the others."""
    shown = by_similarity(value, candidates, max_count=_SHOWN)
    more = len(candidates) - len(shown)
    return ", ".join(map(repr, shown)) + (f" and {more:,} more" if more else "")


def _first(kinds: AbstractSet[Kind]) -> Kind | None:
    return next((kind for kind in Kind if kind in kinds), None)
