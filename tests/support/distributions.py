"""Distributions that consist of metadata only, for integrations that instrument nothing."""

from __future__ import annotations

from pathlib import Path


def write_distribution(folder: Path, name: str, version: str, instrumentor: str = "") -> None:
    """
    Write the metadata of an installed distribution.

    Args:
        folder: A folder on Python's path.
        name: The distribution.
        version: Its version.
        instrumentor: Its entry point ``name = module:class`` for OpenTelemetry's loader, if any.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[opentelemetry_instrumentor]\n{instrumentor}\n")
