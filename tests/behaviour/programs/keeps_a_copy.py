"""
An application that keeps copies of its spans: ``keeps_a_copy.py MODEL_URL FILE TIMES``.

In addition to latspan's own export, it writes them to ``FILE`` as one OTLP export request.
"""

from __future__ import annotations

import sys
from pathlib import Path

import spans_kept
import traffic

import latspan


def main(model_url: str, file: str, times: str) -> None:
    latspan.auto_instrument()
    latspan.configure(keep_records=None, set_global_provider=True)
    kept = spans_kept.Kept()
    for _ in range(int(times)):
        for _ in traffic.steps(model_url):
            pass
    kept.send_and_write(Path(file))
    traffic.print_document()
    traffic.leave_at_once()


main(*sys.argv[1:])
