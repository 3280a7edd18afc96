"""
requests and urllib3, instrumented: what a request spends on the transport.

All of it happens in urllib3, which requests sits on and which also works alone. Inside a call of
a client library the transport adds its marks to that call; outside, each HTTP exchange is one of
its own.
"""

from __future__ import annotations

from latspan_requests._instrumentor import RequestsInstrumentor, URLLib3Instrumentor

__all__ = ["RequestsInstrumentor", "URLLib3Instrumentor"]
