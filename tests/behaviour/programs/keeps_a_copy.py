"""
An application that keeps what its spans were: ``keeps_a_copy.py MODEL_URL FILE TIMES``.

Beside latspan's own export they go into ``FILE``, one export request in OTLP's own form.
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
