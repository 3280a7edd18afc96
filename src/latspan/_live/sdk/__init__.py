"""
Composition root: assembles clock, recorder, spans and exporters once per process.

Importing this package does not import the OpenTelemetry SDK; calling ``configure`` does.
"""

from __future__ import annotations

from latspan._live.sdk._config import Config, expectations, read_config
from latspan._live.sdk._lifecycle import configure, force_flush, shutdown, snapshot, stop_polling

__all__ = [
    "Config",
    "configure",
    "expectations",
    "force_flush",
    "read_config",
    "shutdown",
    "snapshot",
    "stop_polling",
]
