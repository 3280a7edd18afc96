"""Reading any text as a histogram ends with a result or an error."""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from latspan.histogram import Histogram, encode
from support.programs import run_program

ROUNDS = 2_000


def test_damaged_and_hostile_text_does_not_crash() -> None:
    """Flipped bits, cuts, random counts and headers, huge lengths and a bomb, in 512 MB."""
    printed = run_program("decodes_hostile_text", str(ROUNDS))

    assert printed == f"{5 * ROUNDS + 1} True\n"


SHOWS = """
import resource, sys
from latspan.cli import main
resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20))
sys.exit(main(["histogram", "show", sys.argv[1]]))
"""
HEAD = "#[Histogram log format version 1.3]\n"


def of_counters(number: int, *, digits: int) -> str:
    """Return the text of a histogram with ``number`` values, each counted once."""
    header = struct.pack(">IIiiqqd", 0x1C849313, number, 0, digits, 1, (1 << 63) - 1, 1.0)
    data = zlib.compress(header + b"\x02" * number, 9)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


def ours(comment: str) -> str:
    lines = f"#[latspan {comment}]\nTag=a,0.000,0.000,0.000,{encode(histogram_of_one())}\n"
    closing = f"1 series, 1 to 2 ns, crc32 {zlib.crc32(lines.encode()):08x}"
    return f"{HEAD}#[latspan log 1]\n{lines}#[latspan interval of {closing}]\n"


def histogram_of_one() -> Histogram:
    histogram = Histogram()
    histogram.record(5)
    return histogram


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}1,1,0,{of_counters(16_000_000, digits=5)}\n",
        f"{HEAD}1,1,0,{of_counters(5_000_000, digits=5)}\n",
        HEAD + f"1,1,0,{of_counters(40_000, digits=4)}\n" * 100,
        f"{HEAD}999999999999,1,0,{encode(histogram_of_one())}\n",
        ours(f"sum={'9' * 5_000} min=5 max=5 rejected=0 clamped=0"),
        ours("sum=5 min=9 max=1 rejected=0 clamped=0"),
        ours("sum=5 min=5 max=99999999999999999999 rejected=0 clamped=0"),
    ],
    ids=["a bomb", "many counters", "many bombs", "year 33658", "digits", "extremes", "maximum"],
)
def test_a_hostile_log_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    """Exit code 4, with little memory and without a traceback."""
    path = tmp_path / "hostile.hlog"
    path.write_text(text)

    done = subprocess.run(
        [sys.executable, "-c", SHOWS, str(path)], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"error: {path}, line ")
    assert len(done.stderr.splitlines()) == 2
