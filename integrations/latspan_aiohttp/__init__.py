"""
Instrumentation of aiohttp's client: the transport times of a request, and the reads of its body.

Inside a call of a client library, the transport records its timestamps on that call. Outside,
each HTTP exchange is a call of its own.
"""

from __future__ import annotations

from latspan_aiohttp._instrumentor import AiohttpInstrumentor

__all__ = ["AiohttpInstrumentor"]
