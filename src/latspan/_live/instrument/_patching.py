"""
Patches that can be removed exactly.

A method is replaced by a plain function, like the original: each access to it returns the same
function, which is not the case with a descriptor such as ``wrapt.FunctionWrapper``. wrapt is used
only to unwrap the wrappers of other instrumentations, which patch with it. Patches are undone in
reverse order, because a later patch may wrap an earlier one. After that, every class must have the
identical objects that it had before, and must not itself have an attribute that it inherited
before.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import CoroutineType, MethodType, ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import wrapt

from latspan._live.instrument._import_hooks import stop_awaiting, when_imported
from latspan.errors import InstrumentationError

_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")

_ABSENT = object()

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""
``wrapper(wrapped, instance, args, kwargs)``, as wrapt calls it.

``wrapped`` is the original method, bound to ``instance``.
"""


class _Change(NamedTuple):
    """
    One changed attribute of a class or module.

    Args:
        owner: The class or module.
        name: The attribute's name.
        ours: latspan's replacement. It is the current value, unless another instrumentation has
            wrapped it.
        original: The previous value.
    """

    owner: type | ModuleType
    name: str
    ours: object
    original: object

    def undo(self) -> None:
        current = vars(self.owner).get(self.name, _ABSENT)
        if current is not self.ours:
            for holder in _wrappers(current):
                if holder.__wrapped__ is self.ours and self.original is not _ABSENT:
                    holder.__wrapped__ = self.original
            # Inside a wrapper that cannot be unwrapped, latspan's function stays and calls the
            # original.
        elif self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


def _wrappers(method: Any) -> Iterator[Any]:
    """Yield the wrappers around a function, the outermost first."""
    while isinstance(method, wrapt.FunctionWrapper):
        # wrapt's own stubs do not declare the type of the wrapped object.
        wrapper: Any = method  # pyright: ignore[reportUnknownVariableType]
        yield wrapper
        method = wrapper.__wrapped__


class Patches:
    """
    Changes that an integration has made to a client library, and methods to undo them.

    Args:
        on_error: Called with an exception that a function passed to :meth:`when_imported` raises.
            If not given, the import that the function waited for raises it.
    """

    def __init__(self, on_error: Callable[[BaseException], None] | None = None) -> None:
        self._changes: list[_Change] = []
        self._awaiting: list[tuple[str, Callable[[], None]]] = []
        self._on_error = on_error
        self._on = True

    def wrap(self, cls: type, name: str, wrapper: Wrapper) -> None:
        """
        Wrap a method and preserve its signature, its name and whether it is a coroutine function.

        Args:
            cls: The class.
            name: The method's name.
            wrapper: Called instead.

        Raises:
            InstrumentationError: The class has no such method.
        """
        self._set(cls, name, self._wrapped(self._get(cls, name), wrapper))

    def wrap_innermost(self, cls: type, name: str, wrapper: Wrapper) -> None:
        """
        Wrap a method inside the wrappers that other instrumentations have put around it.

        The spans that they open around a call are then current in ``wrapper``, regardless of the
        order in which the patches were applied.

        Args:
            cls: The class.
            name: The method's name.
            wrapper: Called instead.

        Raises:
            InstrumentationError: The class has no such method.
        """
        self._get(cls, name)
        # Read without the descriptor protocol: a normal access returns a bound wrapper.
        method: Any = inspect.getattr_static(cls, name)
        holder = None
        for holder in _wrappers(method):
            method = holder.__wrapped__
        ours = self._wrapped(method, wrapper)
        if holder is None:
            self._set(cls, name, ours)
        else:
            self._changes.append(_Change(cls, name, ours, method))
            holder.__wrapped__ = ours

    def replace(
        self,
        owner: type | ModuleType,
        name: str,
        make: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        """
        Replace a method by the result of ``make``, without the calls that a wrapper adds.

        Args:
            owner: The class; or a module, if ``name`` is one of its functions.
            name: The method's name.
            make: Returns the replacement, given the original.

        Raises:
            InstrumentationError: There is no such method.
        """
        self._set(owner, name, make(self._get(owner, name)))

    def set_attribute(self, cls: type, name: str, value: object) -> None:
        """
        Set a class attribute for other integrations to read, until the patches are removed.
        """
        self._set(cls, name, value)

    def when_imported(self, module: str, patch: Callable[[], None]) -> None:
        """
        Call ``patch`` when a module of the library has been imported, at once if it has been.

        Many libraries import their modules on first use. A patch that needs such a module must not
        import it, because the application may never use it.

        Args:
            module: Name of the module.
            patch: Applies further patches; not called after the patches were removed.

        Raises:
            InstrumentationError: There is no such module.
        """
        if module not in sys.modules and not _exists(module):
            raise InstrumentationError(
                f"there is no module '{module}'",
                hint="the name is wrong, or this version of the library is not supported",
            )

        def apply() -> None:
            if not self._on:
                return
            try:
                patch()
            except BaseException as error:
                if self._on_error is None:
                    raise
                self._on_error(error)
            if not self._on:
                # The patches were removed meanwhile, by another thread or because of the error.
                self.restore()

        self._awaiting.append((module, apply))
        when_imported(module, apply)

    def restore(self) -> None:
        """
        Restore the identical original objects, last change first.

        Wrappers that other instrumentations have put around latspan's functions stay, and then wrap
        the originals.
        """
        self._on = False
        while self._awaiting:
            stop_awaiting(*self._awaiting.pop())
        while self._changes:
            self._changes.pop().undo()

    def _wrapped(self, original: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._on:
                # A wrapper of another library may still call this function after the patches were
                # removed.
                return original(instance, *args, **kwargs)
            return wrapper(MethodType(original, instance), instance, args, kwargs)

        return as_coroutine_function(method) if inspect.iscoroutinefunction(original) else method

    def _get(self, owner: type | ModuleType, name: str) -> Callable[..., Any]:
        method = getattr(owner, name, None)
        if not callable(method):
            raise InstrumentationError(
                f"{_name_of(owner)} has no method '{name}'",
                hint="the name is wrong, or this version of the library is not supported",
            )
        return method

    def _set(self, owner: type | ModuleType, name: str, value: object) -> None:
        # Only the class's own attribute is restored; an inherited one must not become its own.
        self._changes.append(_Change(owner, name, value, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)


def _exists(module: str) -> bool:
    """Return whether a module can be found, without importing the packages that it is in."""
    path: Any = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        package: Any = sys.modules.get(name)
        if package is not None:
            path = getattr(package, "__path__", ())
            continue
        spec: Any = None
        for finder in sys.meta_path:
            # The finders of post-import hooks import the packages.
            if type(finder).__name__ != "ImportHookFinder" and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path)
            if spec is not None:
                break
        if spec is None:
            return False
        path = spec.submodule_search_locations or ()
    return True


def _name_of(owner: type | ModuleType) -> str:
    if isinstance(owner, ModuleType):
        return owner.__name__
    return f"{owner.__module__}.{owner.__qualname__}"


def as_coroutine_function(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """
    Mark a function that returns a coroutine, for ``inspect.iscoroutinefunction``.

    An ``async def`` would work too, but would raise for wrong arguments only when awaited.

    Args:
        function: A plain function; it is modified and returned.
    """
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    # Python 3.11 has no function for this. `inspect` reads this flag of the code object. The flag
    # does not change what the function does: in an `async def` function, a bytecode instruction
    # creates the coroutine, and this plain function does not have that instruction.
    plain: Any = function
    plain.__code__ = plain.__code__.replace(co_flags=plain.__code__.co_flags | inspect.CO_COROUTINE)
    return function


def impersonate(ours: Coroutine[Any, Any, _T], begun: Awaitable[_T]) -> Coroutine[Any, Any, _T]:
    """
    Return ``ours``, made to look like ``begun``, which it awaits.

    ``ours`` gets the name of ``begun``. If ``ours`` is dropped before its first step, for example
    by a task that is cancelled immediately, ``begun`` is closed, so that Python prints no
    additional warning.

    Args:
        ours: latspan's coroutine, not started yet.
        begun: The awaitable that the client library returned. latspan has already called the
            library's method, so that wrong arguments raise at the application's call and not at its
            ``await``. The awaitable starts no work before it is awaited.
    """
    if isinstance(begun, CoroutineType):
        named: Any = ours
        named.__name__, named.__qualname__ = begun.__name__, begun.__qualname__
        weakref.finalize(ours, begun.close).atexit = False
    return ours
