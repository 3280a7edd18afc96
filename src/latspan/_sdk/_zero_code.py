"""What a program gets that says nothing of latspan itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from latspan import _runtime
from latspan._instrument import auto_instrument, disabled_by, instrumented, uninstrument
from latspan._log import logger
from latspan._sdk._lifecycle import configure
from latspan.errors import LatspanError

__all__ = ["after_opentelemetry", "environment_for", "start"]


_BOOTSTRAP: Final = str(Path(__file__).with_name("_bootstrap"))
"""The folder whose ``sitecustomize`` calls :func:`start`."""

_PYTHON_PATH: Final = "PYTHONPATH"


def environment_for(variables: dict[str, str], process: int) -> dict[str, str]:
    """
    Return the environment in which Python programs are instrumented, and those they start.

    Args:
        variables: The environment as it is.
        process: Whose id the program has, if it is to say that its Python has no latspan. What it
            starts in its turn, with a Python of its own perhaps, is not to speak of it.
    """
    # An empty part of it is the current folder; an empty whole is nothing.
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
    Instrument this program, and have latspan configured when it is first needed.

    Until a client library is imported or something is recorded, neither a client library nor the
    SDK is loaded, and no thread is started: most programs that an application starts do neither.
    """
    with _runtime.handle_internal_errors("the start of an instrumented program"):
        _runtime.expect(_configure)
        auto_instrument()


def after_opentelemetry() -> None:
    """Be the entry point that OpenTelemetry's loader calls when it has switched everything on."""
    with _runtime.handle_internal_errors("the start beside OpenTelemetry's own"):
        # It does not know latspan's own variable.
        unwanted = [name for name in instrumented() if disabled_by(name) is not None]
        if unwanted:
            uninstrument(*unwanted)
        _runtime.expect(_configure)


def _configure() -> None:
    try:
        configure()
    except LatspanError as error:
        logger.warning("latspan stays off: %s", error)
    except Exception:
        logger.exception("latspan stays off")
