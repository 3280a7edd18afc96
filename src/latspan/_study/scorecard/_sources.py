"""Sources of a scorecard: recordings, folders of histogram logs, and files of traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from latspan._base.shown import location
from latspan._model.recording import Snapshot, snapshots_of, truncated_in
from latspan._model.recording.folder import (
    CONVERTED,
    SAMPLE,
    LoadTest,
    Recording,
    is_recording,
    lacks_lines,
    load_test_of,
    open_recording,
)
from latspan._model.recording.folder._regular import snapshots_in
from latspan._model.recording.folder._writer import files_in
from latspan._study.scorecard._card import ScorecardBuilder
from latspan._study.traces import is_url, read_any
from latspan.errors import ConfigError, RecordingError
from latspan.histogram import read_log

_LOG: Final = ".hlog"
_TRACES: Final = (".json", ".jsonl")


def add_source(builder: ScorecardBuilder, path: str) -> tuple[str, ...]:
    """
    Add everything in a file or a folder to a scorecard.

    Args:
        builder: Builder of the scorecard.
        path: A recording, a histogram log, a file of OTLP/JSON traces, a report of
            guidellm, a folder of any of them, or the URL of a Prometheus server.

    Returns:
        Sentences on what is missing in the source.

    Raises:
        ConfigError: The path does not exist, cannot be read, or has nothing to read; or the
            server does not answer.
        HistogramFormatError: A log is damaged.
        HistogramPrecisionError: A log has less precision than latspan's own.
        RecordingError: A recording or a file of traces cannot be read.
    """
    if is_url(path):
        builder.add_prometheus(path)
        return ()
    try:
        return tuple(_add(builder, Path(path)))
    except OSError as error:
        failed = path if "://" in path else str(error.filename or path)
        raise ConfigError(
            f"cannot read {location(failed)}: {error.strerror}",
            hint="use the path of a recording, a .hlog file or a file of OTLP/JSON traces",
        ) from error


def _add(builder: ScorecardBuilder, path: Path) -> Iterator[str]:
    if is_recording(path):
        yield from _add_recording(builder, open_recording(path))
    elif path.is_dir():
        yield from _add_folder(builder, path)
    elif path.suffix == _LOG:
        yield from _add_logs(builder, [path])
    else:
        imported = read_any(path)
        builder.add_records(
            imported.records,
            unsent=_unsent(imported.load_test),
        )
        yield from (f"{path}: {note}" for note in (*imported.skipped, *imported.left_out))


def _add_folder(builder: ScorecardBuilder, folder: Path) -> Iterator[str]:
    logs = sorted(folder.glob(f"*{_LOG}"))
    if logs:
        # Logs of one folder are those of the processes of one program.
        yield from _add_logs(builder, logs)
    traces = sorted(each for each in folder.iterdir() if each.suffix in _TRACES)
    recordings = sorted(each for each in folder.iterdir() if is_recording(each))
    others: list[RecordingError] = []
    for each in (*traces, *recordings):
        try:
            yield from _add(builder, each)
        except RecordingError as error:
            if each in recordings:
                raise
            # A file of another program, such as package.json, or a damaged one.
            others.append(error)
            yield f"{each} is skipped: it has no traces that can be read."
    if others and len(others) == len((*logs, *traces, *recordings)):
        raise others[0]
    if not (logs or traces or recordings):
        raise ConfigError(
            f"nothing to read in the folder {folder}",
            hint=f"a scorecard reads recordings, *{_LOG} files and OTLP/JSON files",
        )


def _add_recording(builder: ScorecardBuilder, recording: Recording) -> Iterator[str]:
    from latspan._study.table import read_rows

    load_test = load_test_of(recording.manifest)
    reader = builder.reader(is_load=load_test is not None)
    read_rows(recording, reader)
    builder.add_table(
        reader.table(),
        unsent=_unsent(load_test),
        histograms=lambda: _histograms_of(recording),
        is_whole=not lacks_lines(recording),
    )
    if load_test is not None and load_test.was_cut_short:
        yield f"{recording.folder}: the load test was interrupted; its requests until then count."
    # What a converted file lacks is none of what a scorecard shows, and it counts samples itself.
    missing = [note for note in recording.notes if not note.startswith((CONVERTED, SAMPLE))]
    yield from (f"{recording.folder}: {note}" for note in missing)


def _histograms_of(recording: Recording) -> list[Snapshot] | None:
    """Return the histograms of all requests; ``None`` if there are none, or some are missing."""
    # The histograms of a process that was killed lack its last requests.
    if not all(file.ended for file in files_in(recording.folder)):
        return None
    truncated: dict[str, list[str]] = {}
    found = list(snapshots_in(recording.folder, truncated=truncated))
    return None if truncated else found or None


def _add_logs(builder: ScorecardBuilder, paths: Sequence[Path]) -> Iterator[str]:
    logs = [read_log(path) for path in paths]
    builder.add_snapshots(chain.from_iterable(map(snapshots_of, logs)))
    for log in logs:
        yield from truncated_in(log)


def _unsent(load_test: LoadTest | None) -> int:
    """
    Return the number of requests that a load test had scheduled and did not send.

    Those of one that ended early were not sent because it ended.
    """
    if load_test is None or load_test.was_cut_short:
        return 0
    return sum(max(step.unsent, 0) for step in load_test.steps)
