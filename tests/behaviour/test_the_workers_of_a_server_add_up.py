"""Each worker of gunicorn, uvicorn and Celery is an instance, and their counts add up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.fleet import counts_of
from support.otlp import free_port
from support.pipes import all_at_once, pipes_in
from support.programs import run_program, serving
from support.receivers import Receiver, receiving
from support.workers import TWO_OF_UVICORN, ask_every_worker


@contextmanager
def gunicorn(receiver: Receiver, folder: Path, *options: str) -> Generator[int]:
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    port = free_port()
    with serving(
        folder / "log",
        "gunicorn",
        "serves_wsgi:application",
        f"--bind=127.0.0.1:{port}",
        "--workers=4",
        *options,
        LATSPAN_ENDPOINT=receiver.url,
        OTEL_RESOURCE_ATTRIBUTES="service.instance.id=pod-7",
    ) as server:
        yield port
    assert server.returncode == 0


@pytest.mark.parametrize("options", [["--preload"], []], ids=["preload", "plain"])
def test_the_workers_of_gunicorn_add_up(tmp_path: Path, options: list[str]) -> None:
    """Configured before or after the fork, with an instance ID in the environment."""
    with receiving() as receiver, gunicorn(receiver, tmp_path, *options) as port:
        ask_every_worker(port, tmp_path, workers=4, more=20)

    counts = counts_of(receiver, "retrieve")
    assert (len(counts), sum(counts)) == (4, 24)


def test_the_workers_of_uvicorn_add_up(tmp_path: Path) -> None:
    """The signal that ends them runs the lifespan, which shuts latspan down."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    port = free_port()
    with (
        receiving() as receiver,
        serving(
            tmp_path / "log",
            "uvicorn",
            "serves_asgi:application",
            f"--port={port}",
            *TWO_OF_UVICORN,
            LATSPAN_ENDPOINT=receiver.url,
        ),
    ):
        ask_every_worker(port, tmp_path, workers=2, more=20)

    counts = counts_of(receiver, "retrieve")
    assert (len(counts), sum(counts)) == (2, 22)


def test_the_workers_of_celery_add_up(tmp_path: Path) -> None:
    """They end without exit handlers, but Celery sends a signal before."""
    pytest.importorskip("celery", reason="Celery is not installed")
    for folder in ("sent", "queue", "control"):
        (tmp_path / folder).mkdir()
    pipes = pipes_in(tmp_path, 4)
    with (
        receiving() as receiver,
        serving(
            tmp_path / "log",
            "celery",
            "--app=celery_tasks",
            "worker",
            "--concurrency=2",
            "--without-mingle",
            "--without-gossip",
            LATSPAN_ENDPOINT=receiver.url,
            QUEUE_FOLDER=str(tmp_path),
        ),
    ):
        for two in (pipes[:2], pipes[2:]):
            run_program("celery_tasks", *map(str, two), QUEUE_FOLDER=str(tmp_path))
            with all_at_once(two, lambda _: None):
                pass

    assert counts_of(receiver, "retrieve") == [2, 2]
