"""
httpx and httpx2, instrumented: what a request spends on the transport.

Inside a call of a client library the transport adds its marks to that call; outside, each HTTP
exchange is one of its own.
"""

from __future__ import annotations

from latspan_httpx._instrumentor import HTTPX2Instrumentor, HTTPXInstrumentor

__all__ = ["HTTPX2Instrumentor", "HTTPXInstrumentor"]
