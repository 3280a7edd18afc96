"""Conversion of a file of another program into a recording, which states what it lacks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan._model.recording.folder._columns import columns, frame_module
from latspan._model.recording.folder._lines import line_of, row_of
from latspan._study.traces._guidellm import is_guidellm, read_guidellm
from latspan._study.traces._imported import Imported
from latspan._study.traces._otlp import read_otlp
from latspan.errors import RecordingError


def read_any(
    path: str | os.PathLike[str], *, service: str | None = None, route: str | None = None
) -> Imported:
    """
    Return the requests in a file of OTLP/JSON traces, or in a report of guidellm.

    Args:
        path: The file.
        service: Service of the requests; all if not given. A report of guidellm has none.
        route: Route of the requests; all if not given.

    Raises:
        OSError: The file cannot be read.
        RecordingError: The file has neither format, or no request.
    """
    if is_guidellm(path):
        imported = read_guidellm(path)
    else:
        imported = read_otlp(path, service=service, route=route)
    if not imported.records:
        if service is not None or route is not None:
            wanted = " and ".join(
                f"{name} '{value}'"
                for name, value in (("service", service), ("route", route))
                if value is not None
            )
            raise RecordingError(
                f"{os.fspath(path)} has no request or call of {wanted}",
                hint="omit the service and the route, to read those of all",
            )
        unusable = "".join(f"; {each}" for each in imported.left_out)
        raise RecordingError(
            f"{os.fspath(path)} has no request or call{unusable}",
            hint="use a file with latspan's spans, or with inference spans of OpenTelemetry's"
            " GenAI conventions",
        )
    return imported


def convert(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> Imported:
    """
    Write the requests of a file into a new recording.

    Args:
        path: File of OTLP/JSON traces, or report of guidellm.
        folder: Folder of the recording, which does not hold one yet.

    Returns:
        The requests, with what they lack.

    Raises:
        OSError: A file cannot be read or written.
        RecordingError: The file has neither format, or the folder holds a recording.
    """
    imported = read_any(path)
    manifest = begin_recording(folder, source="convert", conditions=imported.conditions or {})
    file = RecordFile(folder, largest=math.inf)
    file.begin()
    for record in imported.records:
        file.append(record)
    file.end()
    manifest.update(
        conversion={
            "file": Path(path).name,
            "format": imported.format,
            "lacks": list(imported.lacks),
            "skipped": list(imported.skipped),
            "left_out": list(imported.left_out),
        }
    )
    if imported.load_test is not None:
        manifest.update(measurement=imported.load_test.fields())
    return imported


def require_parquet() -> None:
    """
    Check that Parquet files can be written.

    Raises:
        MissingExtraError: numpy, pandas or pyarrow is not installed.
    """
    for name in ("numpy", "pandas", "pyarrow"):
        frame_module(name)


def write_parquet(records: Iterable[RequestRecord], path: str | os.PathLike[str]) -> int:
    """
    Write records as a Parquet file: one row per record, with the columns of a recording.

    Args:
        records: The records.
        path: The file.

    Returns:
        Number of rows.

    Raises:
        MissingExtraError: numpy, pandas or pyarrow is not installed.
        OSError: The file cannot be written.
    """
    require_parquet()
    rows = (row_of(line_of(record, record.ratio)) for record in records)
    named = {
        _encodable(name): _of_one_type(values.tolist())
        for name, values in columns(rows, ()).items()
    }
    frame = frame_module("pandas").DataFrame(named)
    frame.to_parquet(path, engine="pyarrow", index=False)
    return len(frame)


def _of_one_type(values: list[object]) -> list[object]:
    """Return a column of one type, as Parquet needs it: an attribute of several becomes text."""
    kinds = {type(each) for each in values if each is not None}
    if len(kinds) > 1 or kinds & {list, tuple, dict}:
        return [None if each is None else _encodable(str(each)) for each in values]
    if kinds == {str}:
        return [_encodable(each) if isinstance(each, str) else each for each in values]
    return values


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which Parquet cannot store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
