"""
What the SDK traces of itself, from 1.0 on.

It opens a span inside each request, and sends the context of whatever span is current then,
recorded or not, in place of the caller's own.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from opentelemetry import context, trace

from latspan.integrations import impersonate, inside

__all__ = ["hide_current_span", "out_of_its_sight_async", "records_spans"]


def _tracer_of(client: Any) -> Any:
    return getattr(client, "_tracer", None)


def records_spans(client: Any) -> bool:
    """Return whether ``client`` makes spans that somebody records."""
    tracer = _tracer_of(client)
    if tracer is None or isinstance(tracer, trace.NoOpTracer):
        return False
    nobody = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return not (nobody and isinstance(tracer, trace.ProxyTracer))


def _propagation_of(client: Any) -> bool | None:
    """Return ``False`` if ``client`` was told to send no trace context, ``None`` otherwise."""
    options: object = getattr(client, "open_telemetry", None)
    if isinstance(options, Mapping):
        said = cast("Mapping[str, object]", options).get("propagation")
        return False if said is False else None
    return None


def hide_current_span(client: Any, request: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return ``request`` so that ``client`` sees the span that is current now, and none of ours.

    Else it would send the context of a span that latspan alone knows, whatever is said of that.
    Of a client that was told to send none, latspan's transports add none either.
    """
    propagates = _propagation_of(client)
    if _tracer_of(client) is None and propagates is None:
        return request
    current = context.get_current()

    @functools.wraps(request)
    def unseen(*args: Any, **kwargs: Any) -> Any:
        with inside(current, propagates=propagates):
            return request(*args, **kwargs)

    return unseen


def out_of_its_sight_async(
    client: Any, request: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """Return the same for a request that is awaited."""
    propagates = _propagation_of(client)
    if _tracer_of(client) is None and propagates is None:
        return request

    @functools.wraps(request)
    def unseen(*args: Any, **kwargs: Any) -> Awaitable[Any]:
        # The SDK refuses wrong arguments here and now.
        begun = request(*args, **kwargs)
        return impersonate(_awaited(begun, context.get_current(), propagates), begun)

    return unseen


async def _awaited(begun: Awaitable[Any], current: context.Context, propagates: bool | None) -> Any:
    with inside(current, propagates=propagates):
        return await begun
