"""
llama.cpp in a network namespace: ``serves_inside FILE ADDRESS`` serves it on that address.

The URL is written to the file. It serves until it is terminated.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

from diagnosis.real._delay import delayed
from diagnosis.real._parts import llama


def main() -> None:
    """Serve until SIGTERM."""
    file, address = Path(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGTERM, _end)
    with llama(slots=1) as model, delayed(model.url, 0.0, address=address) as url:
        file.with_suffix(".new").write_text(url)
        file.with_suffix(".new").replace(file)
        signal.pause()


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


main()
