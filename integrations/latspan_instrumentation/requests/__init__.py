"""
Instrumentation of requests and urllib3: the transport times of a request.

All times are measured in urllib3, which requests uses and which also works alone. Inside a call of
a client library, the transport times are recorded on that call. Outside any call, each HTTP
exchange is recorded on its own.
"""

from __future__ import annotations

from latspan.integrations import Instrumentor, Patches

__all__ = ["RequestsInstrumentor", "URLLib3Instrumentor"]


class URLLib3Instrumentor(Instrumentor):
    """Instrumentor that switches urllib3, and requests with it, on and off."""

    requires = ("urllib3 >= 1.26, < 3",)
    core_module = "connectionpool"
    triggers_start = False

    def patch(self, patches: Patches) -> None:
        """Patch the pools that send requests, their connections, and their responses."""
        from latspan_instrumentation.requests import _bodies, _connections, _pools

        _pools.patch_pools(patches)
        _connections.patch_connections(patches)
        _bodies.patch_bodies(patches)


class RequestsInstrumentor(Instrumentor):
    """
    Instrumentor that switches the patches of requests itself on and off.

    urllib3's patches record everything that requests sends and reads, except a ``with`` block
    around a response of requests.
    """

    requires = ("requests >= 2.25, < 3",)
    core_module = "sessions"
    triggers_start = False

    def patch(self, patches: Patches) -> None:
        """Patch ``__enter__`` of a response."""
        from requests import Response

        from latspan_instrumentation.requests import _bodies

        patches.replace(Response, "__enter__", _bodies.entering)
