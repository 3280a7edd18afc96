"""
The scripted transport: a client library's own transport over a scripted network.

Everything from the connection pool upwards is the library's: pool, HTTP/1.1, the ``trace`` events
and whatever is patched around ``handle_request``. Only the sockets and the time are not real.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Literal, overload

from latspan._clock import ManualClock
from latspan.errors import MissingExtraError
from latspan.testing._network import Network
from latspan.testing._script import Script

if TYPE_CHECKING:
    from latspan.testing import _transport_httpx as on_httpx
    from latspan.testing import _transport_httpx2 as on_httpx2

__all__ = ["scripted_transport"]


# fmt: off
@overload
def scripted_transport(
    scripts: Script | Iterable[Script], clock: ManualClock, *,
    library: Literal["httpx2"] = "httpx2", asynchronous: Literal[False] = False,
    connect_ns: int = 0, tls_ns: int = 0, send_ns: int = 0, network_ns: int = 0,
) -> on_httpx2.ScriptedTransport: ...
@overload
def scripted_transport(
    scripts: Script | Iterable[Script], clock: ManualClock, *,
    library: Literal["httpx2"] = "httpx2", asynchronous: Literal[True],
    connect_ns: int = 0, tls_ns: int = 0, send_ns: int = 0, network_ns: int = 0,
) -> on_httpx2.AsyncScriptedTransport: ...
@overload
def scripted_transport(
    scripts: Script | Iterable[Script], clock: ManualClock, *,
    library: Literal["httpx"], asynchronous: Literal[False] = False,
    connect_ns: int = 0, tls_ns: int = 0, send_ns: int = 0, network_ns: int = 0,
) -> on_httpx.ScriptedTransport: ...
@overload
def scripted_transport(
    scripts: Script | Iterable[Script], clock: ManualClock, *,
    library: Literal["httpx"], asynchronous: Literal[True],
    connect_ns: int = 0, tls_ns: int = 0, send_ns: int = 0, network_ns: int = 0,
) -> on_httpx.AsyncScriptedTransport: ...
# fmt: on
def scripted_transport(
    scripts: Script | Iterable[Script],
    clock: ManualClock,
    *,
    library: Literal["httpx", "httpx2"] = "httpx2",
    asynchronous: bool = False,
    connect_ns: int = 0,
    tls_ns: int = 0,
    send_ns: int = 0,
    network_ns: int = 0,
) -> (
    on_httpx.ScriptedTransport
    | on_httpx.AsyncScriptedTransport
    | on_httpx2.ScriptedTransport
    | on_httpx2.AsyncScriptedTransport
):
    """
    Return a transport for a client of ``library`` whose far end plays scripts on ``clock``.

    The server produces on its own schedule, counted from the instant at which the whole request
    has reached it. A read returns all data that has arrived by ``clock``, as TCP does, and
    otherwise advances ``clock`` to the next arrival. ``transport.served_requests()`` returns what
    the server did, in readings of ``clock``; the client has each piece ``network_ns`` later.

    Args:
        scripts: The script of every answer; of several, each request gets the next, over and
            over. One that is unreachable fails the connection attempt whose turn it is.
        clock: Whose time passes; share it with what is tested.
        library: The client library.
        asynchronous: Whether the client is asynchronous (on asyncio).
        connect_ns: What a TCP connection takes, name look-up included, in nanoseconds; beyond
            the client's connect timeout it fails.
        tls_ns: What a TLS handshake takes, for ``https`` addresses.
        send_ns: What sending a request takes, spent while the body is sent.
        network_ns: One way between client and server.

    Raises:
        MissingExtraError: ``library`` is not installed.
        ValueError: No script, or a negative time.
    """
    try:
        transports = import_module(f"latspan.testing._transport_{library}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("latspan"):
            raise
        raise MissingExtraError(library, extra=library) from error
    network = Network(
        scripts,
        clock,
        connect_ns=connect_ns,
        tls_ns=tls_ns,
        send_ns=send_ns,
        network_ns=network_ns,
    )
    if asynchronous:
        return transports.AsyncScriptedTransport(network)
    return transports.ScriptedTransport(network)
