"""
Instrumentation of httpx and httpx2: the transport times of a request.

Inside a call of a client library, the transport times are recorded on that call. Outside any call,
each HTTP exchange is recorded on its own.
"""

from __future__ import annotations

from latspan_httpx._instrumentor import HTTPX2Instrumentor, HTTPXInstrumentor

__all__ = ["HTTPX2Instrumentor", "HTTPXInstrumentor"]
