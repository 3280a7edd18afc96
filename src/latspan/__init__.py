"""
latspan shows where the time of an LLM request went, segment by segment.

Importing this package is cheap: each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._lazy import lazy_getattr
from latspan._version import __version__

if TYPE_CHECKING:
    from latspan._instrument import (
        WarmupResult,
        attributes,
        auto_instrument,
        request,
        traced,
        uninstrument,
        warm,
    )
    from latspan._recording import Distribution, Snapshot, read_snapshots, write_interval
    from latspan._sdk import Config, configure, force_flush, shutdown, snapshot
    from latspan._stages import (
        Handoff,
        annotate,
        attach,
        batch,
        handoff,
        mark_degraded,
        mark_rejected,
        stage,
        track_tokens,
    )
    from latspan.errors import LatspanError

__all__ = [
    "Config",
    "Distribution",
    "Handoff",
    "LatspanError",
    "Snapshot",
    "WarmupResult",
    "__version__",
    "annotate",
    "attach",
    "attributes",
    "auto_instrument",
    "batch",
    "configure",
    "force_flush",
    "handoff",
    "mark_degraded",
    "mark_rejected",
    "read_snapshots",
    "request",
    "shutdown",
    "snapshot",
    "stage",
    "traced",
    "track_tokens",
    "uninstrument",
    "warm",
    "write_interval",
]

_HOMES: Final = {
    "write_interval": "latspan._recording",
    "read_snapshots": "latspan._recording",
    "WarmupResult": "latspan._instrument",
    "Snapshot": "latspan._recording",
    "Distribution": "latspan._recording",
    "Config": "latspan._sdk",
    "Handoff": "latspan._stages",
    "LatspanError": "latspan.errors",
    "attributes": "latspan._instrument",
    "auto_instrument": "latspan._instrument",
    "batch": "latspan._stages",
    "handoff": "latspan._stages",
    "configure": "latspan._sdk",
    "mark_degraded": "latspan._stages",
    "annotate": "latspan._stages",
    "force_flush": "latspan._sdk",
    "track_tokens": "latspan._stages",
    "mark_rejected": "latspan._stages",
    "request": "latspan._instrument",
    "attach": "latspan._stages",
    "shutdown": "latspan._sdk",
    "snapshot": "latspan._sdk",
    "stage": "latspan._stages",
    "traced": "latspan._instrument",
    "uninstrument": "latspan._instrument",
    "warm": "latspan._instrument",
}

__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
