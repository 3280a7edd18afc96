"""
Instrumentation of ASGI servers (FastAPI, Starlette and any other): a request to its last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the caller's span, tracks a streamed
response to its end, and can report to the client where the time went, in the standard
``Server-Timing`` header.
"""

from __future__ import annotations

from latspan_asgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware"]
