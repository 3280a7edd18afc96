"""
Results of SDK methods: a stream is tracked to its end, and a complete response ends the call.

**Generators.** A generator has no class of its own that could be hooked, so the application
receives another generator, which reads the SDK's. Many SDKs send the request when the first chunk
is read. If no request was sent before, the first read is made inside ``Call.active()``. A generator
runs in the context of its reader, so ``active`` is left within the same step. After that, the
client library is considered to have returned the stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from types import AsyncGeneratorType, GeneratorType
from typing import Any, TypeVar, cast

from latspan._base.internal_errors import log_internal_error
from latspan._base.log import warn_once
from latspan._live.instrument._bodies import follows_bodies, track_body
from latspan._live.instrument._hooks import Call
from latspan._live.instrument._stream_classes import HOOKED, GeneratorTracker, track_stream
from latspan._live.instrument._streams import aiter_tracked, iter_tracked
from latspan._live.operations import ModelCall

_T = TypeVar("_T")


def track_response(call: Call, result: _T) -> _T:
    """
    Record what the SDK's method returned, and return the object that the application receives.

    Args:
        call: The open call.
        result: A stream, which ends the call when it ends or is left, or a complete response, which
            ends the call now. A stream is an instance of a class that :func:`patch_stream` has
            hooked, or a generator.

    Returns:
        ``result`` itself. For a generator: another generator of the same type that yields the same
        chunks.
    """
    opened = cast("ModelCall", call)
    try:
        # `__class__`, because another instrumentation may have returned a proxy of the stream.
        if getattr(result.__class__, HOOKED, False):
            opened.returned()
            track_stream(opened, result)
        elif isinstance(result, GeneratorType):
            return cast("Any", track_generator(opened, cast("Any", result)))
        elif isinstance(result, AsyncGeneratorType):
            return cast("Any", track_async_generator(opened, cast("Any", result)))
        else:
            if opened.reads is not None:
                kind = f"{type(result).__module__}.{type(result).__qualname__}"
                warn_once(
                    f"the stream of '{opened.name}' is a {kind}, which is not recorded;"
                    f" hint: its integration must call patch_stream(patches, {kind})",
                    about=f"the streams of {kind}",
                )
            opened.returned()
            opened.end_with_response(result)
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the response of a call")
    return cast("_T", result)


def track_contained(call: Call, stream: object, result: Any) -> bool:
    """
    Track a stream or an HTTP response that is inside the result of an SDK's method.

    Args:
        call: The open call.
        stream: The stream, or the response whose body the application reads.
        result: The result. If ``stream`` is an HTTP response, the result is recorded too.

    Returns:
        Whether it is tracked; a generator is not, because it would have to be replaced.
    """
    opened = cast("ModelCall", call)
    try:
        if getattr(stream.__class__, HOOKED, False):
            opened.returned()
            track_stream(opened, stream)
            return True
        attempt = opened.answering
        if attempt is not None and follows_bodies(stream):
            opened.returned()
            opened.keep_response(result)
            track_body(opened, attempt, stream)
            return True
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the response of a call")
    return False


def track_generator(call: ModelCall, source: Generator[_T]) -> Generator[_T]:
    """Return a generator that reads ``source`` and records each read."""
    started = source
    if call.attempts:
        call.returned()
    else:
        started = _started(source, call)
    return named_like(iter_tracked(started, GeneratorTracker(call), None), source)


def track_async_generator(call: ModelCall, source: AsyncGenerator[_T]) -> AsyncGenerator[_T]:
    """Return an asynchronous generator that reads ``source`` and records each read."""
    started = source
    if call.attempts:
        call.returned()
    else:
        started = _started_async(source, call)
    return named_like(aiter_tracked(started, GeneratorTracker(call), None), source)


def named_like(generator: _T, source: object) -> _T:
    """Return ``generator`` with the name of ``source``, as an application's debugger shows it."""
    ours, theirs = cast("Any", generator), cast("Any", source)
    ours.__name__, ours.__qualname__ = theirs.__name__, theirs.__qualname__
    return generator


def _started(source: Generator[_T], call: ModelCall) -> Generator[_T]:
    """Iterate ``source``, whose first step sends the request of ``call``."""
    inside = call.active()
    try:
        first = next(source)
    except BaseException as error:
        inside.leave()
        if isinstance(error, StopIteration):
            call.returned()
            return
        raise
    inside.leave()
    call.returned()
    yield first
    yield from source


async def _started_async(source: AsyncGenerator[_T], call: ModelCall) -> AsyncGenerator[_T]:
    """Iterate ``source``, whose first step sends the request of ``call``."""
    try:
        inside = call.active()
        try:
            first = await anext(source)
        except BaseException as error:
            inside.leave()
            if isinstance(error, StopAsyncIteration):
                call.returned()
                return
            raise
        inside.leave()
        call.returned()
        yield first
        async for chunk in source:
            yield chunk
    finally:
        await source.aclose()


def track_http_response(call: Call, response: Any, *, is_entered: bool) -> None:
    """
    Record an httpx or httpx2 response whose body the application reads itself.

    Args:
        call: The open call, which ends with the body.
        response: The response that the SDK's method returned.
        is_entered: Whether the response is used in ``with``, so that an exit will follow.
    """
    opened = cast("ModelCall", call)
    opened.returned()
    try:
        if response.is_closed:
            # The SDK has read the body before it returned the response.
            opened.end_with_response(response.content)
        elif (attempt := opened.answering) is not None and follows_bodies(response):
            body = track_body(opened, attempt, response)
            if is_entered:
                body.entered()
        else:
            # The body cannot be tracked, so the call ends at the return of the method.
            opened.end_with_response(None)
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the response of a call")
