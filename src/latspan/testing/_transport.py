"""
The scripted transport: a client library's own transport over a scripted network.

Everything from the connection pool upwards is the library's own: pool, HTTP/1.1, the ``trace``
events and all patches of ``handle_request``. Only the sockets and the time are simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Literal, overload

from latspan._base.clock import ManualClock
from latspan.errors import MissingExtraError
from latspan.testing._network import Network
from latspan.testing._script import Script

if TYPE_CHECKING:
    from latspan.testing import _transport_httpx as on_httpx
    from latspan.testing import _transport_httpx2 as on_httpx2


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
    Return a transport for a client of ``library``; its server follows scripts, timed by ``clock``.

    The server sends on its own schedule, which begins when the whole request has reached it. A read
    returns all data that has arrived by ``clock``, as TCP does; if there is none, it advances
    ``clock`` to the next arrival. ``transport.served_requests()`` returns what the server did, in
    readings of ``clock``; the client receives each part ``network_ns`` later.

    Args:
        scripts: Script of every response; if several, each request gets the next one, repeatedly.
            If the script is unreachable, the attempt to connect fails.
        clock: Clock to advance; share it with the tested code.
        library: The client library.
        asynchronous: Whether the client is asynchronous (on asyncio).
        connect_ns: Time to open a TCP connection in nanoseconds, name look-up included; if it
            exceeds the client's connect timeout, the connection fails.
        tls_ns: Duration of a TLS handshake, for ``https`` addresses.
        send_ns: Duration of sending a request, spent while the body is sent.
        network_ns: One-way delay between client and server.

    Raises:
        MissingExtraError: ``library`` is not installed.
        ValueError: There is no script, or a time is negative.
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
