"""``latspan scorecard URL``: a real Prometheus, and an application that still runs."""

from __future__ import annotations

import json

import pytest

from latspan.cli import main
from tests.backends.conftest import WATCHED, Watched


def test_outcomes_have_the_ratios_of_the_application(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    """The counts are extrapolated, so their ratios agree."""
    url = f"http://{watched.backends.addresses['LATSPAN_PROMETHEUS']}"
    where = f"service_name={WATCHED}"

    assert main(["scorecard", url, "--kind", "call", "--where", where, "--json"]) == 0

    cards = json.loads(capsys.readouterr().out)["cards"]
    (card,) = [each for each in cards if each["group"] == watched.variables["path"]]
    outcomes = watched.calls["outcomes"]
    calls = sum(outcomes.values())
    for period in card["periods"]:
        found = period["outcomes"]
        assert sum(found.values()) == period["requests"]
        # Each count is rounded to a whole number.
        assert {name: each / period["requests"] for name, each in found.items()} == pytest.approx(
            {name: each / calls for name, each in outcomes.items()}, abs=1 / period["requests"]
        )
        assert set(period["metrics"]) == {"time_to_first_token"}
