"""Behind a proxy `connect` is all that comes before the server, the proxy's own TLS too."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, capture
from tests.support.loopback import Loopback, whole
from tests.support.tls import CERTIFICATE, trusting_context

HELD_S = 0.05
"""How long the proxy thinks about a tunnel."""


def httpx_sends(library: str, *, asynchronous: bool) -> Any:
    """Return what asks once by a client of httpx's or of httpx2's."""
    http = import_module(library)

    def send(url: str, proxy: Loopback, *, trusts: bool) -> None:
        verify = trusting_context() if trusts else True
        through = http.Proxy(proxy.url, ssl_context=trusting_context() if proxy.secure else None)

        async def program() -> None:
            async with http.AsyncClient(proxy=through, verify=verify, trust_env=False) as client:
                await client.get(url)

        if asynchronous:
            asyncio.run(program())
        else:
            with http.Client(proxy=through, verify=verify, trust_env=False) as client:
                client.get(url)

    return send


def requests_sends(url: str, proxy: Loopback, *, trusts: bool) -> None:
    """Ask once by requests."""
    import requests

    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": proxy.url, "https": proxy.url}
        session.verify = str(CERTIFICATE) if trusts or proxy.secure else True
        session.get(url, timeout=10)


def aiohttp_sends(url: str, proxy: Loopback, *, trusts: bool) -> None:
    """Ask once by aiohttp."""
    import aiohttp

    async def program() -> None:
        verify: Any = {"ssl": trusting_context()} if trusts else {}
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, proxy=proxy.url, **verify) as response,
        ):
            await response.read()

    asyncio.run(program())


def _cases() -> list[Any]:
    cases: list[Any] = [
        pytest.param(httpx_sends(library, asynchronous=asynchronous), id=f"{library} {kind}")
        for library in ("httpx", "httpx2")
        if find_spec(library) is not None
        for kind, asynchronous in (("sync", False), ("async", True))
    ]
    if find_spec("requests") is not None:
        cases.append(pytest.param(requests_sends, id="requests"))
    if find_spec("aiohttp") is not None:
        cases.append(pytest.param(aiohttp_sends, id="aiohttp"))
    return cases


clients = pytest.mark.parametrize("send", _cases())
over_httpx = pytest.mark.parametrize("send", [case for case in _cases() if "httpx" in case.id])


def only(seen: Captured) -> RequestRecord:
    """Return the one record, whose segments tile it."""
    (record,) = seen.records
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def names(record: RequestRecord) -> list[str]:
    return [segment.name for segment in record.segments]


@clients
def test_the_wait_for_a_tunnel_is_connect(send: Any) -> None:
    """What the proxy took to grant it is in there, and `tls` is the server's handshake alone."""
    with (
        Loopback([whole()], secure=True) as server,
        Loopback([], tunnel_after_s=HELD_S) as proxy,
        capture() as seen,
    ):
        send(server.url, proxy, trusts=True)
    ((asked_ns, granted_ns),) = proxy.tunnels
    record = only(seen)
    assert record.outcome is Outcome.COMPLETED
    spent = {total.name: total.duration_ns for total in record.segment_totals}
    assert spent["connect"] >= granted_ns - asked_ns
    phases = [name for name in names(record)[:5] if name != "tls"]
    assert phases[:4] == ["prepare", "pool_wait", "connect", "send"]
    assert (root(seen)["server.port"], root(seen)["latspan.connection.reused"]) == (
        server.port,
        False,
    )


def root(seen: Captured) -> dict[str, Any]:
    """Return what the root span says."""
    (span,) = [span for span in seen.spans if span.parent is None]
    return dict(span.attributes or {})


@clients
def test_a_certificate_that_fails_behind_a_proxy(send: Any) -> None:
    """It is a failure of the handshake, not of a server that was never asked."""
    with (
        Loopback([], secure=True) as server,
        Loopback([], tunnel_after_s=HELD_S) as proxy,
        capture() as seen,
        pytest.raises(Exception, match=r"(?i)certificate"),
    ):
        send(server.url, proxy, trusts=False)
    ((asked_ns, granted_ns),) = proxy.tunnels
    record = only(seen)
    assert record.outcome is Outcome.ERROR
    assert "server_wait" not in names(record)
    spent = {total.name: total.duration_ns for total in record.segment_totals}
    assert spent["connect"] >= granted_ns - asked_ns


@clients
def test_a_proxy_that_grants_no_tunnel(send: Any) -> None:
    """The whole time is `connect`: nothing was sent to a server."""
    with (
        Loopback([], tunnel_after_s=HELD_S, tunnel_status=403) as proxy,
        capture() as seen,
        pytest.raises(Exception, match="403"),
    ):
        send("https://server.test/", proxy, trusts=True)
    ((asked_ns, refused_ns),) = proxy.tunnels
    record = only(seen)
    assert record.outcome is Outcome.ERROR
    assert not {"tls", "send", "server_wait"} & set(names(record))
    spent = {total.name: total.duration_ns for total in record.segment_totals}
    assert spent["connect"] >= refused_ns - asked_ns


@over_httpx
def test_a_proxy_that_speaks_tls(send: Any, request: pytest.FixtureRequest) -> None:
    """Its handshake is a part of `connect`."""
    if "httpx async" in request.node.name and version("httpx") == "0.27.0":
        pytest.skip("httpx 0.27.0 trusts the usual authorities for a proxy, whatever it is told")
    with (
        Loopback([whole()], secure=True) as server,
        Loopback([], secure=True, tunnel_after_s=HELD_S) as proxy,
        capture() as seen,
    ):
        send(server.url, proxy, trusts=True)
    ((asked_ns, granted_ns),) = proxy.tunnels
    record = only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert names(record)[:5] == ["prepare", "pool_wait", "connect", "tls", "send"]
    spent = {total.name: total.duration_ns for total in record.segment_totals}
    assert spent["connect"] >= granted_ns - asked_ns


@over_httpx
def test_a_proxy_without_a_tunnel(send: Any) -> None:
    """A plain request goes to the proxy as it is, and so do its phases."""
    with Loopback([whole()]) as proxy, capture() as seen:
        send("http://server.test/path", proxy, trusts=True)
    record = only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert names(record)[:5] == ["prepare", "pool_wait", "connect", "send", "server_wait"]
