"""
Simulated network of a script and a ``ManualClock``: connections without sockets, exact to the ns.

This module is independent of client libraries. The server sends on its own schedule: the time of
arrival of everything that it writes is fixed when the request is complete. A read returns what has
arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from latspan._base.clock import ManualClock
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.units import from_unit
from latspan.testing._http import HttpRequest, RequestReader
from latspan.testing._payloads import InvalidRequestError, ModelRequest, read_request
from latspan.testing._script import Script
from latspan.testing._scripted_response import Farewell, Frame, Rotation, ScriptedResponse, refuse
from latspan.testing._served import Ledger, ServedRequest, WriteRecord


class Failure(Enum):
    """Reason that a network operation failed; the transport raises its library's error for it."""

    CONNECT_ERROR = auto()
    CONNECT_TIMEOUT = auto()
    READ_ERROR = auto()
    READ_TIMEOUT = auto()


class NetworkFailureError(Exception):
    """
    A network operation failed.

    Args:
        failure: Reason for the failure.
        message: Description of the failure.
    """

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Arrival:
    """
    Data or an event that reaches the client.

    Args:
        instant_ns: Time of arrival.
        data: Bytes; empty: the server has closed the connection.
        reset: Whether the server has reset the connection.
    """

    instant_ns: int
    data: bytes = b""
    reset: bool = False


class Network:
    """
    Server side of every connection of one transport.

    Args:
        scripts: One, or several that are served in order, repeatedly.
        clock: Clock to advance.
        connect_ns: Duration of a TCP connection, name look-up included.
        tls_ns: Duration of a TLS handshake.
        send_ns: Duration of sending a request, spent in the write that completes it.
        network_ns: One-way delay between client and server.

    Raises:
        ValueError: There is no script, or a time is negative.
    """

    def __init__(
        self,
        scripts: Script | Iterable[Script],
        clock: ManualClock,
        *,
        connect_ns: int,
        tls_ns: int,
        send_ns: int,
        network_ns: int,
    ) -> None:
        for duration_ns in (connect_ns, tls_ns, send_ns, network_ns):
            if duration_ns < 0:
                raise ValueError(f"a time is at least 0 ns, not {duration_ns}")
        self.clock = clock
        self.send_ns = send_ns
        self.network_ns = network_ns
        self.book: list[Ledger] = []
        self._rotation = Rotation(scripts)
        self._connect_ns = connect_ns
        self._tls_ns = tls_ns
        self._connections = count()

    def served_requests(self) -> list[ServedRequest]:
        """
        Return what the server did for every request so far, in order.

        The server's schedule does not depend on the reader, so data still in transit is included.
        """
        return [ledger.served() for ledger in self.book]

    def connect(self, timeout_s: float | None) -> Pipe:
        """
        Advance the clock by the duration of a TCP connection and return the connection.

        Raises:
            NetworkFailureError: It exceeded the timeout, or the script refuses it.
        """
        self._pass(self._connect_ns, timeout_s, "the connection")
        if self._rotation.upcoming.unreachable:
            self._rotation.take()
            raise NetworkFailureError(Failure.CONNECT_ERROR, "connection refused")
        return Pipe(self, next(self._connections))

    def shake_hands(self, timeout_s: float | None) -> None:
        """
        Advance the clock by the duration of a TLS handshake.

        Raises:
            NetworkFailureError: It exceeded the timeout.
        """
        self._pass(self._tls_ns, timeout_s, "the TLS handshake")

    def sleep(self, seconds: float) -> None:
        """Advance the clock for a connection's back-off."""
        self.clock.advance(from_unit(seconds, "s"))

    def open_page(self, connection: int, request: HttpRequest, accepted_ns: int) -> Ledger:
        """Return a new ledger for a request, stamped with ``accepted_ns``."""
        ledger = Ledger(len(self.book), connection, request, accepted_ns)
        self.book.append(ledger)
        return ledger

    def next_script(self, request: ModelRequest) -> Script:
        """Return the script of the next response; unreachable ones are skipped."""
        if not request.api.needs_model:
            return Script()
        script = self._rotation.take()
        while script.unreachable:
            script = self._rotation.take()
        return script

    def _pass(self, duration_ns: int, timeout_s: float | None, what: str) -> None:
        limit_ns = None if timeout_s is None else from_unit(timeout_s, "s")
        if limit_ns is not None and duration_ns > limit_ns:
            self.clock.advance(limit_ns)
            raise NetworkFailureError(
                Failure.CONNECT_TIMEOUT, f"{what} took longer than {timeout_s:g} s"
            )
        self.clock.advance(duration_ns)


class Pipe:
    """
    One connection, seen from the client.

    Args:
        network: The network it belongs to.
        number: Number of the connection, from 0.
    """

    def __init__(self, network: Network, number: int) -> None:
        self._network = network
        self._clock = network.clock
        self._number = number
        self._requests = RequestReader()
        self._arrivals: deque[Arrival] = deque()
        self._ledger: Ledger | None = None

    @property
    def readable(self) -> bool:
        """Whether a read would return without waiting."""
        return bool(self._arrivals) and self._arrivals[0].instant_ns <= self._clock.monotonic_ns()

    @property
    def waits(self) -> bool:
        """Whether a read would advance the clock."""
        return not self.readable

    def write(self, data: bytes) -> None:
        """Send ``data``; the write that completes a request takes the network's ``send_ns``."""
        for request in self._requests.feed(data):
            self._clock.advance(self._network.send_ns)
            self._serve(request, self._clock.monotonic_ns() + self._network.network_ns)

    def read(self, max_bytes: int, timeout_s: float | None) -> bytes:
        """
        Return all data that has arrived, up to ``max_bytes``; wait for data if there is none.

        Returns:
            No bytes once the server has closed the connection.

        Raises:
            NetworkFailureError: The server reset it, or nothing arrived in time.
        """
        if self.waits:
            self._wait(timeout_s)
        if self._arrivals[0].reset:
            raise NetworkFailureError(Failure.READ_ERROR, "connection reset by peer")
        data = b""
        while self.readable and len(data) < max_bytes and (part := self._arrivals[0].data):
            room = max_bytes - len(data)
            data += part[:room]
            arrival = self._arrivals.popleft()
            if part[room:]:
                self._arrivals.appendleft(Arrival(arrival.instant_ns, part[room:]))
        return data

    def close(self) -> None:
        """Close the connection; the server stops when the close arrives, after ``network_ns``."""
        self._arrivals.clear()
        ledger, self._ledger = self._ledger, None
        received_ns = self._clock.monotonic_ns() + self._network.network_ns
        if ledger is None or ledger.end_ns is None or ledger.end_ns <= received_ns:
            return
        ledger.writes = [write for write in ledger.writes if write.instant_ns <= received_ns]
        ledger.end_ns = None
        ledger.cancelled_ns = received_ns

    def _wait(self, timeout_s: float | None) -> None:
        limit_ns = None if timeout_s is None else from_unit(timeout_s, "s")
        wait_ns = None
        if self._arrivals:
            wait_ns = self._arrivals[0].instant_ns - self._clock.monotonic_ns()
        if wait_ns is not None and (limit_ns is None or wait_ns <= limit_ns):
            self._clock.advance(wait_ns)
            return
        if limit_ns is None:
            raise NetworkFailureError(Failure.READ_ERROR, "no data will ever arrive")
        self._clock.advance(limit_ns)
        raise NetworkFailureError(Failure.READ_TIMEOUT, f"no data arrived in {timeout_s:g} s")

    def _serve(self, request: HttpRequest, accepted_ns: int) -> None:
        ledger = self._network.open_page(self._number, request, accepted_ns)
        self._ledger = ledger
        try:
            model_request = read_request(request)
        except InvalidRequestError as error:
            ledger.status = error.status
            ledger.end_ns = accepted_ns
            self._arrive(accepted_ns, refuse(request, error))
            return
        script = self._network.next_script(model_request)
        ledger.status = script.status
        created_s = (accepted_ns + self._clock.epoch_offset_ns()) // NS_PER_S
        response = ScriptedResponse(script, model_request, number=ledger.index, created_s=created_s)
        for frame in response.greeting:
            self._produce(accepted_ns, frame, response, ledger)
        slot_ns = accepted_ns + script.queue_ns
        if response.needs_slot:
            ledger.slot_ns = slot_ns
        for frame in response.frames:
            self._produce(slot_ns + frame.offset_ns, frame, response, ledger)
        ledger.end_ns = slot_ns + response.frames[-1].offset_ns
        if response.farewell is not Farewell.KEEP:
            self._arrive(ledger.end_ns, reset=response.farewell is Farewell.RESET)

    def _produce(
        self, instant_ns: int, frame: Frame, response: ScriptedResponse, ledger: Ledger
    ) -> None:
        ledger.writes += [WriteRecord(instant_ns, part.piece) for part in frame.parts]
        if data := response.render(frame, ledger):
            self._arrive(instant_ns, data)

    def _arrive(self, sent_ns: int, data: bytes = b"", *, reset: bool = False) -> None:
        self._arrivals.append(Arrival(sent_ns + self._network.network_ns, data, reset))
