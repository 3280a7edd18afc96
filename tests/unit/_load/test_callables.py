"""Names of functions that are measured."""

from __future__ import annotations

import pytest

from latspan._load._callables import load_callable
from latspan.errors import MeasurementError


@pytest.mark.parametrize(
    ("name", "hint"),
    [("app.py:answer", "use app:answer"), ("shop/app.py:answer", "use shop.app:answer")],
)
def test_the_name_of_a_file_is_corrected(name: str, hint: str) -> None:
    """A module has no ending."""
    with pytest.raises(MeasurementError, match="is the name of a file") as raised:
        load_callable(name)

    assert raised.value.hint == hint
