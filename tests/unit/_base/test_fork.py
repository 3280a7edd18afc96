"""What begins again in a forked child leaves nothing behind when it is gone."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import pytest

from latspan._base import fork as _fork
from latspan._base.fork import register_after_fork
from latspan._live.process.worker import Worker
from latspan._model.recording import Recorder
from latspan.testing import ManualClock


def test_what_is_gone_leaves_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the interpreter, which forgets none, nor here."""
    hooks: list[Callable[[], None]] = []

    def registered(**hook: Any) -> None:
        hooks.append(hook["after_in_child"])

    gc.collect()
    before = len(_fork._begins)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(os, "register_at_fork", registered)
    for _ in range(100):
        Recorder(ManualClock())
        Worker()
    gc.collect()

    assert hooks == []
    assert len(_fork._begins) == before  # pyright: ignore[reportPrivateUsage]


def test_all_that_is_there_begins_again_in_the_order_in_which_it_was_made() -> None:
    """In a child, and not in its parent."""

    class Part:
        def __init__(self, name: bytes) -> None:
            self.name = name
            register_after_fork(self.begin)

        def begin(self) -> None:
            os.write(writes, self.name)

    reads, writes = os.pipe()
    first, gone, last = Part(b"1"), Part(b"2"), Part(b"3")
    del gone
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    with os.fdopen(reads, "rb") as said:
        assert said.read() == b"13"
    assert (first.name, last.name) == (b"1", b"3")
