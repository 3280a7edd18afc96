"""Wrappers of SDK methods that return a stream, a raw response or a complete response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from latspan._instrument._bodies import follows_bodies, track_body
from latspan._instrument._call import Call
from latspan._instrument._coroutines import impersonate
from latspan._instrument._outcomes import error_type_of, outcome_of
from latspan._instrument._stream_classes import track_stream
from latspan._operations import ModelCall, active_call
from latspan._runtime import current, handle_internal_errors, log_internal_error
from latspan._segments import Outcome

__all__ = ["CallFactory", "MethodWrappers", "RequestRewriter", "unless_inside", "with_names"]

_RAW: Final = "x-stainless-raw-response"
_START: Final = "the start of a call"
_INSIDE_WITH: Final = "stream"
"""Value of the header ``_RAW`` for raw responses that are only available inside ``with``."""

CallFactory = Callable[[Any, Mapping[str, Any]], Call | None]
"""
Function that opens a call, given the object that the method belongs to and the keyword arguments.
"""

RequestRewriter = Callable[[dict[str, Any]], dict[str, Any]]
"""
Function that returns the keyword arguments to send if ``request_stream_usage`` is configured.

It receives the caller's keyword arguments and does not modify them.
"""


def with_names(wrapper: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """
    Return a wrapper that turns positional arguments into keyword arguments for ``wrapper``.

    Args:
        wrapper: Replacement of a method, with the signature that wrapt uses.
        names: Names of the positional arguments, in order. A call that has more positional
            arguments, or one argument twice, bypasses ``wrapper``.
    """

    def call_method(
        wrapped: Callable[..., Any],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        named = dict(zip(names, args, strict=False))
        if len(args) > len(names) or named.keys() & kwargs.keys():
            # Either the call raises, or the method differs from the one that latspan supports.
            return wrapped(*args, **kwargs)
        return wrapper(wrapped, instance, (), {**named, **kwargs})

    return call_method


def unless_inside(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return a wrapper that bypasses ``wrapper`` inside an open call.

    Args:
        wrapper: Replacement of a method that other methods call, after those have opened a call.
    """

    def call_method(
        wrapped: Callable[..., Any],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if active_call() is not None:
            return wrapped(*args, **kwargs)
        return wrapper(wrapped, instance, args, kwargs)

    return call_method


class MethodWrappers:
    """
    Wrappers of the methods of one SDK that return a model's response.

    Args:
        streams: The SDK's stream classes, which are patched.
    """

    def __init__(self, *, streams: tuple[type, ...]) -> None:
        self._streams = streams

    def wrapper(
        self, call_factory: CallFactory, rewrite_request: RequestRewriter | None = None
    ) -> Callable[..., Any]:
        """
        Return the replacement of a synchronous method, with the signature that wrapt uses.

        Args:
            call_factory: Opens the calls of the method.
            rewrite_request: Returns the keyword arguments to send if ``request_stream_usage`` is
                configured; if not given, the caller's own arguments are sent.
        """

        def call_method(
            wrapped: Callable[..., Any],
            instance: Any,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            runtime = current()
            if runtime is None:
                return wrapped(*args, **kwargs)
            if rewrite_request is not None and runtime.request_stream_usage:
                kwargs = rewrite_request(kwargs)
            try:
                call = cast("ModelCall | None", call_factory(instance, kwargs))
            except Exception as error:  # noqa: BLE001 - latspan's own
                log_internal_error(error, _START)
                call = None
            if call is None:
                return wrapped(*args, **kwargs)
            inside = call.active()
            try:
                result = wrapped(*args, **kwargs)
            except BaseException as error:
                inside.leave()
                _fail(call, error)
                raise
            inside.leave()
            self._track_response(call, result)
            return result

        return call_method

    def async_wrapper(
        self, call_factory: CallFactory, rewrite_request: RequestRewriter | None = None
    ) -> Callable[..., Awaitable[Any]]:
        """Return the replacement of an asynchronous method; a call begins when it is awaited."""

        async def await_method(begun: Awaitable[Any], instance: Any, kwargs: dict[str, Any]) -> Any:
            try:
                call = cast("ModelCall | None", call_factory(instance, kwargs))
            except Exception as error:  # noqa: BLE001 - latspan's own
                log_internal_error(error, _START)
                call = None
            if call is None:
                return await begun
            call.watch_loop()
            inside = call.active()
            try:
                result = await begun
            except BaseException as error:
                inside.leave()
                _fail(call, error)
                raise
            inside.leave()
            self._track_response(call, result)
            return result

        def call_method(
            wrapped: Callable[..., Awaitable[Any]],
            instance: Any,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Awaitable[Any]:
            runtime = current()
            if runtime is None:
                return wrapped(*args, **kwargs)
            if rewrite_request is not None and runtime.request_stream_usage:
                kwargs = rewrite_request(kwargs)
            # An SDK raises for wrong arguments here, and starts nothing before it is awaited.
            begun = wrapped(*args, **kwargs)
            return impersonate(await_method(begun, instance, kwargs), begun)

        return call_method

    def _track_response(self, call: ModelCall, result: Any) -> None:
        """End the call if its response is complete, or track it if it is a stream."""
        call.returned()
        try:
            if not isinstance(result, self._streams):
                _end_or_track(call, result)
            elif call.api_format is not None:
                track_stream(call, call.api_format, result)
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the response of a call")


def _fail(call: ModelCall, error: BaseException) -> None:
    """End the call with the exception that it raised."""
    with handle_internal_errors("the response in an exception"):
        # A response that the SDK cannot parse, for example because it is cut off, still used
        # tokens.
        completion = getattr(error, "completion", None)
        if completion is not None:
            call.end_with_response(completion)
    call.end(outcome_of(error), error_type=error_type_of(error))


def _end_or_track(call: ModelCall, result: Any) -> None:
    """End the call if its response is complete, or track the body of a raw response."""
    response = getattr(result, "http_response", None)
    if response is None:
        call.end_with_response(result)
    elif response.is_closed:
        # The SDK has read the body before it returned the response.
        call.end_with_response(response.content)
    elif (attempt := call.answering) is not None and follows_bodies(response):
        body = track_body(call, attempt, response)
        if response.request.headers.get(_RAW) == _INSIDE_WITH:
            body.entered()
        return
    # The body of this raw response cannot be tracked: the call ends at the return of the method.
    call.reads = None
    call.end(Outcome.COMPLETED, done_ns=call.returned_ns)
