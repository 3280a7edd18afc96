"""Timings that a server reports: what another distribution needs to read those of its server."""

from __future__ import annotations

from latspan._evidence._sources import EvidenceSource
from latspan._segments import ReportedTimings
from latspan._wire import ResponseMetadata

__all__ = ["EvidenceSource", "ReportedTimings", "ResponseMetadata"]
