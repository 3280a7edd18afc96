"""
Patches of the SDK methods that return a model's response.

**Kinds of methods.** When a method sends its request depends on the kind of function it is:

- A plain function sends it before it returns. The call is opened before the function runs.
- A coroutine function sends it when its coroutine is awaited, and raises for wrong arguments when
  it is called. The call is opened when the coroutine is awaited.
- A generator function, synchronous or asynchronous, sends it when the first chunk is read. The call
  is opened by the first read.

For wrong arguments, a patched method raises at the same point as the original method. Its result
has the same type. The original method is called exactly once. It receives the arguments of the
caller; only with ``request_stream_usage``, latspan may change them.

**Order.** ``open_call`` runs first. Then the code of the original method runs inside
``Call.active()``, so that its requests are attempts of the call. (The code of a coroutine function
or a generator function runs only at its first step, not when the function is called.) ``active`` is
left before anything else happens, and the result goes to :func:`track_response`, which ends the
call or tracks the stream. An exception of the original method ends the call and propagates
unchanged; an exception of latspan is logged.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from typing import Any

from latspan._base.internal_errors import handle_internal_errors, log_internal_error
from latspan._live.instrument._hooks import Call, requests_usage
from latspan._live.instrument._outcomes import failure_of
from latspan._live.instrument._patching import Patches, Wrapper, impersonate
from latspan._live.instrument._responses import (
    named_like,
    track_async_generator,
    track_contained,
    track_generator,
    track_response,
)
from latspan._live.operations import ModelCall, active_operation
from latspan._live.process.runtime import current_runtime

_START = "the start of a call"

CallFactory = Callable[[Any, Mapping[str, Any]], Call | None]
"""
Function that opens a call, given the object that the method belongs to and the keyword arguments.
"""


def patch_method(
    patches: Patches,
    cls: type,
    name: str,
    open_call: Callable[[Any, Mapping[str, Any]], Call | None],
    *,
    positional: tuple[str, ...] = (),
    stream_of: Callable[[Any], Any] | None = None,
) -> None:
    """
    Record each call of an SDK's method that returns a model's response.

    The method may be a plain function, a coroutine function, or a synchronous or asynchronous
    generator function. Its result may be a complete response, an instance of a class that
    :func:`patch_stream` has hooked, or a generator. An open call ends with the last chunk, or when
    the application leaves the stream.

    Args:
        patches: Applies and removes the patch.
        cls: Class that has the method.
        name: Name of the method.
        open_call: Opens the call, given the object that the method belongs to and the arguments by
            their names. It returns ``None`` for a request that is not to be recorded.
        positional: Names of the arguments that may be passed by position, in order and without
            ``self``. A call with more positional arguments is not recorded.
        stream_of: Returns the stream inside the method's result, for example the value of a key, or
            ``None`` if there is none. The stream may also be the HTTP response whose body the
            application reads: if the integration of its HTTP client is on, the call ends with the
            body. If not given, the result itself is the stream or the response.

    Raises:
        InstrumentationError: The class has no such method.
    """

    def track(call: Call, result: Any) -> Any:
        stream = None if stream_of is None else stream_of(result)
        if stream is None or not track_contained(call, stream, result):
            return track_response(call, result)
        return result

    method = ModelMethod(open_call, respond=track_response if stream_of is None else track)
    wrapper = method.wrapper(getattr(cls, name, None))
    if positional:
        wrapper = with_names(wrapper, *positional, keeps_arguments=True)
    patches.wrap_innermost(cls, name, wrapper)


def with_names(wrapper: Wrapper, *names: str, keeps_arguments: bool = False) -> Wrapper:
    """
    Return a wrapper that turns positional arguments into keyword arguments for ``wrapper``.

    Args:
        wrapper: Replacement of a method, with the signature that wrapt uses.
        names: Names of the positional arguments, in order. A call that has more positional
            arguments, or one argument twice, bypasses ``wrapper``.
        keeps_arguments: Whether the method receives the arguments as the caller passed them, and
            not those that ``wrapper`` passes. The application may have replaced the method by a
            function with other names, for example by a mock.
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

        def call_as_passed(**_: Any) -> Any:
            return wrapped(*args, **kwargs)

        method = call_as_passed if keeps_arguments else wrapped
        return wrapper(method, instance, (), {**named, **kwargs})

    return call_method


def unless_inside(wrapper: Wrapper) -> Wrapper:
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
        if active_operation() is not None:
            return wrapped(*args, **kwargs)
        return wrapper(wrapped, instance, args, kwargs)

    return call_method


def _no_response(error: BaseException) -> object:
    del error


class ModelMethod:
    """
    Replacement of an SDK method that returns a model's response.

    Args:
        open_call: Opens the calls of the method.
        respond: Ends the call with the method's result, or tracks the result; returns the object
            that the application receives.
        rewrite_request: Returns the keyword arguments to send if ``request_stream_usage`` is
            configured. It receives the caller's and does not modify them. If not given, the
            caller's own arguments are sent.
        response_in: Returns the response that an exception of the SDK holds, ``None`` if it holds
            none.
    """

    __slots__ = ("_open", "_respond", "_response_in", "_rewrite")

    def __init__(
        self,
        open_call: CallFactory,
        *,
        respond: Callable[[Call, Any], Any] = track_response,
        rewrite_request: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        response_in: Callable[[BaseException], object] = _no_response,
    ) -> None:
        self._open = open_call
        self._respond = respond
        self._rewrite = rewrite_request
        self._response_in = response_in

    def wrapper(self, method: Any) -> Wrapper:
        """
        Return the replacement, for the kind of function that ``method`` is.

        Args:
            method: The original method; wrappers that name it in ``__wrapped__`` are ignored.
        """
        original = inspect.unwrap(method) if callable(method) else method
        if inspect.iscoroutinefunction(original):
            return self.await_result
        if inspect.isgeneratorfunction(original):
            return self.generate
        if inspect.isasyncgenfunction(original):
            return self.generate_async
        return self.call

    def call(
        self,
        wrapped: Callable[..., Any],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Replace a plain function."""
        runtime = current_runtime()
        if runtime is None:
            return wrapped(*args, **kwargs)
        if self._rewrite is not None and runtime.request_stream_usage and requests_usage():
            kwargs = self._rewrite(kwargs)
        call = self._opened(instance, kwargs)
        if call is None:
            return wrapped(*args, **kwargs)
        inside = call.active()
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            inside.leave()
            self._fail(call, error)
            raise
        inside.leave()
        return self._respond(call, result)

    def await_result(
        self,
        wrapped: Callable[..., Awaitable[Any]],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Awaitable[Any]:
        """Replace a coroutine function; the call begins when the coroutine is awaited."""
        runtime = current_runtime()
        if runtime is None:
            return wrapped(*args, **kwargs)
        if self._rewrite is not None and runtime.request_stream_usage and requests_usage():
            kwargs = self._rewrite(kwargs)
        # An SDK raises for wrong arguments here, and starts no work before its coroutine is
        # awaited.
        begun = wrapped(*args, **kwargs)
        return impersonate(self._awaited(begun, instance, kwargs), begun)

    async def _awaited(self, begun: Awaitable[Any], instance: Any, kwargs: dict[str, Any]) -> Any:
        call = self._opened(instance, kwargs)
        if call is None:
            return await begun
        call.watch_loop()
        inside = call.active()
        try:
            result = await begun
        except BaseException as error:
            inside.leave()
            self._fail(call, error)
            raise
        inside.leave()
        return self._respond(call, result)

    def generate(
        self,
        wrapped: Callable[..., Generator[Any]],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Generator[Any]:
        """Replace a generator function; the call begins with the first read."""
        # An SDK raises for wrong arguments here, and starts nothing before the first read.
        source = wrapped(*args, **kwargs)
        if current_runtime() is None:
            return source
        return named_like(self._generated(source, instance, kwargs), source)

    def _generated(
        self, source: Generator[Any], instance: Any, kwargs: dict[str, Any]
    ) -> Generator[Any]:
        call = self._opened(instance, kwargs)
        if call is not None:
            source = track_generator(call, source)
        yield from source

    def generate_async(
        self,
        wrapped: Callable[..., AsyncGenerator[Any]],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> AsyncGenerator[Any]:
        """Replace an asynchronous generator function; the call begins with the first read."""
        source = wrapped(*args, **kwargs)
        if current_runtime() is None:
            return source
        return named_like(self._generated_async(source, instance, kwargs), source)

    async def _generated_async(
        self, source: AsyncGenerator[Any], instance: Any, kwargs: dict[str, Any]
    ) -> AsyncGenerator[Any]:
        call = self._opened(instance, kwargs)
        if call is not None:
            call.watch_loop()
            source = track_async_generator(call, source)
        try:
            async for chunk in source:
                yield chunk
        finally:
            await source.aclose()

    def _opened(self, instance: Any, kwargs: Mapping[str, Any]) -> ModelCall | None:
        try:
            call = self._open(instance, kwargs)
            if call is not None and not isinstance(call, ModelCall):
                raise TypeError(f"{self._open} returned no call")
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, _START)
            return None
        return call

    def _fail(self, call: ModelCall, error: BaseException) -> None:
        """End the call with the exception that it raised."""
        with handle_internal_errors("the response in an exception"):
            # A response that the SDK cannot parse, for example because it is cut off, still used
            # tokens.
            response = self._response_in(error)
            if response is not None:
                call.keep_response(response)
        outcome, error_type = failure_of(error, call.answering, call.headers)
        call.end(outcome, error_type=error_type)
