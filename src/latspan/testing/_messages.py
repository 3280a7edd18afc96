"""Scripts and served requests as JSON, between a test and the process of its scripted server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from latspan.testing._script import Ending, PayloadPart, Script, ScriptStep, ServerFlavor
from latspan.testing._served import ServedRequest, WriteRecord


def script_to_json(script: Script) -> dict[str, Any]:
    """Return a script as data for ``json.dumps``."""
    return asdict(script)


def script_from_json(data: Mapping[str, Any]) -> Script:
    """Return the script from the data that :func:`script_to_json` returned."""
    fields: dict[str, Any] = {
        **data,
        "steps": _steps_from_json(data["steps"]),
        "lead": _steps_from_json(data["lead"]),
        "ending": Ending(data["ending"]),
        "flavor": ServerFlavor(data["flavor"]),
    }
    return Script(**fields)


def _steps_from_json(data: Sequence[Mapping[str, Any]]) -> tuple[ScriptStep, ...]:
    return tuple(
        ScriptStep(PayloadPart(step["piece"]), step["gap_ns"], step["text"], step["tokens"])
        for step in data
    )


def served_to_json(served: ServedRequest) -> dict[str, Any]:
    """Return the record of a served request as data for ``json.dumps``."""
    return {
        "index": served.index,
        "connection": served.connection,
        "raw": served.raw.decode("latin-1"),
        "status": served.status,
        "accepted_ns": served.accepted_ns,
        "slot_ns": served.slot_ns,
        "writes": [[write.instant_ns, write.piece] for write in served.writes],
        "end_ns": served.end_ns,
        "cancelled_ns": served.cancelled_ns,
    }


def served_from_json(data: Mapping[str, Any]) -> ServedRequest:
    """Return the record from the data that :func:`served_to_json` returned."""
    writes = cast("Sequence[tuple[int, str]]", data["writes"])
    fields: dict[str, Any] = {
        **data,
        "raw": data["raw"].encode("latin-1"),
        "writes": tuple(
            WriteRecord(instant_ns, PayloadPart(piece)) for instant_ns, piece in writes
        ),
    }
    return ServedRequest(**fields)
