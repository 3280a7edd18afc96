"""What the contract for integrations compares."""

from __future__ import annotations

import warnings
from types import ModuleType

from latspan.testing import contract


def _held(module: ModuleType) -> dict[type | ModuleType, dict[str, object]]:
    return {module: dict(vars(module))}


def test_a_warning_of_the_sdk_is_no_patch() -> None:
    """Python stores in the module that it has warned, perhaps while it collects garbage."""
    module = ModuleType("sdk")
    before = _held(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("import warnings; warnings.warn('a line of the SDK')", vars(module))  # noqa: S102
    del module.__dict__["__builtins__"], module.__dict__["warnings"]
    assert "__warningregistry__" in vars(module)
    module.__dict__["patched"] = None

    found = contract._differences(before, _held(module))  # pyright: ignore[reportPrivateUsage]

    assert found == [(module, "patched")]
