"""
Computation of segments and metrics from marks and evidence.

Rule 1: this package uses no client library, no clock and no OpenTelemetry; it receives instants and
returns intervals. Rule 2: for any input, in any order and with any part missing, the segments tile
the duration exactly, without a gap or an overlap.
"""

from __future__ import annotations

from latspan._timeline._call import call_timeline
from latspan._timeline._marks import READER_BOUND_NS, Attempt, CallObservation, Reads, answering
from latspan._timeline._merged import merged
from latspan._timeline._reconcile import fits
from latspan._timeline._scope import ChildInterval, ScopeTimeline, scope_timeline
from latspan._timeline._segment_builder import Timeline

__all__ = [
    "READER_BOUND_NS",
    "Attempt",
    "CallObservation",
    "ChildInterval",
    "Reads",
    "ScopeTimeline",
    "Timeline",
    "answering",
    "call_timeline",
    "fits",
    "merged",
    "scope_timeline",
]
