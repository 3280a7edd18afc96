"""
The pytest plugin: a fixture ``latspan_capture`` that records the calls of a test.

pytest loads this module in every test run, so it imports nothing until a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from latspan.testing._fixture import LatspanCapture

_SAVE: Final = "--latspan-save-baselines"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    parser.getgroup("latspan").addoption(
        _SAVE,
        action="store_true",
        help="latspan_capture.assert_no_worse() adds the run to its baseline file",
    )


@pytest.fixture
def latspan_capture(request: pytest.FixtureRequest) -> Iterator[LatspanCapture]:
    """
    Instrument the installed clients and record this test's calls into an empty recorder.

    ``latspan_capture.percentile("ttft", 95, unit="ms")``, ``latspan_capture.segment("queue")`` and
    ``latspan_capture.count()`` return what was recorded.
    """
    from latspan.testing._fixture import recording_fixture

    with recording_fixture(saves_baselines=bool(request.config.getoption(_SAVE))) as fixture:
        yield fixture
