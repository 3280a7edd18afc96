"""What a server says of its own time is read through the client, and nothing of it reaches back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from latspan.integrations import Outcome
from latspan.testing import Captured
from support.reports import GATEWAYS, SERVERS, Said, name_of
from tests.clients.conftest import Driver

pytestmark = pytest.mark.any_client

WORDS = ("one ", "two ", "three")
Headers = Mapping[str, str | bytes]

BODIES = [said for said in SERVERS if {"choices", "usage", "metrics"} & {*said.body}]
"""What an API like OpenAI's may hold."""


def _chat(driver: Driver, said: Mapping[str, Any], headers: Headers, *, stream: bool) -> list[Any]:
    """Return what the client got of an answer that also says ``said``."""
    head: dict[str, Any] = {"id": "a", "created": 1, "model": "m"}
    if stream:
        piece = {**head, "object": "chat.completion.chunk"}
        chunks = [{**piece, "choices": [{"index": 0, "delta": {"content": w}}]} for w in WORDS]
        chunks.append({**piece, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append({**piece, "choices": [], **said})
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        kind = "text/event-stream"
    else:
        message = {"role": "assistant", "content": "".join(WORDS)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {**said, **head, "object": "chat.completion", "choices": [choice]}
        text, kind = json.dumps(answer), "application/json"

    http = driver.http

    def respond(_request: Any) -> Any:
        fields = {"content-type": kind, **headers}.items()
        encoded = [(n.encode(), v if isinstance(v, bytes) else v.encode()) for n, v in fields]
        return http.Response(200, headers=encoded, content=text.encode())

    got: list[Any] = []

    async def program(client: Any) -> None:
        answer = await driver.create(client, stream=stream)
        if stream:
            await driver.read(answer, got.append)
        else:
            got.append(answer)

    driver.run(http.MockTransport(respond), program)
    return got


def _text(got: list[Any]) -> str:
    choices = [choice for answer in got for choice in answer.choices]
    return "".join((getattr(c, "delta", None) or c.message).content or "" for c in choices)


def _attributes(seen: Captured) -> dict[str, Any]:
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    return dict(span.attributes or {})


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("said", BODIES, ids=name_of)
def test_reports_in_a_body_are_read_through_the_client(
    driver: Driver, seen: Captured, said: Said, stream: bool
) -> None:
    """The SDK's objects keep what they do not know, and so do ours."""
    _chat(driver, said.body, said.headers, stream=stream)

    reported = {name for name in _attributes(seen) if name.startswith("latspan.reported.")}
    assert reported
    assert all(name.startswith(f"latspan.reported.{said.system}.") for name in reported)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("said", [s for s in (*SERVERS, *GATEWAYS) if s.headers], ids=name_of)
def test_reports_in_headers_are_read_through_the_client(
    driver: Driver, seen: Captured, said: Said, stream: bool
) -> None:
    """Whatever mapping the HTTP library has of them."""
    _chat(driver, {}, said.headers, stream=stream)

    attributes = _attributes(seen)
    assert any(name.startswith(f"latspan.reported.{said.system}.") for name in attributes)


(_TGI,) = (said for said in SERVERS if said.system == "tgi")
VLLM = {"time_to_first_token_ms": 500.0, "generation_time_ms": 900.0, "queue_time_ms": 200.0}
ABSURD: dict[str, tuple[str, dict[str, Any], Headers]] = {
    "longer than the call": ("vllm", {"metrics": VLLM}, {}),
    "negative": ("vllm", {"metrics": {**VLLM, "queue_time_ms": -1}}, {}),
    "no number": ("vllm", {"metrics": {**VLLM, "queue_time_ms": float("nan")}}, {}),
    "infinite": ("llama_cpp", {"timings": {**SERVERS[0].body["timings"], "prompt_ms": 1e999}}, {}),
    "too large": ("vllm", {"metrics": {**VLLM, "generation_time_ms": 10**400}}, {}),
    "a gateway's": ("gateway", {}, {"server-timing": "gateway;dur=86400000"}),
    "of years": ("tgi", {}, dict.fromkeys(_TGI.headers, "9" * 15)),
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(("system", "body", "headers"), ABSURD.values(), ids=ABSURD)
def test_what_cannot_be_is_counted_and_changes_nothing(
    driver: Driver,
    seen: Captured,
    system: str,
    body: Mapping[str, Any],
    headers: Headers,
    stream: bool,
) -> None:
    """The client has its answer as without latspan; the span says who was not believed."""
    got = _chat(driver, body, headers, stream=stream)

    assert _text(got) == "".join(WORDS)
    extra: dict[str, Any] = got[-1].model_extra or {}
    # As text, since one of them does not equal itself.
    assert {name: repr(extra[name]) for name in body} == {n: repr(v) for n, v in body.items()}
    attributes = _attributes(seen)
    assert attributes["latspan.evidence.rejected"] == (system,)
    assert seen.snapshot().metric("evidence_rejected").count() == 1


NOTHING: dict[str, Headers] = {
    "a megabyte": {"server-timing": "gateway;dur=" + "9" * 1_000_000},
    "a megabyte of entries": {"server-timing": "a;dur=1, " * 120_000},
    "a megabyte of digits": {"openai-processing-ms": "1" * 1_000_000},
    "no text": {"openai-processing-ms": b"\xff\xfe", "x-envoy-upstream-service-time": b"\x80"},
    "no text in an entry": {"server-timing": b"\xff;dur=5, gateway;dur=5"},
    "words": {"x-litellm-overhead-duration-ms": "None", "x-inference-time": "long"},
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("headers", NOTHING.values(), ids=NOTHING)
def test_headers_without_a_report_are_ignored(
    driver: Driver, seen: Captured, headers: Headers, stream: bool
) -> None:
    """Neither evidence nor a reason to doubt one."""
    got = _chat(driver, {}, headers, stream=stream)

    assert _text(got) == "".join(WORDS)
    assert "latspan.evidence.rejected" not in _attributes(seen)


def test_a_header_that_was_sent_twice_is_both(driver: Driver, seen: Captured) -> None:
    """A server and the gateway before it each add their own."""
    headers = {"server-timing": "queue;dur=1", "Server-Timing": "gateway;dur=2"}
    _chat(driver, {}, headers, stream=True)

    attributes = _attributes(seen)
    assert attributes["latspan.reported.server_timing.queue"] == 1
    assert attributes["latspan.reported.gateway.dur"] == 2
