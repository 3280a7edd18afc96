"""What is patched in urllib3, and the little that is in requests."""

from __future__ import annotations

from latspan.integrations import Instrumentor, Patches

__all__ = ["RequestsInstrumentor", "URLLib3Instrumentor"]


class URLLib3Instrumentor(Instrumentor):
    """Switches the instrumentation of urllib3, and of requests with it, on and off."""

    requires = ("urllib3 >= 1.26, < 3",)
    begins = False

    def patch(self, patches: Patches) -> None:
        """Patch the pool that takes a request, its connections, and its responses."""
        from latspan_requests import _bodies, _connections, _pools

        _pools.patch_pools(patches)
        _connections.patch_connections(patches)
        _bodies.patch_bodies(patches)


class RequestsInstrumentor(Instrumentor):
    """
    Switches on and off what only requests can tell.

    Whatever requests sends and reads is seen in urllib3; a ``with`` around its response is not.
    """

    requires = ("requests >= 2.25, < 3",)
    begins = False

    def patch(self, patches: Patches) -> None:
        """Patch how a response is entered."""
        from requests import Response

        from latspan_requests import _bodies

        patches.replace(Response, "__enter__", _bodies.entering)
