"""
Instrumentation of aiohttp's client: the transport times of a request, and the reads of its body.

Inside a call of a client library, the transport times are recorded on that call. Outside any call,
each HTTP exchange is recorded on its own.
"""

from __future__ import annotations

from latspan_aiohttp._instrumentor import AiohttpInstrumentor

__all__ = ["AiohttpInstrumentor"]
