"""
WSGI servers (Flask and any other), instrumented: a request from entry to last byte.

``LatspanMiddleware`` opens a span of kind SERVER beneath the caller's, follows a streamed answer to
its end, and can tell the client in the standard ``Server-Timing`` header where the time went.
"""

from __future__ import annotations

from latspan_wsgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware"]
