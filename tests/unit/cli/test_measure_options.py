"""The command line of ``latspan measure``: what it means, and what it refuses."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._load import MeasureSettings
from latspan._model.goals import CacheState, Connections, LoadSettings
from latspan.cli import main
from latspan.cli._measure_options import add_options, folder_of, overriding_option, settings_of
from latspan.errors import ConfigError
from support.measurements import call, load_test, step

_URL = "http://localhost:8000/v1"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def _arguments(*line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="measure", exit_on_error=False)
    add_options(parser)
    return parser.parse_args(line)


def _settings(*line: str) -> MeasureSettings:
    return settings_of(_arguments(*line))


def test_without_a_load_one_request_is_in_flight() -> None:
    """100 requests after ten to warm up, which is enough for a p95."""
    settings = _settings(_URL)
    (only,) = settings.steps
    assert only.schedule.conditions() == {"pattern": "closed", "concurrency": 1}
    assert (only.warmup, only.measured, only.duration_ns) == (10, 100, None)
    assert (settings.load, settings.percentile) == (LoadSettings(timeout_s=60), 95)
    assert settings.parameters == {"max_tokens": 128}


def test_a_rate_is_an_open_loop() -> None:
    """Its arrivals are Poisson, and the drain has as many requests at most."""
    (only,) = _settings(_URL, "--rate", "5", "--requests", "50", "--warmup", "3").steps
    assert only.schedule.conditions() == {"pattern": "poisson", "rate_per_s": 5}
    assert len(only.schedule.offsets_ns) == 3 + 2 * 50


def test_bursts_are_gamma() -> None:
    """``--burstiness`` is enough, and the pattern has a default."""
    for line in (["--burstiness", "0.5"], ["--arrivals", "gamma"]):
        (only,) = _settings(_URL, "--rate", "5", *line).steps
        assert only.schedule.conditions() == {
            "pattern": "gamma", "rate_per_s": 5, "burstiness": 0.5,
        }  # fmt: skip


def test_bursts_replace_the_arrivals_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of a closed loop have no arrivals."""
    monkeypatch.chdir(tmp_path)
    target = '[[target]]\nmetric = "ttft"\npercentile = 95\nlimit_ms = 500\n'
    head = f'name = "chat"\nendpoint = "{_URL}"\n{target}[traffic]\n'
    Path("chat.toml").write_text(f'{head}arrivals = "poisson"\nrate_per_s = 3\n')
    (step,) = _settings("chat", "--burstiness", "0.3").steps
    assert step.schedule.conditions() == {"pattern": "gamma", "rate_per_s": 3, "burstiness": 0.3}
    Path("chat.toml").write_text(f'{head}arrivals = "closed"\nconcurrency = 3\n')
    (step,) = _settings("chat").steps
    assert step.schedule.concurrency == 3
    with pytest.raises(ConfigError, match=r"--burstiness 0\.3 needs a rate"):
        _settings("chat", "--burstiness", "0.3")


def test_a_duration_limits_an_open_loop_and_a_closed_one() -> None:
    """An open loop is cut to what is due in it; a closed one ends by the clock."""
    (opened,) = _settings(
        _URL, "--rate", "10", "--arrivals", "constant", "--duration", "3s", "--warmup", "0"
    ).steps
    (closed,) = _settings(_URL, "--concurrency", "2", "--duration", "1m").steps
    assert opened.measured == 30
    assert (closed.measured, closed.duration_ns) == (None, 60 * NS_PER_S)


def test_several_levels_are_measured_in_turn() -> None:
    """A ladder doubles the level, and ends at saturation."""
    levels = _settings(_URL, "--concurrency", "1,4,16")
    ladder = _settings(_URL, "--rate", "2", "--ladder", "--requests", "10")
    assert [each.schedule.concurrency for each in levels.steps] == [1, 4, 16]
    assert not levels.stops_at_saturation
    assert [each.schedule.rate_per_s for each in ladder.steps][:4] == [2, 4, 8, 16]
    assert ladder.stops_at_saturation


def test_every_user_of_a_closed_loop_warms_up() -> None:
    """Otherwise the first measured requests would meet a server that is not loaded yet."""
    (only,) = _settings(_URL, "--concurrency", "40").steps
    assert only.warmup == 40


def test_a_higher_percentile_needs_more_requests() -> None:
    """300 for p99, of which 299 without a miss prove a target."""
    assert _settings(_URL, "--percentile", "p99").steps[0].measured == 300
    settings = _settings(_URL, "--check", "duration p99 10s")
    assert settings.steps[0].measured == 300
    assert settings.percentile == 99


@pytest.mark.parametrize(
    ("text", "metric", "percentile", "limit_ms"),
    [
        ("p95 ttft <= 500ms", "time_to_first_token", 95, 500),
        ("p95_ttft≤0.5 s", "time_to_first_token", 95, 500),
        ("p95 ttft 500ms", "time_to_first_token", 95, 500),
        ("ttft p95 500ms", "time_to_first_token", 95, 500),
        ("TPOT p50 < 20 ms", "time_per_output_token", 50, 20),
        ("duration p99.9 <= 1.5s", "duration", 99.9, 1500),
    ],
)
def test_a_target_is_written_as_it_is_said(
    text: str, metric: str, percentile: float, limit_ms: float
) -> None:
    """Percentile and metric, in either order, and limit."""
    (target,) = _settings(_URL, "--check", text).targets
    assert (target.metric, target.percentile) == (metric, percentile)
    assert target.limit_ns == limit_ms * NS_PER_MS


def test_the_body_of_requests_can_have_further_fields() -> None:
    """A limit in it replaces latspan's own."""
    settings = _settings(_URL, "--body", '{"max_completion_tokens": 9, "temperature": 0}')
    assert settings.parameters == {"max_completion_tokens": 9, "temperature": 0}


def _write_chat(traffic: str) -> None:
    """Write ``chat.toml`` into the current folder, with a target and that load."""
    Path("chat.toml").write_text(
        f"""
        name = "chat"
        endpoint = "{_URL}"
        model = "m"
        [[target]]
        metric = "ttft"
        percentile = 99
        limit_ms = 500
        [traffic]
        {traffic}
        """
    )


def test_the_options_override_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of an inference path has the load, the cache, the seed and the targets."""
    monkeypatch.chdir(tmp_path)
    _write_chat(
        """
        arrivals = "gamma"
        burstiness = 0.3
        rate_per_s = 7
        timeout_s = 9
        cache = "cold"
        seed = 4
        max_in_flight = 8
        connections = "new"
        """
    )
    settings = _settings("chat")
    assert settings.name == "chat"
    assert settings.endpoint is not None
    assert (settings.endpoint.url, settings.model, settings.percentile) == (_URL, "m", 99)
    assert settings.load == LoadSettings(
        timeout_s=9, cache=CacheState.COLD, seed=4, max_in_flight=8, connections=Connections.NEW
    )
    assert settings.steps[0].schedule.conditions() == {
        "pattern": "gamma", "rate_per_s": 7, "burstiness": 0.3,
    }  # fmt: skip
    changed = _settings("chat", "--concurrency", "2", "--seed", "0", "--cache", "as-is")
    assert changed.steps[0].schedule.concurrency == 2
    assert changed.load == replace(
        settings.load, cache=CacheState.AS_IS, seed=0, max_in_flight=None
    )
    assert len(changed.targets) == 1


def test_a_calibration_has_one_request_in_flight_and_no_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an inference path it has the endpoint, the model and the prompts."""
    monkeypatch.chdir(tmp_path)
    _write_chat("rate_per_s = 7\nrequests = 900")
    settings = _settings("chat", "--calibrate")
    (only,) = settings.steps
    assert only.schedule.conditions() == {"pattern": "closed", "concurrency": 1}
    assert (only.measured, settings.targets, settings.model) == (50, (), "m")


def test_recorded_arrivals_are_replayed(tmp_path: Path) -> None:
    """Those of the measured requests of a load test, at another speed."""
    records = [call(-1, at_ms=-900, phase="warmup")]
    records += [call(index, at_ms=index * 100) for index in range(5)]
    load_test(tmp_path, records, [step(intended=5)])
    (only,) = _settings(_URL, "--replay", str(tmp_path), "--speed", "2").steps
    assert only.schedule.offsets_ns == tuple(50 * NS_PER_MS * n for n in range(5))
    assert (only.warmup, only.measured) == (0, 5)


def test_prompts_imitate_the_lengths_of_a_recording(tmp_path: Path) -> None:
    """Recordings have no prompts, so only their lengths can be used."""
    load_test(tmp_path, [call(index) for index in range(5)], [step(intended=5)])
    prompts = _settings(_URL, "--prompts", str(tmp_path), "--requests", "5").prompts
    assert prompts.source == "recording"
    assert {len(prompt.text.split()) for prompt in prompts.prompts} == {round(100 / 1.3) + 4}


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ([_URL, "--rate", "1", "--concurrency", "1"], "--rate and --concurrency", "use one"),
        ([_URL, "--arrivals", "constant"], "--arrivals constant needs a rate", "--rate"),
        ([_URL, "--burstiness", "0.3"], "--burstiness 0.3 needs a rate", "--rate"),
        ([_URL, "--rate", "1,2", "--ladder"], "--ladder begins at one level", "one rate"),
        ([_URL, "--replay", "none"], "none is not a recording", "latspan"),
        (["localhost:8000"], "'localhost:8000' is not a URL", "http://localhost:8000/v1"),
        (["a b:c"], "neither a name, nor a URL, nor module:function", "app:answer"),
        (["app:answer", "--cache", "cold"], "--cache changes requests to an API", "function"),
        (["app:answer", "--new-connections"], "--new-connections changes requests", "function"),
        (["app:answer", "--body", '{"n": 1}'], "--body changes requests to an API", "function"),
        ([_URL, "--max-in-flight", "9"], "--max-in-flight needs a rate", "add --rate"),
        (["unknown"], "no file unknown.toml", "latspan init unknown"),
        ([_URL, "--calibrate", "--rate", "2"], "--rate and --calibrate exclude each other", "use"),
        ([_URL, "--calibrate", "--ladder"], "has one request in flight", "omit --ladder"),
        ([_URL, "--api-key-env", "NOT_SET"], "NOT_SET has no API key", "export NOT_SET"),
        ([_URL, "--prompts", "none.jsonl"], "cannot read the prompts", "omit --prompts"),
    ],
)
def test_a_contradiction_is_explained(
    line: list[str], message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hint that mends it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=message.replace("(", r"\(")) as caught:
        _settings(*line)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--rate", "0", "more than 0, not 0"),
        ("--rate", "fast", "'fast' is not a number"),
        ("--concurrency", "1.5", "'1.5' is not a whole number"),
        ("--requests", "0", "at least 1, not 0"),
        ("--duration", "soon", "'soon' is not a time"),
        ("--timeout", "0s", "'0s' is not a time"),
        ("--percentile", "100", "from 1 to below 100"),
        ("--check", "ttft 500ms", "'ttft 500ms' is not a goal; for example 'p95 ttft <= 500ms'"),
        ("--check", "p95 ttft", "'p95 time_to_first_token' has no limit; for example"),
        ("--check", "speed p95 500ms", "no metric 'speed'"),
        ("--body", "[]", "not a JSON object"),
        ("--body", '{"stream": false}', "latspan sets the field 'stream' itself"),
    ],
)
def test_a_wrong_value_is_explained(option: str, value: str, message: str) -> None:
    """The parser names the option."""
    with pytest.raises(argparse.ArgumentError, match="argument") as caught:
        _arguments(_URL, option, value)
    assert message in str(caught.value)


def test_a_key_with_a_line_end_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would break the request; white space around it is harmless."""
    monkeypatch.setenv("OPENAI_API_KEY", " sk-1\n")
    endpoint = _settings(_URL).endpoint
    assert endpoint is not None
    assert endpoint.api_key == "sk-1"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1\nX: y")
    with pytest.raises(ConfigError, match="characters that no key has"):
        _settings(_URL)


def test_the_folder_has_the_name_and_the_time() -> None:
    """Two measurements do not collide, and a URL makes a plain name."""
    folder = folder_of(_arguments(_URL), _URL)
    assert folder.parent == Path("recordings")
    assert folder.name.startswith("localhost-8000-v1-20")
    assert folder_of(_arguments(_URL), _URL) != folder
    assert folder_of(_arguments(_URL, "-o", "x"), _URL) == Path("x")


def test_settings_hold_no_key_in_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be logged."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in repr(_settings(_URL))
    assert "sk-secret" not in json.dumps(_settings(_URL).parameters)


@pytest.mark.parametrize(
    "line",
    [
        ("127.0.0.1:9/v1?api_key=my-S3CRET",),
        (_URL, "--api-key-env", "my-S3CRET"),
        ("http://localhost:8000/v1#my-S3CRET",),
    ],
)
def test_no_error_about_the_command_line_shows_a_key(line: tuple[str, ...]) -> None:
    """Neither one in the target, nor one given instead of its variable."""
    with pytest.raises(ConfigError) as caught:
        _settings(*line)
    assert "S3CRET" not in f"{caught.value.message} {caught.value.hint}"


def test_the_name_of_a_url_is_shown_without_its_key() -> None:
    """It is part of the recording and of the name of its folder."""
    settings = _settings("http://localhost:8000/my-secret-4711/v1")
    assert settings.name == "http://localhost:8000/***/v1"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("--duration", "9" * 400), "--duration is inf"),
        (("--rate", "5", "--duration", "604800"), "3,024,000 requests"),
        (("--requests", "1000000000000"), "--requests is 1e+12"),
        (("--rate", "1e-300"), "--rate is 1e-300"),
        (("--concurrency", "1000000000"), "--concurrency is 1e+09"),
        (("--rate", "5", "--burstiness", "1e-320"), "--burstiness"),
        (("--prompt-words", "1000000000"), "--prompt-words"),
        (("--timeout", "9" * 400), "--timeout must be from 0.001 to 86400 (got inf)"),
        (
            ("--rate", "2", "--max-in-flight", "1000000000"),
            "--max-in-flight must be from 1 to 100000 (got 1e+09)",
        ),
    ],
)
def test_a_load_that_no_machine_can_send_is_refused(line: tuple[str, ...], message: str) -> None:
    """It would end in a traceback, or take all memory and time."""
    with pytest.raises(ConfigError) as caught:
        _settings(_URL, *line)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        ("--check", "ttft p95 " + "9" * 400 + "s"),
        ("--body", '{"temperature": NaN}'),
        ("--body", '{"a": ' + "[" * 100_000),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(line: tuple[str, str]) -> None:
    """A number without an end, and JSON that is nested too deeply or is none."""
    with pytest.raises(argparse.ArgumentError):
        _arguments(_URL, *line)


@pytest.mark.parametrize(
    "traffic",
    ['arrivals = "poisson"\nrate_per_s = 1e-300', 'arrivals = "closed"\nconcurrency = 10000000000',
     "rate_per_s = 1\nduration_s = 1e300", "rate_per_s = 1\nrequests = 1000000000000",
     'arrivals = "closed"\nconcurrency = 1\nmax_in_flight = 9', "rate_per_s = 1\ntimeout_s = 1e300",
     "rate_per_s = 1\nmax_in_flight = 0"],
)  # fmt: skip
def test_a_file_has_the_same_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traffic: str
) -> None:
    """The numbers of a file define a load like those of options."""
    monkeypatch.chdir(tmp_path)
    Path("chat.toml").write_text(
        f'name = "chat"\nendpoint = "{_URL}"\n[traffic]\n{traffic}\n[[target]]\n'
        'metric = "duration"\npercentile = 95\nlimit_ms = 500\n'
    )
    with pytest.raises(ConfigError):
        _settings("chat")


def test_a_function_has_no_metric_of_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target is refused before the load is sent, in a file and on the command line."""
    with pytest.raises(ConfigError, match="have no time_to_first_token") as caught:
        _settings("app:answer", "--check", "ttft p95 500ms")
    assert "time_to_first_visible_token" in str(caught.value.hint)
    monkeypatch.chdir(tmp_path)
    main(["init", "chat"])
    file = tmp_path / "chat.toml"
    text = file.read_text("utf-8").replace('endpoint = ""', 'endpoint = "app:answer"')
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="have no time_to_first_token"):
        _settings("chat")
    file.write_text(text.replace('"time_to_first_token"', '"ttfv"'), "utf-8")
    assert _settings("chat").function == "app:answer"


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ((), None),
        (("--requests", "9", "--seed", "3", "--json"), None),
        (("--cache", "warm"), "--cache"),
        (("--new-connections",), "--new-connections"),
        (("--timeout", "9s"), "--timeout"),
        (("--max-tokens", "9"), "--max-tokens"),
        (("--body", '{"temperature": 0}'), "--body"),
        (("--rate", "2"), "--rate"),
        (("--calibrate",), "--calibrate"),
    ],
)
def test_an_option_may_replace_what_the_file_describes(
    line: tuple[str, ...], option: str | None
) -> None:
    """The result is then not one of the inference path."""
    assert overriding_option(_arguments("chat", *line)) == option
