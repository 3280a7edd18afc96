"""
Recordings: folders with the finished requests of one or several processes.

See ``docs/adr/0036-write-a-recording-as-one-json-line-per-finished-request.md`` for the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._base.lazy import lazy_getattr

if TYPE_CHECKING:
    from latspan._model.recording.folder._checks import MAX_NUMBER, MIN_RATIO, UNREADABLE
    from latspan._model.recording.folder._conditions import host_conditions
    from latspan._model.recording.folder._line_counter import LineCounter
    from latspan._model.recording.folder._lines import row_of_record
    from latspan._model.recording.folder._load_test import (
        LoadTest,
        StepAccount,
        load_test_of,
        target_fields,
    )
    from latspan._model.recording.folder._manifest import (
        SCHEMA,
        Manifest,
        Origin,
        begin_recording,
        is_recording,
        join_recording,
        refuse_copies,
    )
    from latspan._model.recording.folder._reader import (
        CONVERTED,
        RECORDS_KEPT,
        SAMPLE,
        LineChunk,
        Recording,
        SnapshotReader,
        chunks_of,
        counted,
        lacks_lines,
        open_recording,
        without_collections,
    )
    from latspan._model.recording.folder._reserve import Reserve
    from latspan._model.recording.folder._watched import Watcher, watched_reading
    from latspan._model.recording.folder._writer import MAX_FILE_BYTES, RecordFile, prepare

__all__ = [
    "CONVERTED",
    "MAX_FILE_BYTES",
    "MAX_NUMBER",
    "MIN_RATIO",
    "RECORDS_KEPT",
    "SAMPLE",
    "SCHEMA",
    "UNREADABLE",
    "LineChunk",
    "LineCounter",
    "LoadTest",
    "Manifest",
    "Origin",
    "RecordFile",
    "Recording",
    "Reserve",
    "SnapshotReader",
    "StepAccount",
    "Watcher",
    "begin_recording",
    "chunks_of",
    "counted",
    "host_conditions",
    "is_recording",
    "join_recording",
    "lacks_lines",
    "load_test_of",
    "open_recording",
    "prepare",
    "refuse_copies",
    "row_of_record",
    "target_fields",
    "watched_reading",
    "without_collections",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "CONVERTED": "_reader",
        "MAX_NUMBER": "_checks",
        "MAX_FILE_BYTES": "_writer",
        "MIN_RATIO": "_checks",
        "RECORDS_KEPT": "_reader",
        "SAMPLE": "_reader",
        "SCHEMA": "_manifest",
        "UNREADABLE": "_checks",
        "Manifest": "_manifest",
        "Origin": "_manifest",
        "RecordFile": "_writer",
        "Recording": "_reader",
        "Reserve": "_reserve",
        "Watcher": "_watched",
        "begin_recording": "_manifest",
        "LineChunk": "_reader",
        "LineCounter": "_line_counter",
        "StepAccount": "_load_test",
        "LoadTest": "_load_test",
        "load_test_of": "_load_test",
        "SnapshotReader": "_reader",
        "chunks_of": "_reader",
        "counted": "_reader",
        "lacks_lines": "_reader",
        "host_conditions": "_conditions",
        "is_recording": "_manifest",
        "join_recording": "_manifest",
        "open_recording": "_reader",
        "prepare": "_writer",
        "refuse_copies": "_manifest",
        "row_of_record": "_lines",
        "target_fields": "_load_test",
        "watched_reading": "_watched",
        "without_collections": "_reader",
    },
)
