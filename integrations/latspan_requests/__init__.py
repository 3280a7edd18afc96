"""
Instrumentation of requests and urllib3: the transport times of a request.

All times are measured in urllib3, which requests uses and which also works alone. Inside a call of
a client library, the transport records its timestamps on that call. Outside, each HTTP exchange is
a call of its own.
"""

from __future__ import annotations

from latspan_requests._instrumentor import RequestsInstrumentor, URLLib3Instrumentor

__all__ = ["RequestsInstrumentor", "URLLib3Instrumentor"]
