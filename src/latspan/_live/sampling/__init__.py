"""
Tail sampling: a trace is kept if it failed, was slow, or is in a small random sample.

The package does not depend on the OpenTelemetry SDK: a held span is a callback that ends it.
"""

from __future__ import annotations

from latspan._live.sampling._decisions import Decisions, Ended
from latspan._live.sampling._sink import SamplingSink
from latspan._live.sampling._trace_buffer import TraceBuffer

__all__ = ["Decisions", "Ended", "SamplingSink", "TraceBuffer"]
