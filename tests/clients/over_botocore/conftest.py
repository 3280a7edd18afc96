"""What the tests of botocore share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import latspan
from latspan.testing import Captured, capture

pytest.importorskip("boto3", reason="boto3 is not installed")

from support.bedrock import knows


@pytest.fixture
def seen() -> Iterator[Captured]:
    """What latspan records on the machine's clock."""
    with capture() as captured:
        yield captured


@pytest.fixture
def without_transports() -> Iterator[None]:
    """Switch the integrations of HTTP clients off."""
    latspan.uninstrument(*(set(latspan.auto_instrument()) - {"latspan_botocore"}))
    yield
    latspan.auto_instrument()


@pytest.fixture(params=["with-transports", "alone"])
def transports(request: pytest.FixtureRequest) -> str:
    """Which of the integrations are on: the SDK's, with or without those of HTTP clients."""
    if request.param == "alone":
        request.getfixturevalue("without_transports")
    return request.param


@pytest.fixture
def counts_cached() -> None:
    """Skip the test if this version of botocore drops the counts of cached tokens."""
    if not knows("TokenUsage", "cacheReadInputTokens"):
        pytest.skip("this version of botocore drops the counts of cached tokens")
