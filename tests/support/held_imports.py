"""Imports that other threads than the main one begin, and cannot finish before they are let go."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_DEADLINE_S = 30.0


def hold(*modules: str) -> threading.Event:
    """
    Hold back the imports of ``modules`` and of what is in them, on other threads than the main one.

    Returns:
        Event that lets them go on.
    """
    go_on = threading.Event()
    sys.meta_path.insert(0, _Finder(modules, go_on))
    return go_on


class _Finder:
    def __init__(self, modules: tuple[str, ...], go_on: threading.Event) -> None:
        self._modules = modules
        self._go_on = go_on

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """Return a module's specification, with a loader that waits."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main or not any(f"{name}.".startswith(f"{held}.") for held in self._modules):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def wait_and_execute(module: ModuleType) -> None:
            # Not in the search for the module: no thread can import anything during a search.
            assert self._go_on.wait(_DEADLINE_S)
            execute(module)

        loader.exec_module = wait_and_execute
        return spec
