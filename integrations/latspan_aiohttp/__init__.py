"""
aiohttp's client, instrumented: what a request spends on the transport, and its body.

Inside a call of a client library the transport adds its marks to that call; outside, each HTTP
exchange is one of its own.
"""

from __future__ import annotations

from latspan_aiohttp._instrumentor import AiohttpInstrumentor

__all__ = ["AiohttpInstrumentor"]
