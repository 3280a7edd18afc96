"""Integrations are found, checked and switched on; what is wrong with one is its own affair."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import latspan
from latspan._live.instrument import Integration, IntegrationStatus, integrations
from support.distributions import write_distribution

CLIENT = """
class Client:
    def ask(self):
        return "asked"

    def tell(self):
        return "told"
"""

INTEGRATION = """
from latspan._live.instrument import Instrumentor

def louder(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs).upper()

class {name}(Instrumentor):
    requires = ("client-of-{of} >= 2, < 3",)
    library = "client_of_{of}"

    def patch(self, patches):
        from client_of_{of} import Client
        patches.wrap(Client, "ask", louder)
        {then}
"""

Install = Callable[..., str]


@pytest.fixture
def install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Install]:
    """Put a client library and its integration on Python's path, under names of this test's."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    of = f"test{abs(hash(request.node.name))}"

    def put(version: str | None, then: str = "pass", first: str = "") -> str:
        (tmp_path / f"client_of_{of}.py").write_text(CLIENT)
        text = first + INTEGRATION.format(name="Instrumentor_", of=of, then=then)
        (tmp_path / f"integration_of_{of}.py").write_text(text)
        if version is not None:
            write_distribution(tmp_path, f"client-of-{of}", version)
        point = f"latspan_{of} = integration_of_{of}:Instrumentor_"
        write_distribution(tmp_path, f"integration-of-{of}", "1", point)
        importlib.invalidate_caches()
        return of

    yield put
    latspan.uninstrument()


def client(of: str) -> Any:
    return importlib.import_module(f"client_of_{of}").Client()


def warnings_of(caplog: pytest.LogCaptureFixture, of: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if of in record.getMessage() and record.levelno > logging.DEBUG
    ]


def standing_of(of: str) -> Integration:
    (found,) = [each for each in integrations() if each.name == f"latspan_{of}"]
    return found


def test_a_library_is_patched_when_it_is_imported(install: Install) -> None:
    """A program that never uses it does not pay for its import."""
    of = install("2.1")

    assert f"latspan_{of}" in latspan.auto_instrument()
    assert f"client_of_{of}" not in sys.modules
    assert client(of).ask() == "ASKED"


def test_a_library_that_is_imported_too_late_stays_as_it_is(install: Install) -> None:
    """Switching off reaches what was only awaited."""
    of = install("2.1")

    latspan.auto_instrument()
    latspan.uninstrument()

    assert client(of).ask() == "asked"


def test_a_version_that_is_not_supported_is_skipped_with_one_warning(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """It says which version is there, and which are supported."""
    of = install("1.9")

    for _ in range(2):
        assert f"latspan_{of}" not in latspan.auto_instrument()

    assert client(of).ask() == "asked"
    warning = f"client-of-{of} 1.9 is installed but not instrumented"
    supported = f"latspan supports client-of-{of} >= 2, < 3"
    assert warnings_of(caplog, of) == [f"{warning}: {supported}"]
    assert standing_of(of) == Integration(
        f"latspan_{of}",
        IntegrationStatus.UNSUPPORTED,
        f"client-of-{of} >= 2, < 3",
        f"client-of-{of} 1.9",
    )


def test_a_library_that_is_absent_is_left_alone_in_silence(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has all of them."""
    of = install(None)

    assert f"latspan_{of}" not in latspan.auto_instrument()

    assert warnings_of(caplog, of) == []
    assert standing_of(of).status is IntegrationStatus.ABSENT


def test_an_integration_that_breaks_at_import_breaks_nothing(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """The others go on, and it is said once."""
    of = install("2.1", first="raise RuntimeError('broken')\n")

    for _ in range(2):
        on = latspan.auto_instrument()
        assert f"latspan_{of}" not in on
        assert "latspan_openai" in on

    assert warnings_of(caplog, of) == [f"latspan_{of} could not be loaded and stays off"]
    assert standing_of(of) == Integration(
        f"latspan_{of}", IntegrationStatus.BROKEN, reason="RuntimeError: broken"
    )


@pytest.mark.parametrize(
    "then", ["raise RuntimeError('broken')", "patches.wrap(Client, 'gone', louder)"]
)
def test_an_integration_that_breaks_at_patching_leaves_the_library_as_it_was(
    install: Install, caplog: pytest.LogCaptureFixture, then: str
) -> None:
    """The import that it was waiting for succeeds, and what was patched is taken back."""
    of = install("2.1", then)

    latspan.auto_instrument()
    asking = client(of)

    assert asking.ask() == "asked"
    assert f"latspan_{of}" not in latspan.auto_instrument()
    assert isinstance(inspect.getattr_static(asking, "ask"), FunctionType)
    assert warnings_of(caplog, of) == [
        f"client_of_{of} is not instrumented: its integration failed"
    ]


@pytest.mark.parametrize(
    "variable", ["OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "LATSPAN_DISABLED_INSTRUMENTATIONS"]
)
@pytest.mark.parametrize("value", ["other, latspan_{of}", "*"])
def test_what_the_environment_disables_stays_off(
    install: Install, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """By the variable of OpenTelemetry's own loader, or by one that is latspan's alone."""
    of = install("2.1")
    monkeypatch.setenv(variable, value.format(of=of))

    on = latspan.auto_instrument()

    assert f"latspan_{of}" not in on
    assert standing_of(of).status is IntegrationStatus.DISABLED
    assert standing_of(of).reason == variable


@pytest.mark.parametrize(
    ("variable", "status"),
    [
        ("LATSPAN_DISABLED_INSTRUMENTATIONS", IntegrationStatus.DISABLED),
        ("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", IntegrationStatus.READY),
    ],
)
def test_only_latspans_own_variable_accepts_the_name_of_the_library(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    status: IntegrationStatus,
) -> None:
    """In OpenTelemetry's variable, that name belongs to other packages."""
    of = install("2.1")
    monkeypatch.setenv(variable, f"other,{of}")

    on = latspan.auto_instrument()

    assert (f"latspan_{of}" in on) is (status is IntegrationStatus.READY)
    assert standing_of(of).status is status


@pytest.mark.parametrize(
    ("then", "variables", "printed"),
    [
        ("pass", {}, "ASKED True"),
        ("raise RuntimeError('broken')", {}, "asked True"),
        ("pass", {"LATSPAN_DISABLED_INSTRUMENTATIONS": "latspan_{of}"}, "asked True"),
    ],
    ids=["works", "breaks", "disabled"],
)
def test_opentelemetrys_loader_goes_on(
    install: Install, tmp_path: Path, then: str, variables: dict[str, str], printed: str
) -> None:
    """Its other instrumentors come after ours, and what is raised would end them all."""
    of = install("2.1", then)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from opentelemetry.instrumentation.auto_instrumentation import initialize\n"
        "initialize(swallow_exceptions=False)\n"
        f"from client_of_{of} import Client\n"
        "from latspan._live.instrument import instrumented\n"
        "print(Client().ask(), 'latspan_openai' in instrumented())\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **{name: value.format(of=of) for name, value in variables.items()}},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (0, f"{printed}\n")
