"""
latspan shows where the time of an LLM request went, segment by segment.

Importing this package is cheap: each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan._version import __version__

if TYPE_CHECKING:
    from latspan._live.instrument import (
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
    from latspan._live.sdk import Config, configure, force_flush, shutdown, snapshot
    from latspan._live.stages import (
        Degradation,
        Handoff,
        annotate,
        attach,
        batch,
        handoff,
        mark_degraded,
        mark_rejected,
        stage,
        tool,
        track_tokens,
    )
    from latspan._model.recording import (
        Distribution,
        Exemplar,
        Series,
        SeriesKey,
        Snapshot,
        Subject,
        read_snapshots,
        write_interval,
    )
    from latspan._model.recording.folder import Recording, open_recording
    from latspan._model.segments import Kind, Source
    from latspan._model.tokens import TokenSource
    from latspan._model.units import MetricUnit, TimeUnit
    from latspan.errors import LatspanError
    from latspan.reports._process import diagnose, report

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
    "tool",
    "traced",
    "track_tokens",
    "uninstrument",
    "warm",
    "write_interval",
]

_HOMES: Final = {
    "Config": "latspan._live.sdk",
    "Degradation": "latspan._live.stages",
    "Distribution": "latspan._model.recording",
    "Exemplar": "latspan._model.recording",
    "Handoff": "latspan._live.stages",
    "Kind": "latspan._model.segments",
    "LatspanError": "latspan.errors",
    "MetricUnit": "latspan._model.units",
    "OpenScope": "latspan._live.instrument",
    "Recording": "latspan._model.recording.folder",
    "ScopeManager": "latspan._live.instrument",
    "Series": "latspan._model.recording",
    "SeriesKey": "latspan._model.recording",
    "Snapshot": "latspan._model.recording",
    "Source": "latspan._model.segments",
    "Subject": "latspan._model.recording",
    "TimeUnit": "latspan._model.units",
    "TokenSource": "latspan._model.tokens",
    "WarmupResult": "latspan._live.instrument",
    "annotate": "latspan._live.stages",
    "attach": "latspan._live.stages",
    "attributes": "latspan._live.instrument",
    "auto_instrument": "latspan._live.instrument",
    "batch": "latspan._live.stages",
    "configure": "latspan._live.sdk",
    "diagnose": "latspan.reports._process",
    "force_flush": "latspan._live.sdk",
    "handoff": "latspan._live.stages",
    "mark_degraded": "latspan._live.stages",
    "mark_rejected": "latspan._live.stages",
    "open_recording": "latspan._model.recording.folder",
    "read_snapshots": "latspan._model.recording",
    "report": "latspan.reports._process",
    "request": "latspan._live.instrument",
    "shutdown": "latspan._live.sdk",
    "snapshot": "latspan._live.sdk",
    "stage": "latspan._live.stages",
    "tool": "latspan._live.stages",
    "traced": "latspan._live.instrument",
    "track_tokens": "latspan._live.stages",
    "uninstrument": "latspan._live.instrument",
    "warm": "latspan._live.instrument",
    "write_interval": "latspan._model.recording",
}

__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
