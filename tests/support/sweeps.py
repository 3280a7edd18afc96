"""Recordings of the runs of a sweep, and the runs of earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from latspan import open_recording
from latspan._model.recording.folder import join_recording
from latspan._study.compare import Run, run_of
from latspan._study.sweep import PathSweep, judge
from support.measurements import call, load_test, step

_TARGET: Final = {"metric": "time_to_first_token", "percentile": 95, "limit_ns": 500_000_000}
_REQUESTS: Final = 120


def folders(
    place: Path,
    ttft_ms: float = 100,
    *,
    number: int = 3,
    conditions: dict[str, Any] | None = None,
    load: dict[str, Any] | None = None,
    prompt: int = 100,
    **generator: Any,
) -> list[Path]:
    """Write recordings of runs whose requests have nearly the same times."""
    made: list[Path] = []
    for run in range(number):
        folder = place / f"run-{run + 1}"
        records = [
            call(
                index,
                at_ms=100 * index,
                ttft_ms=ttft_ms * (1 + 0.01 * run) + index % 10,
                duration_ms=ttft_ms + 200 + index % 10,
                prompt=prompt,
            )
            for index in range(_REQUESTS)
        ]
        account = step(intended=_REQUESTS)
        account["load"] = load or account["load"]
        account["generator"] = {**account["generator"], **generator}
        load_test(folder, records, [account], targets=[_TARGET])
        join_recording(folder).update(
            conditions={
                "model": "m",
                "prompts": {"fingerprint": "sha256:0123456789abcdef"},
                "cache": "as-is",
                **(conditions or {}),
            }
        )
        made.append(folder)
    return made


def runs(place: Path, ttft_ms: float = 100, **changes: Any) -> list[Run]:
    """Return the runs of such recordings."""
    return [run_of(open_recording(each)) for each in folders(place, ttft_ms, **changes)]


def judged(place: Path, ttft_ms: float = 100, **earlier: Any) -> PathSweep:
    """Return the judgement of such recordings, against earlier runs."""
    return judge("chat", folders(place, ttft_ms), **earlier)
