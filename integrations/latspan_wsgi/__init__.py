"""
Instrumentation of WSGI servers (Flask and any other): a request from its start to the last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the caller's span, tracks a streamed
response to its end, and can report to the client where the time went, in the standard
``Server-Timing`` header.
"""

from __future__ import annotations

from latspan_wsgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware"]
