"""Forks on a thread; the child records a request, and ends when the function of the thread does."""

from __future__ import annotations

import os
import threading

import latspan

latspan.configure()
with latspan.request("before the fork"):
    pass


def work() -> None:
    """Fork, and return in both processes."""
    child = os.fork()
    name = "in the child" if child == 0 else "in the parent"
    with latspan.request(name):
        pass
    if child:
        # The child ends by itself.
        assert os.waitpid(child, 0)[1] == 0


thread = threading.Thread(target=work)
thread.start()
thread.join()
