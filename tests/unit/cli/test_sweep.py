"""``latspan sweep`` without measurements: selection, plan, baselines, mistakes and templates."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from latspan._model.goals import Arrivals, PromptTemplate, TrafficProfile, toml_of
from latspan._study.loop import Rounds, Task, keep_result
from latspan._study.render.sweep_json import kept_document
from latspan.cli import _parser, main  # pyright: ignore[reportPrivateUsage]
from latspan.cli._sweep_plan import given_options
from latspan.errors import ConfigError
from support.loops import Story, chat
from support.measurements import call, load_test, step
from support.sweeps import folders, judged

_GUIDE: Final = Path(__file__).parents[3] / "docs" / "guides" / "sweep.md"
_FOUR: Final = TrafficProfile(arrivals=Arrivals.CLOSED, concurrency=4, requests=60)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _path(folder: Path, name: str, **fields: Any) -> Path:
    file = folder / f"{name}.toml"
    path = replace(chat(traffic=_FOUR, **fields), name=name)
    file.write_text(toml_of(path), "utf-8")
    return file


def _swept(folder: Path, name: str, **fields: Any) -> None:
    """Write an inference path with the result of a sweep."""
    file = _path(folder, name, **fields)
    found = replace(judged(folder / "recordings" / name), seconds_per_run=20.0)
    story = Story(folder, replace(chat(traffic=_FOUR, **fields), name=name))
    story.swept()
    keep_result(
        file,
        Task.WATCH,
        kept_document(found, interrupted=False),
        command="sweep",
        exit_code=0,
        fingerprints=story.results[0].fingerprints,
    )


def test_a_plan_has_every_path_of_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path that was swept takes as long as then; one without an endpoint is named."""
    (folder / "latency").mkdir()
    _swept(folder / "latency", "chat")
    _path(folder / "latency", "draft", endpoint="")
    assert main(["sweep", "latency", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"chat .* 3 x 60 +1 min .*nothing", out)
    assert "draft is not measured: endpoint is empty in draft.toml." in out


def test_only_changed_leaves_out_what_did_not_change(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The contents of the template count."""
    (folder / "system.txt").write_text("Be brief.", "utf-8")
    _swept(folder, "chat")
    _swept(folder, "search", prompt=PromptTemplate(template="system.txt"))
    (folder / "system.txt").write_text("Be long.", "utf-8")
    assert main(["sweep", "--dry-run", "--only-changed"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"search .* template\n", out)
    assert "Nothing changed since the last result: chat." in out


def test_nothing_to_measure_is_no_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that sweeps after each commit mostly has nothing to do."""
    _swept(folder, "chat")
    assert main(["sweep", "--only-changed"]) == 0
    assert capsys.readouterr().out == "Nothing changed since the last result: chat.\n"
    assert not (folder / "sweeps").exists()


def test_the_paths_with_most_requests_are_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Traffic is named by the paths' names, and a path without a file is reported."""
    for name in ("chat", "search"):
        _path(folder, name)
    names = ["search", "search", "chat", "rag", "rag", "rag"]
    records = [
        replace(call(index), attributes={"inference_path": name})
        for index, name in enumerate(names)
    ]
    load_test(folder / "monday", records, [step(intended=6)])
    command = ["sweep", "--dry-run", "--traffic", "monday", "--top", "1"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  search +2 ", out, re.MULTILINE)
    assert "  chat" not in out
    assert "3 requests have the inference path 'rag', which has no file here" in out


def test_the_newest_sweep_is_pinned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The baseline is one that latspan compare reads; a path without a sweep is named."""
    _swept(folder, "chat")
    _path(folder, "search")
    assert main(["sweep", "--pin", "--path", "chat"]) == 0
    folders(folder / "later")
    assert main(["compare", "baselines/chat.json", "later", "--goal", "p95 ttft"]) == 0
    assert "is no worse" in capsys.readouterr().out
    assert main(["sweep", "--pin"]) == 4
    assert "search: there is no sweep to pin" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere"], "cannot use the folder nowhere: No such file"),
        (["--top", "3"], "--top needs the traffic"),
        (["--top", "0", "--traffic", "x"], "--top 0 is not a number of paths"),
        (["--runs", "0"], "--runs 0 is not in [1, 30]"),
        (["--load-factor", "-1"], "--load-factor -1 is not a load"),
        (["--pin", "--load-factor", "2"], "--load-factor has no effect"),
        (["--path", "other"], "there is no inference path 'other'"),
    ],
)
def test_a_mistake_is_a_usage_error(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    """Each has a hint."""
    _path(folder, "chat")
    assert main(["sweep", *arguments]) == 2
    message = capsys.readouterr().err
    assert error in message
    assert "hint: " in message


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--no-such-option", "--options: unrecognized arguments"),
        ("--output there", "--output is not an option of a run"),
        ("--rate 1,2", "a sweep measures at one load"),
    ],
)
def test_an_option_of_a_run_is_checked_before_the_load(
    folder: Path, capsys: pytest.CaptureFixture[str], options: str, error: str
) -> None:
    """Nothing is sent."""
    _path(folder, "chat")
    assert main(["sweep", f"--options={options}"]) == 2
    assert error in capsys.readouterr().err
    with pytest.raises(ConfigError, match="options"):
        given_options("'unclosed")


def test_an_empty_folder_leads_to_init(capsys: pytest.CaptureFixture[str]) -> None:
    """As status does."""
    assert main(["sweep"]) == 2
    assert "hint: latspan init chat" in capsys.readouterr().err


def test_the_load_is_multiplied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an open loop the rate, of a closed one the users; the number of requests stays."""
    _path(folder, "closed")
    open_loop = TrafficProfile(arrivals=Arrivals.GAMMA, rate_per_s=3, burstiness=0.4, requests=50)
    (folder / "open.toml").write_text(toml_of(replace(chat(traffic=open_loop), name="open")))
    assert main(["sweep", "--dry-run", "--load-factor", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"closed .* 8 in flight \(closed loop\) .* 3 x 60", out)
    assert re.search(
        r"open .* 6 requests/s, gamma with burstiness 0.4 \(open loop\) .* 3 x 50", out
    )


def test_the_templates_of_the_guide_use_options_that_exist() -> None:
    """Cron, GitHub Actions and the Kubernetes CronJob."""
    guide = _GUIDE.read_text("utf-8")
    documents = [
        yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    ]
    workflow, job = documents
    runs = [each["run"] for each in workflow["jobs"]["sweep"]["steps"] if "run" in each]
    container = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    (cron,) = [
        line for line in guide.splitlines() if "&& latspan sweep" in line and "* * 1" in line
    ]
    scheduled = [
        command.partition(">>")[0]
        for text in (*runs, *container["args"], cron)
        for command in re.findall(r"latspan (sweep.*)", text)
    ]
    assert len(scheduled) == 4
    typed = re.findall(r"^(?:\$ )?latspan (sweep[^|\n]*)", guide, re.MULTILINE)
    for command in (*scheduled, *typed):
        _, unknown = _parser().parse_known_args(shlex.split(command))
        assert unknown == [], command


def test_a_baseline_that_cannot_be_written_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the folder."""
    _swept(folder, "chat")
    (folder / "baselines").write_text("a file")
    assert main(["sweep", "--pin"]) == 2
    assert "cannot create the folder baselines" in capsys.readouterr().err


def test_a_damaged_sweep_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path cannot be measured until it is deleted."""
    _swept(folder, "chat")
    (kept,) = (folder / "results" / "chat").iterdir()
    document = json.loads(kept.read_text("utf-8"))
    document["document"]["paths"] = [{}]
    kept.write_text(json.dumps(document), "utf-8")
    assert main(["sweep", "--dry-run"]) == 4
    shown = " ".join(capsys.readouterr().out.split())
    assert f"chat: cannot be measured: results/chat/{kept.name} is damaged" in shown


def test_a_sweep_that_measured_nothing_is_inconclusive(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job in CI would otherwise take a folder of drafts for a folder without drift."""
    _path(folder, "draft", endpoint="")
    assert main(["sweep"]) == 3
    shown = capsys.readouterr().out
    assert "draft is not measured: endpoint is empty in draft.toml." in shown
    assert "Nothing was measured." in shown


def _measured(monkeypatch: pytest.MonkeyPatch, ttft_ms: dict[str, float]) -> None:
    """Have a sweep find recordings with these times of its inference paths."""

    def measure_rounds(paths: dict[str, Any], folder: Path, **_: Any) -> Rounds:
        found = {name: folders(folder / name, ttft_ms[name]) for name in paths}
        return Rounds(found, {name: [20.0] for name in paths})

    monkeypatch.setattr("latspan._study.loop.measure_rounds", measure_rounds)


def test_a_sweep_that_misses_a_target_is_no_baseline(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the paths without drift are proposed as baselines."""
    for name in ("chat", "search"):
        _path(folder, name)
    _measured(monkeypatch, {"chat": 900, "search": 100})
    assert main(["sweep"]) == 1
    (hint,) = (line for line in capsys.readouterr().err.splitlines() if "--pin" in line)
    assert hint.startswith("hint: latspan sweep --pin --path search makes")
    assert main(["sweep", "--path", "chat", "--output", "again"]) == 1
    assert "--pin" not in capsys.readouterr().err
    assert main(["sweep", "--path", "search", "--output", "third"]) == 0
    assert "hint: latspan sweep --pin --path search makes" in capsys.readouterr().err


def test_a_path_that_differs_and_misses_its_target_is_no_new_baseline(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The difference has a hint, but not the one to pin."""
    _path(folder, "chat")
    _measured(monkeypatch, {"chat": 100})
    assert main(["sweep", "--output", "one"]) == 0
    assert main(["sweep", "--pin"]) == 0
    baseline = folder / "baselines" / "chat.json"
    text = baseline.read_text("utf-8")
    assert '"cache": "as-is"' in text
    baseline.write_text(text.replace('"cache": "as-is"', '"cache": "cold"'), "utf-8")
    capsys.readouterr()
    assert main(["sweep", "--output", "two"]) == 4
    assert "pin a new baseline" in capsys.readouterr().err
    _measured(monkeypatch, {"chat": 900})
    assert main(["sweep", "--output", "three"]) == 1
    shown = capsys.readouterr().err
    assert "hint: chat: cache: if this is intended, use --changed NAME" in shown
    assert "--pin" not in shown
