"""
Coexistence with the own tracing of an SDK: the Anthropic SDK has it from version 1.0 on.

The SDK opens a span inside each request, and sends the context of the span that is current then,
recorded or not. The private attribute ``_tracer`` of a client shows whether its version has this
tracing.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from opentelemetry import context, trace

from latspan._live.instrument import impersonate, inside


def _tracer_of(client: Any) -> Any:
    return getattr(client, "_tracer", None)


def records_spans(client: Any) -> bool:
    """Return whether ``client`` makes spans and a tracer provider records them."""
    tracer = _tracer_of(client)
    if tracer is None or isinstance(tracer, trace.NoOpTracer):
        return False
    is_unset = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return not (is_unset and isinstance(tracer, trace.ProxyTracer))


def _propagation_of(client: Any) -> bool | None:
    """Return ``False`` if ``client`` is configured not to send trace context, else ``None``."""
    options: object = getattr(client, "open_telemetry", None)
    if isinstance(options, Mapping):
        propagation = cast("Mapping[str, object]", options).get("propagation")
        return False if propagation is False else None
    return None


def hide_current_span(client: Any, request: Callable[..., Any]) -> Callable[..., Any]:
    """
    Wrap ``request`` so that ``client`` sees the span that is current now, and not latspan's.

    Otherwise the client would send the context of a span that exists only in latspan, whatever the
    configuration of trace context is. If a client is configured not to send trace context,
    latspan's transports do not add it either.
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


def hide_current_span_async(
    client: Any, request: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """Wrap ``request`` like :func:`hide_current_span`, for a request that is awaited."""
    propagates = _propagation_of(client)
    if _tracer_of(client) is None and propagates is None:
        return request

    @functools.wraps(request)
    def unseen(*args: Any, **kwargs: Any) -> Awaitable[Any]:
        # The SDK raises for wrong arguments in this call, not when the result is awaited.
        begun = request(*args, **kwargs)
        return impersonate(_awaited(begun, context.get_current(), propagates), begun)

    return unseen


async def _awaited(begun: Awaitable[Any], current: context.Context, propagates: bool | None) -> Any:
    with inside(current, propagates=propagates):
        return await begun
