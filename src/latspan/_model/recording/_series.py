"""Series: a histogram, and the key that its values share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from latspan._base.text import text_of
from latspan._model.censoring import AT_LEAST
from latspan._model.recording._exemplars import Exemplar
from latspan._model.segments import Kind
from latspan.errors import UnknownNameError
from latspan.histogram import Histogram

SEGMENT: Final = "segment"
"""Metric of every segment's series; the attribute of the same name holds the segment's name."""


class Subject(NamedTuple):
    """
    Attributes of the requests that a series measures; ``None`` for an attribute that is not set.

    Each request adds values to about twenty series, most of which share one subject. The set of
    attributes is fixed when latspan is configured, so that an application cannot create a series
    per user or per prompt by accident.

    Args:
        kind: Kind of the timelines that the values were measured on, a :class:`~latspan.Kind`.
        side: Side of the network on which they were recorded, ``client`` or ``server``.
        outcome: How the requests ended.
        inference_path: Inference path.
        route: The application's route.
        traffic_class: For example ``interactive`` or ``batch``.
        tenant: The tenant on whose behalf the requests were made.
        model: The requested model.
        provider: ``gen_ai.provider.name``.
        operation: ``gen_ai.operation.name``. Like the attributes from ``response_model`` to
            ``system_fingerprint``, it is set only on the metrics of the GenAI conventions.
        response_model: Name of the model in the response.
        server_address: Host of the called server.
        server_port: Port of the called server.
        error_type: ``error.type``.
        token_type: ``input`` or ``output``.
        service_tier: ``openai.response.service_tier``.
        system_fingerprint: ``openai.response.system_fingerprint``.
        overflow: ``true`` for a series that counts the values past the cardinality limit: one per
            metric, kind and outcome.
        custom: Names and values of the application's own attributes that the setting
            ``series_attributes`` names, in the order of the names.
    """

    kind: str = Kind.CALL.value
    side: str | None = None
    outcome: str | None = None
    inference_path: str | None = None
    route: str | None = None
    traffic_class: str | None = None
    tenant: str | None = None
    model: str | None = None
    provider: str | None = None
    operation: str | None = None
    response_model: str | None = None
    server_address: str | None = None
    server_port: str | None = None
    error_type: str | None = None
    token_type: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    overflow: str | None = None
    custom: tuple[tuple[str, str], ...] = ()


def subject_of(attributes: Mapping[str, str]) -> Subject:
    """
    Return the subject with these attributes.

    Args:
        attributes: Attributes by name. Names that are not latspan's are the application's own.
    """
    named = {name: value for name, value in attributes.items() if name in _OF_REQUESTS}
    custom = sorted(item for item in attributes.items() if item[0] not in _OF_REQUESTS)
    return Subject(**named, custom=tuple(custom))  # pyright: ignore[reportArgumentType]


class SeriesKey(NamedTuple):
    """
    Key of a series: the metric and the attributes that all its values share.

    Args:
        metric: A metric's name, or ``segment``; with :data:`~latspan._model.censoring.AT_LEAST` at
            its end, it is the series of what is known of the requests without a value.
        subject: Attributes of the measured requests.
        source: Source of the values; ``None`` on the metrics of the GenAI conventions.
        segment: The segment's name, if ``metric`` is ``segment``.
    """

    metric: str
    subject: Subject
    source: str | None = None
    segment: str | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """Every attribute that is set, by name, ``kind`` included."""
        *named, custom = self.subject
        values = dict(zip(Subject._fields, named, strict=False))
        values |= {"source": self.source, SEGMENT: self.segment, **dict(custom)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def is_at_least(self) -> bool:
        """Whether the series holds lower bounds and failures instead of values."""
        return self.metric.endswith(AT_LEAST)

    @property
    def measured_metric(self) -> str:
        """The metric, also if the series holds its lower bounds."""
        return self.metric.removesuffix(AT_LEAST)

    @property
    def kind(self) -> Kind:
        """Kind of timeline that the values were measured on."""
        return Kind(self.subject.kind)

    def attribute(self, name: str) -> str | None:
        """
        Return the attribute's value, or ``None`` if it is not set.

        Args:
            name: One of :data:`ATTRIBUTES`, or the name of an attribute that the application
                defines.
        """
        if name not in ATTRIBUTES:
            return dict(self.subject.custom).get(name)
        value: str | None = getattr(self if name in _OF_VALUES else self.subject, name)
        return value


def key_of(metric: str, attributes: Mapping[str, str]) -> SeriesKey:
    """
    Return the key of a metric's series that has these attributes.

    Args:
        metric: A metric's name, or ``segment``.
        attributes: Attributes by name, with the same names as in :attr:`SeriesKey.attributes`.
            Names that are not latspan's are the application's own.
    """
    of_requests = {name: value for name, value in attributes.items() if name not in _OF_VALUES}
    return SeriesKey(
        metric,
        subject_of(of_requests),
        source=attributes.get("source"),
        segment=attributes.get(SEGMENT),
    )


def has_attributes(key: SeriesKey, attributes: Mapping[str, str]) -> bool:
    """Return whether a series has all of these attributes, with the same values."""
    return all(key.attribute(name) == value for name, value in attributes.items())


def storable(key: SeriesKey) -> SeriesKey:
    """
    Return a key with texts that every exporter accepts: valid Unicode of limited length.

    A server chooses the name of the response model, and an application chooses the names of its
    tenants. Such a name must not stop an export or exhaust the memory.
    """
    *named, custom = key.subject
    kept = (*named, *chain.from_iterable(custom), key.metric, key.source, key.segment)
    if all(text is None or text_of(text) is text for text in kept):
        return key
    mended = tuple((text_of(name), text_of(value)) for name, value in custom)
    subject = Subject(*map(_storable, named), custom=mended)  # pyright: ignore[reportArgumentType]
    return SeriesKey(text_of(key.metric), subject, _storable(key.source), _storable(key.segment))


def _storable(text: str | None) -> str | None:
    return None if text is None else text_of(text)


_OF_REQUESTS: Final = frozenset(Subject._fields) - {"custom"}
_OF_VALUES: Final = frozenset({"source", SEGMENT})
ATTRIBUTES: Final = _OF_REQUESTS | _OF_VALUES
"""Every attribute that a series can have, except the application's own."""


_SETTABLE: Final = frozenset({"inference_path", "route", "traffic_class", "tenant"})


def is_settable(name: str) -> bool:
    """Return whether ``latspan.attributes`` can set it, by an argument or as a custom attribute."""
    return name in _SETTABLE or name not in ATTRIBUTES


def refuse_unknown_attributes(names: Iterable[str], keys: Iterable[SeriesKey]) -> None:
    """
    Raise an error for names that are not attributes of series.

    Args:
        names: Names of attributes.
        keys: Recorded series, which may have attributes of the application's.

    Raises:
        UnknownNameError: One of the names is not in :data:`ATTRIBUTES`, and no recorded series has
            it.
    """
    unknown = [name for name in names if name not in ATTRIBUTES]
    if not unknown:
        return
    keys = list(keys)
    known = ATTRIBUTES.union(*(dict(key.subject.custom) for key in keys))
    for name in unknown:
        if name not in known:
            adds = (
                f"configure(series_attributes=('{name}',)), or the variable"
                f" LATSPAN_SERIES_ATTRIBUTES in a test, adds an attribute of your own"
            )
            if not keys:
                raise UnknownNameError(
                    f"no attribute '{name}': no request has been recorded yet",
                    hint=f"{adds}; it is known after the first request that has it",
                )
            raise UnknownNameError(
                f"no attribute '{name}'", hint=f"series have {', '.join(sorted(known))}; {adds}"
            )


@dataclass(frozen=True, slots=True)
class Series:
    """
    Series: the values that were recorded under one key.

    Args:
        histogram: The values; it no longer changes.
        start_epoch_ns: Unix time from which values are counted, in nanoseconds. A series that was
            dropped because it was idle starts again with its next value.
        end_epoch_ns: Unix time of the end of the interval in which the last value was counted.
        exemplars: The slowest request and a typical one of a single interval.
    """

    histogram: Histogram
    start_epoch_ns: int
    end_epoch_ns: int
    exemplars: tuple[Exemplar, ...] = ()


def joined(earlier: Series, later: Series) -> Series:
    """Return both series in a new histogram, with the exemplars of ``later`` if it has any."""
    merged = earlier.histogram.copy()
    merged.merge(later.histogram)
    merged.compact()
    return Series(
        merged,
        min(earlier.start_epoch_ns, later.start_epoch_ns),
        max(earlier.end_epoch_ns, later.end_epoch_ns),
        later.exemplars or earlier.exemplars,
    )


def copied(series: Series) -> Series:
    """Return a copy with a histogram of its own."""
    return replace(series, histogram=series.histogram.copy())


def added(total: Series | None, later: Series) -> Series:
    """Return the total with the values of a later interval added, unless it has them already."""
    if total is None:
        return later
    return total if total.end_epoch_ns >= later.end_epoch_ns else joined(total, later)


def add_series(held: MutableMapping[SeriesKey, Series], key: SeriesKey, series: Series) -> None:
    """Add a series to the held ones; a series that is already held is merged with it."""
    before = held.get(key)
    held[key] = series if before is None else joined(before, series)
