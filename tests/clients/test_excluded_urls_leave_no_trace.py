"""A request whose URL is excluded has no span, no values and no trace context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from latspan import Kind
from latspan.testing import Script, capture
from tests.clients.conftest import Driver
from tests.support.loopback import Loopback, whole

Get = Callable[[str], None]


def _over_httpx(library: str) -> Get:
    return lambda url: import_module(library).get(url)


def _over_async_httpx(library: str) -> Get:
    async def program(url: str) -> None:
        async with import_module(library).AsyncClient() as client:
            await client.get(url)

    return lambda url: asyncio.run(program(url))


def _over_aiohttp(url: str) -> None:
    import aiohttp

    async def program() -> None:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            await response.read()

    asyncio.run(program())


def _over_requests(url: str) -> None:
    import_module("requests").get(url, timeout=10)


def _over_urllib3(url: str) -> None:
    with import_module("urllib3").PoolManager() as manager:
        manager.request("GET", url)


CASES: list[tuple[str, str, Get]] = [
    ("httpx", "HTTPX", _over_httpx("httpx")),
    ("httpx", "HTTPX", _over_async_httpx("httpx")),
    ("httpx2", "HTTPX", _over_httpx("httpx2")),
    ("httpx2", "HTTPX", _over_async_httpx("httpx2")),
    ("aiohttp", "AIOHTTP_CLIENT", _over_aiohttp),
    ("requests", "REQUESTS", _over_requests),
    ("urllib3", "URLLIB3", _over_urllib3),
]


@pytest.mark.parametrize(
    ("variable", "get"),
    [
        pytest.param(variable, get, id=f"{library} {variable} {at}")
        for at, (library, own, get) in enumerate(CASES)
        if find_spec(library) is not None
        for variable in ("OTEL_PYTHON_EXCLUDED_URLS", f"OTEL_PYTHON_{own}_EXCLUDED_URLS")
    ],
)
def test_only_what_is_excluded_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, variable: str, get: Get
) -> None:
    """The query is a part of the URL that is searched."""
    monkeypatch.setenv(variable, r"/health\?deep=1$,^https://")
    with Loopback([whole(), whole()]) as server, capture() as seen:
        get(f"{server.url}/health?deep=1")
        get(f"{server.url}/health?deep=0")
    assert len(seen.records) == 1
    assert len([span for span in seen.spans if span.parent is None]) == 1
    traced = ["traceparent" in visit.request.headers for visit in server.visits]
    assert traced == [False, True]


def test_a_call_whose_url_is_excluded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's call is recorded all the same, without its transport and without trace context."""
    monkeypatch.setenv("OTEL_PYTHON_EXCLUDED_URLS", "model.test")
    transport = driver.transport(Script.chat(tokens=2))

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    with capture(clock=driver.clock) as seen:
        driver.run(transport, program)
    (record,) = seen.records
    assert record.kind is Kind.CALL
    assert "latspan.attempt.count" not in (seen.spans[-1].attributes or {})
    assert "traceparent" not in transport.served_requests()[0].request_headers
