"""
Instrumentation of ASGI servers (FastAPI, Starlette and any other): a request to its last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the client's span, and tracks a
streamed response to its end. It can report the stages of the request to the client, in the standard
``Server-Timing`` header.
"""

from __future__ import annotations

from latspan_asgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware"]
