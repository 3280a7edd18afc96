"""A client of another application, one call per request: ``… URL FILE TIMES``; spans go to FILE."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx
import spans_kept

import latspan


def main(url: str, file: str, times: str) -> None:
    latspan.auto_instrument()
    latspan.configure(set_global_provider=True)
    kept = spans_kept.Kept()
    answers: list[str] = []
    with httpx.Client(timeout=30) as client:
        for _ in range(int(times)):
            with latspan.request("ask"):
                answers.append(client.post(url).raise_for_status().json())
    kept.send_and_write(Path(file))
    sys.stdout.write(json.dumps(answers))


main(*sys.argv[1:])
