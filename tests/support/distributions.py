"""Distributions that are installed as far as their own word goes, for integrations of nothing."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_distribution"]


def write_distribution(folder: Path, name: str, version: str, instrumentor: str = "") -> None:
    """
    Write what an installed distribution says of itself.

    Args:
        folder: One on Python's path.
        name: The distribution.
        version: Its version.
        instrumentor: Its entry point ``name = module:class`` for OpenTelemetry's loader, if any.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[opentelemetry_instrumentor]\n{instrumentor}\n")
