"""
Account of a load test in the manifest of its recording: its steps, targets and end.

The load generator writes it, and so does the conversion of another load tool's results, which
accounts for less. Every reader gets it from :func:`load_test_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from latspan._model.goals import Target
from latspan._model.recording.folder._checks import MAX_NUMBER
from latspan._model.segments import Kind

_NEEDED: Final = frozenset({"load", "intended", "unsent", "generator"})
"""Fields that latspan's own load generator writes for every step."""

_CLOSED: Final = "concurrency"
"""Field of the load of a closed loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAccount:
    """
    Account of one step of a load test: one level of load.

    Args:
        load: What defines the load, by name: ``rate_per_s`` of an open loop, ``concurrency`` of a
            closed one.
        intended: Number of requests that were to be measured.
        unsent: Number of them that were not sent, because the step ended early.
        cut: Indices of the requests that the end of the measurement cancelled.
        sent: Number of requests sent, by phase.
        generator: Lags of the load generator in seconds, and the fraction of a CPU that it used.
        interrupted: Whether a user ended the step early.
        offered_per_s: Rate of the schedule; ``None`` if unknown or in a closed loop.
        reached_per_s: Rate at which the requests were sent.
        is_complete: Whether the account has all fields that latspan's load generator writes.
    """

    load: Mapping[str, Any]
    intended: int = 0
    unsent: int = 0
    cut: tuple[int, ...] = ()
    sent: Mapping[str, int] = field(default_factory=dict[str, int])
    generator: Mapping[str, Any] = field(default_factory=dict[str, Any])
    interrupted: bool = False
    offered_per_s: float | None = None
    reached_per_s: float | None = None
    is_complete: bool = True

    @property
    def is_open(self) -> bool:
        """Whether requests were sent on a schedule, whatever the number in flight."""
        return _CLOSED not in self.load

    @property
    def is_alone(self) -> bool:
        """Whether one request was in flight at a time, as in a calibration."""
        return self.load.get(_CLOSED) == 1

    def fields(self) -> dict[str, Any]:
        """Return the account for the manifest, without what is not known or not the case."""
        fields: dict[str, Any] = {
            "load": dict(self.load),
            "intended": self.intended,
            "unsent": self.unsent,
            "cut": list(self.cut),
            "sent": dict(self.sent),
            "generator": dict(self.generator),
        }
        for name in ("interrupted", "offered_per_s", "reached_per_s"):
            value = getattr(self, name)
            if value:
                fields[name] = value
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """
    Account of a load test.

    Args:
        name: Inference path, address or function that was measured; empty if unknown.
        kind: Kind of what was measured; ``None`` if unknown.
        percentile: Percentile that the measurement was planned for.
        steps: Its steps that have ended, in order.
        ended: Whether the measuring process has ended the measurement; ``None`` if unknown.
        interrupted: Whether a user ended it early.
        target_fields: Targets as they are written, with ``metric``, ``percentile``, ``limit_ns``.
    """

    name: str = ""
    kind: Kind | None = None
    percentile: float = 95
    steps: tuple[StepAccount, ...] = ()
    ended: bool | None = None
    interrupted: bool = False
    target_fields: tuple[Mapping[str, Any], ...] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """
        Targets that were judged.

        Raises:
            ConfigError: A target is out of range.
            UnknownNameError: This release has no such metric.
        """
        return tuple(
            Target(**{name: each[name] for name in _OF_TARGETS}) for each in self.target_fields
        )

    @property
    def was_cut_short(self) -> bool:
        """Whether it ended early: a user ended it, or its process was killed."""
        return self.interrupted or self.ended is False

    def fields(self) -> dict[str, Any]:
        """Return the account for the manifest."""
        kind = {} if self.kind is None else {"kind": self.kind.value}
        ended = {} if self.ended is None else {"ended": self.ended}
        return {
            "name": self.name,
            **kind,
            "percentile": self.percentile,
            "targets": [dict(each) for each in self.target_fields],
            "steps": [step.fields() for step in self.steps],
            **ended,
            "interrupted": self.interrupted,
        }


def target_fields(targets: Sequence[Target]) -> tuple[Mapping[str, Any], ...]:
    """Return targets as they are written."""
    return tuple({name: getattr(each, name) for name in _OF_TARGETS} for each in targets)


def load_test_of(manifest: Mapping[str, Any]) -> LoadTest | None:
    """
    Return the account of the load test that made a recording; ``None`` if it is of another origin.

    Args:
        manifest: Manifest of the recording.

    Raises:
        TypeError: A field has another type than in a manifest of latspan.
        ValueError: A number is out of range, or there is no such kind.
        KeyError: A part of a field is missing.
    """
    measurement: dict[str, Any] = typed(manifest, "measurement", dict)
    if not measurement:
        return None
    targets: list[Mapping[str, Any]] = typed(measurement, "targets", list)
    for target in targets:
        for name, needed in _OF_TARGETS.items():
            if not isinstance(target[name], needed):
                raise TypeError(f"{name} of a target has another type")
        _check_number(target["percentile"])
        _check_number(target["limit_ns"])
    percentile = measurement.get("percentile", 95)
    _check_number(percentile)
    kind, ended = measurement.get("kind"), measurement.get("ended")
    return LoadTest(
        name=typed(measurement, "name", str),
        kind=None if kind is None else Kind(kind),
        percentile=95 if percentile is None else percentile,
        steps=tuple(_step_of(each) for each in typed(measurement, "steps", list)),
        ended=None if ended is None else bool(ended),
        interrupted=bool(measurement.get("interrupted")),
        target_fields=tuple(targets),
    )


def _step_of(fields: Mapping[str, Any]) -> StepAccount:
    load: dict[str, Any] = typed(fields, "load", dict)
    for name in ("rate_per_s", _CLOSED):
        _check_number(load.get(name))
    for name in ("offered_per_s", "reached_per_s"):
        _check_number(fields.get(name))
    cut: list[object] = typed(fields, "cut", list)
    if not all(isinstance(index, int) for index in cut):
        raise TypeError("the index of a request has another type")
    for name in ("intended", "unsent"):
        _check_number(typed(fields, name, int))
    return StepAccount(
        load=load,
        intended=fields.get("intended", 0),
        unsent=fields.get("unsent", 0),
        cut=tuple(cast("list[int]", cut)),
        sent=typed(fields, "sent", dict),
        generator=_generator_of(typed(fields, "generator", dict)),
        interrupted=bool(fields.get("interrupted")),
        offered_per_s=fields.get("offered_per_s"),
        reached_per_s=fields.get("reached_per_s"),
        is_complete=fields.keys() >= _NEEDED,
    )


def _generator_of(fields: dict[str, Any]) -> dict[str, Any]:
    if "busy" in fields and fields["busy"] is None:
        raise TypeError("busy has another type")
    _check_number(fields.get("busy"))
    for name in ("dispatch_lag", "loop_lag"):
        lag: dict[str, Any] = typed(fields, name, dict)
        if name in fields and "p99" not in lag:
            raise KeyError("p99")
        for value in lag.values():
            _check_number(value)
            if value is None:
                raise TypeError(f"{name} has another type")
    return fields


def _check_number(value: object) -> None:
    """Raise an exception if a field that is a number, or absent, is something else."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number has another type")
    # NaN is in no range.
    if not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise ValueError("a number is out of range")


_OF_TARGETS: Final = {"metric": str, "percentile": (int, float), "limit_ns": int}
"""Fields of a target that are written, with their types."""


def typed(fields: Mapping[str, Any], name: str, needed: type) -> Any:
    """
    Return a field, or an empty one of its type if it is absent.

    Raises:
        TypeError: It has another type.
    """
    value = fields.get(name)
    if value is None and name not in fields:
        return needed()
    if not isinstance(value, needed):
        raise TypeError(f"{name} has another type")
    return value
