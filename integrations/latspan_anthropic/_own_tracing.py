"""
What the SDK traces of itself, from 1.0 on.

It opens a span inside each request, and sends the context of whatever span is current then,
recorded or not, in place of the caller's own.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry import context, trace

__all__ = ["out_of_its_sight", "out_of_its_sight_async", "records_spans"]


_inside: ContextVar[bool] = ContextVar("latspan_anthropic_inside", default=False)


def _tracer_of(client: Any) -> Any:
    return getattr(client, "_tracer", None)


def records_spans(client: Any) -> bool:
    """Return whether ``client`` makes spans that somebody records."""
    tracer = _tracer_of(client)
    if tracer is None or isinstance(tracer, trace.NoOpTracer):
        return False
    nobody = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return not (nobody and isinstance(tracer, trace.ProxyTracer))


def out_of_its_sight(client: Any, request: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return ``request`` so that ``client`` sees the span that is current now, and none of ours.

    Else it would send the context of a span that latspan alone knows, whatever is said of that.
    """
    if _tracer_of(client) is None:
        return request
    current = context.get_current()

    @functools.wraps(request)
    def unseen(*args: Any, **kwargs: Any) -> Any:
        with _seeing(current):
            return request(*args, **kwargs)

    return unseen


def out_of_its_sight_async(
    client: Any, request: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """Return the same for a request that is awaited."""
    if _tracer_of(client) is None:
        return request

    @functools.wraps(request)
    def unseen(*args: Any, **kwargs: Any) -> Awaitable[Any]:
        # The SDK refuses wrong arguments here and now.
        return _awaited(request(*args, **kwargs), context.get_current())

    return unseen


async def _awaited(begun: Awaitable[Any], current: context.Context) -> Any:
    with _seeing(current):
        return await begun


@contextmanager
def _seeing(current: context.Context) -> Generator[None]:
    """Have ``current`` be the context inside."""
    here = _inside.set(True)
    token = context.attach(current)
    try:
        yield
    finally:
        try:
            _inside.reset(here)
        except ValueError:
            # Closed from another context than it was entered in: there is nothing to undo.
            pass
        else:
            context.detach(token)
