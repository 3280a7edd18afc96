"""
Instrumentation of aiohttp's client: the transport times of a request, and the reads of its body.

Inside a call of a client library, the transport times are recorded on that call. Outside any call,
each HTTP exchange is recorded on its own.
"""

from __future__ import annotations

from latspan.integrations import Instrumentor, Patches

__all__ = ["AiohttpInstrumentor"]


class AiohttpInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of aiohttp's client on and off."""

    requires = ("aiohttp >= 3.9, < 4",)
    core_module = "client"

    def patch(self, patches: Patches) -> None:
        """Patch the classes behind every session, existing or new, and behind every response."""
        from latspan_instrumentation.aiohttp import _bodies, _transport

        _transport.patch_transport(patches)
        _bodies.patch_bodies(patches)
