"""What is patched in aiohttp."""

from __future__ import annotations

from latspan.integrations import Instrumentor, Patches

__all__ = ["AiohttpInstrumentor"]


class AiohttpInstrumentor(Instrumentor):
    """Switches the instrumentation of aiohttp's client on and off."""

    requires = ("aiohttp >= 3.9, < 4",)

    def patch(self, patches: Patches) -> None:
        """Patch what every session passes through, made before or after, and every response."""
        from latspan_aiohttp import _bodies, _transport

        _transport.patch_transport(patches)
        _bodies.patch_bodies(patches)
