"""Program that ``make bench-rivals`` runs: it measures, and prints Markdown or a JSON document."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from _bench import Figure, Scale, figure, machine, yardstick
from rivals._document import document
from rivals._environments import NotInstalledError, python_of, versions_of
from rivals._libraries import BARE, LATSPAN, LIBRARIES, SHARED
from rivals._load_runs import LoadResults, run_loads
from rivals._load_tables import load_document, load_notes, load_table
from rivals._parts import PARTS
from rivals._situation_result import SituationResult
from rivals._situation_runs import run_situations
from rivals._subjects import BASELINE, CONTROL, SUBJECTS
from rivals._tables import notes, numbers_table, situations_table
from rivals._turns import Field, Values

_SITUATIONS: Final = "situations"
_LOAD: Final = "load"


def main() -> int:
    """Execute the command line, and return the exit status."""
    names = (*PARTS, _SITUATIONS, _LOAD)
    parser = argparse.ArgumentParser(
        prog="make bench-rivals",
        description="Compare latspan with other instrumentations and load tools",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(names))
    parser.add_argument("--json", action="store_true", help="print one document instead of tables")
    parser.add_argument("--quick", action="store_true", help="a fifth of the repeats, and fewer")
    arguments = parser.parse_args()
    parts: list[str] = arguments.parts or list(names)
    for name in parts:
        if name not in names:
            parser.error(f"no part '{name}'; there are {', '.join(names)}")
    began = time.monotonic()
    # The load tools have their own environments.
    taking_part = _field() if set(parts) - {_LOAD} else Field({}, [], {})
    load_at_first = os.getloadavg()[0]
    sticks = yardstick()
    numbers: dict[str, Mapping[str, Values]] = {}
    situations: Mapping[str, Mapping[str, SituationResult]] = {}
    loads: LoadResults | None = None
    for name in parts:
        sys.stderr.write(f"measuring {name} ...\n")
        if name == _SITUATIONS:
            situations = run_situations(taking_part)
            table = situations_table(situations)
        elif name == _LOAD:
            loads = run_loads(Scale(quick=arguments.quick))
            table = f"{load_table(loads)}\n\n{load_notes(loads)}"
        else:
            numbers[name] = PARTS[name].measure(taking_part, Scale(quick=arguments.quick))
            table = numbers_table(PARTS[name], numbers[name])
        if not arguments.json:
            print(f"{table}\n", flush=True)
        sticks += yardstick()
    run = {
        "machine": machine(),
        "cores": os.cpu_count(),
        "load": [load_at_first, os.getloadavg()[0]],
        "quick": arguments.quick,
        "took_s": time.monotonic() - began,
        **_what_ran(taking_part, figure(sticks)),
    }
    if arguments.json:
        load = {} if loads is None else {"load_tools": load_document(loads)}
        print(json.dumps(document(run, numbers, situations) | load, indent=2))
    else:
        print(notes(run))
    return 0


def _field() -> Field:
    """Return the subjects whose libraries can be installed, and the reasons for skipped ones."""
    pythons: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    for library in LIBRARIES:
        try:
            pythons[library.name] = python_of(library)
        except NotInstalledError as error:
            skipped[library.title] = str(error)
    if LATSPAN.name not in pythons:
        raise SystemExit(f"latspan cannot be installed: {skipped[LATSPAN.title]}")
    # The client alone needs an environment too.
    pythons[BARE.name] = pythons[LATSPAN.name]
    everybody = (BASELINE, CONTROL, *SUBJECTS)
    return Field(pythons, [each for each in everybody if each.library.name in pythons], skipped)


def _what_ran(taking_part: Field, stick: Figure) -> dict[str, Any]:
    installed = [library for library in LIBRARIES if library.name in taking_part.pythons]
    versions = {library.name: versions_of(library) for library in installed}
    return {
        "yardstick_us": {"least": stick.least, "median": stick.middle},
        # More than one version of a package makes the costs incomparable; the notes then warn.
        "shared_versions": {
            name: sorted({each[name] for each in versions.values()}) for name in SHARED if versions
        },
        "libraries": {
            library.title: {
                "version": versions[library.name][library.distribution],
                "setting": library.setting,
            }
            for library in installed
        },
        "skipped": taking_part.skipped,
    }


if __name__ == "__main__":
    sys.exit(main())
