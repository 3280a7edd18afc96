"""What the tests beside others share with those of the clients."""

from __future__ import annotations

from tests.clients.conftest import (
    _instrumented,  # pyright: ignore[reportPrivateUsage, reportUnusedImport]  # noqa: F401
    driver,  # noqa: F401
    seen,  # noqa: F401
)
