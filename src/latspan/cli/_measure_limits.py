"""Limits of the numbers that define a load, whether an option or a file gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latspan.errors import ConfigError

_MAX_REQUESTS: Final = 400_000
"""Largest number of measured requests of a step; as many may follow while they end."""

_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "rate": (0.001, 10_000),
    "concurrency": (1, 10_000),
    "requests": (1, _MAX_REQUESTS),
    "warmup": (0, 100_000),
    "duration": (0.001, 7 * 86_400),
    "burstiness": (0.01, 1_000),
    "speed": (0.001, 1_000),
    "prompt-words": (1, 10_000),
}
"""Least and largest value by option; times are seconds."""


def check_limits(**values: Sequence[float] | float | None) -> None:
    """
    Check numbers of a load.

    Args:
        values: One or several values by the name of their option; ``None`` is not checked.

    Raises:
        ConfigError: A value is outside its limits.
    """
    for name, given in values.items():
        option = name.replace("_", "-")
        least, most = _LIMITS[option]
        for value in given if isinstance(given, Sequence) else [given]:
            if value is not None and not least <= value <= most:
                raise ConfigError(
                    f"--{option} is {value:.6g}, which is not in [{least:g}, {most:g}]",
                    hint=f"use a value from {least:g} to {most:g}, also in a file",
                )


def check_size(rate_per_s: float, duration_s: float) -> None:
    """
    Check the number of requests of an open loop that ends by time.

    Raises:
        ConfigError: It has too many.
    """
    expected = rate_per_s * duration_s
    if expected > _MAX_REQUESTS:
        raise ConfigError(
            f"{rate_per_s:g} requests per second for {duration_s:g} s are {expected:,.0f} requests,"
            f" more than {_MAX_REQUESTS:,}",
            hint="lower --rate or --duration, or limit the number with --requests",
        )
