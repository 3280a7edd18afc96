"""What the tests of hooks and of what people say by hand share: a clock, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from latspan.testing import Captured, ManualClock, capture


@pytest.fixture
def clock() -> ManualClock:
    """Time that passes when told to."""
    return ManualClock()


@pytest.fixture
def seen(clock: ManualClock) -> Iterator[Captured]:
    """What is recorded on that clock."""
    with capture(clock=clock) as captured:
        yield captured
