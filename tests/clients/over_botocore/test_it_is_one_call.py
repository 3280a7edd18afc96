"""A call of Bedrock is one span with its attempts, whatever botocore does to send its request."""

from __future__ import annotations

import gc
import json
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured
from latspan.testing._loopback import Loopback, Reply, whole
from latspan.testing.contract import json_reply
from latspan_instrumentation.botocore._requests import open_request
from support.bedrock import (
    COMPLETE,
    CONVERSE,
    INVOKED,
    STREAMED,
    ask,
    attributes_in,
    call_in,
    event_stream,
    exception,
    invoke,
    knows,
    make_client,
    message,
    read,
    run,
)

Program = Callable[[Any], object]


@pytest.fixture
def no_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let botocore retry at once."""

    class Time:
        @staticmethod
        def sleep(_seconds: float) -> None:
            pass

    monkeypatch.setattr("botocore.endpoint.time", Time)


class WhileRead(threading.Semaphore):
    """
    Turns that a server takes only while this thread waits for its socket.

    On a busy machine, a part may otherwise arrive before the client reads on.
    """

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self._reader = threading.get_ident()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Wait for a release, and then until the read has lasted for some milliseconds."""
        if not super().acquire(blocking, timeout):
            return False
        until = None if timeout is None else time.monotonic() + timeout
        while self._is_outside_of_a_read():
            if until is not None and time.monotonic() >= until:
                # The server asks again, unless the test has ended.
                self.release()
                return False
            time.sleep(0.001)
        time.sleep(0.005)
        return True

    def _is_outside_of_a_read(self) -> bool:
        frame = sys._current_frames().get(self._reader)  # pyright: ignore[reportPrivateUsage]
        return frame is not None and frame.f_code is not socket.SocketIO.readinto.__code__


def test_a_conversation_has_the_phases_of_its_connection(seen: Captured) -> None:
    """A new connection, the wait and the tokens are segments of the one call."""
    # A part is sent once the client has read the last one, so that no read has two of them.
    turns = WhileRead(1)

    def converse(client: Any) -> None:
        with closing(client.converse_stream(**CONVERSE)["stream"]) as stream:
            for event in stream:
                if "contentBlockDelta" in event:
                    turns.release()
                if "contentBlockStop" in event:
                    turns.release(2)

    run(converse, replace(STREAMED, turns=turns))
    names = {segment.name for segment in call_in(seen).segments}
    assert {"tcp", "send", "server_wait", "decode"} <= names
    assert ("reasoning" in names) is knows("ContentBlockDelta", "reasoningContent")


@pytest.mark.parametrize(
    ("program", "reply"),
    [
        pytest.param(ask, COMPLETE, id="converse"),
        pytest.param(read, STREAMED, id="converse_stream"),
        pytest.param(invoke, INVOKED, id="invoke_model"),
    ],
)
def test_trace_context_is_sent_once_and_the_signature_holds(
    program: Program, reply: Reply, seen: Captured
) -> None:
    """Botocore signs before latspan adds the header, so a server that verifies must not mind."""
    server = run(program, reply)
    (visit,) = server.visits
    sent = [name.lower() for name in visit.request.headers]
    assert sent.count("traceparent") == 1
    context = f"00-{call_in(seen).trace_id:032x}-{call_in(seen).span_id:016x}"
    assert visit.request.headers["traceparent"].startswith(context)
    assert "traceparent" not in visit.request.headers["authorization"]
    assert _signature(server.url, visit.request) in visit.request.headers["authorization"]


def _signature(url: str, request: Any) -> str:
    """Return the signature that AWS computes from the headers that are signed."""
    auth: Any = import_module("botocore.auth")
    awsrequest: Any = import_module("botocore.awsrequest")
    credentials = import_module("botocore.credentials").Credentials("AKID", "secret")
    headers = {name.lower(): value for name, value in request.headers.items()}
    signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    verified = awsrequest.AWSRequest(
        method=request.method,
        url=url + request.path,
        data=request.body,
        headers={name: headers[name] for name in signed.split(";")},
    )
    verified.context["timestamp"] = headers["x-amz-date"]
    signer = auth.SigV4Auth(credentials, "bedrock", "eu-west-1")
    to_sign = signer.string_to_sign(verified, signer.canonical_request(verified))
    return signer.signature(to_sign, verified)


@pytest.mark.parametrize("mode", ["standard", "legacy"])
def test_retries_are_attempts_of_one_call(mode: str, seen: Captured, no_back_off: None) -> None:
    """Each attempt is signed anew, and has the trace context of the same span."""
    refusals = [_refusal(429), _refusal(503)]
    server = run(read, *refusals, STREAMED, attempts=3, mode=mode)

    record = call_in(seen)
    assert record.outcome is Outcome.COMPLETED
    (span,) = (span for span in seen.spans if span.parent is None)
    assert (span.attributes or {})["latspan.attempt.count"] == 3
    statuses = [
        (span.attributes or {})["http.response.status_code"]
        for span in sorted(seen.spans, key=lambda span: span.start_time or 0)
        if "http.response.status_code" in (span.attributes or {})
    ]
    assert statuses == [429, 503, 200]
    headers = [visit.request.headers for visit in server.visits]
    assert len({each["traceparent"] for each in headers}) == 1
    assert len({each["amz-sdk-request"] for each in headers}) == 3


def _refusal(status: int, **headers: Any) -> Reply:
    body = json.dumps({"message": "slow down"}).encode()
    names = {429: "ThrottlingException", 503: "ServiceUnavailableException", 408: "ModelTimeout"}
    kind = names.get(status, "ValidationException")
    return whole(body, status=status, x_amzn_errortype=f"{kind}:http://x/", **headers)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        pytest.param(_refusal(429), Outcome.REJECTED, id="throttled"),
        pytest.param(_refusal(503, retry_after="1"), Outcome.REJECTED, id="come back later"),
        pytest.param(_refusal(503), Outcome.ERROR, id="unavailable"),
        pytest.param(_refusal(400), Outcome.ERROR, id="invalid"),
    ],
)
@pytest.mark.usefixtures("transports")
def test_the_status_is_the_outcome(reply: Reply, outcome: Outcome, seen: Captured) -> None:
    """Botocore's exceptions have the status in a mapping."""
    errors: Any = import_module("botocore.exceptions")
    status = reply.parts[0].split()[1].decode()
    with pytest.raises(errors.ClientError, match="slow down"):
        run(ask, reply)
    assert (call_in(seen).outcome, attributes_in(seen)["error.type"]) == (outcome, status)


@pytest.mark.parametrize("name", ["throttlingException", "modelStreamErrorException"])
@pytest.mark.usefixtures("transports")
def test_an_exception_inside_a_stream_is_an_error(name: str, seen: Captured) -> None:
    """The status was 200, so the service's own code is the type of the error."""
    errors: Any = import_module("botocore.exceptions")
    begun = message("messageStart", {"role": "assistant"})
    reply = event_stream(begun, exception(name, {"message": "slow down"}))
    with pytest.raises(errors.EventStreamError, match="slow down"):
        run(read, reply)
    assert (call_in(seen).outcome, attributes_in(seen)["error.type"]) == (Outcome.ERROR, name)


@pytest.mark.parametrize("reply", [Reply(()), Reply(STREAMED.parts[:2])], ids=["head", "stream"])
@pytest.mark.usefixtures("transports")
def test_a_read_that_takes_too_long_is_a_timeout(reply: Reply, seen: Captured) -> None:
    """Before the response, and inside the stream."""
    urllib3: Any = import_module("urllib3.exceptions")
    botocore: Any = import_module("botocore.exceptions")
    with pytest.raises((urllib3.ReadTimeoutError, botocore.ReadTimeoutError)):
        run(read, reply, read_timeout=0.1)
    assert call_in(seen).outcome is Outcome.TIMEOUT


def test_a_server_that_cannot_be_reached_is_an_error(seen: Captured) -> None:
    """The exception is botocore's."""
    botocore: Any = import_module("botocore.exceptions")
    with Loopback([]) as server:
        url = server.url
    client = make_client(url)
    with pytest.raises(botocore.EndpointConnectionError):
        ask(client)
    client.close()
    assert call_in(seen).outcome is Outcome.ERROR
    assert attributes_in(seen)["error.type"] == "botocore.exceptions.EndpointConnectionError"


def test_other_operations_and_models_are_not_calls(seen: Captured) -> None:
    """Only their HTTP exchanges are recorded."""
    run(lambda client: invoke(client, "amazon.titan-image-generator-v2:0", "{}"), INVOKED)
    run(lambda client: invoke(client, "cohere.rerank-v3-5:0", "{}"), INVOKED)
    run(_list_guardrails, json_reply({"guardrails": []}), service="bedrock")
    assert [record.kind for record in seen.records] == [Kind.HTTP] * 3


def test_an_operation_of_the_same_name_of_another_service_is_not_a_call(seen: Captured) -> None:
    """No service has one today."""
    client = SimpleNamespace(
        meta=SimpleNamespace(
            service_model=SimpleNamespace(service_name="other"), endpoint_url="http://127.0.0.1"
        )
    )
    assert open_request(client, {"operation_name": "Converse", "api_params": CONVERSE}) is None


def _list_guardrails(client: Any) -> None:
    client.list_guardrails()


def test_a_method_that_the_application_has_replaced_gets_the_same_arguments(
    seen: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mock may have other names for them."""
    latspan.uninstrument("latspan_botocore")
    client_class: Any = import_module("botocore.client").BaseClient

    def mocked(_client: Any, operation: str, arguments: Any) -> Any:
        return {"output": {}, "stopReason": operation, "usage": {"inputTokens": len(arguments)}}

    monkeypatch.setattr(client_class, "_make_api_call", mocked)
    latspan.auto_instrument()
    try:
        result = run(ask)
    finally:
        latspan.uninstrument("latspan_botocore")
        monkeypatch.undo()
        latspan.auto_instrument()
    assert result.visits == []
    assert call_in(seen).tokens.input == 2


def test_a_stream_is_freed_with_its_last_reference(seen: Captured) -> None:
    """Neither the stream nor its call is part of a cycle that only the collector would free."""
    alive: list[weakref.ref[Any]] = []

    def program(client: Any) -> None:
        stream = client.converse_stream(**CONVERSE)["stream"]
        list(stream)
        alive.append(weakref.ref(stream))

    gc.collect()
    gc.disable()
    try:
        run(program, STREAMED)
        assert alive[0]() is None
    finally:
        gc.enable()
    assert call_in(seen).outcome is Outcome.COMPLETED
