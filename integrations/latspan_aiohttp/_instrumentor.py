"""The instrumentor of aiohttp and the list of its patches."""

from __future__ import annotations

from latspan._instrument import Instrumentor, Patches

__all__ = ["AiohttpInstrumentor"]


class AiohttpInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of aiohttp's client on and off."""

    requires = ("aiohttp >= 3.9, < 4",)

    def patch(self, patches: Patches) -> None:
        """Patch the classes behind every session, existing or new, and behind every response."""
        from latspan_aiohttp import _bodies, _transport

        _transport.patch_transport(patches)
        _bodies.patch_bodies(patches)
