"""Presets: inference paths with the usual target of a use case, to begin with."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.goals._path import InferencePath, TrafficProfile
from latspan._model.goals._target import Target
from latspan._model.metrics import DURATION, TIME_TO_FIRST_TOKEN


class Preset(StrEnum):
    """Use case with a usual target."""

    CHAT = "chat"
    """The answer begins within 500 ms, at p95."""
    AUTOCOMPLETE = "autocomplete"
    """The suggestion is complete within 150 ms, at p95."""
    SUMMARY = "summary"
    """A summary in the background is complete within 10 s, at p99."""


_TARGETS: Final = {
    Preset.CHAT: Target(
        metric=TIME_TO_FIRST_TOKEN,
        percentile=95,
        limit_ns=500 * NS_PER_MS,
        use_case="chat",
        source="preset chat of latspan",
    ),
    Preset.AUTOCOMPLETE: Target(
        metric=DURATION,
        percentile=95,
        limit_ns=150 * NS_PER_MS,
        use_case="inline autocomplete",
        source="preset autocomplete of latspan",
    ),
    Preset.SUMMARY: Target(
        metric=DURATION,
        percentile=99,
        limit_ns=10 * NS_PER_S,
        use_case="background summary",
        source="preset summary of latspan",
    ),
}

_TRAFFIC: Final = {
    Preset.CHAT: TrafficProfile(rate_per_s=2, timeout_s=60),
    Preset.AUTOCOMPLETE: TrafficProfile(rate_per_s=10, timeout_s=5),
    Preset.SUMMARY: TrafficProfile(rate_per_s=1, timeout_s=120),
}


def preset_path(name: str, preset: Preset) -> InferencePath:
    """
    Return an inference path with the target of a use case; the rest is left to its owner.

    Args:
        name: Name of the inference path.
        preset: The use case.

    Raises:
        ConfigError: The name is invalid.
    """
    return InferencePath(name=name, targets=(_TARGETS[preset],), traffic=_TRAFFIC[preset])
