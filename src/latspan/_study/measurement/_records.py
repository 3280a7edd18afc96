"""The records of a load test that count: those of its measured requests, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from latspan import semconv
from latspan._recording import RequestRecord
from latspan._recording.folder import Recording, cut_indexes

__all__ = ["MEASURED", "measured_records", "measured_step"]

MEASURED: Final = "measured"
"""Phase of the requests that count."""


def measured_step(recording: Recording, step: int) -> Callable[[RequestRecord], bool]:
    """
    Return a function that returns whether a record counts in a step, or is inside one that does.

    Warm-up and drain do not count, and neither do requests that the end of the measurement
    cancelled. If the recording is not of a load test, every record counts.

    Args:
        recording: The recording.
        step: Number of the step, from 0.
    """
    about: Mapping[str, Any] = recording.manifest.get("measurement", {})
    cut = cut_indexes(recording.manifest)

    def counts(record: RequestRecord) -> bool:
        details = record.details
        return not about or (
            details.get(semconv.LATSPAN_LOAD_PHASE) == MEASURED
            and details.get(semconv.LATSPAN_LOAD_STEP, 0) == step
            and details.get(semconv.LATSPAN_LOAD_INDEX) not in cut
        )

    return counts


def measured_records(recording: Recording, step: int) -> Iterator[RequestRecord]:
    """
    Yield the measured requests of a step with their calls; all records if it is not a load test.

    Args:
        recording: The recording.
        step: Number of the step, from 0.

    Raises:
        OSError: A file of the recording cannot be read.
    """
    return filter(measured_step(recording, step), recording.records())
