"""
Post-import hooks: functions that are called when a module has been imported.

A hook runs on the thread that imports the module, under the module's import lock, after the
module's own code. If the hook raises an exception, the import raises it. wrapt calls a hook at once
if the module is in ``sys.modules``, but a module is in it from the first moment of its import. So
:func:`when_imported` first takes the module's import lock: then the module is either imported
completely, or no other thread has begun to import it.

There are three cases in which an import may be in progress all the same. This thread itself is in
the middle of it, because the module, or a finder that looks for it, has called this function. The
importing thread waits for a module that this thread imports, so that Python refuses the lock. Or
this function runs in a hook: it then does not take the lock, because another thread may hold the
lock and wait for the module of the hook. wrapt's finder may have been asked for the module already,
so the hook is called when the importing thread releases the import lock. Both ways take a hook out
of ``_awaiting`` before they call it, so it is called once.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, Protocol

import wrapt

_awaiting: dict[tuple[str, Callable[[], None]], bool] = {}
"""Functions to call when a module has been imported. Changed by atomic operations only."""

_hooked: set[str] = set()
"""Modules that have a hook of latspan at wrapt: wrapt cannot remove a hook."""


class _Here(threading.local):
    """State of the current thread."""

    def __init__(self) -> None:
        self.finished: tuple[str, ...] = ()
        """Modules whose hooks this thread is calling: their own code has ended."""
        self.registers = False
        """Whether this thread is registering a hook at wrapt."""


_here = _Here()


def when_imported(module: str, call: Callable[[], None]) -> None:
    """
    Call ``call`` once when ``module`` has been imported, immediately if it has been already.

    If another thread is importing the module, this function waits for the end of that import. If
    this thread is importing it, ``call`` is called at the end of the import.

    Args:
        module: Name of the module.
        call: Must not raise, or the import would raise too.
    """
    with _import_lock_of(module):
        is_imported = _is_imported(module)
        if not is_imported:
            _awaiting[module, call] = True
            _register(module)
    if is_imported:
        call()
    else:
        _call_after_import_in_progress(module)


def stop_awaiting(module: str, call: Callable[[], None]) -> None:
    """Forget ``call``, which was passed to :func:`when_imported`, if it was not called yet."""
    _awaiting.pop((module, call), None)


def _is_imported(module: str) -> bool:
    """Return whether a module is imported completely."""
    found = sys.modules.get(module)
    if found is None or module in _here.finished:
        return found is not None
    return not getattr(getattr(found, "__spec__", None), "_initializing", False)


def _register(module: str) -> None:
    """Register a hook at wrapt, which calls it at the end of the next import of a module."""
    if module in _hooked or module in sys.modules:
        return
    _hooked.add(module)
    _here.registers = True
    try:
        # wrapt has no types for hooks.
        wrapt.register_post_import_hook(_imported, module)  # pyright: ignore[reportUnknownMemberType]
    finally:
        _here.registers = False


def _imported(module: ModuleType) -> None:
    """Call what has waited for ``module``; wrapt calls this after the module's own code."""
    name = module.__name__
    _hooked.discard(name)
    # While it registers the hook, wrapt calls it if another thread has begun to import the module.
    if not _here.registers:
        _call_awaiting(name)


def _call_awaiting(module: str) -> None:
    """Call what has waited for a module whose own code has ended."""
    outer = _here.finished
    _here.finished = (*outer, module)
    try:
        for each in _awaiting_of(module):
            # Another thread may have taken it.
            if _awaiting.pop(each, False):
                each[1]()
    finally:
        _here.finished = outer


def _call_after_import_in_progress(module: str) -> None:
    """
    If a thread is importing a module, let it call what waits for the module at the end.

    Nothing that waits is lost: this function looks at the lock after something began to wait, and
    the importing thread restores the lock before it looks for the last time at what waits.
    """
    lock = _lock_of(module)
    importing = getattr(lock, "owner", None)
    if lock is None or importing is None or "release" in vars(lock):
        return
    release = lock.release

    def call_and_release() -> None:
        try:
            # Otherwise, this is the end of an import inside the import of the module.
            if _is_imported(module):
                _call_awaiting(module)
        finally:
            release()
            if lock.owner != importing:
                vars(lock).pop("release", None)
                _call_or_register(module)

    vars(lock)["release"] = call_and_release
    if lock.owner != importing:
        # The import has ended before the lock was changed.
        vars(lock).pop("release", None)
        _call_or_register(module)


def _call_or_register(module: str) -> None:
    """Call what waits for a module after its import; register a hook if the import has failed."""
    if _is_imported(module):
        _call_awaiting(module)
    elif _awaiting_of(module):
        _register(module)


def _awaiting_of(module: str) -> list[tuple[str, Callable[[], None]]]:
    return [each for each in tuple(_awaiting) if each[0] == module]


@contextmanager
def _import_lock_of(module: str) -> Generator[None]:
    """Hold the lock that Python holds while it imports ``module``."""
    lock = _lock_of(module)
    held = None
    if lock is not None and not _here.finished:
        # The error is a deadlock: the importing thread waits for this one.
        with suppress(RuntimeError):
            lock.acquire()
            held = lock
    try:
        yield
    finally:
        if held is not None:
            held.release()


class _ModuleLock(Protocol):
    """Python's import lock of one module; ``owner`` is the importing thread."""

    owner: int | None

    def acquire(self) -> bool: ...

    def release(self) -> None: ...


def _lock_of(module: str) -> _ModuleLock | None:
    """
    Return the lock that Python holds while it imports ``module``; ``None`` if it has none.

    The lock is not part of Python's documented interface. Without it, a module that is being
    imported at this moment may stay without patches.
    """
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    lock_of = getattr(bootstrap, "_get_module_lock", None)
    return None if lock_of is None else lock_of(module)
