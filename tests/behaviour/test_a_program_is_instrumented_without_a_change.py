"""An unchanged program yields the same traces as one that calls latspan itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from latspan.testing import Script, ScriptedServer
from support.otlp import attributes_of, await_listener, free_port
from support.programs import run_program, serving
from support.receivers import Receiver, receiving
from support.stillness import when_still

pytest.importorskip("openai", reason="the openai client is not installed")

REQUESTS: Final = 8
RUN: Final = (sys.executable, "-m", "latspan", "run", "--")

SpanContent = tuple[object, ...]
"""Content of a span without times and IDs."""

CHANCE: Final = ("network", "consumer", "server_wait")
"""
Segments that can be empty; an empty segment has no span.

``server_wait`` is the part of a measured wait that the server does not report, if any.
"""
LEFT_TO_CHANCE: Final = frozenset(
    # A chunk that was waiting for its reader has an estimated arrival.
    {"latspan.estimated_attributes", *(f"latspan.{part}.duration" for part in CHANCE)}
)


def answers() -> Iterator[Script]:
    """Yield the responses to the requests of ``programs/asks_a_model.py``, in order."""
    yield Script.chat(tokens=5, queue_ms=10, prefill_ms=10, gap_ms=10)
    yield Script.chat(tokens=2, prefill_ms=10, gap_ms=10)
    yield Script.chat(tokens=20, prefill_ms=10, gap_ms=10)
    yield Script.refused(500)
    yield Script.refused(429, retry_after_s=0.01)
    for _ in range(3):
        yield Script.chat(tokens=5, queue_ms=10, prefill_ms=10, gap_ms=10)


def opentelemetry_instrument() -> str:
    """Return the path of OpenTelemetry's command; it needs the package of the distro."""
    pytest.importorskip("opentelemetry.distro", reason="opentelemetry-distro is not installed")
    command = shutil.which("opentelemetry-instrument", path=str(Path(sys.executable).parent))
    assert command is not None
    return command


def spans_of(program: str, *under: str) -> tuple[str, list[SpanContent]]:
    """
    Run a program; return its output and the content of its spans, in order of their start.

    On a busy machine chunks arrive together and segments are missing; the run is then repeated.
    """
    return when_still(lambda: spans_once(program, *under))


def spans_once(program: str, *under: str) -> tuple[str, list[SpanContent]]:
    with receiving() as receiver, ScriptedServer(answers()) as model:
        printed = run_program(
            program,
            model.base_url,
            under=under,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            OTEL_LOGS_EXPORTER="none",
            # This instruments the same client; another test covers the combination.
            OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="openai",
        )
    spans = {span.span_id: span for span in receiver.all_spans}
    assert len(spans) == len(receiver.all_spans), "a span came twice"
    calls = [span for span in spans.values() if not span.parent_span_id]
    assert len(calls) == REQUESTS - 1, "one is tried twice"
    ordered = sorted(
        spans.values(), key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano)
    )
    return printed, [content_of(span, spans) for span in ordered if span.name not in CHANCE]


def content_of(span: Span, spans: dict[bytes, Span]) -> SpanContent:
    parent = spans.get(span.parent_span_id)
    attributes = {**attributes_of(span.attributes), "server.port": None}
    return (
        span.name,
        None if parent is None else parent.name,
        span.kind,
        span.status.code,
        sorted(
            (name, None if isinstance(it, float) else it)
            for name, it in attributes.items()
            if name not in LEFT_TO_CHANCE
        ),
    )


def assert_same(
    found: tuple[str, list[SpanContent]], expected: tuple[str, list[SpanContent]]
) -> None:
    """Compare output and spans; a failure shows the spans that only one program has."""
    assert found[0] == expected[0]
    spans, others = (set(map(repr, each[1])) for each in (found, expected))
    assert (sorted(spans - others), sorted(others - spans)) == ([], [])
    assert found[1] == expected[1]


@pytest.fixture(scope="module")
def by_hand() -> tuple[str, list[SpanContent]]:
    return spans_of("is_instrumented_by_hand")


@pytest.mark.alone
def test_its_traces_under_latspan_run(by_hand: tuple[str, list[SpanContent]]) -> None:
    """Names, parents, attributes and outcomes equal those of the manually instrumented program."""
    assert_same(spans_of("asks_a_model", *RUN), by_hand)


@pytest.mark.alone
@pytest.mark.parametrize("outside", [(), RUN], ids=["alone", "inside latspan run"])
@pytest.mark.parametrize("inside", [(), RUN], ids=["alone", "around latspan run"])
def test_its_traces_under_opentelemetrys_command(
    by_hand: tuple[str, list[SpanContent]], outside: tuple[str, ...], inside: tuple[str, ...]
) -> None:
    """The same traces through the distro's provider, with each span exported once."""
    under = (*outside, opentelemetry_instrument(), *inside)

    assert_same(spans_of("asks_a_model", *under), by_hand)


@pytest.mark.alone
def test_a_program_that_configures_latspan_keeps_its_configuration(
    by_hand: tuple[str, list[SpanContent]],
) -> None:
    """It is still instrumented only once."""
    assert_same(spans_of("is_instrumented_by_hand", *RUN), by_hand)


def test_a_program_may_import_the_exporters_http_library_first() -> None:
    """The exporter is not created during the import of `requests`, where this would fail."""
    asks = (
        "import requests, sys; requests.post(sys.argv[1] + '/chat/completions', timeout=30,"
        " json={'model': 'small', 'stream': True, 'messages': [{'role': 'user', 'content': 'x'}]})"
    )
    with receiving() as receiver, ScriptedServer(answers()) as model:
        done = subprocess.run(
            [*RUN, sys.executable, "-c", asks, model.base_url],
            env={**os.environ, "LATSPAN_ENDPOINT": receiver.url},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert calls_of(receiver) == 1


def test_programs_started_by_a_program_are_instrumented_too() -> None:
    """They are part of the application."""
    starts = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
    with receiving() as receiver, ScriptedServer(answers()) as model:
        run_program(
            "asks_a_model",
            model.base_url,
            under=(*RUN, sys.executable, "-c", starts),
            LATSPAN_ENDPOINT=receiver.url,
        )

    assert calls_of(receiver) == REQUESTS - 1


def test_the_workers_of_a_server_are_instrumented(tmp_path: Path) -> None:
    """They are forked, import the application, and end on the server's signal."""
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    port = free_port()
    with (
        receiving() as receiver,
        ScriptedServer(answers()) as model,
        serving(
            tmp_path / "log",
            *("latspan", "run", "--", sys.executable, "-m"),
            *("gunicorn", "asks_a_model_for_others:application", "--workers=2"),
            f"--bind=127.0.0.1:{port}",
            LATSPAN_ENDPOINT=receiver.url,
            OPENAI_BASE_URL=model.base_url,
            OPENAI_API_KEY="none",
        ) as server,
    ):
        await_listener(port)
        with urlopen(f"http://127.0.0.1:{port}") as answer:
            printed = answer.read()

    assert printed == b"text0 text1 text2 text3 text4 "
    assert server.returncode == 0
    assert calls_of(receiver) == 1


def calls_of(receiver: Receiver) -> int:
    return [span.name for span in receiver.all_spans].count("chat small")
