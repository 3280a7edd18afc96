"""
Composition root: assembles clock, recorder, spans and exporters once per process.

Importing this package does not import the OpenTelemetry SDK; calling ``configure`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._sdk._lifecycle import configure, force_flush, shutdown, snapshot

if TYPE_CHECKING:
    from latspan._sdk._config import Config

__all__ = ["Config", "configure", "force_flush", "shutdown", "snapshot"]


def __getattr__(name: str) -> object:
    if name == "Config":
        from latspan._sdk._config import Config

        return Config
    raise AttributeError(f"module 'latspan._sdk' has no attribute '{name}'")
