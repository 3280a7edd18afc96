"""The server that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from latspan.testing import ScriptedServer
from tests.clients.truth.site import Site


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    """A model server in a process of its own, and the ways to it."""
    with ScriptedServer() as server:
        yield Site(server)
