"""``latspan report`` and ``diagnose`` of a part of a recording: ``--where`` and ``--by``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latspan import open_recording
from latspan.cli import main
from support.mixed import mixed_recording
from support.schemas import validated


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a recording with 45 served requests, 24 jobs and five calls outside them."""
    return mixed_recording(
        tmp_path_factory.mktemp("recordings") / "mixed",
        {"POST /ask": 30, "GET /chat": 12, "GET /rare": 3},
        jobs={"nightly": 22, "hourly": 2},
        bare=5,
    )


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main([*arguments]) == 0
    return capsys.readouterr().out.splitlines()


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    main([*arguments, "--json"])
    return validated(json.loads(capsys.readouterr().out))


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main([*arguments]) == 2
    return capsys.readouterr().err.splitlines()


def test_a_report_names_each_group(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Background jobs neither take over the report nor are they left out."""
    lines = shown(capsys, "report", mixed)

    names = [line for line in lines if line.partition(": ")[2].endswith(" requests")]
    assert names == [
        "POST /ask: 30 served requests",
        "GET /chat: 12 served requests",
        "GET /rare: 3 served requests",
        "nightly: 22 requests",
        "hourly: 2 requests",
    ]
    assert lines[0] == names[0]
    assert "74 calls, those inside these requests too" in lines
    assert "diagnosis of 45 requests, whatever their name" in lines


@pytest.mark.parametrize(
    ("where", "held"),
    [
        # Only the request has the tenant: its calls are selected with it.
        (["tenant=acme"], "23 served requests, 23 calls"),
        (["route=/ask"], "30 served requests, 30 calls"),
        (["route=/ask", "tenant=acme"], "15 served requests, 15 calls"),
        (["job=nightly"], "22 requests, 22 calls"),
        # Only the calls have the model: their requests are selected with them.
        (["model=m-1"], "45 served requests, 24 requests, 69 calls"),
        (["model=m-2"], "5 calls"),
    ],
)
def test_a_report_shows_the_requests_with_an_attribute(
    mixed: str, capsys: pytest.CaptureFixture[str], where: list[str], held: str
) -> None:
    """The calls inside a request are selected as it is."""
    options = [word for each in where for word in ("--where", each)]
    lines = shown(capsys, "report", mixed, *options)

    assert lines[0] == f"{', '.join(where)}: {held}"


def test_a_report_has_one_section_per_value(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The report on all comes first, then each value; a small one says what it needs."""
    lines = shown(capsys, "report", mixed, "--by", "route")

    assert lines[0] == "POST /ask: 30 served requests"
    sections = [line for line in lines if line.startswith("route=")]
    assert sections == [
        "route=/ask: 30 served requests, 30 calls",
        "route=/chat: 12 served requests, 12 calls",
        "route=/rare: 3 served requests, 3 calls",
    ]
    text = " ".join(lines)
    assert "24 requests and 5 calls have no route." in text
    assert "Too few requests: 12 have the metric duration, 8 more needed." in text
    assert "Too few requests: 3 have the metric duration, 17 more needed." in text


def test_a_document_has_one_group_per_value(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Next to the fields on all requests, and only of those that --where selects."""
    whole = document(capsys, "report", mixed)
    assert "groups" not in whole
    found = document(capsys, "report", mixed, "--by", "route", "--where", "tenant=acme")
    groups = {(each["attribute"], each["value"]): each for each in found["groups"]}

    assert len(found["requests"]) == 23
    assert list(groups) == [("route", "/ask"), ("route", "/chat"), ("route", "/rare")]
    assert [len(each["requests"]) for each in groups.values()] == [15, 6, 2]
    assert {*groups["route", "/ask"]} == {*whole, "attribute", "value"} - {"schema"}


def test_a_diagnosis_follows_for_each_value(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The values with the most requests come first, and the exit code is that of all of them."""
    lines = shown(capsys, "diagnose", mixed, "--by", "tenant")
    titles = [line.partition(",")[0] for line in lines if line.startswith("p95 duration")]
    assert titles == [
        "p95 duration",
        "p95 duration of tenant acme",
        "p95 duration of tenant bolt",
    ]

    found = document(capsys, "diagnose", mixed, "--by", "route")
    assert found["units"] == 45
    assert [(each["value"], each["units"]) for each in found["groups"]] == [
        ("/ask", 30),
        ("/chat", 12),
        ("/rare", 3),
    ]
    assert found["groups"][2]["conclusion"] == "too_few"
    assert "17 more needed" in found["groups"][2]["sentence"]
    assert document(capsys, "diagnose", mixed)["groups"] == []


def test_the_hint_of_a_diagnosis_keeps_the_filter(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diagnose", mixed, "--route", "/ask"])
    hint = capsys.readouterr().err.splitlines()[-1]
    assert hint == f"hint: latspan report {mixed} --where route=/ask shows single requests"


def test_background_jobs_can_be_diagnosed(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If only they have the attribute, they are meant, and not the served requests."""
    assert document(capsys, "diagnose", mixed, "--where", "job=nightly")["units"] == 22
    found = document(capsys, "diagnose", mixed, "--by", "job")
    assert [each["units"] for each in found["groups"]] == [22, 2]


def test_a_diagnosis_per_value_is_markdown(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One heading per value."""
    lines = shown(capsys, "diagnose", mixed, "--by", "route", "--markdown")

    assert [line for line in lines if line.startswith("###")] == [
        "### Diagnosis of p95 duration",
        "### Diagnosis of p95 duration of route /ask",
        "### Diagnosis of p95 duration of route /chat",
        "### Diagnosis of p95 duration of route /rare",
    ]


@pytest.mark.parametrize("command", ["report", "diagnose"])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--where", "colour=red"], "error: no request has the attribute colour"),
        (["--by", "colour"], "error: no request has the attribute colour"),
        (["--where", "route=/none"], "error: no request has route=/none"),
    ],
)
def test_an_unknown_attribute_is_one_error(
    mixed: str, capsys: pytest.CaptureFixture[str], command: str, options: list[str], error: str
) -> None:
    """The hint lists the names or the values that exist."""
    lines = failed(capsys, command, mixed, *options)

    assert lines[0] == error
    assert lines[1].startswith("hint: ")
    assert ("values are: /ask, /chat, /rare" if "/none" in error else "route") in lines[1]


def test_only_the_most_frequent_values_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line states how many others there are, and how to see one."""
    requests = {f"GET /{number}": 14 - number for number in range(12)}
    many = mixed_recording(tmp_path / "many", requests, jobs={})

    for command in ("report", "diagnose"):
        found = document(capsys, command, many, "--by", "route")
        assert [each["value"] for each in found["groups"]] == [f"/{n}" for n in range(10)]
    text = " ".join(shown(capsys, "report", many, "--by", "route"))
    note = "Not shown: 2 more values of route, with 7 requests; --where route=VALUE selects one."
    assert note in text


def test_a_log_cannot_be_divided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no single requests."""
    path = tmp_path / "a.hlog"
    path.write_text("#[Histogram log format version 1.3]\n")

    assert failed(capsys, "diagnose", str(path), "--by", "route")[-1] == "hint: omit --by"


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--where", "route=/ask", "--where", "route=/chat"),
        ("diagnose", "--where", "route=/ask", "--where", "route=/chat"),
        ("diagnose", "--route", "/chat", "--where", "route=/ask"),
        ("compare", "--where", "route=/ask", "--where", "route=/chat"),
    ],
)
def test_two_values_of_an_attribute_are_an_error(
    mixed: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """No request has both, and an answer about one of them would be another answer."""
    command, *options = arguments
    paths = [mixed, f"{mixed}-2"] if command == "compare" else [mixed]
    lines = failed(capsys, command, *paths, *options)
    assert lines[0] == "error: no request has route=/ask and route=/chat"


@pytest.mark.parametrize("command", ["diagnose", "compare", "capacity", "histogram show"])
def test_a_path_that_is_too_long_is_an_error(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    paths = ["a" * 300] * (2 if command == "compare" else 1)
    assert failed(capsys, *command.split(), *paths)[0].endswith("File name too long")


@pytest.mark.parametrize("command", ["diagnose", "compare"])
def test_a_step_of_a_recording_that_is_no_load_test_is_an_error(
    mixed: str, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    paths = [mixed, f"{mixed}-2"] if command == "compare" else [mixed]
    lines = failed(capsys, command, *paths, "--step", "1")
    assert lines[0].endswith("is not the recording of a load test, so it has no step 1")


def test_lines_may_end_with_crlf(mixed: str, tmp_path: Path) -> None:
    """An editor or git may have converted the files."""
    folder = tmp_path / "crlf"
    folder.mkdir()
    for file in Path(mixed).iterdir():
        (folder / file.name).write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert len(list(open_recording(folder).records())) == len(list(open_recording(mixed).records()))
