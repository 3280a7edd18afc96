"""Result of a reader: the requests of a file, and what the file does not have."""

from __future__ import annotations

from dataclasses import dataclass

from latspan._recording import RequestRecord

__all__ = ["Imported"]


@dataclass(frozen=True, slots=True)
class Imported:
    """
    Requests that another program wrote.

    Args:
        format: Name of the format, for example ``otlp``.
        records: The requests, in the order of their ends.
        lacks: What a recording of latspan has and these requests do not, one sentence each.
        skipped: What could not be used, one sentence each.
        conditions: Conditions of the measurement, by name.
        measurement: Account of a load test: its number of unsent requests.
    """

    format: str
    records: tuple[RequestRecord, ...]
    lacks: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    conditions: dict[str, object] | None = None
    measurement: dict[str, object] | None = None
