"""
Compare the diagnoses of recordings with those of the traces of the same requests.

While a system is recorded, its spans go to a Collector that writes them into a file of OTLP/JSON.
The file is read as it is, and its lines are sent to Jaeger and, where it is installed, to Tempo.
Each diagnosis receives the traces of one system, and the calibration of its recording.

Reproduce: ``make backends``, then ``make bench-diagnose ARGS="sockets --traces SEED"``; ``--only``
selects systems.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _table import markdown
from diagnosis.sockets._fault import Answer, Made, answers, parameters_of
from diagnosis.sockets._faults import FAULTS
from diagnosis.sockets._load import ENDPOINT
from latspan._model.recording.folder import open_recording
from latspan._study.diagnose import (
    Diagnosis,
    diagnose_recording,
    diagnose_source,
    parse_goal,
)
from latspan._study.traces import TraceQuery
from latspan.errors import LatspanError
from support.backends import Backends, backends_up, built, eventually
from support.collector import CollectorAddresses, Written


def compare(only: str, *, seed: str) -> int:
    """
    Print the diagnoses of recordings and of their traces; return 1 if one differs.

    Args:
        only: Beginnings of the names of faults, separated by commas; empty for all.
        seed: Seed of the parameters.
    """
    rows: list[tuple[str, ...]] = [("fault", "recording", "OTLP file", "Jaeger", "Tempo")]
    right = answers()
    chosen = [name for name in right if name.startswith(tuple(only.split(",")))]
    differing = 0
    with TemporaryDirectory() as temporary, backends_up(Path(temporary) / "backends") as backends:
        for name in chosen:
            folder, spans = Path(temporary) / name, Path(temporary) / f"{name}-spans"
            folder.mkdir()
            spans.mkdir()
            try:
                made, file = _recorded(folder, spans, name, seed)
            except Exception as error:  # noqa: BLE001 - the others are still worth comparing
                sys.stderr.write(f"{name}: {error}\n")
                continue
            found = list(_diagnosed(name, right[name], made, file, backends))
            differing += len({each for each in found if each != "not installed"}) > 1
            rows.append((name, *found))
            sys.stderr.write(f"{': '.join(rows[-1])}\n")
    print(markdown(rows))
    print(f"\n{differing} of {len(rows) - 1} systems have another diagnosis in a trace")
    return int(differing > 0)


def _recorded(folder: Path, spans: Path, name: str, seed: str) -> tuple[Made, Path]:
    """Record a system, and return the recording and the file with the spans of its requests."""
    addresses = CollectorAddresses.free()
    with Written(spans).by_next(built("otelcol"), addresses):
        os.environ[ENDPOINT] = addresses.url("http")
        try:
            made = FAULTS[name].inject(folder, parameters_of(name, seed))
        finally:
            del os.environ[ENDPOINT]
    return made, spans / "spans-1.jsonl"


def _diagnosed(
    name: str, answer: Answer, made: Made, file: Path, backends: Backends
) -> Iterator[str]:
    """Yield the diagnosis of the recording, of the file, of Jaeger and of Tempo."""
    goal = parse_goal(answer.goal)
    calibration = None if made.calibration is None else open_recording(made.calibration)
    own = diagnose_recording(open_recording(made.recording), goal, calibration=calibration)
    yield _named(own)
    yield _named(diagnose_source(str(file), goal, calibration=calibration))
    _send(file, name, backends)
    jaeger = f"http://{backends.addresses['LATSPAN_JAEGER']}"
    query = TraceQuery(service=name)
    for url in (jaeger, backends.tempo.url if _has_tempo() else ""):
        if not url:
            yield "not installed"
            continue

        def look(url: str = url, query: TraceQuery = query) -> Diagnosis | LatspanError:
            try:
                return diagnose_source(url, goal, traces=query, calibration=calibration)
            except LatspanError as error:
                # At first, the backend does not have the service.
                return error

        found = eventually(
            look, lambda each: isinstance(each, Diagnosis) and each.units >= own.units
        )
        yield _named(found) if isinstance(found, Diagnosis) else str(found)


def _named(diagnosis: Diagnosis) -> str:
    finding = "" if diagnosis.finding is None else f" {diagnosis.finding.cause}"
    leader = "" if diagnosis.attribution is None else f", {diagnosis.attribution.leader.name}"
    return f"{diagnosis.conclusion}{finding}{leader}"


def _send(file: Path, name: str, backends: Backends) -> None:
    """Send the spans of a file to the backends, with a service of their own."""
    for line in file.read_text().splitlines():
        message: dict[str, Any] = json.loads(line)
        for resource in message["resourceSpans"]:
            for attribute in resource["resource"]["attributes"]:
                if attribute["key"] == "service.name":
                    attribute["value"] = {"stringValue": name}
        request = urllib.request.Request(  # noqa: S310 - the Collector of this benchmark
            f"{backends.otlp_url}/v1/traces",
            json.dumps(message).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request):  # noqa: S310
            pass


def _has_tempo() -> bool:
    try:
        built("tempo")
    except BaseException:  # noqa: BLE001 - pytest's skip is no Exception
        return False
    return True
