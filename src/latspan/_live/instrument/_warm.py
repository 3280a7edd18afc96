"""Warm-up of a client: connections that are opened before its first request, and the time saved."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, overload

from latspan._base.clock import SystemClock
from latspan._live.instrument._discovery import instrumentor_of, instrumentors
from latspan._live.instrument._instrumentor import Instrumentor
from latspan._live.instrument._warmer import UnderlyingClient, Warmer, WarmsTransport
from latspan._live.otel.context_keys import suppress_instrumentation
from latspan._live.process.runtime import current_runtime
from latspan._model.text import listed
from latspan._model.timeline import Attempt
from latspan._model.units import milliseconds
from latspan.errors import ConfigError, InstrumentationError


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupResult:
    """
    Result of :func:`warm`. Times are in nanoseconds, ``None`` if they were not observed.

    Args:
        server: Host and port, empty if the client has no base URL.
        connections: Number of connections that are open for the next calls.
        setup_ns: Time of imports and other work of the client libraries that the first call would
            otherwise do before it connects.
        connect_ns: Time of DNS resolution and TCP handshake of the first connection; also ``None``
            if a connection was already open.
        tls_ns: Time of the TLS handshake of the first connection; also ``None`` if there was none.
        error: Error that prevented some or all connections from being opened; ``None`` if all were
            opened.
    """

    server: str = ""
    connections: int = 0
    setup_ns: int | None = None
    connect_ns: int | None = None
    tls_ns: int | None = None
    error: Exception | None = None

    @property
    def saved_ns(self) -> int:
        """Observed time that the next call saves, in nanoseconds."""
        times = (self.setup_ns, *((self.connect_ns, self.tls_ns) if self.connections else ()))
        return sum(time for time in times if time is not None)

    def __str__(self) -> str:
        some = "connection" if self.connections == 1 else "connections"
        to = f" to {self.server}" if self.server else ""
        text = f"{self.connections} {some}{to} open"
        parts = ", ".join(
            f"{name} {milliseconds(time_ns)}"
            for name, time_ns in (
                ("set-up", self.setup_ns),
                ("connect", self.connect_ns if self.connections else None),
                ("TLS", self.tls_ns if self.connections else None),
            )
            if time_ns is not None
        )
        if parts:
            text += f"; the next call saves {milliseconds(self.saved_ns)} ({parts})"
        if self.error is not None:
            text += f"; {type(self.error).__name__}: {self.error}"
        return text


@overload
def warm(
    client: AbstractAsyncContextManager[Any],
    url: str | None = None,
    *,
    connections: int = 1,
    timeout_s: float = 5.0,
) -> Coroutine[Any, Any, WarmupResult]: ...
@overload
def warm(
    client: AbstractContextManager[Any],
    url: str | None = None,
    *,
    connections: int = 1,
    timeout_s: float = 5.0,
) -> WarmupResult: ...
def warm(
    client: Any, url: str | None = None, *, connections: int = 1, timeout_s: float = 5.0
) -> WarmupResult | Coroutine[Any, Any, WarmupResult]:
    """
    Open connections before the first call, and do the other work that only a first call does.

    Use ``saved = latspan.warm(client)`` with a synchronous client, and
    ``saved = await latspan.warm(client)`` with an asynchronous one. The function works without
    :func:`~latspan.configure`, and records no telemetry.

    The connections are opened one after the other, each with a ``HEAD`` request. The request has
    the headers that the HTTP client sends with every request, but not the credentials that an SDK
    adds. The connection is open after any response, including 401 and 404. HTTP clients close idle
    connections (httpx after 5 s by default), so warm a client just before its first use.

    Args:
        client: Client of a library whose integration can open connections: the OpenAI SDK, the
            Anthropic SDK, httpx, httpx2, or an SDK whose integration has ``underlying_client``.
        url: URL to connect to; defaults to the client's ``base_url``.
        connections: Number of connections to open, at least 1.
        timeout_s: Time limit of each step of each request in seconds, greater than 0. The steps are
            waiting for a connection of the pool, connecting, writing and reading.

    Returns:
        The result. If the server cannot be reached or the client is not supported,
        :attr:`WarmupResult.error` is set and no exception is raised.

    Raises:
        ConfigError: ``connections`` or ``timeout_s`` is out of range.
    """
    if connections < 1:
        raise ConfigError(f"connections is {connections}", hint="use 1 or more")
    if not 0 < timeout_s < math.inf:
        raise ConfigError(f"timeout_s is {timeout_s!r}", hint="use a number greater than 0")
    steps = _warm(client, url, connections, timeout_s)
    return _awaited(steps) if hasattr(client, "__aenter__") else _done(steps)


_Steps = Generator[Callable[[], Any], Any, WarmupResult]
"""Generator of steps. The caller runs each step, and sends its result or throws its exception."""


def _done(steps: _Steps) -> WarmupResult:
    with suppress_instrumentation():
        try:
            step = next(steps)
            while True:
                try:
                    result = step()
                except BaseException as error:  # noqa: BLE001 - the generator judges it
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value


async def _awaited(steps: _Steps) -> WarmupResult:
    with suppress_instrumentation():
        try:
            step: Callable[[], Awaitable[Any]] = next(steps)
            while True:
                try:
                    result = await step()
                except BaseException as error:  # noqa: BLE001 - the generator judges it
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value


def _warm(client: Any, url: str | None, connections: int, timeout_s: float) -> _Steps:
    runtime = current_runtime()
    now = (SystemClock() if runtime is None else runtime.clock).monotonic_ns
    try:
        warmer, preparing = _warmer_of(client, url, timeout_s)
        # The clock starts here: the time before this point is latspan's own.
        start_ns = now()
        for prepare in preparing:
            prepare()
    except Exception as error:  # noqa: BLE001 - a start-up continues after it fails
        return WarmupResult(error=error)
    attempts: list[Attempt] = []
    kept, failure = yield from _opened(warmer, attempts, connections, now)
    if failure is not None and not isinstance(failure, Exception):
        raise failure
    return _warmup_result(warmer.server, attempts[0], kept, start_ns, failure)


def _opened(
    warmer: Warmer, attempts: list[Attempt], connections: int, now: Callable[[], int]
) -> Generator[Callable[[], Any], Any, tuple[int, BaseException | None]]:
    """Open all connections before any is released, so that each request opens a new one."""
    held: list[Any] = []
    failure: BaseException | None = None
    try:
        for _ in range(connections):
            attempts.append(Attempt(now()))
            held.append((yield partial(warmer.open, attempts[-1], now)))
    except BaseException as error:  # noqa: BLE001 - the caller's, once all are let go
        failure = error
    kept = 0
    for response in held:
        try:
            kept += bool((yield partial(warmer.release, response)))
        except BaseException as error:  # noqa: BLE001 - the caller's, once all are let go
            failure = failure or error
    return kept, failure


def _warmup_result(
    server: str, first: Attempt, kept: int, start_ns: int, failure: Exception | None
) -> WarmupResult:
    begun_ns, connected_ns = first.pool_acquired_ns, first.connected_ns
    return WarmupResult(
        server=server,
        connections=kept,
        setup_ns=_between(start_ns, begun_ns),
        connect_ns=_between(begun_ns, connected_ns),
        tls_ns=_between(connected_ns, first.tls_done_ns),
        error=failure,
    )


def _between(earlier_ns: int | None, later_ns: int | None) -> int | None:
    return None if earlier_ns is None or later_ns is None else later_ns - earlier_ns


def _warmer_of(
    client: Any, url: str | None, timeout_s: float
) -> tuple[Warmer, Sequence[Callable[[], None]]]:
    """
    Return the warmer of ``client``, and the preparations to run before it.

    Raises:
        InstrumentationError: No integration of latspan can open connections of ``client``.
    """
    preparing: list[Callable[[], None]] = []
    found = _asked(client, url, timeout_s)
    while isinstance(found, UnderlyingClient):
        preparing.append(found.prepare)
        client, url = found.client, url or found.url
        found = _asked(client, url, timeout_s)
    if found is None:
        kind = cast("type[Any]", type(client))
        raise InstrumentationError(
            f"latspan cannot open connections for '{kind.__module__}.{kind.__qualname__}'",
            hint=f"supported are clients of {listed(_libraries())}",
        )
    return found, preparing


def _libraries() -> list[str]:
    """Return the client libraries whose connections an integration can open, sorted."""
    return sorted(
        library
        for library, integration in instrumentors()
        if isinstance(integration, WarmsTransport)
        or type(integration).underlying_client is not Instrumentor.underlying_client
    )


def _asked(client: Any, url: str | None, timeout_s: float) -> Warmer | UnderlyingClient | None:
    """
    Return the first result that an integration has for the client.

    The integration of each library in the class hierarchy of the client is asked, in order.
    """
    libraries = dict.fromkeys(cls.__module__.partition(".")[0] for cls in type(client).__mro__)
    for library in libraries:
        instrumentor = instrumentor_of(library)
        if instrumentor is None:
            continue
        if isinstance(instrumentor, WarmsTransport):
            found = instrumentor.warmer(client, url, timeout_s)
        else:
            found = instrumentor.underlying_client(client)
        if found is not None:
            return found
    return None
