"""Files of a write-up: pages that latspan wrote are replaced, pages that were edited are kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from latspan._study.loop import Loop
from latspan.errors import ConfigError
from latspan.reports._runbook import guide_page, pull_request_page, runbook_page
from latspan.reports._write_up import marker, write_up_page

__all__ = ["write_pages"]

_PAGES: Final[dict[str, Callable[[Loop, date], str]]] = {
    "write-up.md": write_up_page,
    "runbook.md": runbook_page,
    "guide.md": guide_page,
    "pull-request.md": lambda loop, _today: pull_request_page(loop),
}


def write_pages(loop: Loop, folder: Path, today: date) -> list[Path]:
    """
    Write the pages of a write-up, and return their files.

    Args:
        loop: Where the inference path stands.
        folder: Folder of the pages; created if it does not exist.
        today: Date of the pages.

    Raises:
        ConfigError: A page was edited by a person, or cannot be written.
    """
    files = {folder / name: page(loop, today) for name, page in _PAGES.items()}
    try:
        # All are checked before the first is written, so that a refusal leaves the old set whole.
        for file in files:
            if file.exists() and not file.read_text("utf-8").startswith(marker(loop)):
                raise ConfigError(
                    f"{file} was not written by latspan document, or was edited",
                    hint="use another folder with --output, or delete the file",
                )
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            written = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
            try:
                written.write_text(text, "utf-8")
                written.replace(file)
            finally:
                written.unlink(missing_ok=True)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{folder} has a page that is not UTF-8 text", hint="use another folder with --output"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}",
            hint="use a folder that you can write to, with --output",
        ) from error
    return list(files)
