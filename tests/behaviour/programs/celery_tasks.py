"""Celery tasks and their sender: ``celery_tasks.py PIPE…`` sends one task per named pipe."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import latspan

folder = Path(os.environ["QUEUE_FOLDER"])
celery: Any = importlib.import_module("celery")
app: Any = celery.Celery(broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": folder / "queue",
        "data_folder_out": folder / "sent",
        "control_folder": folder / "control",
        "polling_interval": 0.02,
    },
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
)


def work(pipe: str) -> None:
    with latspan.stage("retrieve"):
        Path(pipe).read_bytes()


task = app.task(work, name="work")

if __name__ == "__main__":
    for pipe in sys.argv[1:]:
        task.apply_async((pipe,))
    # Rename complete messages: a worker would also read a message that is still being written.
    for message in (folder / "sent").iterdir():
        message.rename(folder / "queue" / message.name)
else:
    latspan.configure()
