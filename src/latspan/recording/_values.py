"""Which values of a finished request belong to which series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from latspan.metrics import MetricValue
from latspan.recording._record import RequestRecord
from latspan.recording._series import SEGMENT, SeriesKey
from latspan.segments import Source, totals

__all__ = ["values_of"]


def values_of(record: RequestRecord) -> Iterator[tuple[SeriesKey, list[int]]]:
    """
    Yield each series that a record has values for, with the values.

    A record that says what it ``reports`` gives only those segments, its metrics and its
    duration: its chunks and tokens are counted by the calls inside it.

    Yields:
        The key, and nanoseconds for times or plain numbers for counts; at least one.
    """
    common = {**record.attributes, "outcome": record.outcome.value, "side": record.side.value}

    def series(metric: str, source: str, **more: str) -> SeriesKey:
        attributes = {**common, **more, "source": source}
        return SeriesKey(metric, record.kind, tuple(sorted(attributes.items())))

    reported = record.segments if record.reports is None else record.reports
    for total in totals(reported):
        yield series(SEGMENT, total.source.value, segment=total.name), [total.duration_ns]
    # Whatever stands under that name, the duration is the one that the segments sum to.
    metrics = {**record.metrics, "duration": MetricValue(record.duration_ns)}
    for name, value in metrics.items():
        yield series(name, value.source.value), [value.value]
    if record.reports is not None:
        return
    gaps: defaultdict[Source, list[int]] = defaultdict(list)
    for gap in record.chunk_gaps:
        gaps[gap.source].append(gap.value)
    for source, values in gaps.items():
        yield series("chunk_gap", source.value), values
    tokens = record.tokens
    for name, count in (
        ("input_tokens", tokens.input),
        ("cached_tokens", tokens.cached),
        ("output_tokens", tokens.output),
        ("reasoning_tokens", tokens.reasoning),
    ):
        if count is not None:
            yield series(name, tokens.source.value), [count]
