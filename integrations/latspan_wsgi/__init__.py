"""
Instrumentation of WSGI servers (Flask and any other): a request from its start to the last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the client's span, and tracks a
streamed response to its end. It can report the stages of the request to the client, in the standard
``Server-Timing`` header. ``FlaskInstrumentor`` tracks the requests of every Flask application
without a middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan_wsgi._instrumentor import FlaskInstrumentor

if TYPE_CHECKING:
    from latspan_wsgi._middleware import LatspanMiddleware

__all__ = ["FlaskInstrumentor", "LatspanMiddleware"]


def __getattr__(name: str) -> object:
    # `auto_instrument` imports this package in programs that serve nothing.
    if name != "LatspanMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from latspan_wsgi._middleware import LatspanMiddleware

    return LatspanMiddleware
