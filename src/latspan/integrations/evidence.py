"""Timings that a server reports: the names that another distribution needs to read them."""

from __future__ import annotations

from latspan._model.evidence._sources import EvidenceSource
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

__all__ = ["EvidenceSource", "ReportedTimings", "ResponseMetadata"]
