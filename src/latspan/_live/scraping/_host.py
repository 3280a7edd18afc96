"""Kernel counters of this process and its machine: page faults, throttling, memory pressure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.scraping._sample_buffer import Sample

_NS_PER_US: Final = 1_000

# cgroup v2 reports the throttled time in microseconds, v1 in nanoseconds.
_THROTTLED: Final = re.compile(r"^throttled_(usec|time) (\d+)$", re.MULTILINE)
_NO_QUOTA: Final = re.compile(r"^nr_periods 0$", re.MULTILINE)
_STALLED: Final = re.compile(r"^some .*\btotal=(\d+)$", re.MULTILINE)
_ROOT: Final = Path("/")


class Host:
    """
    Reader of the kernel's counters. Counters that the platform does not have are omitted.

    Args:
        root: Folder in which the kernel's file systems are mounted.
    """

    def __init__(self, root: Path = _ROOT) -> None:
        self._pressure = root / "proc/pressure/memory"
        self._cpu_stats = [path for path in _cpu_stats(root) if _THROTTLED.search(_text(path))]

    def reading(self, at_ns: int) -> Sample:
        """
        Return the current values of the counters.

        Args:
            at_ns: Current time, monotonic nanoseconds.
        """
        totals: dict[str, float] = {}
        faults = _major_faults()
        if faults is not None:
            totals[semconv.LATSPAN_HOST_MAJOR_FAULTS] = faults
        throttled = [_throttled_ns(_text(path)) for path in self._cpu_stats]
        throttled_ns = [each for each in throttled if each is not None]
        if throttled_ns:
            totals[semconv.LATSPAN_HOST_CPU_THROTTLED] = sum(throttled_ns) / NS_PER_S
        stalled = _STALLED.search(_text(self._pressure))
        if stalled is None:
            return Sample(totals=totals)
        share = int(stalled[1]) * _NS_PER_US, at_ns
        return Sample(totals=totals, shares={semconv.LATSPAN_HOST_MEMORY_PRESSURE: share})


def _major_faults() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def _cpu_stats(root: Path) -> Iterator[Path]:
    """Yield possible paths of ``cpu.stat`` for the process's cgroup and the enclosing cgroups."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Inside a namespace, a cgroup outside it has a path like `/..`: only the root is visible.
        names = PurePosixPath(path.lstrip("/")).parts
        names = () if ".." in names else names
        top = mounted / controllers if (mounted / controllers).is_dir() else mounted / "cpu"
        for depth in range(len(names) + 1):
            yield top.joinpath(*names[:depth], "cpu.stat")


def _throttled_ns(text: str) -> int | None:
    """
    Return the throttled time of a cgroup, in nanoseconds.

    ``None`` if the cgroup has no quota; an enclosing cgroup may have one.
    """
    found = _THROTTLED.search(text)
    if found is None or _NO_QUOTA.search(text):
        return None
    return int(found[2]) * (_NS_PER_US if found[1] == "usec" else 1)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
