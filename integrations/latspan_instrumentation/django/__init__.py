"""
Instrumentation of Django: a request to its last byte, under WSGI and under ASGI.

Django's handlers for the two protocols are tracked by ``wsgi`` and ``asgi``. This package adds what
is Django's own: the route, and the span of OpenTelemetry's instrumentation.
"""

from __future__ import annotations

from latspan.integrations import Instrumentor, Patches

__all__ = ["DjangoInstrumentor"]


class DjangoInstrumentor(Instrumentor):
    """Instrumentor that tracks the requests of Django projects."""

    requires = ("django >= 4.2, < 7",)
    library = "django.core.handlers.base"
    serves = True

    def patch(self, patches: Patches) -> None:
        """
        Patch the handlers that serve requests, and the method that finds the view.

        The methods belong to classes, so a handler that exists already is covered too.
        """
        from latspan_instrumentation.django import _handlers

        _handlers.patch_handlers(patches)
