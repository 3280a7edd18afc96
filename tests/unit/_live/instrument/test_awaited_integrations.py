"""latspan's own integrations are loaded when the application imports their library."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import latspan
from latspan._live.instrument import instrumented
from latspan._live.instrument._discovery import awaited_packages
from latspan._live.instrument._instrumentor import triggers_of
from support.distributions import write_distribution

LIBRARY = """
class Client:
    def ask(self):
        return "asked"
"""

INTEGRATION = """
import importlib
from latspan._live.instrument import Instrumentor

def louder(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs) + "!"

class Loud(Instrumentor):
    requires = ("{library} >= 2, < 3",)

    def patch(self, patches):
        from {library} import Client
        patches.wrap(Client, "ask", louder)
        {then}
"""

Install = Callable[..., str]


@pytest.fixture
def install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Install]:
    """
    Put a client library and its integration on Python's path, under names of this test.

    The integration belongs to a distribution called latspan, which hides the real one.
    """
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    library = f"library{abs(hash(request.node.name))}"

    def put(
        version: str = "2.1", *, code: str = LIBRARY, then: str = "pass", first: str = ""
    ) -> str:
        (tmp_path / library).mkdir()
        (tmp_path / library / "__init__.py").write_text(code)
        (tmp_path / library / "streams.py").write_text(LIBRARY)
        text = first + INTEGRATION.format(library=library, then=then)
        (tmp_path / f"loud_{library}.py").write_text(text)
        write_distribution(tmp_path, library, version)
        write_distribution(tmp_path, "latspan", "1", f"latspan_{library} = loud_{library}:Loud")
        importlib.invalidate_caches()
        return library

    yield put
    latspan.uninstrument()


def asked(library: str) -> str:
    return importlib.import_module(library).Client().ask()


def warnings_of(caplog: pytest.LogCaptureFixture, library: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if library in record.getMessage() and record.levelno > logging.DEBUG
    ]


def test_neither_the_library_nor_its_integration_is_imported(install: Install) -> None:
    """Both are when the application imports the library."""
    library = install()

    assert latspan.auto_instrument() == (f"latspan_{library}",)
    assert {library, f"loud_{library}"}.isdisjoint(sys.modules)
    assert asked(library) == "asked!"
    assert instrumented() == (f"latspan_{library}",)


def test_an_imported_library_is_instrumented_at_once(install: Install) -> None:
    library = install()
    importlib.import_module(library)

    assert latspan.auto_instrument() == (f"latspan_{library}",)
    assert asked(library) == "asked!"


def test_a_library_that_is_not_installed_is_not_awaited(install: Install, tmp_path: Path) -> None:
    library = install()
    (tmp_path / library).rename(tmp_path / "elsewhere")
    importlib.invalidate_caches()

    assert latspan.auto_instrument() == ()


def test_an_awaited_library_can_be_switched_off_and_on(install: Install) -> None:
    """However often, the library is patched once."""
    library = install()
    for _ in range(3):
        latspan.auto_instrument()
        latspan.auto_instrument()
        latspan.uninstrument(f"latspan_{library}")
    assert instrumented() == ()

    assert asked(library) == "asked"
    latspan.auto_instrument()
    latspan.auto_instrument()
    assert asked(library) == "asked!"
    latspan.uninstrument()
    assert asked(library) == "asked"


def test_a_disabled_integration_is_not_awaited(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = install()
    monkeypatch.setenv("LATSPAN_DISABLED_INSTRUMENTATIONS", f"latspan_{library}")

    assert latspan.auto_instrument() == ()
    assert asked(library) == "asked"


@pytest.mark.parametrize(
    ("put", "warning"),
    [
        (
            {"first": "raise RuntimeError('broken')\n"},
            "latspan_{} could not be loaded and stays off",
        ),
        (
            {"then": "raise RuntimeError('broken')"},
            "{} is not instrumented: its integration failed",
        ),
        (
            {"then": "patches.when_imported('{}.gone'.format(Client.__module__), print)"},
            "{} is not instrumented: its integration failed",
        ),
        (
            {"version": "1.9"},
            "{0} 1.9 is installed but not instrumented: latspan supports {0} >= 2, < 3",
        ),
    ],
    ids=["at its import", "at a patch", "a module is missing", "a version is not supported"],
)
def test_an_integration_that_fails_lets_the_import_succeed(
    install: Install, caplog: pytest.LogCaptureFixture, put: dict[str, str], warning: str
) -> None:
    """It is off from then on, and the reason is logged once."""
    library = install(**put)

    assert latspan.auto_instrument() == (f"latspan_{library}",)
    assert asked(library) == "asked"

    assert instrumented() == ()
    assert latspan.auto_instrument() == ()
    assert warnings_of(caplog, library) == [warning.format(library)]


LATE = """
        patches.when_imported("{0}.streams", lambda: patches.wrap(
            importlib.import_module("{0}.streams").Client, {1!r}, louder))
"""


def late(install: Install, method: str) -> str:
    """Install an integration that patches a second module when it is imported."""
    library = f"library{abs(hash(os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split(' ')[0]))}"
    return install(then=LATE.strip().format(library, method))


def test_a_module_that_the_library_imports_later_is_patched_then(install: Install) -> None:
    """It is not imported before, because the application may never use it."""
    library = late(install, "ask")
    latspan.auto_instrument()
    assert asked(library) == "asked!"
    assert f"{library}.streams" not in sys.modules

    assert asked(f"{library}.streams") == "asked!"
    latspan.uninstrument()
    assert (asked(library), asked(f"{library}.streams")) == ("asked", "asked")


def test_a_late_patch_that_fails_removes_all_of_the_integration(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """The late import succeeds all the same."""
    library = late(install, "gone")
    latspan.auto_instrument()
    assert asked(library) == "asked!"

    assert asked(f"{library}.streams") == "asked"
    assert asked(library) == "asked"
    assert instrumented() == ()
    assert warnings_of(caplog, library) == [
        f"{library} is not instrumented: its integration failed"
    ]


def test_a_library_that_is_switched_off_during_its_import_stays_off(install: Install) -> None:
    """The hook is running already when another thread calls ``uninstrument``."""
    library = install(first="import latspan\nlatspan.uninstrument()\n")

    latspan.auto_instrument()

    assert asked(library) == "asked"
    assert instrumented() == ()


WAITING = (
    """
import gate
gate.begun.set()
assert gate.may_go_on.wait(30)
"""
    + LIBRARY
)


def test_a_library_that_another_thread_is_importing_is_instrumented(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its module exists already, without its classes; the hook would miss the rest."""
    gate: Any = ModuleType("gate")
    gate.begun, gate.may_go_on = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", gate)
    library = install(code=WAITING)
    importing = threading.Thread(target=importlib.import_module, args=(library,))
    importing.start()
    assert gate.begun.wait(30)

    instrumenting = threading.Thread(target=latspan.auto_instrument)
    instrumenting.start()
    # It must not end before the import does; if it did, it would end within this time.
    instrumenting.join(0.2)
    gate.may_go_on.set()
    for thread in (importing, instrumenting):
        thread.join(30)

    assert asked(library) == "asked!"


def test_threads_that_instrument_at_once_patch_once(install: Install) -> None:
    library = install()
    importlib.import_module(library)
    at_once = threading.Barrier(8)

    def instrument() -> None:
        at_once.wait()
        latspan.auto_instrument()

    threads = [threading.Thread(target=instrument) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert asked(library) == "asked!"


def test_a_reloaded_library_is_instrumented_after_off_and_on(install: Install) -> None:
    """A reload makes new classes, of which nothing informs latspan."""
    library = install()
    latspan.auto_instrument()
    importlib.reload(importlib.import_module(library))

    latspan.uninstrument()
    latspan.auto_instrument()
    assert asked(library) == "asked!"


FORKS = """
import os, sys
sys.path.insert(0, {path!r})
import latspan
latspan.auto_instrument()
if os.fork() == 0:
    from {library} import Client
    print(Client().ask(), flush=True)
    os._exit(0)
os.wait()
from {library} import Client
print(Client().ask())
"""


def test_a_forked_child_awaits_what_its_parent_awaits(install: Install, tmp_path: Path) -> None:
    library = install()

    done = subprocess.run(
        [sys.executable, "-c", FORKS.format(path=str(tmp_path), library=library)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["asked!", "asked!"]


def test_own_integrations_await_the_library_that_their_name_ends_with() -> None:
    """Otherwise they would be loaded with the wrong library, or never."""
    points = distribution("latspan").entry_points.select(group="opentelemetry_instrumentor")

    awaited = {point.name: triggers_of(point.load()()) for point in points}

    assert awaited
    for name, triggers in awaited.items():
        packages = awaited_packages(name.removeprefix("latspan_"))
        for trigger in triggers:
            assert any(f"{trigger}.".startswith(f"{package}.") for package in packages), name


def test_the_regular_packages_of_a_namespace_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing a namespace package runs no code."""
    for package in ("acme_sdk/client/inner", "acme_sdk/cloud/client", "acme_sdk/__pycache__"):
        (tmp_path / package).mkdir(parents=True)
    for module in ("client/__init__.py", "cloud/client/__init__.py", "alone.py"):
        (tmp_path / "acme_sdk" / module).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    assert awaited_packages("acme_sdk") == ("acme_sdk.client", "acme_sdk.cloud.client")
    assert awaited_packages("acme_sdk.client") == ("acme_sdk.client",)
    assert awaited_packages("acme_missing") == ("acme_missing",)
