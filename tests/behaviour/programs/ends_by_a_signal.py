"""An application that waits for ``SIGTERM``, as described in the guide to several processes."""

from __future__ import annotations

import json
import signal
import sys
from types import FrameType

import latspan


def end(number: int, frame: FrameType | None) -> None:
    sys.exit()


latspan.configure()
signal.signal(signal.SIGTERM, end)
with latspan.request("before the signal"):
    pass
sys.stdout.write(f"{json.dumps({'ready': True})}\n")
sys.stdout.flush()
signal.pause()
