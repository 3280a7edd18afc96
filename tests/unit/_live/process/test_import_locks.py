"""Imports of the loader and of the application never meet in the middle."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from latspan._live.process.import_locks import Imports
from support.snippets import run_text

MEETS_THE_LOADER = """
import os, sys, threading
from support.held_imports import hold

go_on = hold("{at}")
main = threading.main_thread().ident

def waits_for_a_lock(frame):
    while frame is not None:
        if frame.f_code.co_name == "acquire" and "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False

def let_go():
    while not waits_for_a_lock(sys._current_frames()[main]):
        os.sched_yield()
    go_on.set()

import latspan
latspan.configure(endpoint="http://127.0.0.1:9", protocol="{protocol}")
while "{at}" not in sys.modules:
    os.sched_yield()
# The loader is in the middle of the module, and goes on when this thread waits for it.
threading.Thread(target=let_go, daemon=True).start()
{statement}
print("imported")
os._exit(0)
"""


@pytest.mark.parametrize(
    ("protocol", "at", "statement"),
    [
        ("http/protobuf", "urllib3.connectionpool", "from requests.adapters import HTTPAdapter"),
        ("http/protobuf", "requests.adapters", "import requests.sessions; requests.Session"),
        (
            "http/protobuf",
            "urllib3.response",
            "from urllib3.connectionpool import HTTPConnectionPool",
        ),
        ("http/protobuf", "requests.exceptions", "import requests; requests.Session"),
        (
            "http/protobuf",
            "opentelemetry.sdk.trace.export",
            "from opentelemetry.sdk.trace.export import BatchSpanProcessor",
        ),
        (
            "http/protobuf",
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
            "from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter",
        ),
        ("grpc", "grpc._channel", "from grpc._channel import Channel"),
    ],
)
def test_an_import_of_the_application_meets_the_loader(
    protocol: str, at: str, statement: str
) -> None:
    """It waits for the loader, and finds every module complete."""
    program = MEETS_THE_LOADER
    for name, value in {"protocol": protocol, "at": at, "statement": statement}.items():
        program = program.replace(f"{{{name}}}", value)

    assert run_text(program).stdout == "imported\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package whose module imports its submodule, as many do."""
    folder = tmp_path / "held_package" / "inner"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("from held_package.inner.module import VALUE\n")
    (folder / "__init__.py").write_text("")
    (folder / "module.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    for name in ("held_package", "held_package.inner", "held_package.inner.module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "held_package"


def _lock_of(module: str) -> Any:
    bootstrap: Any = vars(importlib)["_bootstrap"]
    return bootstrap._get_module_lock(module)


def test_the_loader_waits_for_an_import_in_progress(package: str) -> None:
    """It holds no lock meanwhile, so the other thread's import can go on."""
    imports = Imports([package], [package])
    lock = _lock_of(f"{package}.inner.module")
    tried = threading.Event()

    def is_stopped() -> bool:
        if package in sys.modules:
            return True
        if looks:
            tried.set()
        looks.append(None)
        return False

    looks: list[None] = []
    lock.acquire()
    thread = threading.Thread(target=imports.load, args=(is_stopped,))
    thread.start()
    try:
        assert tried.wait(30)
        assert package not in sys.modules
    finally:
        lock.release()
    thread.join(30)

    assert sys.modules[package].VALUE == 1
    assert _lock_of(package).owner is None


def test_the_loader_may_be_stopped_while_it_waits(package: str) -> None:
    """The import is left out."""
    lock = _lock_of(package)
    lock.acquire()
    try:
        thread = threading.Thread(target=Imports([package], [package]).load, args=(lambda: True,))
        thread.start()
        thread.join(30)
    finally:
        lock.release()

    assert package not in sys.modules


def test_without_the_locks_of_this_version_of_python_it_imports(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version may have others."""
    monkeypatch.setattr("latspan._live.process.import_locks.importlib", SimpleNamespace())
    Imports([package], [package]).load(lambda: False)

    assert sys.modules[package].VALUE == 1


def test_a_missing_package_has_no_locks(package: str) -> None:
    """Only the others are imported."""
    Imports(["there.is.no.such", package], [package]).load(lambda: False)

    assert sys.modules[package].VALUE == 1


_ModuleLock: Any = vars(importlib)["_bootstrap"]._ModuleLock


class _TakenMeanwhile(_ModuleLock):
    """Lock that another thread takes as soon as its owner is read, if it can."""

    @property
    def owner(self) -> int | None:
        owner = self.holder
        if owner is None:
            thread = threading.Thread(target=self._take)
            thread.start()
            thread.join(30)
        return owner

    @owner.setter
    def owner(self, owner: int | None) -> None:
        self.holder: int | None = owner

    def _take(self) -> None:
        if self.lock.acquire(False):
            self.lock.release()
            self.acquire()


def test_no_thread_can_take_a_lock_that_the_loader_is_taking(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader would wait for that lock while it holds others, and break the thread's import."""
    locks: dict[str, Any] = {}

    def lock_of(name: str) -> Any:
        return locks.setdefault(name, _TakenMeanwhile(name))

    its_importlib = SimpleNamespace(_bootstrap=SimpleNamespace(_get_module_lock=lock_of))
    monkeypatch.setattr("latspan._live.process.import_locks.importlib", its_importlib)
    load = Imports([package], [package]).load
    thread = threading.Thread(target=load, args=(lambda: False,), daemon=True)
    thread.start()
    thread.join(30)

    assert not thread.is_alive()
    assert sys.modules[package].VALUE == 1


WARNS = """
import threading, warnings
import latspan
# What another thread does to the filters must not matter.
warnings.simplefilter = warnings.filterwarnings = lambda *_, **__: None
warnings.filters[:] = [("error", None, Warning, None, 0)]
latspan.configure(endpoint="http://127.0.0.1:9")
for thread in threading.enumerate():
    if thread.name == "latspan-loader":
        thread.join()
import sys
print("requests" in sys.modules, "urllib3.contrib.socks" in sys.modules)
latspan.shutdown(0)
"""


def test_the_loader_causes_no_warning_of_a_package_that_is_not_installed() -> None:
    """The package requests tries a module of urllib3, which warns if PySocks is missing."""
    done = run_text(WARNS)

    assert done.stdout == "True False\n"
    assert "Warning" not in done.stderr
