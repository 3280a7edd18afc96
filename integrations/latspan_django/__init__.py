"""
Instrumentation of Django: a request to its last byte, under WSGI and under ASGI.

Django's handlers for the two protocols are tracked by ``latspan_wsgi`` and ``latspan_asgi``. This
package adds what is Django's own: the route, and the span of OpenTelemetry's instrumentation.
"""

from __future__ import annotations

from latspan_django._instrumentor import DjangoInstrumentor

__all__ = ["DjangoInstrumentor"]
