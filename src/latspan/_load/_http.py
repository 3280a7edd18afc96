"""
HTTP client of load tests: aiohttp, with settings that keep a measurement exact.

Nothing that is not requested happens between the caller and the server: no redirect is followed, no
cookie is stored, no response is compressed, no variable of the environment names a proxy, and no
limit holds a request back. ``latspan_instrumentation.aiohttp`` records what a request does on its
connection.
"""

from __future__ import annotations

import asyncio
import io
from typing import Final

from latspan._live.instrument import is_excluded
from latspan._live.instrument._discovery import instrumentor_of
from latspan._load._endpoint import Endpoint, HttpAnswer
from latspan.errors import InstrumentationError, MeasurementError, MissingExtraError

try:
    import aiohttp
    from yarl import URL
except ModuleNotFoundError as error:
    raise MissingExtraError("aiohttp", extra="study") from error

CONNECTION_FAILED: Final = aiohttp.ClientConnectionError
"""Exception of a connection that could not be opened, or failed before the response began."""

CUT_SHORT: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)
"""Exceptions of a connection that the server closed before its response was complete."""

_KEPT_S: Final = 86_400
"""
Time for which an idle connection is kept, in seconds.

Only the server is to close connections: a new one adds a handshake to the latency of a request.
"""

_MAX_READ: Final = 1 << 20
"""Size in bytes above which aiohttp warns that writing a body at once blocks the event loop."""


def instrument_client(endpoint: Endpoint) -> None:
    """
    Instrument aiohttp, also if a variable of the environment disables its instrumentation.

    Raises:
        InstrumentationError: It cannot be instrumented.
        MeasurementError: A variable excludes the endpoint from tracing.
    """
    instrumentor = instrumentor_of("aiohttp")
    if instrumentor is not None:
        instrumentor.instrument()
    if instrumentor is None or not instrumentor.is_instrumented_by_opentelemetry:
        raise InstrumentationError(
            f"aiohttp {aiohttp.__version__} cannot be instrumented, so nothing would be recorded",
            hint="pip install 'latspan[study]'",
        )
    if is_excluded(lambda: endpoint.chat_url, "AIOHTTP_CLIENT"):
        raise MeasurementError(
            f"{endpoint.url} is excluded from tracing, so nothing would be recorded",
            hint="unset OTEL_PYTHON_EXCLUDED_URLS and OTEL_PYTHON_AIOHTTP_CLIENT_EXCLUDED_URLS",
        )


def open_session(endpoint: Endpoint, *, reuse_connections: bool = True) -> aiohttp.ClientSession:
    """
    Return a session for one endpoint, on the running event loop.

    Args:
        endpoint: The endpoint.
        reuse_connections: Whether a connection carries further requests.
    """
    connector = aiohttp.TCPConnector(
        limit=0,
        ssl=endpoint.tls() or True,
        force_close=not reuse_connections,
        keepalive_timeout=_KEPT_S if reuse_connections else None,
        # A new connection is to cost what it costs an application that starts, look-up included.
        use_dns_cache=False,
        resolver=aiohttp.ThreadedResolver(),
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers=endpoint.headers(),
        cookie_jar=aiohttp.DummyCookieJar(),
        # The caller limits the time of a request as a whole.
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    )


def target(url: str) -> URL:
    """Return an address that is requested as it is, without a change of its path."""
    return URL(url, encoded=True)


def body_of(body: bytes) -> bytes | io.BytesIO:
    """Return the body of a request in the form in which aiohttp does not block the event loop."""
    return body if len(body) <= _MAX_READ else io.BytesIO(body)


def cause_of(error: BaseException) -> BaseException:
    """Return Python's exception about a connection that could not be opened, or ``error``."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error


def text_of(error: BaseException) -> str:
    """Return the text of an exception, without the bytes of a response that aiohttp may quote."""
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message.partition("\n")[0].rstrip(":")
    return str(error)


async def list_models(endpoint: Endpoint, timeout_s: float) -> HttpAnswer:
    """
    Return the answer to ``GET /models``.

    Raises:
        OSError: The server cannot be reached.
        TimeoutError: It did not answer in time.
        aiohttp.ClientError: It did not send a complete HTTP response.
    """
    async with asyncio.timeout(timeout_s), open_session(endpoint) as session:
        try:
            async with session.get(target(endpoint.models_url), allow_redirects=False) as response:
                return HttpAnswer(response.status, await response.read())
        except aiohttp.ClientConnectorError as error:
            raise cause_of(error) from error
