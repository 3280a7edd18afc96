"""
Tracing inside a server: stages, handoffs, annotations and tokens of its requests.

The context determines to which request a stage belongs. If a thread, task or process does not
inherit the context, the application passes it a handoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._base.lazy import lazy_getattr
from latspan._live.stages._stage import stage, tool

if TYPE_CHECKING:
    from latspan._live.operations import Handoff
    from latspan._live.stages._annotations import (
        Degradation,
        annotate,
        mark_degraded,
        mark_rejected,
    )
    from latspan._live.stages._handoff import attach, batch, handoff
    from latspan._live.stages._track_tokens import track_tokens

__all__ = [
    "Degradation",
    "Handoff",
    "annotate",
    "attach",
    "batch",
    "handoff",
    "mark_degraded",
    "mark_rejected",
    "stage",
    "tool",
    "track_tokens",
]

# An application that only uses stages does not need these modules until latspan is configured.
_FETCHED = {
    "Degradation": "_annotations",
    "Handoff": "_handoff",
    "annotate": "_annotations",
    "attach": "_handoff",
    "batch": "_handoff",
    "handoff": "_handoff",
    "mark_degraded": "_annotations",
    "mark_rejected": "_annotations",
    "track_tokens": "_track_tokens",
}

__getattr__ = lazy_getattr(__name__, _FETCHED)
