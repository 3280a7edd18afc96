"""Zero-code setup: instruments a program that does not use latspan's API."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from latspan import _runtime
from latspan._instrument import auto_instrument, disabled_by, instrumented, uninstrument
from latspan._log import logger
from latspan._sdk._lifecycle import configure, end_in_order
from latspan.errors import LatspanError

__all__ = ["after_opentelemetry", "environment_for", "start"]


_BOOTSTRAP: Final = str(Path(__file__).with_name("_bootstrap"))
"""Folder whose ``sitecustomize`` calls :func:`start`."""

_PYTHON_PATH: Final = "PYTHONPATH"


def environment_for(variables: dict[str, str], process: int) -> dict[str, str]:
    """
    Return an environment that instruments a Python program and the programs it starts.

    Args:
        variables: The current environment.
        process: Process id of the program. Only this program reports that its Python has no
            latspan; programs that it starts, perhaps with another Python, do not.
    """
    # An empty entry of the path is the current folder; an empty variable has no entries.
    path = variables.get(_PYTHON_PATH) or None
    folders = [] if path is None else path.split(os.pathsep)
    return {
        **variables,
        _PYTHON_PATH: os.pathsep.join(
            [_BOOTSTRAP, *(folder for folder in folders if folder != _BOOTSTRAP)]
        ),
        "LATSPAN_RUN_PID": str(process),
    }


def start() -> None:
    """
    Instrument this program, and configure latspan when it is first needed.

    Until a client library is imported or something is recorded, no client library and no SDK is
    loaded and no thread is started, because most programs that an application starts need none of
    them.
    """
    with _runtime.handle_internal_errors("the start of an instrumented program"):
        # Before the program sets its own handlers: a server restores the one that it found.
        end_in_order(asleep=True)
        _runtime.expect(_configure)
        auto_instrument()


def after_opentelemetry() -> None:
    """Entry point that OpenTelemetry's loader calls after it has switched everything on."""
    with _runtime.handle_internal_errors("the start by OpenTelemetry's loader"):
        # OpenTelemetry's loader does not read latspan's own variable.
        unwanted = [name for name in instrumented() if disabled_by(name) is not None]
        if unwanted:
            uninstrument(*unwanted)
        end_in_order(asleep=True)
        _runtime.expect(_configure)


def _configure() -> None:
    try:
        configure()
    except LatspanError as error:
        logger.warning("latspan stays off: %s", error)
    except Exception:
        logger.exception("latspan stays off")
