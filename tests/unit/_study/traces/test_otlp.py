"""A Collector's file becomes the records that the same program wrote itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan import open_recording, semconv
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder._lines import line_of, record_of
from latspan._model.segments import Kind, Outcome, Segment, Side, Source
from latspan._model.tokens import TokenCounts, TokenSource
from latspan._study.traces import convert, read_any, read_otlp
from latspan._study.traces._tiling import OFFSET_NS, Piece, tiled
from latspan.errors import RecordingError

DATA: Final = Path(__file__).parents[3] / "data"
FILE: Final = DATA / "collector-0.159.0.jsonl"
UNIT: Final = 10 * OFFSET_NS
TRACE: Final = "5b8efff798038103d269b633813fc60c"


def written() -> list[RequestRecord]:
    """Return what the program of the file recorded itself."""
    lines = (DATA / "collector-0.159.0.requests.jsonl").read_bytes().splitlines()
    return [record_of(line) for line in lines]


def totals(segments: Iterable[Segment] | None) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in segments or ():
        sums[each.name] = sums.get(each.name, 0) + each.duration_ns
    return sums


def test_every_record_of_the_program_is_there() -> None:
    """Kinds, outcomes, metrics, attributes and details are the same; times are exact.

    Whether a response streams is read from the span's attribute.
    """
    read = {record.span_id: record for record in read_otlp(FILE).records}
    wanted = written()

    assert len(read) == len(wanted) == 11
    for record in wanted:
        assert (
            replace(
                read[record.span_id],
                segments=record.segments,
                reports=record.reports,
                chunk_gaps=record.chunk_gaps,
                marks_ns=record.marks_ns,
                tokens=record.tokens,
                scope_id=record.scope_id,
                parent_id=record.parent_id,
                root_id=record.root_id,
                streamed=record.streamed,
                steps=record.steps,
                segment_steps=record.segment_steps,
            )
            == record
        )
        assert read[record.span_id].streamed in (
            record.details.get("gen_ai.request.stream"),
            record.streamed,
        )


def test_segments_tile_and_have_the_times_of_the_program() -> None:
    """
    To a microsecond in a request, whose calls have clock readings of their own.

    The recording is one of an older release, in which a request has no segment ``application``.
    """
    read = {record.span_id: record for record in read_otlp(FILE).records}

    for record in written():
        converted = read[record.span_id]
        if record.kind is Kind.REQUEST:
            here, of_calls = totals(converted.segments), totals(record.segments)
            assert here.keys() - of_calls.keys() == {"application"}
            own = here["application"] + here["prepare"]
            assert own == pytest.approx(of_calls["prepare"] + of_calls["postprocess"], abs=1_000)
            same = of_calls.keys() - {"prepare", "postprocess"}
            for name in same:
                assert here[name] == pytest.approx(of_calls[name], abs=1_000)
        else:
            assert totals(converted.segments) == totals(record.segments)
            assert totals(converted.reports) == totals(record.reports)
        at = 0
        for segment in converted.segments:
            assert segment.start_ns == at < segment.end_ns
            at = segment.end_ns
        assert at == record.duration_ns


def test_calls_are_inside_their_requests() -> None:
    """The number of the parent joins them, as in a recording."""
    records = read_otlp(FILE).records
    requests = {each.scope_id: each for each in records if each.kind is Kind.REQUEST}
    inside = [each for each in records if each.parent_id]

    assert len(requests) == 3
    assert [(each.kind, each.name) for each in inside] == [
        (Kind.STAGE, "rerank"),
        (Kind.CALL, "chat m"),
    ] * 3
    for each in inside:
        assert requests[each.parent_id].trace_id == each.trace_id
        assert each.root_id == each.parent_id


def test_marks_that_spans_have_are_kept() -> None:
    """The others are absent, not zero."""
    read = {record.span_id: record for record in read_otlp(FILE).records}

    for record in written():
        for mark, at_ns in read[record.span_id].marks_ns.items():
            assert record.marks_ns[mark] == at_ns


def test_what_a_file_lacks_is_stated() -> None:
    """A reader of the recording must know."""
    imported = read_otlp(FILE)

    assert imported.lacks == (
        "chunk gaps are missing",
        "segments without a span, such as retry and consumer, have their time but not their place",
        "segments of no length are missing",
    )
    assert imported.skipped == ("2 spans of no request or call not used",)


def span(
    number: int, attributes: Mapping[str, Any], *, parent: int | None = None, **fields: Any
) -> dict[str, Any]:
    forms = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": f"span {number}",
        "kind": 3,
        "startTimeUnixNano": "1000000000",
        "endTimeUnixNano": "3000000000",
        "attributes": [
            {"key": name, "value": {forms[type(value)]: value}}
            for name, value in attributes.items()
        ],
        **fields,
    }


def file_of(tmp_path: Path, *spans: Mapping[str, Any], indent: int | None = None) -> Path:
    path = tmp_path / "traces.json"
    message = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}
    path.write_text(json.dumps(message, indent=indent) + "\n")
    return path


OFFICIAL: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 12,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.response.time_to_first_chunk": 0.25,
    "gen_ai.input.messages": "a secret",
    "gen_ai.prompt.0.content": "a secret",
    "input.value": "a secret",
    "gen_ai.response.id": "id-1",
}


def test_a_span_that_latspan_enriched_keeps_no_content(tmp_path: Path) -> None:
    """Only latspan's own attributes are kept as they are; the others are those of a library."""
    enriched = {
        **OFFICIAL,
        "latspan.kind": "call",
        "latspan.attempt.count": 1,
        "http.request.header.authorization": "Bearer a secret",
    }
    (record,) = read_otlp(file_of(tmp_path, span(1, enriched))).records

    assert "secret" not in line_of(record)
    assert record.details == {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.id": "id-1",
        "latspan.attempt.count": 1,
    }


def test_a_span_of_another_instrumentation_is_a_call_with_two_segments(tmp_path: Path) -> None:
    """Its duration, tokens and time to the first chunk are known; content is left out."""
    imported = read_otlp(file_of(tmp_path, span(1, OFFICIAL)))
    (record,) = imported.records

    assert record.kind is Kind.CALL
    assert record.side is Side.CLIENT
    assert record.outcome is Outcome.COMPLETED
    assert record.segments == (
        Segment("server_wait", 0, 250_000_000, Source.UNKNOWN),
        Segment("decode", 250_000_000, 2_000_000_000, Source.ESTIMATED),
    )
    assert {name: value.value for name, value in record.metrics.items()} == {
        "duration": 2_000_000_000,
        "time_to_first_chunk": 250_000_000,
    }
    assert record.tokens == TokenCounts(input=12, output=5, source=TokenSource.PROVIDER)
    assert record.attributes == {"model": "m", "provider": "openai"}
    assert record.details == {"gen_ai.operation.name": "chat", "gen_ai.response.id": "id-1"}
    assert imported.lacks == (
        (
            "calls of the GenAI conventions have no segments, so the time before the first chunk"
            " is server_wait as a whole, with connecting and retries; they have no time to the"
            " first token and no chunk gaps"
        ),
    )


@pytest.mark.parametrize(
    ("attributes", "status", "outcome"),
    [
        ({}, 0, Outcome.COMPLETED),
        ({}, 2, Outcome.ERROR),
        ({"error.type": "ValueError"}, 0, Outcome.ERROR),
        ({"error.type": "openai.APITimeoutError"}, 2, Outcome.TIMEOUT),
        ({"error.type": "openai.RateLimitError"}, 2, Outcome.REJECTED),
        ({"error.type": "429"}, 2, Outcome.REJECTED),
        ({"error.type": "asyncio.CancelledError"}, 2, Outcome.CANCELLED),
        ({"error.type": "gevent.GreenletExit"}, 2, Outcome.CANCELLED),
        ({"error.type": "499"}, 2, Outcome.ERROR),
        ({"http.response.status_code": 499}, 2, Outcome.CANCELLED),
        ({"error.type": "GeneratorExit"}, 2, Outcome.CLOSED_EARLY),
        ({"error.type": "DEADLINE_EXCEEDED"}, 2, Outcome.TIMEOUT),
    ],
)
def test_the_outcome_of_another_instrumentations_call(
    attributes: dict[str, str], status: int, outcome: Outcome, tmp_path: Path
) -> None:
    """It follows from the error's type and the status."""
    spans = span(1, {**OFFICIAL, **attributes}, status={"code": status})

    assert [each.outcome for each in read_otlp(file_of(tmp_path, spans)).records] == [outcome]


def test_a_call_that_several_instrumentations_traced_counts_once(tmp_path: Path) -> None:
    """A framework's span around the SDK's span is the same call; agents and tools are no calls."""
    path = file_of(
        tmp_path,
        span(1, {"gen_ai.operation.name": "invoke_agent"}),
        span(2, OFFICIAL, parent=1),
        span(3, {}, parent=2),
        span(4, OFFICIAL, parent=3),
    )

    imported = read_otlp(path)

    assert [each.name for each in imported.records] == ["span 2"]
    assert imported.skipped == (
        "1 span inside another span of the same call not used",
        "2 spans of no request or call not used",
    )


def test_a_batch_that_was_received_twice_counts_once(tmp_path: Path) -> None:
    """An exporter sends again if an acknowledgement is lost."""
    path = file_of(tmp_path, span(1, OFFICIAL))
    path.write_text(path.read_text() * 2)

    assert len(read_otlp(path).records) == 1


def test_one_document_of_several_lines_is_read(tmp_path: Path) -> None:
    """As other programs write it."""
    assert len(read_otlp(file_of(tmp_path, span(1, OFFICIAL), indent=2)).records) == 1


def test_an_incomplete_line_and_other_signals_are_skipped(tmp_path: Path) -> None:
    """A killed Collector leaves half a line; metrics may be in the same file."""
    path = file_of(tmp_path, span(1, OFFICIAL))
    path.write_text(path.read_text() + '{"resourceMetrics": []}\n{"resourceSp')

    imported = read_otlp(path)

    assert len(imported.records) == 1
    assert imported.skipped == ("1 line cannot be read",)


def test_an_attribute_whose_name_is_a_number_is_left_out(tmp_path: Path) -> None:
    """OpenTelemetry has only texts as names; the rest of the span counts."""
    text = FILE.read_text("utf-8")
    name = '"key":"latspan.source"'
    assert name in text
    path = tmp_path / "traces.jsonl"
    path.write_text(text.replace(name, '"key":5'), "utf-8")

    assert len(read_otlp(path).records) == len(read_otlp(FILE).records)


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "{}\n", "[1]\n", '{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}\n'],
)
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    """With the form that is expected."""
    path = tmp_path / "traces.json"
    path.write_text(text)

    with pytest.raises(RecordingError) as raised:
        read_otlp(path)

    assert str(path) in raised.value.message
    assert "file exporter" in (raised.value.hint or "")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_outcome_that_latspan_recorded_survives(outcome: Outcome, tmp_path: Path) -> None:
    """Whatever the status of the span says, which an enriched span has from its own library."""
    attributes = {**OFFICIAL, "latspan.kind": "call", "latspan.outcome": outcome.value}
    path = file_of(tmp_path, *(span(n, attributes, status={"code": n}) for n in (1, 2)))

    assert [each.outcome for each in read_otlp(path).records] == [outcome, outcome]


FAULTS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"startTimeUnixNano": "0"}, "its start is missing"),
    ({"startTimeUnixNano": 0}, "its start is missing"),
    ({"startTimeUnixNano": None}, "its start is missing"),
    ({"endTimeUnixNano": "0"}, "its end is missing"),
    ({"endTimeUnixNano": None}, "its end is missing"),
    ({"startTimeUnixNano": "-1"}, "its start or end is out of range"),
    ({"startTimeUnixNano": str(10**40)}, "its start or end is out of range"),
    ({"endTimeUnixNano": str(2**63)}, "its start or end is out of range"),
    ({"endTimeUnixNano": "soon"}, "its start or end is out of range"),
    ({"endTimeUnixNano": "999999999"}, "its end is before its start"),
    ({"startTimeUnixNano": "1", "endTimeUnixNano": str(10**18)}, "it takes more than 30 days"),
]


@pytest.mark.parametrize(("field", "why"), FAULTS, ids=str)
@pytest.mark.parametrize(
    "attributes", [OFFICIAL, {"latspan.kind": "call", "latspan.outcome": "completed"}]
)
def test_a_span_without_a_known_time_is_left_out(
    field: dict[str, Any], why: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    """It is neither a call of 56 years nor one of 0 ns; the number and the reason are stated."""
    bad = span(2, attributes, **field)

    imported = read_otlp(file_of(tmp_path, span(1, attributes), bad, span(3, attributes)))

    assert [each.duration_ns for each in imported.records] == [2 * 10**9] * 2
    assert imported.left_out == (f"1 span was left out: {why}",)
    assert imported.notes[-1] == f"1 span was left out: {why}."


def test_spans_that_are_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    """A span that no record would follow from is not among them."""
    late: dict[str, Any] = {"endTimeUnixNano": "1"}
    path = file_of(
        tmp_path,
        span(1, OFFICIAL),
        *(span(number, OFFICIAL, **late) for number in (2, 3, 4)),
        span(5, {}, **late),
        span(6, OFFICIAL, startTimeUnixNano="0"),
    )

    imported = read_otlp(path)

    assert imported.left_out == (
        "1 span was left out: its start is missing",
        "3 spans were left out: their end is before their start",
    )
    assert imported.skipped == ("1 span of no request or call not used",)


def test_a_call_in_a_request_without_a_known_time_counts(tmp_path: Path) -> None:
    """A segment without a known time leaves its time unattributed."""
    latspans: dict[str, Any] = {"latspan.outcome": "completed"}
    path = file_of(
        tmp_path,
        span(1, {"latspan.kind": "request", **latspans}, endTimeUnixNano="0"),
        span(2, {"latspan.kind": "call", **latspans}, parent=1),
        span(3, {"latspan.segment": "queue"}, parent=2, startTimeUnixNano="0"),
    )

    (record,) = read_otlp(path).records

    assert (record.kind, record.parent_id) == (Kind.CALL, 0)
    assert [(each.name, each.duration_ns) for each in record.segments] == [
        ("unattributed", 2 * 10**9)
    ]


def test_a_converted_recording_states_what_was_left_out(tmp_path: Path) -> None:
    """A reader of the recording has only the recording."""
    path = file_of(tmp_path, span(1, OFFICIAL), span(2, OFFICIAL, endTimeUnixNano="0"))

    convert(path, tmp_path / "recording")

    notes = open_recording(tmp_path / "recording").notes
    assert "Missing: 1 span was left out: its end is missing." in notes


def test_a_file_of_which_everything_is_left_out_is_refused(tmp_path: Path) -> None:
    """With the reason."""
    path = file_of(tmp_path, span(1, OFFICIAL, endTimeUnixNano="0"))

    with pytest.raises(RecordingError, match="no request or call; 1 span was left out: its end"):
        read_any(path)


def test_a_first_chunk_after_the_end_is_not_known(tmp_path: Path) -> None:
    """Some instrumentations write it in milliseconds; a difference of two clocks is allowed."""
    first = "gen_ai.response.time_to_first_chunk"
    path = file_of(
        tmp_path, span(1, {**OFFICIAL, first: 250.0}), span(2, {**OFFICIAL, first: 2.01})
    )

    imported = read_otlp(path)

    assert [each.metrics.keys() - {"duration"} for each in imported.records] == [
        set(),
        {"time_to_first_chunk"},
    ]
    assert imported.left_out == (
        "the time to the first chunk or token of 1 span was left out: it is longer than the span",
    )


DAMAGE: Final[list[dict[str, Any]]] = [
    {"spanId": None},
    {"traceId": "not hexadecimal"},
    {"attributes": [{"value": {}}]},
]


@pytest.mark.parametrize("field", DAMAGE, ids=str)
def test_a_damaged_span_costs_no_more_than_itself(field: dict[str, Any], tmp_path: Path) -> None:
    """Its identifiers or attributes cannot be read."""
    damaged = {**span(2, OFFICIAL), **field}

    imported = read_otlp(file_of(tmp_path, span(1, OFFICIAL), damaged, span(3, OFFICIAL)))

    assert len(imported.records) == 2
    assert imported.skipped == ("1 span not used, which OTLP does not allow",)


@pytest.mark.repetitive
def test_stages_may_be_nested_to_any_depth(tmp_path: Path) -> None:
    """Deeper than Python's limit of recursion."""
    stage = {"latspan.kind": "stage", "latspan.outcome": "completed"}
    depth = sys.getrecursionlimit() + 500
    spans = [span(each + 1, stage, parent=each or None) for each in range(depth)]

    records = read_otlp(file_of(tmp_path, *spans)).records

    assert len(records) == depth
    assert {sum(each.duration_ns for each in record.segments) for record in records} == {2 * 10**9}


VALUES: Final = st.one_of(
    st.sampled_from(["NaN", "Infinity", "-Infinity", "1e300"]).map(
        lambda text: {"doubleValue": text}
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: {"doubleValue": number}),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: {"intValue": str(number)}),
    st.text(max_size=9).map(lambda text: {"stringValue": text}),
    st.just({"arrayValue": {"values": [{"stringValue": "completed"}]}}),
    st.just({"kvlistValue": {"values": []}}),
    st.just({"boolValue": True}),
    st.just({}),
)
NAMES: Final = st.sampled_from(
    [
        *(name for name in vars(semconv).values() if isinstance(name, str) and "." in name),
        "latspan.retry.duration",
        "latspan.server_wait.duration",
    ]
)


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.sampled_from(["call", "request", "stage"]))
def test_no_attribute_breaks_the_reader(attributes: dict[str, Any], kind: str) -> None:
    """A wrong type or an impossible number is left out."""
    listed = [{"key": name, "value": value} for name, value in attributes.items()]
    listed.append({"key": "latspan.kind", "value": {"stringValue": kind}})
    with TemporaryDirectory() as folder:
        path = file_of(Path(folder), {**span(1, {}), "attributes": listed})
        for record in read_otlp(path).records:
            assert all(value.value >= 0 for value in record.metrics.values())
            assert sum(each.duration_ns for each in record.segments) == record.duration_ns
            assert record_of(line_of(record)).duration_ns == record.duration_ns


def test_spans_that_are_each_others_parents_end(tmp_path: Path) -> None:
    """A damaged file must not hang the reader."""
    request = {"latspan.kind": "request", "latspan.outcome": "completed"}
    path = file_of(
        tmp_path,
        span(1, request, parent=2),
        span(2, request, parent=1),
        span(3, request, parent=3),
    )

    assert len(read_otlp(path).records) == 3


def test_a_gap_between_the_clocks_of_two_spans_is_no_segment() -> None:
    """A longer one is unattributed."""
    first = Piece("prepare", 0, 10_000_000)
    near, far = Piece("send", 10_900_000, 20_000_000), Piece("send", 12_000_000, 20_000_000)

    assert [each[:3] for each in tiled([first, near], 20_000_000, {})] == [
        ("prepare", 0, 10_900_000),
        ("send", 10_900_000, 20_000_000),
    ]
    assert [each.name for each in tiled([first, far], 20_000_000, {})] == [
        "prepare",
        "unattributed",
        "send",
    ]


@given(
    st.lists(
        st.tuples(st.integers(-50, 150), st.integers(0, 80)).map(
            lambda each: Piece("x", each[0], each[0] + each[1])
        ),
        max_size=6,
    ),
    st.integers(0, 120),
    st.dictionaries(st.sampled_from(["retry", "consumer", "server_wait"]), st.integers(1, 90)),
)
def test_pieces_always_tile(
    pieces: list[Piece], duration: int, without_span: dict[str, int]
) -> None:
    """Whatever overlaps or sticks out, in units above the offset between two clocks."""
    scaled = [
        each._replace(start_ns=each.start_ns * UNIT, end_ns=each.end_ns * UNIT) for each in pieces
    ]
    times = {name: value * UNIT for name, value in without_span.items()}
    tiles = tiled(scaled, duration * UNIT, times)

    at = 0
    for tile in tiles:
        assert tile.start_ns == at < tile.end_ns
        at = tile.end_ns
    assert at == duration * UNIT
    for name, value in times.items():
        assert totals(each.segment for each in tiles).get(name, 0) <= value
