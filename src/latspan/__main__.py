"""Entry point of ``python -m latspan``, which is the same as ``latspan``."""

from __future__ import annotations

import sys

from latspan.cli import main

if __name__ == "__main__":
    sys.exit(main())
