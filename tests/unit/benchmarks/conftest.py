"""Makes the packages of ``benchmarks/`` importable."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parents[3] / "benchmarks")

# At the end, so that no file of the folder hides another module.
if _FOLDER not in sys.path:
    sys.path.append(_FOLDER)
