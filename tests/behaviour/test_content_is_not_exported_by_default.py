"""Content leaves the process only if its capture is enabled, and secrets never leave it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

import latspan
from latspan.testing import Ending, PayloadPart, Script, ScriptedServer, ScriptStep
from support.otlp import free_port
from support.receivers import Receiver, receiving

openai = pytest.importorskip("openai", reason="the openai client is not installed")
httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")
anthropic = pytest.importorskip("anthropic", reason="the anthropic client is not installed")
aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
requests = pytest.importorskip("requests", reason="requests is not installed")

CANARY: Final = "canary-7f3a"
SAID: Final = frozenset({"prompt", "earlier", "description", "answer", "thought", "argument"})
"""Places of content."""
SECRET: Final = frozenset({"key", "header", "query", "user", "password", "exception", "metadata"})
"""Places of text that must never leave the process, whatever is enabled."""

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def canary(place: str) -> str:
    """Return a unique text for ``place``."""
    assert place in SAID | SECRET
    return f"{CANARY}-{place}"


STEPS: Final = (
    ScriptStep(PayloadPart.ROLE),
    ScriptStep(PayloadPart.REASONING, text=canary("thought"), tokens=1),
    ScriptStep(PayloadPart.TEXT, text=canary("answer"), tokens=1),
    ScriptStep(PayloadPart.TOOL_CALL, text=f'{{"q":"{canary("argument")}"}}', tokens=1),
)


def _answer(ending: Ending = Ending.DONE, **more: Any) -> Script:
    return Script(steps=STEPS, ending=ending, error=canary("exception"), **more)


SCRIPTS: Final = {
    "answered": _answer(),
    "failing in the stream": _answer(Ending.ERROR),
    "truncated": _answer(Ending.TRUNCATED),
    "cut": _answer(Ending.CUT),
    "reset": _answer(Ending.RESET),
    "rejected": Script.refused(429, error=canary("exception")),
    "broken": Script.refused(500, error=canary("exception")),
    "too slow": _answer(prefill_ns=30_000_000_000),
}
TIMEOUT_S: Final = 0.5

MESSAGES: Final[Any] = [
    {"role": "user", "content": canary("prompt")},
    {"role": "assistant", "content": canary("earlier")},
]
TOOLS: Final[Any] = [
    {"type": "function", "function": {"name": "f", "description": canary("description")}}
]
HEADERS: Final = {"x-secret": canary("header")}
QUERY: Final = {"secret": canary("query")}


def _with_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{canary('user')}:{canary('password')}@{parts.netloc}").geturl()


def _openai_options(url: str) -> Any:
    return {
        "base_url": _with_credentials(url),
        "api_key": canary("key"),
        "max_retries": 1,
        "timeout": TIMEOUT_S,
    }


def _asked(*, stream: bool) -> Any:
    return {
        "model": "m",
        "messages": MESSAGES,
        "tools": TOOLS,
        "stream": stream,
        "user": canary("metadata"),
        "extra_headers": HEADERS,
        "extra_query": QUERY,
    }


def _openai(url: str, *, stream: bool) -> None:
    with openai.OpenAI(**_openai_options(url)) as client:
        answer = client.chat.completions.create(**_asked(stream=stream))
        for _ in answer if stream else ():
            pass


def _async_openai(url: str, *, stream: bool) -> None:
    async def ask() -> None:
        async with openai.AsyncOpenAI(**_openai_options(url)) as client:
            answer = await client.chat.completions.create(**_asked(stream=stream))
            if stream:
                async for _ in answer:
                    pass

    asyncio.run(ask())


def _responses(url: str, *, stream: bool) -> None:
    asked = _asked(stream=stream)
    tools = [{"type": "function", **tool["function"]} for tool in asked.pop("tools")]
    messages = asked.pop("messages")
    with openai.OpenAI(**_openai_options(url)) as client:
        answer = client.responses.create(**asked, input=messages, tools=tools)
        for _ in answer if stream else ():
            pass


def _anthropic(url: str, *, stream: bool) -> None:
    with anthropic.Anthropic(
        base_url=_with_credentials(url.removesuffix("/v1")),
        api_key=canary("key"),
        max_retries=1,
        timeout=TIMEOUT_S,
    ) as client:
        answer = client.messages.create(
            model="m",
            max_tokens=9,
            messages=MESSAGES,
            tools=[{"name": "f", "description": canary("description"), "input_schema": {}}],
            stream=stream,
            metadata={"user_id": canary("metadata")},
            extra_headers=HEADERS,
            extra_query=QUERY,
        )
        for _ in answer if stream else ():
            pass


def _body(*, stream: bool) -> dict[str, Any]:
    return {"model": "m", "messages": MESSAGES, "tools": TOOLS, "stream": stream}


def _bare_headers() -> dict[str, str]:
    return {**HEADERS, "x-key": canary("key")}


def _requests(url: str, *, stream: bool) -> None:
    with (
        requests.Session() as session,
        session.post(
            f"{_with_credentials(url)}/chat/completions",
            params=QUERY,
            headers=_bare_headers(),
            json=_body(stream=stream),
            timeout=TIMEOUT_S,
            stream=True,
        ) as response,
    ):
        for _ in response.iter_lines():
            pass


def _aiohttp(url: str, *, stream: bool) -> None:
    async def ask() -> None:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
            session.post(
                f"{_with_credentials(url)}/chat/completions",
                params=QUERY,
                headers=_bare_headers(),
                json=_body(stream=stream),
            ) as response,
        ):
            async for _ in response.content:
                pass

    asyncio.run(ask())


def _bare(library: Any) -> Callable[..., None]:
    def ask(url: str, *, stream: bool) -> None:
        with (
            library.Client(timeout=TIMEOUT_S) as client,
            client.stream(
                "POST",
                f"{_with_credentials(url)}/chat/completions",
                params=QUERY,
                headers=_bare_headers(),
                json=_body(stream=stream),
            ) as response,
        ):
            for _ in response.iter_lines():
                pass

    return ask


Ask = Callable[..., None]

CLIENTS: Final[dict[str, Ask]] = {
    "openai": _openai,
    "openai, async": _async_openai,
    "openai, responses": _responses,
    "anthropic": _anthropic,
    "aiohttp": _aiohttp,
    "requests": _requests,
    "httpx": _bare(httpx),
    "httpx2": _bare(httpx2),
}
"""Functions that request a chat from a server, by instrumented client."""


@dataclass(frozen=True, slots=True)
class Left:
    """
    Everything that left the process.

    Args:
        receiver: Received exports.
        folder: Written files.
        log: Logged messages.
    """

    receiver: Receiver
    folder: Path
    log: pytest.LogCaptureFixture

    def canaries(self) -> set[str]:
        """Return the places whose text is found in anything that left the process."""
        latspan.force_flush()
        latspan.shutdown()
        everything = [
            *(sent.SerializeToString() for sent in self.receiver.traces),
            *(sent.SerializeToString() for sent in self.receiver.metrics),
            *(sent.SerializeToString() for sent in self.receiver.logs),
            *(path.read_bytes() for path in self.folder.iterdir()),
            *(
                self.log.handler.format(record).encode()
                for record in self.log.records
                if record.name.partition(".")[0] == "latspan"
            ),
        ]
        # The test must not pass because nothing was exported.
        assert self.receiver.traces
        assert self.receiver.metrics
        assert self.receiver.logs
        assert list(self.folder.iterdir())
        places = {
            place
            for place in SAID | SECRET
            if any(canary(place).encode() in each for each in everything)
        }
        if not places:
            assert not any(CANARY.encode() in each for each in everything)
        return places


@pytest.fixture(scope="module", autouse=True)
def _instrumented() -> Iterator[None]:
    latspan.auto_instrument()
    yield
    latspan.uninstrument()


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(SCRIPTS["answered"]) as server:
        yield server


@pytest.fixture
def left(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Left]:
    """Outputs of a process in which everything except content capture is enabled."""
    monkeypatch.delenv(CAPTURE, raising=False)
    caplog.set_level(logging.DEBUG, logger="latspan")
    with receiving() as receiver:
        monkeypatch.setenv("LATSPAN_ENDPOINT", receiver.url)
        monkeypatch.setenv("LATSPAN_HISTOGRAM_LOG_DIR", str(tmp_path))
        monkeypatch.setenv("LATSPAN_EXPORT_RAW_HISTOGRAMS", "true")
        yield Left(receiver, tmp_path, caplog)
        latspan.shutdown()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_by_default_no_content_or_secret_leaves_the_process(
    model: ScriptedServer, left: Left, client: str, *, stream: bool
) -> None:
    """However the request ends."""
    latspan.configure()
    for script in SCRIPTS.values():
        model.use(script)
        with suppress(Exception), latspan.request("a request"):
            CLIENTS[client](model.base_url, stream=stream)
    with suppress(Exception), latspan.request("to nobody"):
        CLIENTS[client](f"http://127.0.0.1:{free_port()}/v1", stream=stream)

    assert left.canaries() == set()


def test_an_applications_exception_is_exported_as_its_type(
    model: ScriptedServer, left: Left
) -> None:
    """Raised in a unit of work, in a function, or while a stream is read."""

    @latspan.traced
    def fails() -> None:
        raise RuntimeError(canary("exception"))

    latspan.configure()
    model.use(SCRIPTS["answered"])
    with suppress(RuntimeError), latspan.request("a request"), latspan.stage("a stage"):
        fails()
    with suppress(RuntimeError), openai.OpenAI(**_openai_options(model.base_url)) as client:
        for _ in client.chat.completions.create(**_asked(stream=True)):
            fails()

    assert left.canaries() == set()
    errors = {
        attribute.value.string_value
        for span in left.receiver.all_spans
        for attribute in span.attributes
        if attribute.key == "error.type"
    }
    assert errors == {"RuntimeError"}


@pytest.mark.parametrize("client", CLIENTS)
def test_captured_content_is_on_spans_without_secrets(
    model: ScriptedServer, left: Left, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """However the request ends."""
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    latspan.configure()
    for script in SCRIPTS.values():
        model.use(script)
        with suppress(Exception):
            CLIENTS[client](model.base_url, stream=True)

    assert left.canaries() == SAID
    content = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions")
    elsewhere = [
        attribute.key
        for span in left.receiver.all_spans
        for attribute in span.attributes
        if CANARY in str(attribute.value) and attribute.key not in content
    ]
    assert elsewhere == []
    others = [*left.receiver.metrics, *left.receiver.logs]
    assert not any(CANARY.encode() in sent.SerializeToString() for sent in others)
