"""Result of a reader: the requests of a file, and what the file does not have."""

from __future__ import annotations

from dataclasses import dataclass

from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import LoadTest


@dataclass(frozen=True, slots=True)
class Imported:
    """
    Requests that another program wrote.

    Args:
        format: Name of the format, for example ``otlp``.
        records: The requests, in the order of their ends.
        lacks: What a recording of latspan has and these requests do not, one sentence each.
        skipped: What could not be used, one sentence each.
        left_out: Which requests or values are missing because their time is not known, one sentence
            each, with the number.
        conditions: Conditions of the measurement, by name.
        load_test: Account of a load test; ``None`` if it was none.
        about: Where the requests come from and what was left out, as sentences.
    """

    format: str
    records: tuple[RequestRecord, ...]
    lacks: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    conditions: dict[str, object] | None = None
    load_test: LoadTest | None = None
    about: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about the records, one sentence each."""
        short = (*self.lacks, *self.skipped, *self.left_out)
        return (*self.about, *(f"{each[0].upper()}{each[1:]}." for each in short))
