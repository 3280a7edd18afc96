"""
Which traces are kept: every failure, the slow ones and a few at random, once they have ended.

What is decided knows no OpenTelemetry SDK: spans are held as what remains to be done with them.
"""

from __future__ import annotations

from latspan.sampling._held_traces import HeldTraces
from latspan.sampling._sink import SamplingSink
from latspan.sampling._verdicts import Ended, Verdicts

__all__ = ["Ended", "HeldTraces", "SamplingSink", "Verdicts"]
