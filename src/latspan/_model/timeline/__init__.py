"""
Computation of segments and metrics from marks and evidence.

Rule 1: this package uses no client library, no clock and no OpenTelemetry; it receives instants and
returns intervals. Rule 2: for any input, in any order and with any part missing, the segments tile
the duration exactly, without a gap or an overlap.

Marks are set while a call is open. Everything else is needed only at its end, and is loaded then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan._model.timeline._activity import KEPT_ONE_BY_ONE, Activity, Inside, as_activity
from latspan._model.timeline._marks import (
    NO_CHUNK,
    READER_BOUND_NS,
    Attempt,
    Reads,
    answering,
)

if TYPE_CHECKING:
    from latspan._model.timeline._call import call_timeline
    from latspan._model.timeline._folding import fold
    from latspan._model.timeline._observation import CallObservation
    from latspan._model.timeline._path import Inner
    from latspan._model.timeline._reconcile import fits
    from latspan._model.timeline._scope import ScopeTimeline, scope_timeline
    from latspan._model.timeline._segment_builder import Timeline

__all__ = [
    "KEPT_ONE_BY_ONE",
    "NO_CHUNK",
    "READER_BOUND_NS",
    "Activity",
    "Attempt",
    "CallObservation",
    "Inner",
    "Inside",
    "Reads",
    "ScopeTimeline",
    "Timeline",
    "answering",
    "as_activity",
    "call_timeline",
    "fits",
    "fold",
    "scope_timeline",
]

_ON_FIRST_USE: Final = {
    "CallObservation": "_observation",
    "Inner": "_path",
    "ScopeTimeline": "_scope",
    "Timeline": "_segment_builder",
    "call_timeline": "_call",
    "fits": "_reconcile",
    "fold": "_folding",
    "scope_timeline": "_scope",
}

__getattr__ = lazy_getattr(__name__, _ON_FIRST_USE)
