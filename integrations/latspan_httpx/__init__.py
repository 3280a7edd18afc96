"""
Instrumentation of httpx and httpx2: the transport times of a request.

Inside a call of a client library, the transport records its timestamps on that call. Outside,
each HTTP exchange is a call of its own.
"""

from __future__ import annotations

from latspan_httpx._instrumentor import HTTPX2Instrumentor, HTTPXInstrumentor

__all__ = ["HTTPX2Instrumentor", "HTTPXInstrumentor"]
