"""
Which traces are kept: every failure, the slow ones and a few at random, once they have ended.

What is decided knows no OpenTelemetry SDK: spans are held as what remains to be done with them.
"""

from __future__ import annotations

from latspan._sampling._decisions import Ended, Verdicts
from latspan._sampling._sink import SamplingSink
from latspan._sampling._trace_buffer import TraceBuffer

__all__ = ["Ended", "SamplingSink", "TraceBuffer", "Verdicts"]
