"""Startup hook that Python runs in every process started under ``latspan run``."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _run_the_one_behind_this() -> None:
    """
    Run the ``sitecustomize`` that Python would have run otherwise, for example the application's.
    """
    here = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow to load
    # Restore the path of this program; the programs that it starts inherit the variable.
    sys.path[:] = [folder for folder in sys.path if folder != here]
    spec = PathFinder.find_spec(__name__)
    if spec is not None and spec.loader is not None:
        module = sys.modules[__name__] = module_from_spec(spec)
        spec.loader.exec_module(module)


def _start() -> None:
    try:
        from latspan._live.sdk._zero_code import start
    except ImportError as error:
        if os.environ.get("LATSPAN_RUN_PID") in (str(os.getpid()), f"child of {os.getppid()}"):
            sys.stderr.write(
                f"latspan stays off: {error}\nhint: {sys.executable} -m pip install latspan\n"
            )
    else:
        start()


try:
    _run_the_one_behind_this()
finally:
    _start()
