#!/usr/bin/env python3
"""
Print what an installed package requires here, one a line, but what it is to do without.

``requirements_of.py PACKAGE --without NAME ...``
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package")
    parser.add_argument("--without", nargs="+", default=[])
    asked = parser.parse_args()
    without = {canonicalize_name(name) for name in asked.without}
    for line in requires(asked.package) or ():
        requirement = Requirement(line)
        if canonicalize_name(requirement.name) in without:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            # It has been asked: what pip is given holds for this interpreter.
            requirement.marker = None
            sys.stdout.write(f"{requirement}\n")


main()
