"""Importing latspan, or running tests with its plugin, loads few modules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.snippets import run_text

CLIENTS = {
    "openai",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "requests",
    "aiohttp",
    "anthropic",
}

LOADED = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""

TRIVIAL_TEST = """
def test_that_does_not_use_latspan():
    pass
"""

CONFTEST = """
import pathlib, sys

def pytest_sessionfinish(session):
    assert session.config.pluginmanager.hasplugin("latspan"), "the plugin is not active"
    pathlib.Path("loaded").write_text("\\n".join(sys.modules))
"""


def loaded_by(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def among(loaded: set[str], *packages: str) -> set[str]:
    """Return the modules that belong to one of the packages."""
    return {
        module
        for module in loaded
        for package in packages
        if module == package or module.startswith(f"{package}.")
    }


def test_import_latspan_loads_no_other_package() -> None:
    """Neither OpenTelemetry, wrapt, a client library nor an integration."""
    loaded = loaded_by("import latspan")

    assert among(loaded, "latspan") == {
        "latspan",
        "latspan._base",
        "latspan._base.lazy",
        "latspan._version",
    }
    assert among(loaded, "opentelemetry", "wrapt", "numpy", *CLIENTS) == set()
    assert among(loaded, "latspan_instrumentation.openai", "latspan_instrumentation.httpx") == set()


def test_names_used_in_application_code_load_neither_sdk_nor_wrapt() -> None:
    """Decorators, stages and ``configure`` are cheap to import."""
    loaded = loaded_by("from latspan import traced, request, stage, configure")

    assert among(loaded, "latspan._live.sdk") != set()
    assert among(loaded, "opentelemetry.sdk", "opentelemetry.exporter", "wrapt", *CLIENTS) == set()
    assert (
        among(
            loaded,
            "latspan_instrumentation.openai",
            "latspan_instrumentation.httpx",
            "latspan._live.otel.export",
        )
        == set()
    )
    assert among(loaded, "latspan._model.timeline", "latspan._model.wire", "json") == set()


@pytest.mark.parametrize(
    "statement", ["import latspan._live.sdk", "import latspan._live.instrument"]
)
def test_importing_the_packages_loads_no_sdk(statement: str) -> None:
    """Only ``configure`` imports the SDK."""
    assert among(loaded_by(statement), "opentelemetry.sdk", "wrapt", *CLIENTS) == set()


def test_recording_does_not_load_the_file_formats() -> None:
    """An application that writes no log does not pay for them."""
    loaded = loaded_by("import latspan._model.recording, latspan.histogram")

    files = {module for module in loaded if module.startswith("latspan.histogram._log")}
    assert files == set()
    assert (
        among(loaded, "latspan.histogram._codec", "latspan._model.recording._log", "pyhdrh")
        == set()
    )


def test_configuring_loads_only_what_is_enabled() -> None:
    """Neither log records, histogram files nor numpy."""
    loaded = loaded_by(
        "import latspan, threading; latspan.configure(endpoint='http://127.0.0.1:9')\n"
        "[each.join() for each in threading.enumerate() if each.name == 'latspan-loader']\n"
        "latspan.shutdown()"
    )

    assert among(loaded, "opentelemetry.sdk.metrics")
    assert (
        among(loaded, "opentelemetry.sdk._logs", "latspan.histogram._codec", "pyhdrh", "numpy")
        == set()
    )


HELD_BACK = """
import json, sys, threading
from support.held_imports import hold

heavy = ["opentelemetry.sdk.trace", "opentelemetry.sdk.metrics", "google.protobuf", "{sender}",
         "latspan._live.operations._call_end", "latspan._live.operations._scope_end",
         "latspan._model.timeline._call", "latspan._model.recording._record"]
go_on = hold(*heavy)
import latspan
latspan.configure(endpoint="http://127.0.0.1:9", protocol="{protocol}")
latspan.auto_instrument()
# A module exists from the first moment of its import on.
here = [name for name in heavy if name in sys.modules
        and not sys.modules[name].__spec__._initializing]
go_on.set()
for thread in threading.enumerate():
    if thread.name == "latspan-loader":
        thread.join()
print(json.dumps([here, [name for name in heavy if name not in sys.modules]]))
"""


@pytest.mark.parametrize(("protocol", "sender"), [("http/protobuf", "requests"), ("grpc", "grpc")])
def test_the_sdk_the_exporters_and_the_ends_are_imported_on_their_own_thread(
    protocol: str, sender: str
) -> None:
    """The application's thread imports none of them, and the loader thread all."""
    program = HELD_BACK.replace("{protocol}", protocol).replace("{sender}", sender)

    assert json.loads(run_text(program).stdout) == [[], []]


def test_instrumenting_imports_neither_clients_nor_their_integrations() -> None:
    """Each is imported by the application, or not at all."""
    loaded = loaded_by("import latspan; latspan.auto_instrument()")

    assert among(loaded, *CLIENTS, "urllib3", "packaging", "opentelemetry.sdk") == set()
    assert {module for module in loaded if module.startswith("latspan_")} == set()


def test_instrumenting_an_imported_client_imports_no_more_of_it() -> None:
    """The SDK imports its resources, streaming helpers and connection pools on first use."""
    pytest.importorskip("openai", reason="the openai client is not installed")
    loaded = loaded_by(
        "import openai; before = set(sys.modules)\nimport latspan; latspan.auto_instrument()"
    )

    assert among(loaded, "latspan_instrumentation.openai") != set()
    assert among(loaded, *CLIENTS, "urllib3") == set()


def test_a_test_run_without_the_fixture_imports_no_opentelemetry(tmp_path: Path) -> None:
    """The plugin is loaded in every test run in an environment with latspan."""
    (tmp_path / "test_trivial.py").write_text(TRIVIAL_TEST)
    (tmp_path / "conftest.py").write_text(CONFTEST)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "1 passed" in done.stdout
    loaded = set((tmp_path / "loaded").read_text().split())
    assert "latspan.testing._plugin" in loaded
    assert among(loaded, "opentelemetry", "wrapt", *CLIENTS) == set()
