"""
Instrumentation of ASGI servers (FastAPI, Starlette and any other): a request to its last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the client's span, and tracks a
streamed response to its end. It can report the stages of the request to the client, in the standard
``Server-Timing`` header. ``StarletteInstrumentor`` tracks the requests of every Starlette and
FastAPI application without a middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan_asgi._instrumentor import StarletteInstrumentor

if TYPE_CHECKING:
    from latspan_asgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware", "StarletteInstrumentor"]


def __getattr__(name: str) -> object:
    # `auto_instrument` imports this package in programs that serve nothing.
    if name != "LatspanMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from latspan_asgi._middleware import LatspanMiddleware

    return LatspanMiddleware
