"""Files of a write-up: pages that latspan wrote are replaced, pages that were edited are kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from latspan._study.loop import Loop
from latspan._study.render.marker import is_as_written, path_of
from latspan._study.render.runbook import guide_page, pull_request_page, runbook_page
from latspan._study.render.write_up import write_up_page
from latspan.errors import ConfigError

_PAGES: Final[dict[str, Callable[[Loop, date], str]]] = {
    "write-up.md": write_up_page,
    "runbook.md": runbook_page,
    "guide.md": guide_page,
    "pull-request.md": lambda loop, _today: pull_request_page(loop),
}


def write_pages(loop: Loop, folder: Path, today: date) -> tuple[list[Path], list[Path]]:
    """
    Write the pages of a write-up, and return the files that were written and those that were kept.

    A page is kept if a person edited it. The other pages are written all the same.

    Args:
        loop: Where the inference path stands.
        folder: Folder of the pages; created if it does not exist.
        today: Date of the pages.

    Raises:
        ConfigError: A page is of another inference path, or cannot be written.
    """
    files = {folder / name: page(loop, today) for name, page in _PAGES.items()}
    try:
        # All are checked before the first is written, so that a refusal leaves the old set whole.
        kept = [file for file in files if file.exists() and not _may_be_replaced(file, loop)]
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            if file in kept:
                continue
            written = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
            try:
                written.write_text(text, "utf-8")
                written.replace(file)
            finally:
                written.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}",
            hint="use a folder that you can write to, with --output",
        ) from error
    return [file for file in files if file not in kept], kept


def _may_be_replaced(file: Path, loop: Loop) -> bool:
    """Return whether a page is as latspan wrote it."""
    try:
        page = file.read_text("utf-8")
    except UnicodeDecodeError:
        return False
    name = path_of(page)
    if name not in (None, loop.file.stem):
        raise ConfigError(f"{file} is the page of {name}", hint="use another folder with --output")
    return is_as_written(page)
