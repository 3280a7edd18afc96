"""
Write-up of a pass as JSON, schema ``latspan.write_up/1``: its pages, and the results behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypedDict, cast

from latspan._study.fields import DateTime
from latspan._study.loop import Loop, Result, missing_fields
from latspan._study.render.diagnosis_json import DiagnosisDocument
from latspan._study.render.measurement_json import MeasurementDocument
from latspan._study.render.verification_json import VerificationDocument
from latspan._study.render.write_up import conclusion, missing_of

WRITE_UP_SCHEMA: Final = "latspan.write_up/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""


class MissingPart(TypedDict):
    """A part that the write-up lacks."""

    what: str
    command: Annotated[str, "Command that gives it"]


class _KeptResult(TypedDict):
    created: DateTime
    command: str


class KeptMeasurement(_KeptResult):
    """Measurement that the pass began with."""

    document: MeasurementDocument


class KeptDiagnosis(_KeptResult):
    """Diagnosis of that measurement."""

    document: DiagnosisDocument


class KeptVerification(_KeptResult):
    """Verification of the change."""

    document: VerificationDocument


class WriteUpDocument(TypedDict):
    """Write-up of a pass: latspan document --json."""

    schema: Literal["latspan.write_up/1"]
    name: str
    conclusion: str
    files: Annotated[
        list[str], "Pages that were written, relative to the folder of the inference path"
    ]
    kept: Annotated[list[str], "Pages that a person edited, which were not replaced"]
    not_stated: Annotated[list[str], "Empty fields of the file of the inference path"]
    missing: list[MissingPart]
    baseline: KeptMeasurement | None
    diagnosis: KeptDiagnosis | None
    verification: KeptVerification | None


def write_up_document(
    loop: Loop, files: Sequence[str], kept: Sequence[str] = ()
) -> WriteUpDocument:
    """
    Return a write-up as plain data, ready for ``json.dumps``.

    Args:
        loop: Where the inference path stands.
        files: Pages that were written.
        kept: Pages that a person edited, which were not replaced.
    """
    return {
        "schema": WRITE_UP_SCHEMA,
        "name": loop.file.stem,
        "conclusion": conclusion(loop),
        "files": list(files),
        "kept": list(kept),
        "not_stated": list(missing_fields(loop)),
        "missing": [{"what": what, "command": command} for what, command in missing_of(loop)],
        "baseline": _measurement(loop.baseline),
        "diagnosis": _diagnosis(loop.diagnosis),
        "verification": _verification(loop.verification),
    }


# Reading a result has checked that its document has the schema of its task.


def _measurement(result: Result | None) -> KeptMeasurement | None:
    if result is None:
        return None
    return {**_kept(result), "document": cast("MeasurementDocument", dict(result.document))}


def _diagnosis(result: Result | None) -> KeptDiagnosis | None:
    if result is None:
        return None
    return {**_kept(result), "document": cast("DiagnosisDocument", dict(result.document))}


def _verification(result: Result | None) -> KeptVerification | None:
    if result is None:
        return None
    return {**_kept(result), "document": cast("VerificationDocument", dict(result.document))}


def _kept(result: Result) -> _KeptResult:
    return {"created": f"{result.created:%Y-%m-%dT%H:%M:%SZ}", "command": result.command}
