"""The process of the llama.cpp server does not end before its log is complete."""

from __future__ import annotations

import hashlib
import sys
import threading
from pathlib import Path

import pytest

from latspan.testing._llama_process import wait_for_log


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows whether a thread sleeps")
def test_a_thread_that_still_writes_the_log_is_awaited() -> None:
    """A computation that does not hold Python's lock stands for the thread of llama.cpp."""
    ended: list[bytes] = []

    def compute() -> None:
        ended.append(hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 500_000))

    thread = threading.Thread(target=compute)
    thread.start()
    stat = Path(f"/proc/self/task/{thread.native_id}/stat")

    def computes() -> bool:
        try:
            return stat.read_text().rpartition(") ")[2][0] == "R" and not ended
        except OSError:
            return False

    while not computes():
        assert not ended
    wait_for_log()
    assert not computes()
    thread.join()
