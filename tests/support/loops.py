"""Results of an inference path, as commands keep them, for tests of the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from latspan._model.goals import (
    Change,
    InferencePath,
    Preset,
    parse_inference_path,
    preset_path,
    toml_of,
)
from latspan._study.loop import Loop, Result, Task, assess, fingerprints_of

_NOON: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
_TTFT: Final = "time_to_first_token"


def chat(**fields: Any) -> InferencePath:
    """Return an inference path whose intake is filled in; the fields replace others."""
    path = preset_path("chat", Preset.CHAT)
    (target,) = path.targets
    target = replace(target, owner="team", load="two users")
    known: dict[str, Any] = {
        "endpoint": "http://localhost:8000/v1",
        "targets": (target,),
        "never_ship": "a wrong answer",
        "may_give_up": ("cost",),
        "change": Change(
            lever="capacity", description="more slots", apply="fast", undo="slow", flag="slots"
        ),
    }
    return replace(path, **(known | fields))


class Story:
    """
    History of an inference path: results in the order in which they are added, an hour apart.

    Args:
        folder: Folder of the file.
        path: The inference path.
    """

    def __init__(self, folder: Path, path: InferencePath) -> None:
        self.file = folder / f"{path.name}.toml"
        self.results: list[Result] = []
        self.edit(path)

    def edit(self, path: InferencePath) -> None:
        """Change the file."""
        self.file.write_text(toml_of(path), "utf-8")
        # As a command reads it, with the file's own rounding.
        self.path = parse_inference_path(self.file.read_text("utf-8"), file=str(self.file))

    @property
    def loop(self) -> Loop:
        """Where the inference path stands."""
        prints = fingerprints_of(self.path, self.file)
        return assess(self.path, self.file, self.results, prints)

    def add(
        self, task: Task, document: Mapping[str, Any], *recordings: str, exit_code: int = 0
    ) -> None:
        """Add a result."""
        self.results.append(
            Result(
                task=task,
                created=_NOON + timedelta(hours=len(self.results)),
                command=f"{task} chat",
                exit_code=exit_code,
                recordings=recordings,
                fingerprints=fingerprints_of(self.path, self.file),
                document=document,
            )
        )

    def measured(
        self, verdict: str | None = "missed", *, requests: int = 100, invalid: str = ""
    ) -> None:
        """Add a measurement with a verdict on the only target."""
        caveats = [{"name": "late", "text": invalid, "invalidates": True}] if invalid else []
        values = {"p50": 0.4, "p90": 0.6, "p95": 0.7, "p99": None, "p99.9": None}
        step: dict[str, Any] = {
            "load": {"concurrency": 2},
            "measured": requests,
            "caveats": caveats,
            "latencies": [
                {
                    "metric": _TTFT,
                    "from": "start",
                    "n": requests,
                    "failed": 0,
                    "all": {**values, "unbounded": []},
                    "completed": values,
                }
            ],
            "targets": [
                {
                    "metric": _TTFT,
                    "percentile": 95,
                    "limit_s": 0.5,
                    "verdict": None if invalid else verdict,
                    "requests": requests,
                    "misses": requests if verdict == "missed" else 0,
                    "needed": 7,
                }
            ],
        }
        document: dict[str, Any] = {
            "schema": "latspan.measurement/1",
            "kind": "call",
            "recording": "recordings/chat-1",
            "valid": not invalid,
            "interrupted": False,
            "conditions": {"model": "small"},
            "steps": [step],
        }
        self.add(Task.MEASURE, document, "recordings/chat-1")

    def diagnosed(self, conclusion: str = "fix") -> None:
        """Add a diagnosis."""
        cause = {
            "name": "under_capacity",
            "summary": "requests wait",
            "evidence": ["slow requests wait 80 ms"],
            "lever": "add capacity",
            "refuted_by": "the queue stays",
        }
        share = {"segment": "queue", "share": 0.8, "low": 0.7, "high": 0.9}
        document: dict[str, Any] = {
            "schema": "latspan.diagnosis/1",
            "conclusion": conclusion,
            "sentence": f"The sentence of {conclusion}.",
            "cause": cause if conclusion == "fix" else None,
            "shares": [{**share, "slow_s": 0.08, "typical_s": 0.07}],
            "budget": [],
        }
        self.add(Task.DIAGNOSE, document, "recordings/chat-1")

    def verified(
        self,
        judgement: str = "improved",
        *,
        target: str | None = "met",
        limit_s: float = 0.5,
        lever: str = "capacity",
        runs_needed: int | None = None,
        quality: str | None = None,
        differs: str = "",
    ) -> None:
        """Add a verification of five runs per side."""
        row = {
            "metric": _TTFT,
            "segment": None,
            "percentile": 95,
            "before_s": 0.7,
            "after_s": 0.3,
            "ratio": 0.43,
            "low": 0.4,
            "high": 0.5,
            "change": "improved",
        }
        worse = {**row, "metric": "segment", "segment": "decode", "change": "worse"}
        difference = {"name": differs, "before": "a", "after": "b"}
        difference |= {"explains": True, "accepted": False}
        verdict = {"verdict": target, "requests": 500, "misses": 1, "needed": 9}
        document: dict[str, Any] = {
            "schema": "latspan.verification/1",
            "judgement": judgement,
            "sentence": f"The sentence of {judgement}.",
            "levers": [{"name": lever, "moves": []}],
            "attributable": True,
            "quality": None if quality is None else {"judgement": quality},
            "comparison": {
                "judgement": judgement,
                "goal": {"metric": _TTFT, "percentile": 95, "limit_s": limit_s},
                "before": {"runs": 5},
                "after": {"runs": 5},
                "differences": [difference] if differs else [],
                "rows": [row, worse],
                "explanation": None,
                "target": None if target is None else verdict,
                "runs_needed": runs_needed,
            },
            "notes": ["capacity may worsen cost."],
        }
        codes = {"worse": 1, "inconclusive": 3, "not_interpretable": 4}
        code = codes.get(judgement, 0)
        self.add(Task.VERIFY, document, "runs/before", "runs/after", exit_code=code)

    def documented(self) -> None:
        """Add a write-up."""
        document: dict[str, Any] = {"schema": "latspan.write_up/1", "missing": []}
        self.add(Task.DOCUMENT, document)

    def swept(self, finding: str = "no_drift", *, seconds: float = 60.0) -> None:
        """Add a sweep."""
        path: dict[str, Any] = {
            "finding": finding,
            "sentence": f"The sentence of {finding}.",
            "runs": None if finding == "not_interpretable" else {},
            "seconds_per_run": seconds,
        }
        self.add(Task.WATCH, {"schema": "latspan.sweep/1", "paths": [path]})
