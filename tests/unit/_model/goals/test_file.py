"""The file of an inference path: it round-trips, and its errors name the line and the mend."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.goals import (
    BUDGET_COMPONENTS,
    TARGET_METRICS,
    Arrivals,
    Budget,
    CacheState,
    Connections,
    InferencePath,
    Preset,
    PromptTemplate,
    QualityCheck,
    Risk,
    Target,
    TrafficProfile,
    parse_inference_path,
    preset_path,
    read_inference_path,
    toml_of,
)
from latspan._model.goals._keys import KEYS, Form
from latspan.errors import ConfigError

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
NS = st.integers(1, 10**14)
NUMBERS = st.floats(1e-6, 1e6)


def some(strategy: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    return st.none() | strategy


BUDGETS = st.fixed_dictionaries(
    {f"{name}_ns": some(NS) for name in BUDGET_COMPONENTS},
).map(lambda limits: Budget(**limits))  # pyright: ignore[reportArgumentType]


@st.composite
def targets(draw: st.DrawFn) -> Target:
    budget = draw(BUDGETS)
    limit_ns = budget.sum_ns + draw(NS)
    return Target(
        metric=draw(st.sampled_from(TARGET_METRICS)),
        percentile=draw(st.floats(1, 99.999)),
        limit_ns=limit_ns,
        use_case=draw(TEXT),
        load=draw(TEXT),
        owner=draw(TEXT),
        source=draw(TEXT),
        tolerated_ns=draw(st.none() | st.integers(limit_ns, 10**15)),
        budget=budget,
    )


def traffic_of(arrivals: list[Arrivals], **settings: st.SearchStrategy[Any]) -> Any:
    return st.builds(
        TrafficProfile,
        arrivals=st.sampled_from(arrivals),
        rate_per_s=NUMBERS,
        concurrency=st.integers(1, 10**6),
        burstiness=NUMBERS,
        requests=some(st.integers(1, 10**9)),
        duration_s=some(NUMBERS),
        timeout_s=st.floats(0.001, 86_400),
        connections=st.sampled_from(Connections),
        cache=st.sampled_from(CacheState),
        seed=st.integers(0, 2**63 - 1),
        **settings,
    )


PATHS = st.builds(
    InferencePath,
    name=st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    traffic=traffic_of([Arrivals.CLOSED])
    | traffic_of(
        [each for each in Arrivals if each is not Arrivals.CLOSED],
        max_in_flight=some(st.integers(1, 100_000)),
    ),
    targets=st.lists(
        targets(), min_size=1, max_size=3, unique_by=lambda each: (each.metric, each.percentile)
    ).map(tuple),
    **dict.fromkeys(("endpoint", "route", "model", "provider", "routing", "never_ship"), TEXT),
    may_give_up=TEXTS,
    prompt=st.builds(PromptTemplate, template=TEXT, stable=TEXTS, variable=TEXTS, prompts=TEXT),
    quality=st.builds(QualityCheck, command=TEXT, limit=TEXT),
    risks=st.lists(
        st.builds(Risk, text=TEXT, owner=TEXT, due=st.none() | st.dates(dt.date(1, 1, 1))),
        max_size=2,
    ).map(tuple),
)


@given(PATHS)
def test_what_is_written_is_read_back_exactly(path: InferencePath) -> None:
    """Nanoseconds, decimals, dates and every character of a text survive."""
    assert parse_inference_path(toml_of(path), file="x.toml") == path


def test_every_field_has_a_key() -> None:
    """A field without a key would be lost in the file."""
    for kind, keys in KEYS.items():
        attributes = {key.attribute for key in keys if key.form is not Form.GOAL}
        assert attributes == {each.name for each in fields(kind)}  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("preset", "target"),
    [
        (Preset.CHAT, "p95 of time_to_first_token at most 500 ms"),
        (Preset.AUTOCOMPLETE, "p95 of duration at most 150 ms"),
        (Preset.SUMMARY, "p99 of duration at most 10,000 ms"),
    ],
)
def test_a_preset_has_the_usual_target(preset: Preset, target: str) -> None:
    """A new file loads, fits a terminal of 100 columns, and lists what is still to be decided."""
    path = preset_path("mine", preset)
    text = toml_of(path)

    assert [each.label for each in path.targets] == [target]
    assert parse_inference_path(text, file="mine.toml") == path
    assert max(map(len, text.splitlines())) <= 100
    assert "model" in path.blanks()
    assert "targets[0].owner" in path.blanks()
    assert "risks" not in path.blanks()


@pytest.mark.parametrize("preset", Preset)
def test_the_examples_of_a_new_file_are_valid(preset: Preset) -> None:
    """A user who removes every comment sign gets a file that loads, budget included."""
    lines = toml_of(preset_path("mine", preset)).splitlines()
    examples = ("tolerated_ms", "concurrency", "burstiness", "requests", "duration_s", "[[risk]]")
    examples += ("text", "owner", "due", *(f"{name}_ms" for name in BUDGET_COMPONENTS))
    text = "\n".join(
        line[2:] if line.startswith(tuple(f"# {each}" for each in examples)) else line
        for line in lines
    )
    path = parse_inference_path(text, file="mine.toml")
    (target,) = path.targets

    assert target.budget.sum_ns == target.limit_ns
    assert target.tolerated_ns == 1.5 * target.limit_ns
    assert path.risks == (Risk(due=dt.date(2026, 12, 31)),)


MINIMAL = """\
name = "chat"

[[target]]
metric = "ttft"
percentile = 95
limit_ms = 500

[target.budget]
prefill_ms = 100.5

[traffic]
rate_per_s = 2
"""


def test_a_short_file_is_enough() -> None:
    """An alias of a metric becomes its name, milliseconds become nanoseconds, exactly."""
    assert parse_inference_path(MINIMAL, file="chat.toml") == InferencePath(
        name="chat",
        traffic=TrafficProfile(rate_per_s=2),
        targets=(
            Target(
                metric="time_to_first_token",
                percentile=95,
                limit_ns=500_000_000,
                budget=Budget(prefill_ns=100_500_000),
            ),
        ),
    )


def test_a_goal_stands_for_metric_percentile_and_limit() -> None:
    """The file describes the same inference path either way, and other keys stay possible."""
    separate = 'metric = "ttft"\npercentile = 95\nlimit_ms = 500\n'
    text = MINIMAL.replace(separate, 'goal = "p95 ttft <= 500ms"\n')
    assert text != MINIMAL
    expected = parse_inference_path(MINIMAL, file="chat.toml")
    assert parse_inference_path(text, file="chat.toml") == expected


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ('"p95 ttft"', "line 4: 'p95 time_to_first_token' has no limit"),
        ('"fast"', "line 4: 'fast' is not a goal"),
        ('"p95 speed <= 5ms"', "line 4: no metric 'speed'"),
        ('"p95 fluidity <= 5ms"', "line 4: metric is 'fluidity', which is not one time per"),
        ("95", "line 4: 95 is not valid for goal"),
        ('"p95 ttft <= 5ms"\nlimit_ms = 5', "line 5: [target]: goal and limit_ms are both given"),
    ],
)
def test_an_error_in_a_goal_names_its_line(goal: str, message: str) -> None:
    """A goal and a key that it stands for cannot both be given."""
    text = MINIMAL.replace('metric = "ttft"\npercentile = 95\nlimit_ms = 500', f"goal = {goal}")
    with pytest.raises(ConfigError) as caught:
        parse_inference_path(text, file="chat.toml")
    assert caught.value.message.startswith(f"chat.toml, {message}")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        (
            "limit_ms",
            "limt_ms",
            "line 6: [target]: unknown key 'limt_ms'",
            "did you mean 'limit_ms'?",
        ),
        ("[traffic]", "[trafic]", "line 11: unknown key 'trafic'", "did you mean 'traffic'?"),
        (
            "rate_per_s = 2",
            'rate_per_s = 2\nmodel = "m"',
            "line 13: [traffic]: unknown key 'model'",
            "model belongs above the first table",
        ),
        (
            'name = "chat"',
            'name = "chat"\nowner = "me"',
            "line 2: unknown key 'owner'",
            "owner belongs under [[target]] or under [[risk]]",
        ),
        (
            "prefill_ms",
            "prefil_ms",
            "line 9: [target.budget]: unknown key 'prefil_ms'",
            "did you mean 'prefill_ms'?",
        ),
        (
            "rate_per_s",
            "xyzzy",
            "line 12: [traffic]: unknown key 'xyzzy'",
            (
                "one of arrivals, rate_per_s, concurrency, burstiness, requests, duration_s,"
                " timeout_s, max_in_flight, connections, cache, seed"
            ),
        ),
        (
            "limit_ms = 500\n",
            "",
            "line 3: [target]: limit_ms is missing",
            "add a number of milliseconds, for example limit_ms = 500: the limit, in milliseconds",
        ),
        (
            "percentile = 95",
            'percentile = "95"',
            "line 5: '95' is not valid for percentile",
            "use a number, for example percentile = 95",
        ),
        (
            "percentile = 95",
            "percentile = 0.95",
            "line 5: percentile is 0.95, which is not in [1, 100)",
            "use percentile = 95",
        ),
        (
            "percentile = 95",
            "percentile = 100",
            "line 5: percentile is 100, which is not in [1, 100)",
            "use a number such as 95 or 99.9",
        ),
        ('"ttft"', '"tftt"', "line 4: no metric 'tftt'", "did you mean 'ttft'?"),
        (
            '"ttft"',
            '"fluidity"',
            "line 4: metric is 'fluidity', which is not one time per request",
            (
                "one of duration, time_to_first_chunk, time_to_first_token,"
                " time_to_first_visible_token, time_per_output_token, chunk_gap_max,"
                " stall_duration, buffer_needed"
            ),
        ),
        (
            "prefill_ms = 100.5",
            "prefill_ms = 400\nnetwork_ms = 120.5",
            (
                "line 8: the limits of the budget sum to 520.5 ms, more than the target's limit of"
                " 500 ms"
            ),
            "lower them by 20.5 ms in all, or raise the target's limit",
        ),
        (
            "prefill_ms = 100.5",
            "prefill_ms = 0",
            "line 9: prefill_ms must be more than 0",
            "leave the line out if the component has no limit",
        ),
        (
            "limit_ms = 500",
            "limit_ms = 500\ntolerated_ms = 400",
            "line 7: tolerated_ms is below the limit",
            "leave tolerated_ms out, or use a time above the limit",
        ),
        (
            "limit_ms = 500",
            "limit_ms = true",
            "line 6: true is not valid for limit_ms",
            "use a number of milliseconds, for example limit_ms = 500",
        ),
        (
            "limit_ms = 500",
            "limit_ms = inf",
            "line 6: Infinity is not valid for limit_ms",
            "use a number of milliseconds, for example limit_ms = 500",
        ),
        (
            "rate_per_s = 2",
            "",
            'line 11: arrivals = "poisson" needs rate_per_s',
            "add rate_per_s = 2: the mean number of requests per second",
        ),
        (
            "rate_per_s = 2",
            'arrivals = "closed"',
            'line 12: arrivals = "closed" needs concurrency',
            "add concurrency = 50: the number of users",
        ),
        (
            "rate_per_s = 2",
            'arrivals = "posson"',
            "line 12: 'posson' is not valid for arrivals",
            'did you mean "poisson"?',
        ),
        (
            "rate_per_s = 2",
            "rate_per_s = -1",
            "line 12: rate_per_s must be more than 0",
            "use a number above 0",
        ),
        (
            "[[target]]",
            "[target]",
            "line 3: a table is not valid for target",
            "use a list of tables: write [[target]] on a line of its own",
        ),
        (
            'name = "chat"',
            'name = "../chat"',
            "line 1: '../chat' is not a name of an inference path",
            (
                "use 1 to 100 letters, digits, '_', '.' and '-', not beginning with '.' or '-'; for"
                " example chat"
            ),
        ),
        (
            "[traffic]",
            '[[target]]\nmetric = "ttft"\npercentile = 95\nlimit_ms = 700\n[traffic]',
            "line 11: two targets limit p95 of time_to_first_token",
            "keep one of them",
        ),
    ],
)
def test_an_error_names_the_line_and_the_mend(old: str, new: str, message: str, hint: str) -> None:
    """A user can correct the file without looking anything up."""
    text = MINIMAL.replace(old, new, 1)

    with pytest.raises(ConfigError) as raised:
        parse_inference_path(text, file="chat.toml")

    assert (raised.value.message, raised.value.hint) == (f"chat.toml, {message}", hint)


def test_text_that_is_not_toml_is_refused_with_its_line() -> None:
    """The parser's own message has the line."""
    with pytest.raises(ConfigError, match=r"chat\.toml is not valid TOML: .*line 2") as raised:
        parse_inference_path('name = "chat"\nmodel = gpt\n', file="chat.toml")

    assert raised.value.hint == 'a line is name = value, and text is in quotes: model = "gpt-4o"'


@pytest.mark.parametrize("value", ["9" * 5_000, "1e999999", "nan", f"[{'[' * 3_000}{']' * 3_000}]"])
def test_no_number_breaks_the_reader(value: str) -> None:
    """It is refused like any other invalid value."""
    with pytest.raises(ConfigError):
        parse_inference_path(MINIMAL.replace("500", value), file="chat.toml")


def test_an_inference_path_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NAME stands for NAME.toml in the current folder; Windows line ends are accepted."""
    monkeypatch.chdir(tmp_path)
    Path("chat.toml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())

    assert read_inference_path("chat").name == "chat"
    assert read_inference_path("chat.toml") == read_inference_path(tmp_path / "chat.toml")


def test_a_name_that_is_not_that_of_the_file_is_refused(tmp_path: Path) -> None:
    """Commands use one of them and requests carry the other; the error has both."""
    file = tmp_path / "support.toml"
    file.write_text(MINIMAL, "utf-8")
    with pytest.raises(ConfigError) as raised:
        read_inference_path(file)
    assert 'support.toml has name = "chat", but the file is named support' in raised.value.message
    assert raised.value.hint == 'write name = "support", or rename the file'


def test_a_missing_file_names_the_command_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint of an error that a newcomer meets first."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError) as raised:
        read_inference_path("chat")

    assert raised.value.message == "no file chat.toml"
    assert raised.value.hint == "latspan init chat writes one"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"name = \xff", "chat.toml is not UTF-8 text"),
        (None, "cannot read chat.toml: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    contents: bytes | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear error instead of a traceback."""
    monkeypatch.chdir(tmp_path)
    if contents is None:
        Path("chat.toml").mkdir()
    else:
        Path("chat.toml").write_bytes(contents)

    with pytest.raises(ConfigError) as raised:
        read_inference_path("chat")

    assert raised.value.message == message
