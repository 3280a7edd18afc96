"""
Instrumentation of requests and urllib3: the transport times of a request.

All times are measured in urllib3, which requests uses and which also works alone. Inside a call of
a client library, the transport times are recorded on that call. Outside any call, each HTTP
exchange is recorded on its own.
"""

from __future__ import annotations

from latspan_requests._instrumentor import RequestsInstrumentor, URLLib3Instrumentor

__all__ = ["RequestsInstrumentor", "URLLib3Instrumentor"]
