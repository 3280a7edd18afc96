"""Outages of receivers, each of which a process logs once."""

from __future__ import annotations

import pytest

from latspan._live.otel.export._export_errors import ExportErrors


def forget_outages(patch: pytest.MonkeyPatch) -> None:
    """Begin without an outage of an earlier test, which would hide the log line of the next."""
    patch.setattr(ExportErrors, "_warned", set[str]())
    patch.setattr(ExportErrors, "_loss_warned", set[str]())
