"""
A file that is written whole before anything is there, and takes another's place at once.

A symbolic link stays one: its target is replaced. A device or a FIFO is not replaced, what was
written is sent through it.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from latspan.errors import ConfigError

__all__ = ["replacing"]


@contextmanager
def replacing(output: str) -> Generator[Path]:
    """
    Yield where to write; at the end of the block it is in the place of ``output``.

    If the block raises, ``output`` is as it was.

    Args:
        output: What was asked for.

    Raises:
        ConfigError: It is a folder, or cannot be written to.
    """
    with _refused(output):
        target = Path(output).resolve()
        # Not the target's: a link in /dev/fd to a pipe leads to no path.
        mode = _mode_of(Path(output))
        if mode is not None and stat.S_ISDIR(mode):
            raise ConfigError(f"{output} is a folder", hint="name a file in it")
        is_file = mode is None or stat.S_ISREG(mode)
        # A folder of its own beside the file: nothing there is left from another run, and what
        # is made in it has the rights that the process gives its files.
        folder = TemporaryDirectory(
            prefix=".latspan-", dir=target.parent if is_file else None, ignore_cleanup_errors=True
        )
    with folder as name:
        written = Path(name) / "written"
        yield written
        with _refused(output):
            if not is_file:
                with written.open("rb") as source, Path(output).open("wb") as device:
                    shutil.copyfileobj(source, device)
                return
            if mode is not None:
                written.chmod(stat.S_IMODE(mode))
            written.replace(target)


def _mode_of(path: Path) -> int | None:
    """Return the type and the rights of a file, ``None`` if there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _refused(output: str) -> Generator[None]:
    """Raise what the system refuses as an error of the one who named the file."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "its links lead in a circle"
        raise ConfigError(
            f"cannot write to {output}: {why}",
            hint="name a file in a folder that exists and may be written to",
        ) from error
