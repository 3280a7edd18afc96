"""Log lines about an outage: one warning, and one line about its end that names the same signal."""

from __future__ import annotations

import logging

import pytest

from latspan._live.otel.export._export_errors import ExportErrors
from support.outages import forget_outages


@pytest.fixture
def log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """The log from the level of recoveries on, without an outage of an earlier test."""
    forget_outages(monkeypatch)
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


def test_an_export_that_began_in_an_outage_begins_no_other(log: pytest.LogCaptureFixture) -> None:
    """The receiver never answers it, and has accepted another signal meanwhile."""
    spans, histograms = ExportErrors("spans"), ExportErrors("histograms")

    ExportErrors.failed("spans", "refused")
    with histograms.one() as hangs:
        spans.arrived()
        hangs.reason = "timed out"
    assert firsts(log) == ["exporting spans failed", "exporting spans works"]

    with histograms.one() as hangs:
        hangs.reason = "timed out"
    assert firsts(log)[2:] == ["exporting histograms failed"]


def test_a_loss_is_logged_once_per_outage(log: pytest.LogCaptureFixture) -> None:
    """An outage may begin with a retryable status; a loss during it is a line of its own."""
    spans = ExportErrors("spans")

    for _ in range(2):
        for is_lost in (False, True):
            ExportErrors.failed("spans", "refused", is_lost=is_lost)
    spans.arrived()
    ExportErrors.failed("spans", "404", is_lost=True)
    ExportErrors.failed("spans", "503")

    fates = [message.split("they are ")[-1].split(",")[0] for message in log.messages]
    assert fates == ["kept", "lost", "exporting spans works again", "lost"]
