"""
The composition root: puts clock, recorder, spans and exporters together, once a process.

Importing this package imports no OpenTelemetry SDK; configuring does.
"""

from __future__ import annotations

from latspan.sdk._config import Config
from latspan.sdk._lifecycle import configure, force_flush, shutdown, snapshot

__all__ = ["Config", "configure", "force_flush", "shutdown", "snapshot"]
