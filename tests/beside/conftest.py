"""What the tests beside others share with those of the clients."""

from __future__ import annotations

from tests.clients import conftest

# A fixture is found by its name in the module.
_instrumented = conftest._instrumented  # pyright: ignore[reportPrivateUsage]
driver = conftest.driver
seen = conftest.seen
