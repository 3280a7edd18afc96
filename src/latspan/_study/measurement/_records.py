"""The records of a load test that count: those of its measured requests, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from latspan import semconv
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording, cut_indexes

__all__ = ["measured_records"]

_MEASURED: Final = "measured"


def measured_records(recording: Recording, step: int) -> Iterator[RequestRecord]:
    """
    Yield the measured requests of a step with their calls; all records if it is no load test.

    Warm-up and drain are left out, and so are requests that the end of the measurement cancelled.

    Args:
        recording: The recording.
        step: Number of the step, from 0.

    Raises:
        OSError: A file of the recording cannot be read.
    """
    about: Mapping[str, Any] = recording.manifest.get("measurement", {})
    cut = cut_indexes(recording.manifest)
    for record in recording.records():
        details = record.details
        if not about or (
            details.get(semconv.LATSPAN_LOAD_PHASE) == _MEASURED
            and details.get(semconv.LATSPAN_LOAD_STEP, 0) == step
            and details.get(semconv.LATSPAN_LOAD_INDEX) not in cut
        ):
            yield record
