"""A report as a value: its parts, its short form, plain text and HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

import latspan
from latspan import Kind, Snapshot, Source, TokenSource
from latspan._base.nanoseconds import NS_PER_MS
from latspan._study.diagnose import Goal, diagnose
from latspan.integrations import Outcome
from latspan.reports import DiagnosisReport, Report
from latspan.testing import ManualClock, RequestRecord, Side, TokenCounts, capture

TOKENS = TokenCounts(output=7, source=TokenSource.PROVIDER)

MakeCall = Callable[..., RequestRecord]
TakeSnapshot = Callable[[Iterable[RequestRecord]], Snapshot]


def request(call: MakeCall, *, order: int = 0) -> RequestRecord:
    """Return a request whose inner call is counted by the call itself."""
    made = call(
        [
            ("prepare", 2, Source.MEASURED),
            ("rerank", 8, Source.MEASURED),
            ("decode", 30, Source.MEASURED),
        ],
        kind=Kind.REQUEST,
        order=order,
    )
    return replace(made, name="answer", reports=made.segments[:1])


def test_requests_come_first_and_are_shown_whole(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """The table of requests has the segments that only their calls count, in the order of time."""
    calls = [call([("decode", 30, Source.MEASURED)], order=order) for order in range(2)]
    text = str(Report(snapshot_of([*calls, request(call), request(call, order=1)])))
    lines = text.splitlines()

    assert lines[0].startswith("median of 2 requests · answer · completed")
    table = lines.index("segments of 2 requests, and their share of the slowest one's time")
    assert [line.split()[0] for line in lines[table + 2 : table + 5]] == [
        "prepare",
        "rerank",
        "decode",
    ]
    assert "segments of 2 calls, and their share of the slowest one's time" in lines
    assert "of 2 calls · chat" not in text
    assert "The slowest of 2 requests spent 75 % of its time in decode" in text


def test_a_report_has_one_conclusion() -> None:
    """The diagnosis of its requests, if there are enough for one."""
    clock = ManualClock()
    with capture(clock=clock):
        for number in range(40):
            with latspan.request("answer"), latspan.stage("rerank"):
                clock.advance((100 if number % 5 else 900) * NS_PER_MS)
        text = " ".join(str(latspan.report()).split())
    assert "At p95 duration, the slowest" in text
    assert "of 40 requests spent" not in text


def test_a_part_that_is_too_small_for_a_diagnosis_has_the_sentence(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """The diagnosis says how many requests it needs, which is not a conclusion."""
    records = [request(call, order=order) for order in range(3)]
    closing = DiagnosisReport(diagnose(records, Goal()), is_brief=True)
    text = str(Report(snapshot_of(records), closing=closing))
    assert "The slowest of 3 requests spent 75 % of its time in decode" in text
    assert "Too few requests" in text


def test_what_is_served_comes_before_background_jobs(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """Users wait for it, however many jobs there are."""
    served = replace(request(call), name="GET /chat", side=Side.SERVER)
    jobs = [replace(request(call, order=1 + order), name="job") for order in range(3)]
    lines = str(Report(snapshot_of([*jobs, served]))).splitlines()

    assert lines[0] == "GET /chat: 1 served request"
    assert lines[2].startswith("the only served request · GET /chat")
    assert lines.index("job: 3 requests") > lines.index("GET /chat: 1 served request")
    titles = [line for line in lines if line.startswith("segments of ")]
    assert "served request" in titles[0]
    assert "3 requests" in titles[1]


def several(call: MakeCall, **numbers: int) -> list[RequestRecord]:
    """Return requests by name, each with its number."""
    order = iter(range(sum(numbers.values())))
    return [
        replace(request(call, order=next(order)), name=name)
        for name, number in numbers.items()
        for _ in range(number)
    ]


def headings(report: Report) -> list[str]:
    """Return the lines that name a group, for example ``nightly: 11 requests``."""
    pattern = re.compile(r"\S.*: [\d,]+ (served )?requests?\b.*")
    return [line for line in str(report).splitlines() if pattern.fullmatch(line)]


def test_each_name_has_a_heading_and_tables_of_its_own(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """What users wait for comes first, and a job is neither mixed with another nor dropped."""
    jobs = several(call, hourly=3, nightly=4)
    served = [
        replace(each, side=Side.SERVER)
        for each in several(call, **{"GET /chat": 1, "POST /ask": 2})
    ]
    report = Report(snapshot_of([*jobs, *served, call([("decode", 30, Source.MEASURED)])]))
    text = str(report)

    assert headings(report) == [
        "POST /ask: 2 served requests",
        "GET /chat: 1 served request",
        "nightly: 4 requests",
        "hourly: 3 requests",
    ]
    assert "\n1 call, those inside these requests too\n" in text
    assert text.count("median of ") == 1
    assert "median of 2 served requests · POST /ask" in text
    assert "segments of 4 requests," in text
    assert "\nPOST /ask: The slowest of 2 served requests spent" in text


def test_one_name_needs_no_heading(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """The titles of a report on one kind of work name it already."""
    text = str(Report(snapshot_of([*several(call, answer=2), call([])])))

    assert text.startswith("median of 2 requests · answer · completed")
    assert "answer: " not in text


def test_rare_names_share_their_tables(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """Five names are shown alone, and the requests of all others are not dropped."""
    report = Report(snapshot_of(several(call, **{f"job {n}": 9 - n for n in range(7)})))

    assert headings(report) == [
        *(f"job {n}: {9 - n} requests" for n in range(5)),
        "2 more names: 7 requests",
    ]


def test_names_that_identify_requests_stay_together(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """A program may put an ID into each name."""
    jobs = several(call, **{f"order {n}": 1 for n in range(41)})
    served = replace(request(call), name="GET /chat", side=Side.SERVER)

    assert headings(Report(snapshot_of([*jobs, served]))) == [
        "GET /chat: 1 served request",
        "41 names: 41 requests",
    ]


def test_a_name_states_of_how_many_requests_its_records_are(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """How many older requests had the name is not known."""
    everything = snapshot_of(several(call, nightly=4, hourly=3))
    report = Report(replace(everything, records=everything.records[1:]))

    assert headings(report) == [
        "nightly: 3 requests, among the latest 6 of 7 requests",
        "hourly: 3 requests, among the latest 6 of 7 requests",
    ]


def test_calls_that_were_not_completed_are_counted(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """Otherwise a server that rejects at once would look fast."""
    good = [call([("decode", 30, Source.MEASURED)], order=order) for order in range(3)]
    cut = [
        call([("server_wait", 4, Source.MEASURED)], order=4 + order, outcome=outcome)
        for order, outcome in enumerate((Outcome.REJECTED, Outcome.REJECTED, Outcome.CLOSED_EARLY))
    ]
    lines = str(Report(snapshot_of([*good, *cut]))).splitlines()

    table = lines.index("segments of 6 calls, and their share of the slowest one's time")
    assert lines[table + 1] == "  outcomes: 3 completed, 2 rejected, 1 closed early"
    assert "outcomes:" not in str(Report(snapshot_of(good)))


def test_served_requests_are_named_so(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """A process that serves requests and opens none shows those that it served."""
    served = replace(request(call), side=Side.SERVER)

    assert str(Report(snapshot_of([served]))).startswith("the only served request · answer")


def test_requests_without_a_call_are_only_counted(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """A slow page of statistics is not the slowest request of a report on inference."""
    page = call([("unattributed", 827, Source.UNKNOWN)], kind=Kind.REQUEST, order=2)
    records = [replace(each, side=Side.SERVER) for each in (request(call), page)]
    text = str(Report(snapshot_of(records)))

    assert text.startswith("the only served request · answer")
    assert "827" not in text
    assert "segments of 1 served request," in text
    assert "Not shown: 1 served request that contains no call and no stage." in text


def test_requests_are_shown_if_none_has_a_call(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """Their time is the application's own code, and the report states the remedy."""
    pages = [
        call([("application", each, Source.MEASURED)], kind=Kind.REQUEST, order=each)
        for each in (1, 2)
    ]
    text = str(Report(snapshot_of(pages)))

    assert "slowest of 2 requests" in text
    words = " ".join(text.split())
    outside = "your code and its waits outside the steps"
    assert f"application: {outside}; name them with latspan.stage" in words
    assert "in application (your code and its framework, outside the steps)" in words
    assert "Not shown" not in text


def test_a_request_that_generates_tokens_is_shown(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """A model server's request may contain neither a call nor a stage."""
    served = call(
        [("unattributed", 5, Source.UNKNOWN)],
        kind=Kind.REQUEST,
        tokens=TOKENS,
    )
    report = Report(snapshot_of([replace(served, name="answer"), request(call, order=1)]))

    assert "slowest of 2 requests" in str(report)


def test_streams_without_token_counts_are_the_reason_for_a_missing_tpot(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """A row of "needs 2" does not show that more calls would not help."""
    counted = call([("decode", 9, Source.MEASURED)], first_token_ms=1, tokens=TOKENS)
    silent = call([("decode", 9, Source.MEASURED)], first_token_ms=1, order=1)
    unstreamed = call([("server_wait", 9, Source.MEASURED)], order=2)
    line = "TPOT: 1 of 2 streams reports no token counts;\n  LATSPAN_REQUEST_STREAM_USAGE=true"

    assert line in str(Report(snapshot_of([counted, silent, unstreamed])))
    assert "TPOT: " not in str(Report(snapshot_of([counted, unstreamed])))


def test_the_latest_records_of_more_are_named_so(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """A waterfall of the latest hundred must not look like one of all."""
    everything = snapshot_of(
        [call([("decode", each, Source.MEASURED)], order=each) for each in (1, 2, 3)]
    )
    report = Report(replace(everything, records=everything.records[1:]))

    assert "slowest of the latest 2 of 3 calls" in str(report)
    assert repr(report) == "<latspan.reports.Report: the latest 2 of 3 calls>"


def test_a_table_of_the_latest_requests_is_named_so(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """The title of the waterfalls alone is easily overlooked."""
    everything = snapshot_of([request(call, order=order) for order in range(3)])
    text = str(Report(replace(everything, records=everything.records[1:])))

    assert "slowest of the latest 2 of 3 requests" in text
    assert "segments of the latest 2 of 3 requests, and" in text


def test_a_report_without_records_has_the_tables_of_metrics(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """A part of a snapshot has no records: its numbers are shown, and what is missing is stated."""
    everything = snapshot_of([call([("decode", 1, Source.MEASURED)]), request(call)])
    text = str(Report(everything.where(outcome="completed")))

    assert text.startswith("time to answer\n")
    assert text.count("  duration ") == 2
    assert "This is a part of a snapshot, which has histograms but no complete records" in text
    assert "tokens" not in text


def test_a_report_of_a_recorder_without_records_names_the_setting(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """The whole snapshot has no waterfalls either if keep_records is 0."""
    everything = snapshot_of([call([("decode", 1, Source.MEASURED)])])
    text = str(Report(replace(everything, records=())))

    assert "The setting keep_records is the number of records" in " ".join(text.split())
    assert all(
        line.split()[1] == "1" for line in text.splitlines() if line.startswith("  duration ")
    )


def test_a_notebook_shows_html(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """The same text, without characters that HTML would interpret."""
    made = replace(call([("decode", 1, Source.MEASURED)]), name="chat <b>")
    page = Report(snapshot_of([made]))._repr_html_()  # pyright: ignore[reportPrivateUsage]

    assert page.startswith("<pre")
    assert "chat &lt;b&gt;" in page
    assert "<b>" not in page


def test_the_function_reports_on_a_snapshot(call: MakeCall, snapshot_of: TakeSnapshot) -> None:
    """A test can print the report of what it recorded."""
    report = latspan.report(snapshot_of([call([("decode", 1, Source.MEASURED)])]))

    assert repr(report) == "<latspan.reports.Report: 1 call>"


def test_the_function_works_before_latspan_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reports that nothing was recorded, the reason and what to do."""
    monkeypatch.setattr("latspan._live.sdk._lifecycle._was_configured", False)

    lines = str(latspan.report()).splitlines()

    assert lines[0].startswith("No request and no call was recorded: latspan.configure() was not")
    assert [line for line in lines if line.startswith("hint: call latspan.configure()")]


def test_an_empty_report_without_a_reason_is_one_sentence(snapshot_of: TakeSnapshot) -> None:
    """The reason of a snapshot from files is not known."""
    assert str(Report(snapshot_of([]))).strip() == "No request and no call was recorded."


def test_requests_of_a_sample_count_for_those_that_they_stand_for(
    call: MakeCall, snapshot_of: TakeSnapshot
) -> None:
    """One of two lines stands for ten requests; the table of requests counted it once."""
    requests = [request(call), replace(request(call, order=1), ratio=0.1)]

    text = str(Report(snapshot_of(requests)))

    (row,) = (line for line in text.splitlines() if line.startswith("  duration "))
    assert row.split()[1] == "11"


def test_a_report_is_displayed_by_the_notebook_alone(
    call: MakeCall, snapshot_of: TakeSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise ``str`` would display it, and a notebook would show it twice."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    displayed: list[object] = []

    def display(*given: object) -> None:
        displayed.append(given)

    monkeypatch.setattr("rich.jupyter.display", display)
    report = Report(snapshot_of([call([("decode", 1, Source.MEASURED)])]))
    assert str(report)
    assert report._repr_html_().startswith("<pre")  # pyright: ignore[reportPrivateUsage]
    assert displayed == []


def test_a_report_names_clients_that_are_not_instrumented(monkeypatch: pytest.MonkeyPatch) -> None:
    """After ``configure`` alone, requests have their stages, and calls are missing."""
    monkeypatch.setattr("latspan.reports._process.loaded_clients", lambda: ("openai",))
    with capture() as seen:
        with latspan.request("answer"), latspan.stage("retrieve"):
            pass
        text = " ".join(str(latspan.report()).split())
    assert len(seen.records) == 2
    assert "openai: not instrumented, so calls are not recorded" in text
    monkeypatch.setattr("latspan.reports._process.instrumented_libraries", lambda: ("openai",))
    with capture(), latspan.request("answer"):
        assert "not instrumented" not in str(latspan.report())
