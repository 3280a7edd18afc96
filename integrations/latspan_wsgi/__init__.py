"""
Instrumentation of WSGI servers (Flask and any other): a request from its start to the last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the client's span, and tracks a
streamed response to its end. It can report the stages of the request to the client, in the standard
``Server-Timing`` header.
"""

from __future__ import annotations

from latspan_wsgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware"]
