"""
Finished requests as data: recorded into histograms, read as immutable snapshots.

The package defines the values of a request. It does not observe requests or export snapshots. The
modules that answer queries, and those that write and read files, are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr
from latspan._model.recording._details import details_of
from latspan._model.recording._empty_reason import (
    NO_CALL,
    NOT_CONFIGURED,
    NOTHING_INSTRUMENTED,
    SDK_DISABLED,
    SHUT_DOWN,
)
from latspan._model.recording._exemplars import Exemplar
from latspan._model.recording._questions import NO_DEFAULT, nearest_values
from latspan._model.recording._recorder import Recorder
from latspan._model.recording._series import (
    ATTRIBUTES,
    Series,
    SeriesKey,
    Subject,
    has_attributes,
    key_of,
)
from latspan._model.recording._snapshot import Snapshot, empty_snapshot

if TYPE_CHECKING:
    from latspan._model.recording._distribution import Distribution
    from latspan._model.recording._log import (
        read_snapshots,
        snapshots_of,
        truncated_in,
        write_interval,
    )
    from latspan._model.recording._population import (
        Population,
        population_of,
        rounded_bound,
        text_of_unknown,
    )
    from latspan._model.recording._record import RequestRecord
    from latspan._model.recording._tags import TaggedName, read_tag, tag_of

__all__ = [
    "ATTRIBUTES",
    "NOTHING_INSTRUMENTED",
    "NOT_CONFIGURED",
    "NO_CALL",
    "NO_DEFAULT",
    "SDK_DISABLED",
    "SHUT_DOWN",
    "Distribution",
    "Exemplar",
    "Population",
    "Recorder",
    "RequestRecord",
    "Series",
    "SeriesKey",
    "Snapshot",
    "Subject",
    "TaggedName",
    "details_of",
    "empty_snapshot",
    "has_attributes",
    "key_of",
    "nearest_values",
    "population_of",
    "read_snapshots",
    "read_tag",
    "rounded_bound",
    "snapshots_of",
    "tag_of",
    "text_of_unknown",
    "truncated_in",
    "write_interval",
]

_ON_FIRST_USE: Final = {
    "Distribution": "_distribution",
    "Population": "_population",
    "RequestRecord": "_record",
    "TaggedName": "_tags",
    "population_of": "_population",
    "read_snapshots": "_log",
    "snapshots_of": "_log",
    "truncated_in": "_log",
    "read_tag": "_tags",
    "rounded_bound": "_population",
    "tag_of": "_tags",
    "text_of_unknown": "_population",
    "write_interval": "_log",
}

__getattr__ = lazy_getattr(__name__, _ON_FIRST_USE)
