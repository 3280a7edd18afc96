"""Kernel counters of this process and machine are read if they exist, and omitted otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from latspan import semconv
from latspan._live.scraping._host import Host
from latspan._live.scraping._sample_buffer import Sample

THROTTLED = semconv.LATSPAN_HOST_CPU_THROTTLED
PRESSURE = semconv.LATSPAN_HOST_MEMORY_PRESSURE

PSI = """\
some avg10=0.00 avg60=0.00 avg300=0.00 total=2000
full avg10=0.00 avg60=0.00 avg300=0.00 total=1000
"""


def v2(throttled_us: int, periods: int = 9) -> str:
    return f"usage_usec 7\nnr_periods {periods}\nnr_throttled 3\nthrottled_usec {throttled_us}\n"


def v1(throttled_ns: int) -> str:
    return f"nr_periods 9\nnr_throttled 3\nthrottled_time {throttled_ns}\n"


def reading(root: Path, files: dict[str, str]) -> Sample:
    """Return the sample of a machine with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(root).reading(at_ns=5_000_000)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": v2(1_500_000)}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/pod/box\n",
                "sys/fs/cgroup/cpu.stat": "usage_usec 7\n",
                "sys/fs/cgroup/pod/cpu.stat": v2(1_000_000),
                "sys/fs/cgroup/pod/box/cpu.stat": v2(500_000),
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/box\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.stat": v1(250_000_000),
            },
            0.25,
        ),
        ({"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.stat": v1(250_000_000)}, 0.25),
        ({"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.stat": v2(2_000_000)}, 2.0),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": v2(0, periods=0)}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 7\n"}, None),
        ({"proc/self/cgroup": "nonsense\n"}, None),
        ({}, None),
    ],
    ids=[
        "v2",
        "v2 in another",
        "v1, two controllers",
        "v1",
        "v2 in a namespace",
        "no quota",
        "no controller",
        "nonsense",
        "nothing",
    ],
)
def test_throttling_is_the_sum_over_visible_cgroups(
    tmp_path: Path, files: dict[str, str], expected: float | None
) -> None:
    """In seconds; without a visible quota it is unknown, not zero."""
    assert reading(tmp_path, files).totals.get(THROTTLED) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [(PSI, {PRESSURE: (2_000_000, 5_000_000)}), ("", {}), ("some total=x\n", {})],
)
def test_memory_pressure_is_a_fraction_of_time(
    tmp_path: Path, text: str, expected: dict[str, tuple[int, int]]
) -> None:
    """Nanoseconds in which a task waited for memory, and nanoseconds on the clock."""
    assert reading(tmp_path, {"proc/pressure/memory": text}).shares == expected


def test_major_faults_are_those_of_this_process() -> None:
    """The kernel's count never decreases."""
    host = Host()
    first, second = (host.reading(at).totals[semconv.LATSPAN_HOST_MAJOR_FAULTS] for at in (1, 2))

    assert 0 <= first <= second
