"""
Imports on a background thread that cannot break imports of the application.

Python locks each module while it is imported, and a package's module imports its submodules under
its own lock. If the application imports ``requests.adapters`` at the moment at which another thread
imports ``requests``, each waits for a lock that the other holds. Python resolves that by giving one
of them a module that is not complete, and the application may fail with an ``ImportError``.

So a background thread first takes the locks of all modules of the packages that it imports. If
another thread holds one of them, it releases all of them again. So it holds every lock that it
needs, or waits while it holds none. An import of the application waits for a single lock, holds no
other lock that the background thread needs, and finds the module complete afterwards.

The locks are not part of Python's documented interface. Without them, the modules are imported
without this protection.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_RETRY_S: Final = 0.005
"""Seconds until the locks are tried again after one was taken."""


class Imports(NamedTuple):
    """
    Modules that are imported together.

    Args:
        packages: Packages whose modules are locked during the import: those of ``modules``, and
            those that these import. A package that is not installed is skipped.
        modules: Modules to import.
        needs: Modules that warn if a package is not installed, and the package. They are then
            absent during the import, and the modules that import them handle their absence. A
            filter of warnings does not help, because another thread may undo it at any moment.
    """

    packages: Sequence[str]
    modules: Sequence[str]
    needs: Mapping[str, str] = MappingProxyType({})

    def load(self, is_stopped: Callable[[], bool]) -> None:
        """
        Import the modules; wait while another thread imports a module of the packages.

        Args:
            is_stopped: Returns whether to give up waiting.
        """
        if all(_is_complete(module) for module in self.modules):
            return
        names = [name for package in self.packages for name in _modules_of(package)]
        while not is_stopped():
            with _all_locked(names) as are_locked:
                if are_locked:
                    with self._hidden():
                        for module in self.modules:
                            import_module(module)
                    return
            time.sleep(_RETRY_S)

    @contextmanager
    def _hidden(self) -> Generator[None]:
        """Let the modules that would warn be absent inside the block."""
        missing = [
            module
            for module, package in self.needs.items()
            if module not in sys.modules and find_spec(package) is None
        ]
        # `None` means to Python that there is no such module.
        sys.modules.update(dict.fromkeys(missing))  # pyright: ignore[reportArgumentType, reportCallIssue]
        try:
            yield
        finally:
            for module in missing:
                del sys.modules[module]


def _is_complete(module: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _modules_of(package: str) -> Iterator[str]:
    """Yield the names of a package and of all modules in it, without importing them."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return
    if spec is not None:
        yield package
        yield from _submodules(package, spec.submodule_search_locations or ())


def _submodules(package: str, folders: Iterable[str]) -> Iterator[str]:
    from pkgutil import iter_modules

    for finder, name, is_package in iter_modules(list(folders)):
        yield f"{package}.{name}"
        folder = getattr(finder, "path", None)
        if is_package and folder is not None:
            yield from _submodules(f"{package}.{name}", [str(Path(folder, name))])


@contextmanager
def _all_locked(names: Iterable[str]) -> Generator[bool]:
    """
    Hold the import locks of all modules inside the block, or none.

    Yields:
        Whether the locks are held, or do not exist in this version of Python.
    """
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    lock_of: Callable[[str], Any] = getattr(bootstrap, "_get_module_lock", lambda _name: None)
    is_known = all(hasattr(lock_of("latspan"), name) for name in ("lock", "owner", "count"))
    held: list[Any] = []
    try:
        yield not is_known or _take_all(map(lock_of, names), held)
    finally:
        for lock in reversed(held):
            lock.release()


def _take_all(locks: Iterable[Any], held: list[Any]) -> bool:
    """Take the locks, up to one that another thread holds; return whether all were taken."""
    me = threading.get_ident()
    for lock in locks:
        if not _take(lock, me):
            return False
        held.append(lock)
    return True


def _take(lock: Any, me: int) -> bool:
    """
    Take a lock unless another thread holds it, and return whether it was taken.

    The lock itself has no such operation. Its inner lock guards its state, so no other thread can
    take it in the block. A thread that waits for a lock while it holds others breaks the import of
    another thread that does the same: Python raises an error in one of the two.
    """
    with lock.lock:
        owner = lock.owner
        if owner is not None and owner != me:
            return False
        if type(lock.count) is int:
            # The inner lock of Python 3.11 cannot be taken twice. Nothing here may collect garbage,
            # because a finaliser might need it.
            lock.owner = me
            lock.count += 1
        else:
            lock.acquire()
        return True
