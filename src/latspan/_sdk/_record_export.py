"""Writing of complete records to a file, for the report of ``latspan run --report``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from latspan._log import logger
from latspan._recording import RecordFile, RequestRecord
from latspan._sdk._worker import Worker

__all__ = ["RECORDS_FOLDER", "record_writer"]

RECORDS_FOLDER: Final = "LATSPAN_RUN_RECORDS"
"""Variable with the folder of the records, set by ``latspan run --report`` for its program."""


def record_writer(worker: Worker) -> Callable[[RequestRecord], None] | None:
    """
    Return a function that writes a record; ``None`` if no report was requested.

    Args:
        worker: Writes, so that no request waits for a file.
    """
    folder = os.environ.get(RECORDS_FOLDER)
    if not folder:
        return None
    file = RecordFile(folder)
    failed = False

    def write(record: RequestRecord) -> None:
        nonlocal failed
        if failed:
            return
        try:
            file.append(record)
        except OSError as error:
            failed = True
            logger.warning("the report lacks further requests of this process: %s", error)

    def write_on_worker(record: RequestRecord) -> None:
        # A job that the worker submits to itself while it stops would not be waited for.
        if worker.runs_here():
            write(record)
        else:
            worker.submit(partial(write, record))

    return write_on_worker
