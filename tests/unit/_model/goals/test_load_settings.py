"""Settings of a load: what follows from the description of each."""

from __future__ import annotations

import pytest

from latspan._model.goals import LOAD_CONDITIONS, FieldError, LoadSettings


def test_comparable_measurements_are_equal_in_the_conditions() -> None:
    """The seed is none: another order of the same prompts explains nothing."""
    assert LOAD_CONDITIONS == ("timeout_s", "max_in_flight", "connections", "cache")


def test_conditions_are_what_is_known_of_a_measurement() -> None:
    """Which connections the calls of a function use is not known."""
    known = {"timeout_s": 60.0, "max_in_flight": None, "cache": "as-is", "seed": 0}
    assert LoadSettings().conditions(of_api=False) == known
    assert LoadSettings().conditions(of_api=True) == {**known, "connections": "reused"}


def test_a_number_outside_its_range_names_the_field() -> None:
    with pytest.raises(FieldError, match=r"timeout_s must be from 0\.001 to 86400 \(got 0\)"):
        LoadSettings(timeout_s=0)
