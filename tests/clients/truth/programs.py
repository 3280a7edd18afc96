"""The table of clients: programs that ask for chats, one a library and a way to use it."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
)
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import pytest

from support.apis import Api, api_named
from support.bedrock import CONVERSE, knows, make_client
from tests.clients.conftest import ANTHROPIC, MESSAGES, OPENAI
from tests.clients.truth.situations import SITUATIONS
from tests.support.tls import CERTIFICATE, trusting_context

_GOOD_BYE_S: Final = 10.0

Hear = Callable[[object], None]
"""Is given each item of an answer as the program has it."""

Chat = Callable[[Hear], None]
"""Asks for a chat and reads it whole."""

AsyncChat = Callable[[Hear], Awaitable[None]]

_ASKED: Final[dict[str, Any]] = {
    "model": "m",
    "messages": MESSAGES,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def _before(end: bytes) -> Callable[[bytes], bytes]:
    """Return what gives everything before the last ``end``."""
    return lambda data: data.rpartition(end)[0]


_WHOLE_EVENTS: Final = _before(b"\n\n")


def _whole_messages(data: bytes) -> bytes:
    """Return the binary messages that are complete; each begins with its length."""
    at = 0
    while len(data) >= at + 4:
        (size,) = struct.unpack_from(">I", data, at)
        if len(data) < at + size:
            break
        at += size
    return data[:at]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """
    What a program is told before it asks for its first chat.

    Args:
        url: Of the server, without a path.
        timeout_s: Seconds for which it waits for the next bytes.
        retries: How often it tries again by itself, if it can.
        headers: What else it sends with each request.
    """

    url: str
    timeout_s: float = 30
    retries: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def chat_url(self) -> str:
        """What a program without an SDK asks."""
        return f"{self.url}/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Program:
    """
    One client, and how it is used.

    Args:
        name: The library, and what else tells it from the others.
        needs: Packages without which it cannot run.
        opened: Gives, while its block lasts, how it has a chat.
        is_sdk: Whether it reads events, where others read bytes, and tries again by itself.
        look_up: The segment that the look-up of a name is in; ``None`` where the client remembers
            the address, and cannot be asked not to.
        hears_timings: Whether its API has a place for what a server reports of itself.
        whole: Gives the events of a body's beginning that are complete; for programs that read
            bytes.
        refuses: Situations whose events the SDK does not parse, because its API has others.
        parses_at_once: Whether the program has an event within a fraction of a millisecond.
        any_client: Whether it differs from another program only in the format of the answers.
    """

    name: str
    needs: tuple[str, ...]
    opened: Callable[[Setting], AbstractContextManager[Chat]]
    is_sdk: bool = False
    look_up: str | None = "connect"
    hears_timings: bool = True
    whole: Callable[[bytes], bytes] = _WHOLE_EVENTS
    refuses: tuple[str, ...] = ()
    parses_at_once: bool = True
    any_client: bool = False


@contextmanager
def _openai(setting: Setting) -> Generator[Chat]:
    openai = OPENAI.module
    http_client = openai.DefaultHttpxClient(verify=trusting_context())
    with openai.OpenAI(http_client=http_client, **_of_openai(setting)) as client:

        def chat(hear: Hear) -> None:
            for chunk in client.chat.completions.create(**_ASKED):
                hear(chunk)

        yield chat


@asynccontextmanager
async def _async_openai(setting: Setting) -> AsyncGenerator[AsyncChat]:
    openai = OPENAI.module
    http_client = openai.DefaultAsyncHttpxClient(verify=trusting_context())
    async with _async_openai_over(http_client, setting) as chat:
        yield chat


@asynccontextmanager
async def _openai_over_aiohttp(setting: Setting) -> AsyncGenerator[AsyncChat]:
    http_client = OPENAI.module.DefaultAioHttpClient(verify=trusting_context())
    async with _async_openai_over(http_client, setting) as chat:
        yield chat


@asynccontextmanager
async def _async_openai_over(http_client: Any, setting: Setting) -> AsyncGenerator[AsyncChat]:
    options = _of_openai(setting)
    async with OPENAI.module.AsyncOpenAI(http_client=http_client, **options) as client:

        async def chat(hear: Hear) -> None:
            async for chunk in await client.chat.completions.create(**_ASKED):
                hear(chunk)

        yield chat


def _of_openai(setting: Setting) -> dict[str, Any]:
    return {"base_url": f"{setting.url}/v1", **_of_an_sdk(setting)}


def _of_an_sdk(setting: Setting) -> dict[str, Any]:
    return {
        "api_key": "none",
        "max_retries": setting.retries,
        "timeout": setting.timeout_s,
        "default_headers": setting.headers,
    }


@contextmanager
def _anthropic(setting: Setting) -> Generator[Chat]:
    anthropic = ANTHROPIC.module
    with anthropic.Anthropic(
        base_url=setting.url,
        http_client=anthropic.DefaultHttpxClient(verify=trusting_context()),
        **_of_an_sdk(setting),
    ) as client:

        def chat(hear: Hear) -> None:
            for event in client.messages.create(**ANTHROPIC.asks, stream=True):
                hear(event)

        yield chat


@asynccontextmanager
async def _async_anthropic(setting: Setting) -> AsyncGenerator[AsyncChat]:
    anthropic = ANTHROPIC.module
    async with anthropic.AsyncAnthropic(
        base_url=setting.url,
        http_client=anthropic.DefaultAsyncHttpxClient(verify=trusting_context()),
        **_of_an_sdk(setting),
    ) as client:

        async def chat(hear: Hear) -> None:
            async for event in await client.messages.create(**ANTHROPIC.asks, stream=True):
                hear(event)

        yield chat


def _of_mistral(setting: Setting) -> dict[str, Any]:
    retries = import_module("mistralai.client.utils")
    again = retries.RetryConfig(
        "backoff", retries.BackoffStrategy(1, 1, 1.0, 60_000), retry_connection_errors=False
    )
    return {
        "api_key": "none",
        "server_url": setting.url,
        "timeout_ms": round(setting.timeout_s * 1000),
        **({"retry_config": again} if setting.retries else {}),
    }


def _http_of_mistral(kind: str) -> Any:
    """Return a client of the HTTP library that this version of the SDK sends through."""
    library = import_module("mistralai.client.basesdk").httpx
    return getattr(library, kind)(verify=trusting_context())


@contextmanager
def _mistral(setting: Setting) -> Generator[Chat]:
    with _http_of_mistral("Client") as http_client:
        client = import_module("mistralai.client").Mistral(
            client=http_client, **_of_mistral(setting)
        )

        def chat(hear: Hear) -> None:
            stream = client.chat.stream(
                model="m", messages=MESSAGES, http_headers=dict(setting.headers)
            )
            for event in stream:
                hear(event)

        yield chat


@asynccontextmanager
async def _async_mistral(setting: Setting) -> AsyncGenerator[AsyncChat]:
    async with _http_of_mistral("AsyncClient") as http_client:
        client = import_module("mistralai.client").Mistral(
            async_client=http_client, **_of_mistral(setting)
        )

        async def chat(hear: Hear) -> None:
            stream = await client.chat.stream_async(
                model="m", messages=MESSAGES, http_headers=dict(setting.headers)
            )
            async for event in stream:
                hear(event)

        yield chat


def _httpx(
    library: str, api: Api | None = None
) -> Callable[[Setting], AbstractContextManager[Chat]]:
    @contextmanager
    def opened(setting: Setting) -> Generator[Chat]:
        with import_module(library).Client(
            verify=trusting_context(), timeout=setting.timeout_s, headers=setting.headers
        ) as client:
            url = setting.chat_url if api is None else f"{setting.url}{api.path}"
            asked = _ASKED if api is None else api.body

            def chat(hear: Hear) -> None:
                with client.stream("POST", url, json=asked) as response:
                    for part in response.iter_bytes():
                        hear(part)

            yield chat

    return opened


def _async_httpx(library: str) -> Callable[[Setting], AbstractContextManager[Chat]]:
    @asynccontextmanager
    async def opened(setting: Setting) -> AsyncGenerator[AsyncChat]:
        async with import_module(library).AsyncClient(
            verify=trusting_context(), timeout=setting.timeout_s, headers=setting.headers
        ) as client:

            async def chat(hear: Hear) -> None:
                async with client.stream("POST", setting.chat_url, json=_ASKED) as response:
                    async for part in response.aiter_bytes():
                        hear(part)

            yield chat

    return _in_a_loop(opened)


@asynccontextmanager
async def _aiohttp(setting: Setting) -> AsyncGenerator[AsyncChat]:
    aiohttp: Any = import_module("aiohttp")
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusting_context(), use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(sock_read=setting.timeout_s),
        headers=setting.headers,
    ) as session:

        async def chat(hear: Hear) -> None:
            async with session.post(setting.chat_url, json=_ASKED) as response:
                async for part in response.content.iter_any():
                    hear(part)

        yield chat


@contextmanager
def _requests(setting: Setting) -> Generator[Chat]:
    import requests

    with requests.Session() as session:
        session.verify = str(CERTIFICATE)

        def chat(hear: Hear) -> None:
            with session.post(
                setting.chat_url,
                json=_ASKED,
                stream=True,
                timeout=setting.timeout_s,
                headers=setting.headers,
                # What a session says of this is overruled by the environment.
                verify=str(CERTIFICATE),
            ) as response:
                for part in response.iter_content(chunk_size=None):
                    hear(part)

        yield chat


@contextmanager
def _urllib3(setting: Setting) -> Generator[Chat]:
    import urllib3

    body = json.dumps(_ASKED).encode()
    with urllib3.PoolManager(
        ca_certs=str(CERTIFICATE), retries=False, timeout=setting.timeout_s, headers=setting.headers
    ) as manager:

        def chat(hear: Hear) -> None:
            response = manager.request("POST", setting.chat_url, body=body, preload_content=False)
            for part in response.stream():
                hear(part)
            response.release_conn()

        yield chat


@contextmanager
def _boto3(setting: Setting) -> Generator[Chat]:
    if not knows("ContentBlockDelta", "reasoningContent"):
        pytest.skip("this version of botocore drops reasoning")
    client = make_client(
        setting.url,
        attempts=setting.retries + 1,
        verify=str(CERTIFICATE),
        read_timeout=setting.timeout_s,
    )

    def add_headers(request: Any, **_: object) -> None:
        for name, value in setting.headers.items():
            request.headers[name] = value

    client.meta.events.register("before-send.bedrock-runtime", add_headers)

    def chat(hear: Hear) -> None:
        # botocore does not close the connection of a stream that fails.
        with closing(client.converse_stream(**CONVERSE)["stream"]) as stream:
            for event in stream:
                hear(event)

    try:
        yield chat
    finally:
        client.close()


def _in_a_loop(
    opened: Callable[[Setting], AbstractAsyncContextManager[AsyncChat]],
) -> Callable[[Setting], AbstractContextManager[Chat]]:
    """Return the same program for a caller that never waits: all its chats in one event loop."""

    @contextmanager
    def driven(setting: Setting) -> Generator[Chat]:
        with asyncio.Runner() as runner:
            program = opened(setting)
            chat = runner.run(program.__aenter__())

            async def waited_for(hear: Hear) -> None:
                await chat(hear)

            try:
                yield lambda hear: runner.run(waited_for(hear))
            finally:
                runner.run(program.__aexit__(None, None, None))
                runner.run(_connections_are_gone())

    return driven


async def _connections_are_gone() -> None:
    """Wait until the loop watches nothing but itself: TLS says good-bye when a client is closed."""
    loop: Any = asyncio.get_running_loop()
    watched = loop._selector.get_map()
    async with asyncio.timeout(_GOOD_BYE_S):
        # There is no event for it.
        while len(watched) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0)


_AIOHTTP_FOR_OPENAI: Final = "aiohttp" if OPENAI.library == "httpx2" else "httpx_aiohttp"

_MISTRALS: Final[dict[str, Any]] = {
    "is_sdk": True,
    "hears_timings": False,
    # Each event with a part of a tool call names the tool.
    "refuses": ("reasoning, then a tool call",),
    # The SDK makes a model of pydantic for each event, which takes a millisecond.
    "parses_at_once": False,
}

PROGRAMS: Final = (
    Program("openai", ("openai",), _openai, is_sdk=True),
    Program("openai-async", ("openai",), _in_a_loop(_async_openai), is_sdk=True),
    Program(
        "openai-aiohttp",
        ("openai", _AIOHTTP_FOR_OPENAI),
        _in_a_loop(_openai_over_aiohttp),
        is_sdk=True,
        look_up=None,
    ),
    Program("anthropic", ("anthropic",), _anthropic, is_sdk=True, hears_timings=False),
    Program(
        "anthropic-async",
        ("anthropic",),
        _in_a_loop(_async_anthropic),
        is_sdk=True,
        hears_timings=False,
    ),
    Program("boto3", ("boto3",), _boto3, is_sdk=True, look_up="dns", hears_timings=False),
    Program("mistral", ("mistralai",), _mistral, **_MISTRALS),
    Program("mistral-async", ("mistralai",), _in_a_loop(_async_mistral), **_MISTRALS),
    Program("httpx", ("httpx",), _httpx("httpx")),
    Program("httpx-async", ("httpx",), _async_httpx("httpx")),
    Program(
        "httpx-gemini",
        ("httpx",),
        _httpx("httpx", api_named("gemini")),
        hears_timings=False,
        whole=_before(b"\r\n\r\n"),
        any_client=True,
    ),
    Program(
        # It reports its timings, but counts the wait in a queue as the load of the model.
        "httpx-ollama",
        ("httpx",),
        _httpx("httpx", api_named("ollama")),
        hears_timings=False,
        whole=_before(b"\n"),
        any_client=True,
    ),
    Program(
        "httpx-bedrock",
        ("httpx",),
        _httpx("httpx", api_named("bedrock-converse")),
        hears_timings=False,
        whole=_whole_messages,
        any_client=True,
    ),
    Program("httpx2", ("httpx2",), _httpx("httpx2")),
    Program("httpx2-async", ("httpx2",), _async_httpx("httpx2")),
    Program("aiohttp", ("aiohttp",), _in_a_loop(_aiohttp), look_up="dns"),
    Program("requests", ("requests",), _requests, look_up="dns"),
    Program("urllib3", ("urllib3",), _urllib3, look_up="dns"),
)


_IS_BESIDE: Final = find_spec("opentelemetry.instrumentation.httpx") is not None
"""Whether this is the environment with other instrumentations, which has older SDKs."""


def _marks_of(program: Program) -> list[pytest.MarkDecorator]:
    missing = [package for package in program.needs if find_spec(package) is None]
    return [
        pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
        pytest.mark.skipif(
            _IS_BESIDE and not program.is_sdk, reason="the same version is tested in .venv"
        ),
        *([pytest.mark.any_client] if program.any_client else []),
    ]


def with_every_program_marked(
    marks: Mapping[str, Sequence[pytest.MarkDecorator]],
) -> pytest.MarkDecorator:
    """Mark a test that runs with each client, and give some clients, by name, further markers."""
    params = [
        pytest.param(
            program, id=program.name, marks=[*_marks_of(program), *marks.get(program.name, ())]
        )
        for program in PROGRAMS
    ]
    return pytest.mark.parametrize("program", params)


with_every_program = with_every_program_marked({})
"""Marks a test of what holds whatever the client."""

_SPREAD: Final = 3


def _pairs() -> Iterator[Any]:
    for number, program in enumerate(PROGRAMS):
        marks = _marks_of(program)
        for situation_number, situation in enumerate(SITUATIONS):
            further = [] if (number + situation_number) % _SPREAD == 0 else [pytest.mark.any_client]
            name = f"{situation.name}-{program.name}"
            yield pytest.param(program, situation, id=name, marks=[*marks, *further])


with_every_program_in_every_situation = pytest.mark.parametrize(
    ("program", "situation"), list(_pairs())
)
"""
Marks a test of what holds whatever the client and whatever happens.

Only the newest clients meet every situation: the others meet every third one, each client others
than the client before it.
"""
