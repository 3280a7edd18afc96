"""
The pytest plugin: a fixture ``latspan`` that records what a test's calls cost.

This module is loaded in every test run, so it imports nothing until the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from latspan.testing._fixture import LatspanFixture

__all__ = ["latspan"]


@pytest.fixture
def latspan() -> Iterator[LatspanFixture]:
    """
    Record this test's calls into an empty recorder, the installed clients instrumented.

    ``latspan.percentile("ttft", 95, unit="ms")``, ``latspan.segment("queue")`` and
    ``latspan.count()`` read what was recorded; every public name of the module ``latspan`` is
    there too.
    """
    from latspan.testing._fixture import recording_fixture

    with recording_fixture() as fixture:
        yield fixture
