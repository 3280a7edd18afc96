"""A recording as a user reads it: its conditions, its requests, and what it lacks."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from latspan import semconv
from latspan._base.shown import location
from latspan._model.recording._record import RequestRecord
from latspan._model.recording._snapshot import Snapshot
from latspan._model.recording.folder._checks import UNREADABLE, check_rows
from latspan._model.recording.folder._line_counter import LineCounter
from latspan._model.recording.folder._line_sample import LineSample, duration_of_line, kind_of_line
from latspan._model.recording.folder._lines import compact_line, record_of, row_of
from latspan._model.recording.folder._manifest import read_manifest
from latspan._model.recording.folder._regular import not_readable, open_regular, snapshots_in
from latspan._model.recording.folder._watched import ReadingWatch
from latspan._model.recording.folder._writer import ProcessFile, count_of_lost, files_in
from latspan._model.segments import Kind, kind_named
from latspan.errors import RecordingError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray

SAMPLE: Final = "The recording is a sample: "
"""Beginning of the note on lines that stand for other requests too."""

CONVERTED: Final = "Converted: "
"""Beginning of the notes on what a file of another program did not have."""

RECORDS_KEPT: Final = 5_000
"""Number of complete records of each kind in the snapshot of a recording."""

_MAX_LINE: Final = 16_000_000
"""Length in bytes above which a line is not read: 200 times the line of 10,000 chunks."""

_IDS_PER_FILE: Final = 2**48

_CHUNK: Final = 256
"""Number of lines that are decoded at once: so few that they stay in the processor's caches."""

_RATIO: Final = b'"ratio":'
"""Field of the lines of a sample; a quotation mark inside a text would be escaped."""

_MEASURED: Final = "measured"
"""Phase of the requests of a load test that count."""


class Recording:
    """
    Finished requests that one or several processes recorded, read from a folder.

    Opening reads only the manifest. Requests are read anew by each method and are not kept, so
    memory does not grow with the recording, except for the arrays of :meth:`columns`.

    Args:
        folder: Folder of the recording.
        manifest: Contents of its manifest.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder: Final = folder
        """Folder of the recording."""
        self.manifest: Final = MappingProxyType(dict(manifest))
        """Origin and conditions of the recording: the contents of ``recording.json``."""
        self._unreadable = 0
        self._sampled = 0
        self._truncated: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        """Return the folder and the origin of the recording."""
        made = self.manifest.get("source"), self.manifest.get("created")
        return f"<latspan.Recording {str(self.folder)!r}: {made[0]}, {made[1]}>"

    @property
    def conditions(self) -> Mapping[str, Any]:
        """Conditions under which the recording was made, by name."""
        return MappingProxyType(dict(self.manifest.get("conditions", {})))

    def records(self, kind: Kind | str | None = None) -> Iterator[RequestRecord]:
        """
        Yield the finished requests, calls and stages, one process after the other.

        Those of one process are in the order in which they ended.

        Args:
            kind: Kind to yield, for example ``"call"``; all of them if not given.

        Raises:
            RecordingError: A file cannot be read.
            UnknownNameError: There is no such kind.
        """
        wanted = None if kind is None else kind_named(kind)
        for record in self._parsed(self._lines()):
            if wanted is None or record.kind is wanted:
                yield record

    def _parsed(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[RequestRecord]:
        for number, line in lines:
            try:
                yield record_of(line, number * _IDS_PER_FILE)
            except UNREADABLE:
                self._unreadable += 1

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each complete line with the number of its file, and count the others."""
        self._unreadable = self._sampled = 0
        files = self._files()
        watch = ReadingWatch(file.path for file in files)
        for number, file in enumerate(files):
            try:
                with open_regular(file.path) as lines:
                    while line := lines.readline(_MAX_LINE):
                        watch.add(len(line))
                        if line.endswith((b"}\n", b"}\r\n")):
                            yield number, line
                            continue
                        self._unreadable += 1
                        while line and not line.endswith(b"\n"):
                            line = lines.readline(_MAX_LINE)
                            watch.add(len(line))
            except OSError as error:
                raise not_readable(file.path, error) from error
        watch.end()

    def _files(self) -> list[ProcessFile]:
        try:
            return files_in(self.folder)
        except OSError as error:
            raise not_readable(self.folder, error) from error

    def columns(
        self, *names: str, kind: Kind | str | None = None
    ) -> dict[str, NDArray[np.float64] | NDArray[np.object_]]:
        """
        Return values of all requests as one array per name, in the order of :meth:`records`.

        Args:
            names: ``kind``, ``name``, ``outcome``, ``streamed``, ``start``, ``dispatch_lag``, a
                metric such as ``time_to_first_token``, ``<metric>.from_schedule`` for a load test,
                ``segment.<name>``, ``tokens.input``, ``tokens.cached``, ``tokens.output``,
                ``tokens.reasoning``, ``ratio``, or an attribute of the requests. If none is given,
                all names that occur.
            kind: Kind of the requests; all kinds if not given.

        Returns:
            Arrays of shape ``(n_requests,)``. Times are seconds, counts are numbers; both are
            float64, and NaN where a request has no value. ``start`` is Unix time in seconds. Texts
            are objects, ``None`` where a request has none.

        Raises:
            MissingExtraError: numpy of the extra ``study`` is not installed.
            RecordingError: A file cannot be read.
            UnknownNameError: There is no such kind, or a name is misspelt.
        """
        from latspan._model.recording.folder._columns import columns

        with without_collections():
            return columns(self._rows(kind), names)

    def _rows(self, kind: Kind | str | None) -> Iterator[Mapping[str, Any]]:
        """Yield the lines of a kind as mappings, which takes half the time of records."""
        wanted = None if kind is None else kind_named(kind).value
        for chunk in chunks_of(self):
            for row in chunk.rows:
                if wanted is None or row["kind"] == wanted:
                    yield row

    def to_pandas(self, *names: str, kind: Kind | str | None = None) -> pd.DataFrame:
        """
        Return :meth:`columns` as a data frame of pandas, one row per request.

        Raises:
            MissingExtraError: numpy or pandas is not installed.
        """
        from latspan._model.recording.folder._columns import frame_module

        return frame_module("pandas").DataFrame(self.columns(*names, kind=kind))

    def to_polars(self, *names: str, kind: Kind | str | None = None) -> pl.DataFrame:
        """
        Return :meth:`columns` as a data frame of polars, one row per request.

        Raises:
            MissingExtraError: numpy or polars is not installed.
        """
        from latspan._model.recording.folder._columns import frame_module

        return frame_module("polars").DataFrame(self.columns(*names, kind=kind))

    def snapshot(self) -> Snapshot:
        """
        Return a snapshot of everything that was recorded, for queries such as percentiles.

        The snapshot normally has the histograms that the processes wrote. The histograms count
        every request, even if the files contain the lines (one per request, call, exchange or
        stage) of only a sample of the requests. The histograms of a killed process lack its last
        requests. Therefore, if a process was killed and the recording has the lines of all
        requests, the snapshot is computed from the lines of all processes instead of the
        histograms. If a process was killed and the lines are only a sample, the snapshot uses two
        sources. For processes that were not killed, it uses their histograms. For killed processes,
        it uses their lines; each line counts ``1 / ratio`` times, where ``ratio`` is the recorded
        fraction. For a load test, only the measured requests are counted, and not those of the
        warm-up or those that are sent after the last measured one. For each kind, the snapshot has
        complete records of a random sample of up to 5,000, and of the slowest one. The sample is
        the same each time.

        Raises:
            RecordingError: A file cannot be read.
        """
        reader = SnapshotReader(self)
        if reader.needs_rows:
            with without_collections():
                for chunk in chunks_of(self):
                    reader.add(chunk)
        else:
            for number, line in self._lines():
                reader.add_line(number, line)
        return reader.snapshot()

    def _weighted(self) -> Snapshot | None:
        """
        Return the histograms of the ended processes, and the weighted lines of the others.

        ``None`` if there are no histograms of an ended process.
        """
        files = self._files()
        # The number is the only link between a histogram log and its process. A later process may
        # have the same number as a killed one; the lines of both are then used.
        killed = {file.process for file in files if not file.ended} | self._truncated.keys()
        counted = self._counted(without=killed)
        if counted is None:
            return None
        counter = LineCounter()
        for chunk in chunks_of(self):
            if files[chunk.file].process in killed:
                counter.add(chunk.rows)
        return counted.merge(counter.snapshot())

    def _counted(self, *, without: Collection[str] = ()) -> Snapshot | None:
        """Return the histograms that the processes wrote; ``None`` if there are none."""
        counted: Snapshot | None = None
        if not without:
            self._truncated.clear()
        found = None if without else self._truncated
        for interval in snapshots_in(self.folder, without=without, truncated=found):
            counted = interval if counted is None else counted.merge(interval)
        return counted

    @property
    def notes(self) -> tuple[str, ...]:
        """
        What a reader must know about the records, one sentence each.

        The number of unreadable lines is included only after another method has read the records.

        Raises:
            RecordingError: The folder cannot be listed.
        """
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        conversion = self.manifest.get("conversion", {})
        for lack in conversion.get("lacks", ()):
            yield f"{CONVERTED}{lack}."
        for sentence in conversion.get("left_out", ()):
            yield f"Missing: {sentence}."
        files = self._files()
        processes = len({file.process for file in files})
        if processes > 1:
            yield f"Merged from {processes:,} processes."
        yield from _notes_on_lost(self.folder)
        if self._unreadable:
            yield f"Skipped: {_counted(self._unreadable, 'line')} cannot be read."
        if self._sampled:
            yield f"{SAMPLE}{_counted(self._sampled, 'line')} of it count for other requests too."
        for notes in self._truncated.values():
            yield from notes
        unended = len({file.path for file in files if not file.ended})
        if unended:
            one = unended == 1
            yield (
                f"The last requests of {_counted(unended, 'process')} may be missing:"
                f" {'it was' if one else 'they were'} replaced by exec, killed or ended by"
                f" os._exit(), or still {'runs' if one else 'run'}."
            )


class LineChunk(NamedTuple):
    """
    Lines of one file that can be read.

    Args:
        file: Number of the file.
        lines: The lines.
        rows: Their fields.
    """

    file: int
    lines: list[bytes]
    rows: list[dict[str, Any]]


def chunks_of(recording: Recording) -> Iterator[LineChunk]:
    """
    Yield the lines of a recording that can be read, and count the others for its notes.

    Raises:
        RecordingError: A file cannot be read.
    """
    decode = _decoder()
    waiting: list[bytes] = []
    current = 0
    for number, line in recording._lines():  # pyright: ignore[reportPrivateUsage] - of this module
        if waiting and (number != current or len(waiting) >= _CHUNK):
            yield _readable(recording, current, waiting, decode)
            waiting = []
        current = number
        waiting.append(line)
    if waiting:
        yield _readable(recording, current, waiting, decode)


def _readable(
    recording: Recording, file: int, lines: list[bytes], decode: Callable[[bytes], Any]
) -> LineChunk:
    rows: list[dict[str, Any]] = []
    try:
        rows += map(decode, lines)
        check_rows(rows)
    except UNREADABLE:
        known, lines = lines, []
        rows.clear()
        for line in known:
            with suppress(*UNREADABLE):
                rows.append(row_of(line))
                lines.append(line)
        _count_unreadable(recording, len(known) - len(lines))
    sampled = sum("ratio" in row for row in rows)
    recording._sampled += sampled  # pyright: ignore[reportPrivateUsage] - of this module
    return LineChunk(file, lines, rows)


@contextmanager
def without_collections() -> Generator[None]:
    """
    Pause garbage collection in the block.

    Decoded lines contain no cycles. Collections would look at each of them and find nothing, in a
    fifth of the time of reading.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _decoder() -> Callable[[bytes], Any]:
    """Return a decoder: that of orjson, which takes a fifth of the time, if it is installed."""
    try:
        import orjson
    except ImportError:
        return row_of
    return orjson.loads


def _count_unreadable(recording: Recording, number: int) -> None:
    """Count lines that cannot be read, for the notes."""
    recording._unreadable += number  # pyright: ignore[reportPrivateUsage] - of this module


class SnapshotReader:
    """
    Collects from the lines of a recording what its snapshot has; see :meth:`Recording.snapshot`.

    Args:
        recording: The recording.
        is_part: Whether the reader gets only some of the lines, so that the histograms of the
            processes count other requests too.
        share: Fraction of the usual number of complete records, if several readers share it.

    Raises:
        RecordingError: A file cannot be read.
    """

    def __init__(self, recording: Recording, *, is_part: bool = False, share: float = 1.0) -> None:
        self._recording = recording
        self._is_load = bool(recording.manifest.get("measurement"))
        self._is_part = is_part
        self._counted = None if self._is_load or is_part else counted(recording)
        self._counter = LineCounter()
        keep = round(RECORDS_KEPT * share)
        self._kept: defaultdict[str, LineSample] = defaultdict(partial(LineSample, keep))

    @property
    def needs_rows(self) -> bool:
        """Whether lines have to be counted; if not, :meth:`add_line` is enough."""
        return self._counted is None

    def add(self, chunk: LineChunk) -> None:
        """Add the lines of a chunk."""
        lines, rows = chunk.lines, chunk.rows
        measured = [_is_measured(row, self._is_load) for row in rows]
        if not all(measured):
            lines, rows = list(compress(lines, measured)), list(compress(rows, measured))
        kept, file = self._kept, chunk.file
        for line, row in zip(lines, rows, strict=True):
            kept[row["kind"]].add(file, line, row["duration_ns"])
        if self.needs_rows:
            self._counter.add(rows)

    def add_line(self, file: int, line: bytes) -> None:
        """Add a line that need not be counted."""
        try:
            compact = compact_line(line)
            sample, duration_ns = self._kept[kind_of_line(compact)], duration_of_line(compact)
            if duration_ns > sample.longest_ns:
                # A damaged line must not take the place of the slowest request.
                row_of(compact)
        except UNREADABLE:
            _count_unreadable(self._recording, 1)
            return
        self._recording._sampled += _RATIO in compact  # pyright: ignore[reportPrivateUsage] - of this module
        sample.add(file, compact, duration_ns)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the lines that were added."""
        parsed = self._recording._parsed  # pyright: ignore[reportPrivateUsage] - of this module
        records = [record for sample in self._kept.values() for record in parsed(sample.lines())]
        found = self._counted
        is_whole = not (self._is_load or self._is_part)
        if found is None and self._counter.is_sampled and is_whole:
            found = self._recording._weighted()  # pyright: ignore[reportPrivateUsage] - of this module
        if found is None:
            found = self._counter.snapshot()
        return replace(found, records=tuple(records), recorders=frozenset())


def counted(recording: Recording) -> Snapshot | None:
    """
    Return the histograms of all requests that the processes wrote, not only of a sample.

    ``None`` if there are none, or a process did not exit cleanly, so that its histograms lack its
    last requests.

    Raises:
        RecordingError: A file cannot be read.
    """
    if not all(file.ended for file in recording._files()):  # pyright: ignore[reportPrivateUsage] - of this module
        return None
    found = recording._counted()  # pyright: ignore[reportPrivateUsage] - of this module
    return None if recording._truncated else found  # pyright: ignore[reportPrivateUsage] - of this module


def lacks_lines(recording: Recording) -> bool:
    """Return whether records of a recording were lost, for example at its size limit."""
    try:
        return bool(count_of_lost(recording.folder))
    except OSError:
        return False


def _is_measured(row: Mapping[str, Any], is_load: bool) -> bool:
    """Return whether a line is of no load test, of a measured request of one, or inside one."""
    if "details" not in row:
        return not is_load
    phase = row["details"].get(semconv.LATSPAN_LOAD_PHASE, None if is_load else _MEASURED)
    return phase == _MEASURED


def _notes_on_lost(folder: Path) -> Iterator[str]:
    lost: int | None = None
    try:
        lost = count_of_lost(folder)
    except FileNotFoundError:
        yield (
            "Missing: files of the recording were deleted before the program ended, and the"
            " records in them are lost."
        )
        return
    except OSError:
        pass
    if lost is None:
        yield (
            "Missing: an unknown number of records, because the file that counts them cannot be"
            " read."
        )
    elif lost:
        yield (
            f"Missing: {_counted(lost, 'record')} of requests or calls could not be written,"
            " or exceeded record_size_limit_mb; the program's log has the reason."
        )


def _counted(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}es" if noun.endswith("s") else f"{number:,} {noun}s"


def open_recording(folder: str | os.PathLike[str]) -> Recording:
    """
    Open a recording that ``latspan measure``, ``latspan run --record`` or ``record_dir`` wrote.

    Args:
        folder: Folder of the recording.

    Raises:
        RecordingError: The folder is not a recording, or a later release of latspan wrote it.
    """
    path = Path(folder)
    try:
        return Recording(path, read_manifest(path))
    except OSError as error:
        reason = error.strerror or str(error)
        is_other = isinstance(error, FileNotFoundError) and path.is_dir()
        if is_other:
            reason = "it has no recording.json"
        # Only a path at which there is nothing has a file that is not found as its cause.
        raise RecordingError(
            f"{location(os.fspath(folder))} is not a recording: {reason}",
            hint="record a program with: latspan run --record FOLDER -- PROGRAM",
        ) from (None if is_other else error)
