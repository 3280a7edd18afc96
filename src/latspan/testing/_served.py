"""
What a scripted server really did for one request, and when: the truth that tests compare with.

Instants are nanoseconds of ``CLOCK_MONOTONIC``, which on Linux is ``time.perf_counter_ns`` and
the same clock in every process of one host. Only tests on one machine may compare them with
their own readings; the scripted transport's are readings of its ``ManualClock``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from latspan.testing._http import HttpRequest, parse_request
from latspan.testing._script import PayloadPart

__all__ = ["Ledger", "ServedRequest", "WriteRecord"]


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """
    One piece of an answer, given to the network.

    Args:
        instant_ns: Read just before the bytes left, so nobody can have had them earlier.
        piece: What it held.
    """

    instant_ns: int
    piece: PayloadPart


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """
    One request and what became of it.

    Args:
        index: Order of acceptance, from 0.
        connection: Number of the connection it came over, from 0.
        raw: The request as it came over the wire.
        status: The status it was given; ``None``: none yet.
        accepted_ns: The request's last byte was there.
        slot_ns: Queueing was over and the model's work began; ``None`` if it did not come to that.
        writes: What was written, in order.
        end_ns: The answer had been written, or cut off as its script wants it.
        cancelled_ns: The client went away before that.
    """

    index: int
    connection: int
    raw: bytes
    status: int | None
    accepted_ns: int
    slot_ns: int | None
    writes: tuple[WriteRecord, ...]
    end_ns: int | None
    cancelled_ns: int | None

    @property
    def request_headers(self) -> Mapping[str, str]:
        """The request's headers, their names in lower case."""
        return parse_request(self.raw).headers

    @property
    def request_json(self) -> Any:
        """
        The request's body, read as JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(parse_request(self.raw).body)

    @property
    def headers_ns(self) -> int | None:
        """When the headers were written."""
        return next((w.instant_ns for w in self.writes if w.piece is PayloadPart.HEADERS), None)

    @property
    def chunk_ns(self) -> tuple[tuple[int, PayloadPart], ...]:
        """Every written event or comment of the stream: its instant and what it held."""
        frame = {PayloadPart.HEADERS, PayloadPart.BODY, PayloadPart.END}
        return tuple((w.instant_ns, w.piece) for w in self.writes if w.piece not in frame)

    @property
    def token_ns(self) -> tuple[int, ...]:
        """When each chunk with tokens was written."""
        return tuple(write.instant_ns for write in self.writes if write.piece.bears_token)

    @property
    def first_token_ns(self) -> int | None:
        """When the first chunk with tokens was written."""
        return self.token_ns[0] if self.token_ns else None

    @property
    def last_token_ns(self) -> int | None:
        """When the last chunk with tokens was written."""
        return self.token_ns[-1] if self.token_ns else None

    def to_json(self) -> dict[str, Any]:
        """Return it as what ``json.dumps`` takes."""
        return {
            "index": self.index,
            "connection": self.connection,
            "raw": self.raw.decode("latin-1"),
            "status": self.status,
            "accepted_ns": self.accepted_ns,
            "slot_ns": self.slot_ns,
            "writes": [[write.instant_ns, write.piece] for write in self.writes],
            "end_ns": self.end_ns,
            "cancelled_ns": self.cancelled_ns,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServedRequest:
        """Return what :meth:`to_json` wrote."""
        writes = cast("Sequence[tuple[int, str]]", data["writes"])
        fields: dict[str, Any] = {
            **data,
            "raw": data["raw"].encode("latin-1"),
            "writes": tuple(
                WriteRecord(instant_ns, PayloadPart(piece)) for instant_ns, piece in writes
            ),
        }
        return cls(**fields)


@dataclass(slots=True)
class Ledger:
    """
    The page on which a server writes down one request while it serves it.

    Args:
        index: Order of acceptance, from 0.
        connection: Number of the connection, from 0.
        request: The request.
        accepted_ns: The request's last byte was there.
    """

    index: int
    connection: int
    request: HttpRequest
    accepted_ns: int
    status: int | None = None
    slot_ns: int | None = None
    writes: list[WriteRecord] = field(default_factory=list[WriteRecord])
    end_ns: int | None = None
    cancelled_ns: int | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing more will happen to the request."""
        return self.end_ns is not None or self.cancelled_ns is not None

    def served(self) -> ServedRequest:
        """Return a copy of what has been written down so far."""
        return ServedRequest(
            index=self.index,
            connection=self.connection,
            raw=self.request.raw,
            status=self.status,
            accepted_ns=self.accepted_ns,
            slot_ns=self.slot_ns,
            writes=tuple(self.writes),
            end_ns=self.end_ns,
            cancelled_ns=self.cancelled_ns,
        )
