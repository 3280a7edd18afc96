"""Fixtures that these tests share with the tests of the clients."""

from __future__ import annotations

from importlib.util import find_spec

from tests.clients import conftest

# A fixture is found by its name in the module.
_instrumented = conftest._instrumented  # pyright: ignore[reportPrivateUsage]
driver = conftest.driver
seen = conftest.seen

# These packages pin one another, so they are only installed in `.venv-coexistence`.
collect_ignore_glob = [] if find_spec("openinference") else ["test_*.py"]
