"""
Tests that every integration of an SDK must pass: derive a class, and pytest runs them.

The SDK sends its requests to a loopback server, which sends the replies of the class. Each test
compares what the application sees with and without the integration, or checks what latspan
recorded. Besides the integration of the class, those of HTTP clients may be on or off.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, Final, cast

from latspan import semconv
from latspan._live.instrument._discovery import instrumentor_of
from latspan._live.instrument._instrumentor import package_of
from latspan._live.process.runtime import current_runtime, override_runtime
from latspan._model.recording import Recorder, RequestRecord
from latspan._model.segments import Kind, Outcome
from latspan.integrations import Instrumentor
from latspan.testing._capture import Captured, capture
from latspan.testing._http import LAST_CHUNK, HttpRequest, encode_chunk, encode_head
from latspan.testing._loopback import ConnectionEnding, Loopback, Reply

__all__ = ["IntegrationContract", "Reply", "json_reply", "stream_reply"]

_ABSENT: Final = object()
_TRACE_CONTEXT: Final = frozenset({"traceparent", "tracestate"})
_PLACES: Final = re.compile(r"0x[0-9a-f]+|127\.0\.0\.1(:|\D{1,12})\d+|port=\d+")
"""Addresses in memory and on the network, which differ between two runs."""


def json_reply(body: Mapping[str, Any], *, status: int = 200) -> Reply:
    """
    Return a complete response with a JSON body.

    Args:
        body: The body.
        status: HTTP status.
    """
    data = json.dumps(body).encode()
    head = {"content-type": "application/json", "content-length": str(len(data))}
    return Reply((encode_head(status, head), data))


def stream_reply(
    *chunks: bytes,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """
    Return a streamed response, one write per chunk.

    Args:
        chunks: The bytes of each chunk: of one server-sent event, one JSON line or one message.
        content_type: Value of the header ``Content-Type``.
        headers: Further headers, for example those in which a server reports its time.
    """
    framing = {"content-type": content_type, "transfer-encoding": "chunked"}
    head = encode_head(200, {**framing, **(headers or {})})
    return Reply((head, *map(encode_chunk, chunks), LAST_CHUNK))


_Program = Callable[[Any], Awaitable[Any]]


class IntegrationContract:
    """
    Contract of one integration and one client of its SDK: ``class TestAcme(IntegrationContract)``.

    A synchronous and an asynchronous client are two classes. The methods that a derived class
    defines return what the SDK returns: an awaitable, if its client is asynchronous.
    """

    instrumentor: ClassVar[type[Instrumentor]]
    """Class of the integration."""

    model: ClassVar[str]
    """Model that :meth:`ask` and :meth:`ask_stream` request."""

    complete: ClassVar[Reply]
    """Reply of the server to the request of :meth:`ask`."""

    streamed: ClassVar[Reply]
    """
    Reply of the server to the request of :meth:`ask_stream`: at least two chunks with tokens.

    The test of a cut stream sends the head and the first chunk only.
    """

    input_tokens: ClassVar[int | None] = None
    """Number of input tokens that both replies report, ``None`` if they report none."""

    output_tokens: ClassVar[int | None] = None
    """Number of output tokens that both replies report, ``None`` if they report none."""

    finish_reason: ClassVar[str | None] = None
    """Finish reason that both replies report, ``None`` if they report none."""

    token_chunks: ClassVar[int]
    """Number of chunks of :attr:`streamed` that have a token, at least 2."""

    asynchronous: ClassVar[bool] = False
    """Whether the client is asynchronous."""

    def make_client(self, url: str) -> Any:
        """
        Return a client of the SDK, without retries.

        Args:
            url: Base URL of the server, for example ``http://127.0.0.1:8000``.
        """
        raise NotImplementedError

    def ask(self, client: Any) -> Any:
        """Request a complete response."""
        raise NotImplementedError

    def ask_stream(self, client: Any) -> Any:
        """Request a streamed response."""
        raise NotImplementedError

    def stream_in(self, result: Any) -> Any:
        """Return the stream inside the result of :meth:`ask_stream`; the default is the result."""
        return result

    def close_client(self, client: Any) -> Any:
        """Close a client; the default calls ``close`` if there is one."""
        close = getattr(client, "close", None)
        return close() if callable(close) else None

    # The tests.

    def test_a_complete_response_is_one_call(self) -> None:
        """Its model, tokens and outcome are recorded, and its segments sum to its duration."""
        with self._captured() as seen:
            self._run(self._ask, self.complete)
        self._check(seen, Outcome.COMPLETED)

    def test_a_stream_is_one_call(self) -> None:
        """The call has a time to its first token, and ends with the stream."""
        with self._captured() as seen:
            self._run(self._read, self.streamed)
        record = self._check(seen, Outcome.COMPLETED)
        assert "time_to_first_token" in record.metrics, "no chunk was classified as a token"
        found = len(record.chunk_gaps) + 1
        assert found == self.token_chunks, f"{found} chunks were classified as tokens"
        attributes = seen.spans[-1].attributes or {}
        assert attributes.get(semconv.GEN_AI_REQUEST_STREAM), "open_call needs streamed=True"

    def test_its_requests_are_attempts_of_the_call(self) -> None:
        """With the integrations of HTTP clients on, there is still one record per request."""
        for program, reply in ((self._ask, self.complete), (self._read, self.streamed)):
            with _http_clients_switched_on(), self._captured() as seen:
                _, requests = self._run(program, reply)
            names = [f"{record.kind} {record.name}" for record in seen.records]
            assert len(requests) == 1
            assert len(names) == 1, f"{names}: is `server` of open_call this server?"

    def test_a_stream_that_is_left_is_closed_early(self) -> None:
        """``break`` after the first chunk ends the call, without an error."""
        with self._captured() as seen:
            self._run(self._leave, self.streamed)
            gc.collect()
        (record,) = seen.records
        assert record.outcome is Outcome.CLOSED_EARLY, record.outcome

    def test_a_stream_that_is_never_read_ends(self) -> None:
        """A call whose stream is dropped ends; one that sends at its first read is not a call."""
        with self._captured() as seen:
            self._run(self._drop, self.streamed)
            gc.collect()
        outcomes = [record.outcome for record in seen.records]
        assert outcomes in ([], [Outcome.ABANDONED], [Outcome.CLOSED_EARLY]), outcomes

    def test_a_refused_request_is_rejected(self) -> None:
        """The HTTP status 429 is the outcome ``rejected``, with the SDK's own exception."""
        refusal = json_reply({"error": {"message": "too many requests"}}, status=429)
        with self._captured() as seen:
            result, _ = self._run(self._caught(self._ask), refusal)
        assert isinstance(result, list), "the SDK did not raise for the status 429"
        (record,) = seen.records
        assert record.outcome is Outcome.REJECTED, record.outcome

    def test_results_and_requests_are_the_same_with_and_without(self) -> None:
        """Only trace context is added to a request."""
        for program, reply in (
            (self._ask, self.complete),
            (self._read, self.streamed),
            (self._leave, self.streamed),
        ):
            bare = self._run(program, reply)
            with self._switched_on():
                assert self._run(program, reply) == bare, "not configured"
            with self._captured():
                assert self._run(program, reply) == bare, "configured"

    def test_errors_are_the_same_with_and_without(self) -> None:
        """The SDK's exceptions keep their classes, messages and causes."""
        refusal = json_reply({"error": {"message": "no such model"}}, status=404)
        cut = Reply(self.streamed.parts[:2], ending=ConnectionEnding.CLOSE)
        silent = Reply((), ending=ConnectionEnding.CLOSE)
        for program, reply in (
            (self._ask, refusal),
            (self._read, cut),
            (self._ask, silent),
        ):
            bare = self._run(self._caught(program), reply)
            with self._captured() as seen:
                assert self._run(self._caught(program), reply) == bare
            (record,) = seen.records
            assert record.outcome.failed or reply is cut, record.outcome

    def test_what_fails_inside_latspan_stays_there(self) -> None:
        """With a recorder that raises, the application gets its result."""
        bare = self._run(self._read, self.streamed)
        with self._captured() as seen, _broken_recorder():
            assert self._run(self._read, self.streamed) == bare
        assert seen.records == ()

    def test_suppressed_instrumentation_records_nothing(self) -> None:
        """OpenTelemetry's ``suppress_instrumentation`` is honoured."""
        from opentelemetry.instrumentation.utils import suppress_instrumentation

        with self._captured() as seen, suppress_instrumentation():
            self._run(self._ask, self.complete)
            self._run(self._read, self.streamed)
        assert seen.records == ()

    def test_switching_off_restores_the_same_objects(self) -> None:
        """Every class and module of the SDK has the identical objects as before."""
        self._run(self._read, self.streamed)
        before = self._attributes()
        with self._switched_on():
            self._run(self._read, self.streamed)
            patched = _differences(before, self._attributes())
        assert patched, "the integration patches nothing"
        assert _differences(before, self._attributes()) == []

    def test_patched_methods_look_like_the_originals(self) -> None:
        """Name, documentation and signature are kept, and a coroutine function remains one."""
        before = self._attributes()
        with self._switched_on():
            for owner, name in _differences(before, self._attributes()):
                original = before[owner].get(name, _ABSENT)
                if inspect.isfunction(original):
                    assert _look(vars(owner)[name]) == _look(original), f"{owner}.{name}"

    # What the tests have in common.

    async def _ask(self, client: Any) -> Any:
        return _shown(await self._settled(self.ask(client)))

    async def _read(self, client: Any) -> Any:
        result = await self._settled(self.ask_stream(client))
        chunks: list[str] = []
        stream = self.stream_in(result)
        if hasattr(stream, "__aiter__"):
            chunks.extend([_shown(chunk) async for chunk in stream])
        else:
            chunks.extend(map(_shown, stream))
        return [_shown(result), chunks]

    async def _leave(self, client: Any) -> Any:
        stream = self.stream_in(await self._settled(self.ask_stream(client)))
        if hasattr(stream, "__aiter__"):
            chunks = aiter(stream)
            first = _shown(await anext(chunks))
            for left in (chunks, stream):
                if hasattr(left, "aclose"):
                    await left.aclose()
            return first
        return _shown(next(iter(stream)))

    async def _drop(self, client: Any) -> Any:
        await self._settled(self.ask_stream(client))

    async def _settled(self, value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value
        assert self.asynchronous, "the client is asynchronous: set `asynchronous = True`"
        return await value

    def _caught(self, program: _Program) -> _Program:
        async def catch(client: Any) -> Any:
            try:
                return str(await program(client))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
                return _linked(error)

        return catch

    def _run(self, program: _Program, reply: Reply) -> tuple[Any, list[Any]]:
        """Return what a program saw, and the requests that the server received."""
        with Loopback([reply]) as server:

            async def visit() -> Any:
                client = self.make_client(server.url)
                try:
                    return await program(client)
                finally:
                    await self._settled(self.close_client(client))

            # A synchronous client works without an event loop, as in its application.
            run = asyncio.run if self.asynchronous else _run_without_loop
            result = run(visit())
            return result, [_comparable(visit.request) for visit in server.visits]

    @contextmanager
    def _switched_on(self) -> Generator[None]:
        integration = self.instrumentor()
        was_on = integration.is_instrumented_by_opentelemetry
        integration.instrument()
        required = ", ".join(integration.instrumentation_dependencies())
        assert integration.is_instrumented_by_opentelemetry, f"not installed: {required}"
        try:
            yield
        finally:
            if not was_on:
                integration.uninstrument()

    @contextmanager
    def _captured(self) -> Generator[Captured]:
        with self._switched_on(), capture() as seen:
            runtime = current_runtime()
            assert runtime is not None
            # An error in a function of the integration fails the test, instead of being logged.
            with override_runtime(replace(runtime, strict=True)):
                yield seen

    def _check(self, seen: Captured, outcome: Outcome) -> RequestRecord:
        calls = [record for record in seen.records if record.kind is Kind.CALL]
        assert len(calls) == 1, f"{len(calls)} calls were recorded"
        (record,) = calls
        assert record.outcome is outcome, record.outcome
        assert record.name.endswith(f" {self.model}"), record.name
        assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
        counts = record.tokens.input, record.tokens.output
        expected = self.input_tokens, self.output_tokens
        assert counts == expected, f"{counts} input and output tokens, not {expected}"
        attributes = seen.spans[-1].attributes or {}
        reasons = attributes.get(semconv.GEN_AI_RESPONSE_FINISH_REASONS)
        found = None if reasons is None else tuple(cast("Sequence[str]", reasons))
        reason = self.finish_reason
        assert found == (None if reason is None else (reason,)), f"the finish reason is {found}"
        return record

    def _attributes(self) -> dict[type | ModuleType, dict[str, Any]]:
        """Return the attributes of every module and class of the SDK."""
        package = package_of(self.instrumentor())
        held: dict[type | ModuleType, dict[str, Any]] = {}
        for name, module in list(sys.modules.items()):
            if f"{name}.".startswith(f"{package}."):
                held[module] = dict(vars(module))
                names: list[Any] = list(vars(module).values())
                for each in names:
                    if issubclass(type(each), type):
                        held[cast("type", each)] = dict(vars(cast("type", each)))
        return held


class _BrokenRecorder(Recorder):
    def record(self, record: RequestRecord) -> None:
        raise ZeroDivisionError(record.name)


@contextmanager
def _http_clients_switched_on() -> Generator[None]:
    """Switch the integrations of HTTP clients on inside the block."""
    names = ("httpx", "httpx2", "aiohttp", "requests", "urllib3")
    with ExitStack() as undone:
        for integration in map(instrumentor_of, names):
            if integration is not None and not integration.is_instrumented_by_opentelemetry:
                integration.instrument()
                undone.callback(integration.uninstrument)
        yield


@contextmanager
def _broken_recorder() -> Generator[None]:
    runtime = current_runtime()
    assert runtime is not None
    broken = replace(runtime, recorder=_BrokenRecorder(runtime.clock), strict=False)
    with override_runtime(broken):
        yield


def _run_without_loop(program: Coroutine[Any, Any, Any]) -> Any:
    """Run a program that never waits."""
    try:
        program.send(None)
    except StopIteration as end:
        return end.value
    finally:
        program.close()
    raise AssertionError("a synchronous client waited for an event loop")


def _shown(value: object) -> str:
    """Return what an application can see of an object, without addresses."""
    return f"{type(value).__qualname__} {_PLACES.sub('…', repr(value))}"


def _linked(error: BaseException | None) -> list[tuple[str, str]]:
    """Return the class and the message of an exception and of its causes."""
    linked: list[tuple[str, str]] = []
    while error is not None and len(linked) < 20:
        linked.append((type(error).__qualname__, _PLACES.sub("…", str(error))))
        error = error.__cause__ or error.__context__
    return linked


def _comparable(request: HttpRequest) -> tuple[str, str, list[str], bytes]:
    """Return a request without trace context and without values that signatures change."""
    names = sorted(name for name in request.headers if name.lower() not in _TRACE_CONTEXT)
    return request.method, request.path, names, request.body


_OF_THE_INTERPRETER: Final = frozenset({"__warningregistry__"})
"""Attributes that Python sets itself: this one when a line of the module causes a warning."""


def _differences(
    before: Mapping[type | ModuleType, Mapping[str, Any]],
    after: Mapping[type | ModuleType, Mapping[str, Any]],
) -> list[tuple[type | ModuleType, str]]:
    return [
        (owner, name)
        for owner, held in after.items()
        if owner in before  # A module may have been imported meanwhile.
        for name in sorted({*held, *before[owner]} - _OF_THE_INTERPRETER)
        if held.get(name, _ABSENT) is not before[owner].get(name, _ABSENT)
    ]


def _look(method: Any) -> list[object]:
    names = ("__name__", "__qualname__", "__module__", "__doc__")
    return [
        *(getattr(method, name) for name in names),
        inspect.iscoroutinefunction(method),
        str(inspect.signature(method)),
    ]
