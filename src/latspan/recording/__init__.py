"""
Finished requests as data: recorded into histograms, read as immutable snapshots.

It knows what a request's values are, and neither how they were observed nor where they go.
"""

from __future__ import annotations

from latspan.recording._distribution import Distribution
from latspan.recording._exemplars import Exemplar
from latspan.recording._log import read_snapshots, write_interval
from latspan.recording._noop_recorder import NoopRecorder
from latspan.recording._record import RequestRecord
from latspan.recording._recorder import Recorder
from latspan.recording._series import Series, SeriesKey, Subject
from latspan.recording._snapshot import Snapshot
from latspan.recording._tags import TaggedName, read_tag, tag_of

__all__ = [
    "Distribution",
    "Exemplar",
    "NoopRecorder",
    "Recorder",
    "RequestRecord",
    "Series",
    "SeriesKey",
    "Snapshot",
    "Subject",
    "TaggedName",
    "read_snapshots",
    "read_tag",
    "tag_of",
    "write_interval",
]
