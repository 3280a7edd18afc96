"""What a client library hands back for a call: a stream, a raw response, or the whole answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from latspan._instrument._bodies import follows_bodies, track_body
from latspan._instrument._coroutines import impersonate
from latspan._instrument._outcomes import error_type_of, outcome_of
from latspan._instrument._stream_classes import follow
from latspan._operations import ModelCall, active_call
from latspan._runtime import current, handle_internal_errors, log_internal_error
from latspan._segments import Outcome

__all__ = ["Answers", "CallFactory", "RequestRewriter", "unless_inside", "with_names"]

_RAW: Final = "x-stainless-raw-response"
_INSIDE_WITH: Final = "stream"
"""What the SDKs send of raw responses that come only inside ``with``; of others, something else."""

CallFactory = Callable[[Any, Mapping[str, Any]], ModelCall | None]
"""Opens a call, given whose method it is and its keyword arguments."""

RequestRewriter = Callable[[dict[str, Any]], dict[str, Any]]
"""
What is asked where ``request_stream_usage`` is configured, given the keyword arguments of a method.

What was given is not changed.
"""


def with_names(wrapper: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """
    Return a wrapper that gives arguments their names before it calls ``wrapper``.

    Args:
        wrapper: Stands in for a method, as wrapt calls it.
        names: The names of the arguments that come by position, in order. A call that has more of
            them, or one of them twice, goes past ``wrapper``.
    """

    def call_method(
        wrapped: Callable[..., Any],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        named = dict(zip(names, args, strict=False))
        if len(args) > len(names) or named.keys() & kwargs.keys():
            # It raises, or it is not the method that is known here.
            return wrapped(*args, **kwargs)
        return wrapper(wrapped, instance, (), {**named, **kwargs})

    return call_method


def unless_inside(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return a wrapper that leaves alone what is called inside an open call.

    Args:
        wrapper: Stands in for a method that others, which open a call, call in turn.
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


class Answers:
    """
    Follows the methods of one SDK whose answer is a model's.

    Args:
        streams: The SDK's stream classes, which are patched.
    """

    def __init__(self, *, streams: tuple[type, ...]) -> None:
        self._streams = streams

    def wrapper(
        self, opener: CallFactory, asking: RequestRewriter | None = None
    ) -> Callable[..., Any]:
        """
        Return what stands in for a synchronous method, as wrapt calls it.

        Args:
            opener: Opens its calls.
            asking: Returns the keyword arguments to send if ``request_stream_usage`` is
                configured; the caller's own are sent if not given.
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
            if asking is not None and runtime.request_stream_usage:
                kwargs = asking(kwargs)
            call = _opened(opener, instance, kwargs)
            if call is None:
                return wrapped(*args, **kwargs)
            inside = call.active()
            try:
                answer = wrapped(*args, **kwargs)
            except BaseException as error:
                inside.leave()
                _fail(call, error)
                raise
            inside.leave()
            self._hand_over(call, answer)
            return answer

        return call_method

    def async_wrapper(
        self, opener: CallFactory, asking: RequestRewriter | None = None
    ) -> Callable[..., Awaitable[Any]]:
        """Return what stands in for an asynchronous method; a call begins when it is awaited."""

        async def await_method(begun: Awaitable[Any], instance: Any, kwargs: dict[str, Any]) -> Any:
            call = _opened(opener, instance, kwargs)
            if call is None:
                return await begun
            inside = call.active()
            try:
                answer = await begun
            except BaseException as error:
                inside.leave()
                _fail(call, error)
                raise
            inside.leave()
            self._hand_over(call, answer)
            return answer

        def call_method(
            wrapped: Callable[..., Awaitable[Any]],
            instance: Any,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Awaitable[Any]:
            runtime = current()
            if runtime is None:
                return wrapped(*args, **kwargs)
            if asking is not None and runtime.request_stream_usage:
                kwargs = asking(kwargs)
            # An SDK refuses wrong arguments here and now, and begins nothing before it is awaited.
            begun = wrapped(*args, **kwargs)
            return impersonate(await_method(begun, instance, kwargs), begun)

        return call_method

    def _hand_over(self, call: ModelCall, answer: Any) -> None:
        """End the call where its answer is whole, or follow the stream that it is."""
        call.returned()
        try:
            if not isinstance(answer, self._streams):
                _end_or_follow(call, answer)
            elif call.dialect is not None:
                follow(call, call.dialect, answer)
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the answer of a call")


def _opened(opener: CallFactory, instance: Any, kwargs: Mapping[str, Any]) -> ModelCall | None:
    try:
        return opener(instance, kwargs)
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the start of a call")
        return None


def _fail(call: ModelCall, error: BaseException) -> None:
    """End the call with what it raised."""
    with handle_internal_errors("the answer in an exception"):
        # What the SDK cannot parse, being cut off for example, was generated and has its price.
        completion = getattr(error, "completion", None)
        if completion is not None:
            call.answered(completion)
    call.finish(outcome_of(error), error_type=error_type_of(error))


def _end_or_follow(call: ModelCall, answer: Any) -> None:
    """End the call where its answer is whole, or follow the body of a raw response."""
    response = getattr(answer, "http_response", None)
    if response is None:
        call.answered(answer)
    elif response.is_closed:
        # Read by the SDK before it was handed over.
        call.answered(response.content)
    elif (attempt := call.answering) is not None and follows_bodies(response):
        body = track_body(call, attempt, response)
        if response.request.headers.get(_RAW) == _INSIDE_WITH:
            body.entered()
        return
    # A raw response that nobody follows: the call ends where we lose sight of it.
    call.reads = None
    call.finish(Outcome.COMPLETED, done_ns=call.returned_ns)
