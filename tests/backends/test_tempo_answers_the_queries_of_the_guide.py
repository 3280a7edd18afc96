"""Tempo finds by TraceQL, as the documentation has it, what the spans themselves say."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status, TracesData

from latspan import semconv
from latspan.testing import Script, ScriptedServer
from support.backends import Backends, eventually
from support.programs import run_program, traffic_plan
from support.readback import Seen, spans_of
from support.tempo import Labels, Tempo
from tests.backends.conftest import Run

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDE: Final = ROOT / "docs" / "guides" / "backends.md"
PAGES: Final = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("collector-config/*.md"))

QUERY: Final = re.compile(r"^(?P<asked>.+):\n\n```traceql\n(?P<traceql>.+)\n```$", re.MULTILINE)
IN_A_COMMAND: Final = re.compile(r"'q=(\{.+)'")

NS_PER_S: Final = 1_000_000_000

LATE: Final = {
    3: Script.chat(tokens=5, queue_ms=2_100, prefill_ms=5, gap_ms=2),
    4: Script.chat(tokens=5, queue_ms=1, prefill_ms=2_100, gap_ms=2),
    # Waits, and has its first token before 2 s.
    5: Script.chat(tokens=5, queue_ms=1_200, prefill_ms=5, gap_ms=2),
    6: Script.chat(tokens=5, queue_ms=1, prefill_ms=5, gap_ms=2, stalls_ms={2: 700}),
    # One request: the call that waits is not the one whose first token is late.
    21: Script.chat(tokens=5, queue_ms=1_200, prefill_ms=5, gap_ms=2),
    22: Script.chat(tokens=5, queue_ms=1, prefill_ms=2_100, gap_ms=2),
}
"""What is made of the traffic's answers, counted from 0."""

Trace = dict[str, Seen]


def late_by(segment: str) -> Callable[[Trace], bool]:
    """Of a call whose first token came after 2 s, with more than 1 s of that segment beneath it."""

    def has(trace: Trace) -> bool:
        late = {
            span_id
            for span_id, span in trace.items()
            if number(span, semconv.LATSPAN_TIME_TO_FIRST_TOKEN) > 2
        }
        return any(
            span.name == segment and span.duration_ns > NS_PER_S and span.parent in late
            for span in trace.values()
        )

    return has


def any_span(says: Callable[[Seen], bool]) -> Callable[[Trace], bool]:
    return lambda trace: any(says(span) for span in trace.values())


def number(span: Seen, attribute: str) -> float:
    """Return an attribute's value, 0 where the span has none."""
    value = span.attributes.get(attribute, 0.0)
    assert isinstance(value, int | float)
    return value


def is_call(span: Seen) -> bool:
    return span.attributes.get(semconv.LATSPAN_KIND) == "call"


FINDS: Final[dict[str, Callable[[Trace], bool]]] = {
    "A first token later than 2 s, and more than 1 s in the queue": late_by("queue"),
    "A first token later than 2 s, and more than 1 s of prefill": late_by("prefill"),
    "Streams that stalled": any_span(
        lambda span: number(span, semconv.LATSPAN_STALL_COUNT) > 0,
    ),
    "Calls that failed": any_span(
        lambda span: is_call(span) and span.status[0] == Status.STATUS_CODE_ERROR
    ),
    "Calls that were retried": any_span(
        lambda span: number(span, semconv.LATSPAN_ATTEMPT_COUNT) > 1
    ),
    "Calls whose stream the caller closed early": any_span(
        lambda span: span.attributes.get(semconv.LATSPAN_OUTCOME) == "closed_early"
    ),
}
"""What a trace has that each of the guide's searches is to find."""

COUNTS: Final[dict[str, Callable[[Iterable[Seen]], dict[str, float]]]] = {
    "The longest time of each segment": lambda spans: {
        name: values[-1] / NS_PER_S for name, values in segments_ns(spans).items()
    },
    "The longest time to the first token, by model": lambda spans: {
        "small": max(number(span, semconv.LATSPAN_TIME_TO_FIRST_TOKEN) for span in spans)
    },
    "The number of calls per outcome": lambda spans: dict(
        Counter(str(span.attributes[semconv.LATSPAN_OUTCOME]) for span in spans if is_call(span))
    ),
}
"""What each of the guide's numbers is to be, by the one label it has; those that are exact."""

ROUGH: Final = "An approximate p95 of each segment"


def segments_ns(spans: Iterable[Seen]) -> dict[str, list[int]]:
    """Return the times of each segment, ascending."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for span in spans:
        if semconv.LATSPAN_SEGMENT in span.attributes:
            found[span.name].append(span.duration_ns)
    return {name: sorted(values) for name, values in found.items()}


def asked() -> dict[str, str]:
    """Return the guide's TraceQL, by what it asks for."""
    return {found["asked"]: found["traceql"] for found in QUERY.finditer(GUIDE.read_text("utf-8"))}


@pytest.fixture(scope="module")
def late(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    """What an application sent some of whose answers were late."""
    copy = tmp_path_factory.mktemp("late") / "spans.pb"
    scripts = [LATE.get(number, script) for number, script in enumerate(traffic_plan())]
    with ScriptedServer(scripts) as model:
        run_program(
            "keeps_a_copy",
            model.base_url,
            str(copy),
            "1",
            LATSPAN_ENDPOINT=backends.otlp_url,
            LATSPAN_SERVICE_NAME="late",
        )
    return spans_of(TracesData.FromString(copy.read_bytes()))


@pytest.fixture(scope="module")
def known(tempo: Tempo, run: Run, late: dict[str, Trace]) -> dict[str, Trace]:
    """Every trace of both applications, when Tempo finds all of them."""
    sent = {**spans_of(run.spans), **late}
    found = eventually(lambda: tempo.search("{ }"), set(sent).issubset)
    assert set(sent) - found == set()
    return sent


def test_every_traceql_of_the_documentation_is_tried() -> None:
    """In the guide, under a sentence that the tables here have; commands say one of the same."""
    queries = asked()
    blocks = sum(page.read_text("utf-8").count("```traceql") for page in PAGES)
    commands = [each for page in PAGES for each in IN_A_COMMAND.findall(page.read_text("utf-8"))]

    assert set(queries) == {*FINDS, *COUNTS, ROUGH}
    assert blocks == len(queries)
    assert set(commands) <= set(queries.values())


@pytest.mark.parametrize("question", FINDS)
def test_a_search_finds_those_traces_and_no_other(
    tempo: Tempo, known: dict[str, Trace], question: str
) -> None:
    expected = {trace_id for trace_id, trace in known.items() if FINDS[question](trace)}
    assert 0 < len(expected) < len(known) / 10

    assert tempo.search(asked()[question]) & set(known) == expected


def test_a_late_first_token_has_its_cause_in_one_call(
    tempo: Tempo, known: dict[str, Trace]
) -> None:
    """The traffic has a request in which another call waited; ``&&`` would find it too."""
    child = asked()["A first token later than 2 s, and more than 1 s in the queue"]
    anywhere = child.replace("} > {", "} && {")

    own, either = tempo.search(child) & set(known), tempo.search(anywhere) & set(known)

    (other,) = either - own
    assert any(span.name == "checkout" for span in known[other].values())


@pytest.mark.parametrize(("limit", "finds"), [("2.0", True), ("2", False), ("2s", False)])
def test_seconds_are_doubles(
    tempo: Tempo, known: dict[str, Trace], limit: str, finds: bool
) -> None:
    """As the guide says, with ``2`` and ``2s`` nothing is found."""
    found = tempo.search(f"{{ span.{semconv.LATSPAN_TIME_TO_FIRST_TOKEN} > {limit} }}")

    assert bool(found & set(known)) == finds


@pytest.mark.parametrize("question", COUNTS)
def test_a_number_is_that_of_the_spans(
    tempo: Tempo, run: Run, known: dict[str, Trace], question: str
) -> None:
    expected = COUNTS[question](shop(run, known))

    assert by_label(tempo.query(asked()[question])) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("function", "of"), [("min_over_time", min), ("avg_over_time", fmean)])
def test_the_shortest_and_the_mean_are_exact_too(
    tempo: Tempo,
    run: Run,
    known: dict[str, Trace],
    function: str,
    of: Callable[[list[int]], float],
) -> None:
    """As the guide says, of what it asks the longest of."""
    longest = asked()["The longest time of each segment"]
    segments = segments_ns(shop(run, known))
    expected = {name: of(values) / NS_PER_S for name, values in segments.items()}

    found = by_label(tempo.query(longest.replace("max_over_time", function)))

    assert found == pytest.approx(expected, rel=1e-9)


def test_a_number_over_time_adds_up(tempo: Tempo, run: Run, known: dict[str, Trace]) -> None:
    """As a dashboard has it, in steps; the last step, which is not over, has none of them."""
    question = "The number of calls per outcome"
    expected = COUNTS[question](shop(run, known))

    steps = tempo.query_range(asked()[question], since="10m", step="5s")

    summed = [(labels, sum(value for _, value in samples)) for labels, samples in steps]
    assert by_label(summed) == expected


def test_a_percentile_is_in_its_power_of_two(
    tempo: Tempo, run: Run, known: dict[str, Trace]
) -> None:
    """Not above the top of the true one's bucket, nor below that of the next that holds a value."""
    limits: dict[str, tuple[float, float]] = {}
    for name, values in segments_ns(shop(run, known)).items():
        # As Tempo counts: up to the next power of two.
        tops = [1 << (value - 1).bit_length() for value in values]
        top = tops[math.ceil(0.95 * len(values)) - 1]
        below = max((each for each in tops if each < top), default=top // 2)
        limits[name] = below / NS_PER_S, top / NS_PER_S

    found = by_label(tempo.query(asked()[ROUGH]))

    assert set(found) == set(limits)
    outside = {
        name: (limits[name], value)
        for name, value in found.items()
        if not limits[name][0] <= value <= limits[name][1]
    }
    assert outside == {}


def test_a_percentile_of_a_double_is_none(tempo: Tempo, known: dict[str, Trace]) -> None:
    """As the guide says; the same attribute has a longest."""
    attribute = f"span.{semconv.LATSPAN_TIME_TO_FIRST_TOKEN}"

    assert tempo.query(f"{{ }} | quantile_over_time({attribute}, .95)") == []
    assert tempo.query(f"{{ }} | max_over_time({attribute})") != []


def shop(run: Run, known: dict[str, Trace]) -> list[Seen]:
    """Return the spans of the application that the guide's numbers are of."""
    return [span for trace_id in spans_of(run.spans) for span in known[trace_id].values()]


def by_label(found: list[tuple[Labels, float]]) -> dict[str, float]:
    """Return each value by its only label, besides the percentile's."""
    values: dict[str, float] = {}
    for labels, value in found:
        (label,) = (held for key, held in labels.items() if key != "p")
        values[str(label)] = value
    return values
