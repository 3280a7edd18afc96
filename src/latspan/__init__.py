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
        OpenScope,
        ScopeManager,
        WarmupResult,
        attributes,
        auto_instrument,
        request,
        traced,
        uninstrument,
        warm,
    )
    from latspan._recording import (
        Distribution,
        Exemplar,
        Series,
        SeriesKey,
        Snapshot,
        Subject,
        read_snapshots,
        write_interval,
    )
    from latspan._recording.folder import Recording, open_recording
    from latspan._report import diagnose, report
    from latspan._sdk import Config, configure, force_flush, shutdown, snapshot
    from latspan._segments import Kind, Source
    from latspan._stages import (
        Degradation,
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
    from latspan._tokens import TokenSource
    from latspan._units import MetricUnit, TimeUnit
    from latspan.errors import LatspanError

__all__ = [
    "Config",
    "Degradation",
    "Distribution",
    "Exemplar",
    "Handoff",
    "Kind",
    "LatspanError",
    "MetricUnit",
    "OpenScope",
    "Recording",
    "ScopeManager",
    "Series",
    "SeriesKey",
    "Snapshot",
    "Source",
    "Subject",
    "TimeUnit",
    "TokenSource",
    "WarmupResult",
    "__version__",
    "annotate",
    "attach",
    "attributes",
    "auto_instrument",
    "batch",
    "configure",
    "diagnose",
    "force_flush",
    "handoff",
    "mark_degraded",
    "mark_rejected",
    "open_recording",
    "read_snapshots",
    "report",
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
    "Config": "latspan._sdk",
    "Degradation": "latspan._stages",
    "Distribution": "latspan._recording",
    "Exemplar": "latspan._recording",
    "Handoff": "latspan._stages",
    "Kind": "latspan._segments",
    "LatspanError": "latspan.errors",
    "MetricUnit": "latspan._units",
    "OpenScope": "latspan._instrument",
    "Recording": "latspan._recording.folder",
    "ScopeManager": "latspan._instrument",
    "Series": "latspan._recording",
    "SeriesKey": "latspan._recording",
    "Snapshot": "latspan._recording",
    "Source": "latspan._segments",
    "Subject": "latspan._recording",
    "TimeUnit": "latspan._units",
    "TokenSource": "latspan._tokens",
    "WarmupResult": "latspan._instrument",
    "annotate": "latspan._stages",
    "attach": "latspan._stages",
    "attributes": "latspan._instrument",
    "auto_instrument": "latspan._instrument",
    "batch": "latspan._stages",
    "configure": "latspan._sdk",
    "diagnose": "latspan._report",
    "force_flush": "latspan._sdk",
    "handoff": "latspan._stages",
    "mark_degraded": "latspan._stages",
    "mark_rejected": "latspan._stages",
    "open_recording": "latspan._recording.folder",
    "read_snapshots": "latspan._recording",
    "report": "latspan._report",
    "request": "latspan._instrument",
    "shutdown": "latspan._sdk",
    "snapshot": "latspan._sdk",
    "stage": "latspan._stages",
    "traced": "latspan._instrument",
    "track_tokens": "latspan._stages",
    "uninstrument": "latspan._instrument",
    "warm": "latspan._instrument",
    "write_interval": "latspan._recording",
}

__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
