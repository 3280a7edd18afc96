"""Log lines about an outage: one warning, and one line about its end that names the same signal."""

from __future__ import annotations

import logging

import pytest

from latspan._export._export_errors import ExportErrors


@pytest.fixture
def log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """The log from the level of recoveries on, without an outage of an earlier test."""
    monkeypatch.setattr(ExportErrors, "_warned", set[str]())
    caplog.set_level(logging.INFO, "latspan")
    return caplog


def firsts(log: pytest.LogCaptureFixture) -> list[str]:
    return [" ".join(message.split()[:3]).rstrip(";") for message in log.messages]


def test_a_recovery_names_the_signal_of_the_warning(log: pytest.LogCaptureFixture) -> None:
    """Both signals fail and recover, and the other one recovers first."""
    spans, histograms = ExportErrors("spans"), ExportErrors("histograms")

    ExportErrors.failed("spans", "refused")
    ExportErrors.failed("histograms", "refused")
    histograms.arrived()
    ExportErrors.failed("spans", "refused")
    assert firsts(log) == ["exporting spans failed"]

    spans.arrived()
    histograms.arrived()
    assert firsts(log) == ["exporting spans failed", "exporting spans works"]


def test_a_signal_that_still_fails_has_its_own_warning(log: pytest.LogCaptureFixture) -> None:
    """After the recovery of the other one; for example if only the path of metrics is wrong."""
    spans, histograms = ExportErrors("spans"), ExportErrors("histograms")

    ExportErrors.failed("spans", "refused")
    ExportErrors.failed("histograms", "refused")
    spans.arrived()
    ExportErrors.failed("histograms", "404")
    ExportErrors.failed("histograms", "404")
    histograms.arrived()

    assert firsts(log) == [
        "exporting spans failed",
        "exporting spans works",
        "exporting histograms failed",
        "exporting histograms works",
    ]
