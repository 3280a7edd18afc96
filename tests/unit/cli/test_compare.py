"""``latspan compare``: what it prints, its exit codes, and baselines in a repository."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from latspan.cli import main
from latspan.testing import RequestRecord
from support.comparisons import recording
from support.schemas import validated

ROUTES = ("/chat", "/summary")
SLOWER = {"queue": 3.0, "prefill": 1.5, "decode": 1.5}


def runs(folder: Path, first: int, number: int = 5, **changes: Any) -> str:
    """Write the recordings of several runs into a folder and return its path."""
    for seed in range(first, first + number):
        recording(folder / f"run-{seed}", seed, **{"routes": ROUTES, **changes})
    return str(folder)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder of five runs."""
    return runs(tmp_path_factory.mktemp("before"), 0)


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the document of a comparison."""
    code = main(["compare", *arguments, "--json"])
    return code, validated(json.loads(capsys.readouterr().out))


def test_a_faster_prefill_is_one_document(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the judgement, each percentile, and the segment that explains the change."""
    after = runs(tmp_path, 50, factors={"prefill": 0.4})
    code, found = compared(capsys, before, after, "--goal", "p95 ttft <= 100ms")
    assert code == 0
    assert found["schema"] == "latspan.comparison/1"
    assert found["judgement"] == "improved"
    assert found["explanation"]["leading"] == "prefill"
    assert found["target"]["verdict"] == "missed"
    assert (found["before"]["runs"], found["after"]["units"]) == (5, 2000)
    goal = found["rows"][0]
    assert (goal["metric"], goal["percentile"]) == ("time_to_first_token", 95)
    assert goal["low"] < goal["ratio"] < goal["high"] < 1
    assert len(goal["runs_s"][0]) == 5


def test_slower_is_exit_code_1(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a script and for a CI job."""
    after = runs(tmp_path / "after", 50, factors=SLOWER)
    junit = tmp_path / "latency.xml"
    assert main(["compare", before, after, "--markdown", "--junit", str(junit)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("### p95 duration: worse\n")
    assert "| duration | p95 |" in text
    suite = ET.parse(junit).getroot()[0]  # noqa: S314 - written above
    assert int(suite.get("failures", "0")) >= 2
    failed = {case.get("name") for case in suite if case.find("failure") is not None}
    assert {"conclusion", "p95 duration"} <= failed


def test_only_some_requests_are_compared(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the value of an attribute that requests have."""
    after = runs(tmp_path / "after", 50, factors=SLOWER)
    _, every = compared(capsys, before, after)
    route = ROUTES[0]
    _, found = compared(capsys, before, after, "--where", f"route={route}")
    assert 0 < found["before"]["units"] < every["before"]["units"]
    assert main(["compare", before, after, "--where", "route=/none"]) == 2
    assert f"no call has route=/none\nhint: values are: {', '.join(sorted(ROUTES))}" in (
        capsys.readouterr().err
    )


def test_one_recording_per_side_is_inconclusive(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text describes both, and names what would decide."""
    after = recording(tmp_path / "one", 90, factors=SLOWER, routes=ROUTES)
    junit = tmp_path / "latency.xml"
    assert main(["compare", f"{before}/run-0", str(after), "--junit", str(junit)]) == 3
    shown = capsys.readouterr()
    # Without an interval, there is nothing in parentheses.
    assert "()" not in junit.read_text()
    assert "supports no claim" in " ".join(shown.out.split())
    assert "differs" in shown.out
    assert "five recordings of each side" in shown.err


def test_shorter_answers_are_not_interpretable_unless_they_are_the_change(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What differs is listed first."""
    after = runs(tmp_path, 50, output=60, factors={"decode": 0.6})
    assert main(["compare", before, after]) == 4
    text = capsys.readouterr().out
    assert text.index("DIFFERS output_length") < text.index("p50")
    code, found = compared(capsys, before, after, "--changed", "output_length")
    assert (code, found["judgement"]) == (0, "improved")
    assert main(["compare", before, after, "--changed", "model"]) == 2
    assert "hint: these are: output_length" in capsys.readouterr().err


def test_routes_are_compared_too(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One comparison per value of the attribute."""
    after = runs(tmp_path, 50)
    _, found = compared(capsys, before, after, "--by", "route")
    assert {each["value"] for each in found["groups"]} == {"/chat", "/summary"}
    assert {each["after"]["units"] for each in found["groups"]} == {1000}
    assert main(["compare", before, after, "--by", "route"]) in {0, 3}
    assert "p95 duration of route /chat" in capsys.readouterr().out


def of_tenants(number: int) -> Callable[[RequestRecord], RequestRecord]:
    """Return a function that gives the requests of a run tenants in turn."""
    turns = itertools.count()

    def change(record: RequestRecord) -> RequestRecord:
        return replace(record, details={**record.details, "tenant": f"t{next(turns) % number}"})

    return change


def test_the_groups_of_a_comparison_are_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An attribute with many values is divided too: those that are left out are named."""
    one = str(recording(tmp_path / "before", 0, change=of_tenants(45)))
    two = str(recording(tmp_path / "after", 50, change=of_tenants(46)))

    _, found = compared(capsys, one, two, "--by", "tenant")
    assert len(found["groups"]) == 10
    assert {each["rows"][0]["change"] for each in found["groups"]} == {"too_few_values"}
    bound, side = [note for note in found["notes"] if note.startswith("Not compared")]
    assert bound.startswith("Not compared, because 10 values have more requests: tenant t")
    assert bound.endswith(" and 31 more.")
    assert side == "Not compared, because it occurs only after: tenant t45 (8 requests)."

    _, one_tenant = compared(capsys, one, two, "--where", "tenant=t44")
    assert one_tenant["before"]["units"] == 8


def test_the_load_of_a_part_is_that_of_the_system(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another mix of routes at the same rate does not make a comparison of one route invalid."""
    after = runs(tmp_path, 50, routes=("/chat", "/summary", "/summary"))
    code, found = compared(capsys, before, after, "--where", "route=/chat")

    assert not [each for each in found["differences"] if each["name"] == "rate"]
    assert code != 4


def test_a_baseline_file_stands_for_its_runs(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is small, and gives the same answer as the recordings, within its precision."""
    file = tmp_path / "baseline.json"
    assert main(["compare", "--save-baseline", str(file), before]) == 0
    assert file.stat().st_size < 40_000
    after = runs(tmp_path / "after", 50, factors={"prefill": 0.4})
    _, by_file = compared(capsys, str(file), after)
    _, by_folder = compared(capsys, before, after)
    assert by_file["judgement"] == by_folder["judgement"]
    assert by_file["explanation"]["leading"] == by_folder["explanation"]["leading"] == "prefill"
    for one, two in zip(by_file["rows"], by_folder["rows"], strict=True):
        assert one["ratio"] == pytest.approx(two["ratio"], rel=2e-3)
        assert one["change"] == two["change"]
    assert by_file["differences"] == by_folder["differences"]


def test_a_baseline_file_cannot_be_divided(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no single requests: every value would seem to occur on the other side only."""
    file = tmp_path / "baseline.json"
    main(["compare", "--save-baseline", str(file), before])
    capsys.readouterr()
    after = runs(tmp_path / "after", 50, 2)
    for option in ("--by=route", "--where=route=/chat"):
        assert main(["compare", str(file), after, option]) == 2
        error = capsys.readouterr().err
        assert "has no single requests, so" in error
        assert f"hint: compare recordings, or omit {option.partition('=')[0]}" in error


def test_one_run_is_a_gate_against_a_baseline(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The baseline's runs show how much runs vary."""
    file = tmp_path / "baseline.json"
    main(["compare", "--save-baseline", str(file), before])
    factors = {**SLOWER, "decode": 3.0, "prefill": 3.0}
    slow = recording(tmp_path / "slow", 90, factors=factors, routes=ROUTES)
    code, found = compared(capsys, str(file), str(slow))
    assert (code, found["judgement"]) == (1, "worse")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not JSON"),
        ('{"schema": "latspan.baseline/9"}', "its schema is 'latspan.baseline/9'"),
        ('{"schema": "latspan.baseline/1", "runs": []}', "it has no run"),
        ('{"schema": "latspan.baseline/1", "runs": [{"name": 1}]}', "KeyError"),
        ('{"schema": "latspan.baseline/1"}', "KeyError"),
    ],
)
def test_a_damaged_baseline_is_named(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    """Exit code 4: nothing was compared."""
    file = tmp_path / "baseline.json"
    file.write_text(text, "utf-8")
    assert main(["compare", str(file), before]) == 4
    error = capsys.readouterr().err
    assert reason in error
    assert "hint:" in error


def test_an_impossible_target_of_a_baseline_is_explained_on_one_line(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint is that of the baseline."""
    file = tmp_path / "baseline.json"
    main(["compare", "--save-baseline", str(file), before])
    document = json.loads(file.read_text("utf-8"))
    target = {"metric": "duration", "percentile": 200, "limit_ns": 5}
    document["runs"][0]["targets"] = [target]
    file.write_text(json.dumps(document), "utf-8")
    assert main(["compare", str(file), before]) == 4
    error = capsys.readouterr().err
    assert "percentile is 200" in error
    assert error.count("hint:") == 1


def test_tampered_counts_are_refused(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Histograms have a form that a change by hand breaks."""
    file = tmp_path / "baseline.json"
    main(["compare", "--save-baseline", str(file), before])
    document = json.loads(file.read_text("utf-8"))
    counts = document["runs"][0]["histograms"]["duration"]["counts"]
    document["runs"][0]["histograms"]["duration"]["counts"] = counts[:40] + "AAAA" + counts[44:]
    file.write_text(json.dumps(document), "utf-8")
    assert main(["compare", str(file), before]) == 4
    assert "is not a baseline: HistogramFormatError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["{before}"], 2, "AFTER is missing"),
        (["{before}", "{before}"], 2, "are the same"),
        (["{before}", "{tmp}/nothing"], 2, "it does not exist"),
        (["{before}", "{tmp}"], 4, "no recording and no .hlog file"),
        (["{before}", "--save-baseline", "{tmp}/x.txt"], 2, "x.txt is not the name of a baseline"),
        (["{before}", "{before}/run-0"], 2, "run-0 is given twice: one recording is one run"),
        (["{before}", "{before}/run-0", "--goal", "fast"], 2, "is not a goal"),
        (["{before}", "{before}/run-0", "--limit-ms", "-1"], 2, "more than 0 ms (got -1)"),
        (
            ["{before}", "{before}/run-0", "--goal", "p95 ttft <= 1s", "--limit-ms", "500"],
            2,
            "a limit of 500 ms is given next to it",
        ),
        (["{before}", "{other}", "--by", "colour"], 2, "no request has the attribute colour"),
    ],
)
def test_a_mistake_is_explained(
    before: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    error: str,
) -> None:
    """With a hint that mends it."""
    other = recording(tmp_path / "inside" / "other", 90)
    filled = [each.format(before=before, tmp=tmp_path, other=other) for each in arguments]
    assert main(["compare", *filled]) == code
    text = capsys.readouterr().err
    assert error in text
    assert "hint:" in text
