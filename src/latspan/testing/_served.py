"""
Records of what a scripted server did for each request and when, as ground truth for tests.

Instants are nanoseconds of ``CLOCK_MONOTONIC``, which on Linux is ``time.perf_counter_ns`` and
the same clock in every process of one host. Only tests on one machine may compare them with
their own readings; those of the scripted transport are readings of its ``ManualClock``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from latspan.testing._http import HttpRequest, parse_request
from latspan.testing._script import TOKEN_PARTS, PayloadPart


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """
    One part of a response, passed to the network.

    Args:
        instant_ns: Time read just before the bytes were sent, so no reader received them earlier.
        piece: Kind of content.
    """

    instant_ns: int
    piece: PayloadPart


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """
    One request, and what the server did for it and when.

    Args:
        index: Order of acceptance, from 0.
        connection: Number of its connection, from 0.
        raw: The request as received.
        status: Status of the response; ``None``: none yet.
        accepted_ns: Instant at which the request's last byte had arrived.
        slot_ns: End of the queue wait and start of the model's work; ``None`` if not reached.
        writes: Parts written, in order.
        end_ns: Instant at which the response was complete, or cut off as its script requires.
        cancelled_ns: Instant at which the client disconnected before the end, if it did.
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
        """Headers of the request, their names in lower case."""
        return parse_request(self.raw).headers

    @property
    def request_json(self) -> Any:
        """
        Body of the request, parsed as JSON.

        Raises:
            ValueError: The body is not JSON.
        """
        return json.loads(parse_request(self.raw).body)

    @property
    def headers_ns(self) -> int | None:
        """Instant at which the headers were written."""
        return next((w.instant_ns for w in self.writes if w.piece is PayloadPart.HEADERS), None)

    @property
    def chunk_ns(self) -> tuple[tuple[int, PayloadPart], ...]:
        """Every written event or comment of the stream: its instant and its kind of content."""
        frame = {PayloadPart.HEADERS, PayloadPart.BODY, PayloadPart.END}
        return tuple((w.instant_ns, w.piece) for w in self.writes if w.piece not in frame)

    @property
    def token_ns(self) -> tuple[int, ...]:
        """Instant at which each chunk with tokens was written."""
        return tuple(write.instant_ns for write in self.writes if write.piece in TOKEN_PARTS)

    @property
    def first_token_ns(self) -> int | None:
        """Instant at which the first chunk with tokens was written."""
        return self.token_ns[0] if self.token_ns else None


@dataclass(slots=True)
class Ledger:
    """
    Record that a server keeps of one request while it serves it.

    Args:
        index: Order of acceptance, from 0.
        connection: Number of the connection, from 0.
        request: The request.
        accepted_ns: Instant at which the request's last byte had arrived.
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
        """Whether the request has ended."""
        return self.end_ns is not None or self.cancelled_ns is not None

    def served(self) -> ServedRequest:
        """Return a copy of the record so far."""
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
