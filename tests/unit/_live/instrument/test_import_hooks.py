"""Post-import hooks of a module whose import has begun when they are registered."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import wrapt

from latspan._live.instrument._import_hooks import stop_awaiting, when_imported
from support.snippets import run_text

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Write:
    """Write a package under a name of this test; its modules may call functions of ``test``."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    name = f"package{abs(hash(request.node.name))}"

    def put(**modules: str) -> str:
        (tmp_path / name).mkdir()
        for module, code in modules.items():
            text = f"import sys\ntest = sys.modules['test_of_{name}']\n{code}\nDONE = True\n"
            file = "__init__" if module == "package" else module
            (tmp_path / name / f"{file}.py").write_text(text)
        importlib.invalidate_caches()
        return name

    return put


@pytest.fixture
def test(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Return an object for functions that the modules call."""
    functions: Any = ModuleType("test")
    name = f"test_of_package{abs(hash(request.node.name))}"
    monkeypatch.setitem(sys.modules, name, functions)
    return functions


class Calls:
    """Calls of a hook: whether the module was complete at each of them."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.complete: list[bool] = []

    def __call__(self) -> None:
        """Call the hook."""
        self.complete.append(hasattr(sys.modules[self.module], "DONE"))


class Finder(MetaPathFinder):
    """Finder that finds nothing, but calls a function when a module is looked for."""

    def __init__(self, module: str, call: Callable[[], object]) -> None:
        self.module = module
        self.call = call
        self.is_called = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """Call the function the first time."""
        if fullname == self.module and not self.is_called:
            self.is_called = True
            self.call()
        return None


def test_the_module_itself_registers_a_hook(write: Write, test: Any) -> None:
    """The hook is called at the end of the import, before another thread can use the module."""
    name = write(package="test.register()")
    calls = Calls(name)
    test.register = lambda: when_imported(name, calls)

    importlib.import_module(name)

    assert calls.complete == [True]


def test_a_module_that_the_package_imports_registers_a_hook(write: Write, test: Any) -> None:
    """That module also imports the package, which is not complete then."""
    name = write(package="from . import inner", inner="import importlib; test.register(importlib)")
    calls = Calls(name)

    def register(imports: Any) -> None:
        when_imported(name, calls)
        imports.import_module(name)
        assert calls.complete == []

    test.register = register
    importlib.import_module(name)

    assert calls.complete == [True]


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
def test_a_finder_registers_a_hook_while_the_module_is_looked_for(
    write: Write, test: Any, is_first: bool
) -> None:
    """The finder of hooks has then been asked, or is not asked at all."""
    del test
    name = write(package="")
    calls = Calls(name)
    finder = Finder(name, lambda: when_imported(name, calls))
    # Other tests may have added finders after the one that finds files.
    place = 0 if is_first else sys.meta_path.index(PathFinder)
    sys.meta_path.insert(place, finder)
    try:
        importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)

    assert calls.complete == [True]


def test_a_hook_outlives_an_import_that_fails(write: Write, test: Any) -> None:
    """The next import calls it."""
    name = write(package="test.register()")
    calls = Calls(name)

    def register() -> None:
        when_imported(name, calls)
        raise LookupError

    test.register = register
    with pytest.raises(LookupError):
        importlib.import_module(name)
    assert calls.complete == []

    test.register = int
    importlib.import_module(name)
    assert calls.complete == [True]


def test_a_hook_that_is_withdrawn_meanwhile_is_not_called(write: Write, test: Any) -> None:
    name = write(package="test.register(); test.withdraw()")
    calls = Calls(name)
    test.register = lambda: when_imported(name, calls)
    test.withdraw = lambda: stop_awaiting(name, calls)

    importlib.import_module(name)

    assert calls.complete == []


def test_a_hook_that_raises_lets_other_threads_import_the_module(write: Write, test: Any) -> None:
    """The importing thread releases the import lock all the same."""
    name = write(package="test.register()")

    def fail() -> None:
        raise LookupError

    test.register = lambda: when_imported(name, fail)
    with pytest.raises(LookupError):
        importlib.import_module(name)

    importing = threading.Thread(target=importlib.import_module, args=(name,), daemon=True)
    importing.start()
    importing.join(30)
    assert not importing.is_alive()


def test_threads_that_wait_for_each_others_imports_lose_no_hook(write: Write, test: Any) -> None:
    """Python gives one of them an incomplete module; the other one calls the hook."""
    name = write(package="test.begin(); from . import inner", inner="test.register()")
    calls = Calls(name)
    begun = threading.Event()
    blocking_on: Any = vars(importlib)["_bootstrap"]._blocking_on

    def begin() -> None:
        begun.set()
        assert in_inner.wait(30)

    def register() -> None:
        in_inner.set()
        # From Python 3.12 on it is no dict, and holds a list per thread.
        while not blocking_on.get(package.ident):
            pass
        when_imported(name, calls)

    in_inner = threading.Event()
    test.begin, test.register = begin, register
    package = threading.Thread(target=importlib.import_module, args=(name,))
    inner = threading.Thread(target=importlib.import_module, args=(f"{name}.inner",))
    package.start()
    assert begun.wait(30)
    inner.start()
    for thread in (package, inner):
        thread.join(30)

    assert calls.complete == [True]


def test_a_hook_registers_one_for_a_module_that_another_thread_imports(
    write: Write, test: Any
) -> None:
    """It must not wait for that thread, which calls the second hook instead."""
    name = write(package="test.begin()", later="test.hold()")
    later = f"{name}.later"
    calls = Calls(later)
    begun, held, may_go_on = threading.Event(), threading.Event(), threading.Event()

    def begin() -> None:
        begun.set()
        assert held.wait(30)

    def hold() -> None:
        held.set()
        assert may_go_on.wait(30)

    test.begin, test.hold = begin, hold
    when_imported(name, lambda: when_imported(later, calls))
    package = threading.Thread(target=importlib.import_module, args=(name,))
    package.start()
    assert begun.wait(30)
    other = threading.Thread(target=importlib.import_module, args=(later,))
    other.start()
    package.join(30)
    assert calls.complete == []
    may_go_on.set()
    other.join(30)

    assert calls.complete == [True]


def test_a_hook_of_another_package_for_the_same_module_is_called_too(
    write: Write, test: Any
) -> None:
    """At the end of the import, each of them is called once."""
    name = write(package="test.register()")
    first, second = Calls(name), Calls(name)
    others: list[str] = []
    wrapt.register_post_import_hook(lambda module: others.append(module.__name__), name)
    when_imported(name, first)
    test.register = lambda: when_imported(name, second)

    importlib.import_module(name)

    assert (first.complete, second.complete, others) == ([True], [True], [name])


EVERY_LIBRARY = """
import importlib, importlib.abc, os, sys
import latspan
from latspan._live.instrument._discovery import instrumentor_of, patched_libraries
from latspan._live.instrument._instrumentor import triggers_of

class Finder(importlib.abc.MetaPathFinder):
    library = ""
    def find_spec(self, name, path, target=None):
        if self.library and name.startswith(self.library + "."):
            self.library = ""
            latspan.auto_instrument()

for each in latspan.auto_instrument():
    library = each.removeprefix("latspan_")
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    latspan.uninstrument()
    Finder.library = library
    sys.meta_path.insert(0, Finder())
    importlib.import_module(triggers_of(instrumentor_of(library))[0])
    if Finder.library:
        # A library that imports no module of its own.
        latspan.auto_instrument()
    print(library, library in patched_libraries(), flush=True)
    os._exit(0)
"""


def test_every_library_is_instrumented_from_within_its_import() -> None:
    """The first module that a library imports calls ``auto_instrument``."""
    instrumented = dict(line.split() for line in run_text(EVERY_LIBRARY).stdout.splitlines())

    assert "openai" in instrumented
    assert set(instrumented.values()) == {"True"}
