"""Code wins over the environment, the environment over the default, and nonsense is refused."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from latspan._metrics import Expectations
from latspan._sdk import Config
from latspan._sdk._config import ConfigFields
from latspan.errors import ConfigError, UnknownNameError

FROM_ENVIRONMENT: dict[str, tuple[str, Any]] = {
    "endpoint": ("http://collector:4318", "http://collector:4318"),
    "protocol": ("grpc", "grpc"),
    "service_name": ("shop", "shop"),
    "export_enabled": ("false", False),
    "metrics_interval_s": ("2.5", 2.5),
    "metrics_scale": ("9", 9),
    "metrics_max_buckets": ("160", 160),
    "cardinality_limit": ("500", 500),
    "series_idle_s": ("60", 60.0),
    "histogram_log_dir": ("/var/log/shop", "/var/log/shop"),
    "export_raw_histograms": ("true", True),
    "propagate": ("off", False),
    "count_tokens": ("on", True),
    "capture_media": ("true", True),
    "request_stream_usage": ("yes", True),
    "emit_gen_ai_latency": ("true", True),
    "set_global_provider": ("1", True),
    "inference_path": ("checkout", "checkout"),
    "route": ("/checkout", "/checkout"),
    "traffic_class": ("batch", "batch"),
    "stall_threshold_ms": ("250", 250.0),
    "first_token_target_ms": ("800", 800.0),
    "token_target_ms": ("40", 40.0),
    "reading_tokens_per_s": ("12.5", 12.5),
    "scrape_servers": ("http://a:1, https://b/metrics,", ("http://a:1", "https://b/metrics")),
    "monitor_host": ("true", True),
    "scrape_interval_s": ("0.25", 0.25),
    "tail_sampling_ratio": ("0.05", 0.05),
    "tail_sampling_slow_ms": ("2000", 2000.0),
    "keep_records": ("7", 7),
}


@pytest.mark.parametrize("field", FROM_ENVIRONMENT)
def test_every_field_has_a_variable(field: str) -> None:
    """``LATSPAN_`` and the field's name in upper case, spaces around the value ignored."""
    text, value = FROM_ENVIRONMENT[field]

    config = Config.of({}, {f"LATSPAN_{field.upper()}": f" {text} "})

    assert getattr(config, field) == value
    assert getattr(Config(), field) != value


def test_no_field_is_forgotten() -> None:
    """All but a provider, which is an object and no text."""
    assert {field.name for field in fields(Config)} - set(FROM_ENVIRONMENT) == {"tracer_provider"}


@pytest.mark.parametrize("field", FROM_ENVIRONMENT)
def test_code_wins_over_the_environment(field: str) -> None:
    """Even where code says what the default is, and whatever nonsense the variable holds."""
    default = getattr(Config(), field)

    config = Config.of({field: default}, {f"LATSPAN_{field.upper()}": "\0"})

    assert config == Config()


@pytest.mark.parametrize("field", FROM_ENVIRONMENT)
def test_an_empty_variable_is_none(field: str) -> None:
    """As for ``OTEL_*`` variables."""
    assert Config.of({}, {f"LATSPAN_{field.upper()}": ""}) == Config()


def test_a_provider_is_no_variable() -> None:
    """It comes from code alone."""
    provider = TracerProvider(shutdown_on_exit=False)

    assert Config.of({}, {"LATSPAN_TRACER_PROVIDER": "x"}).tracer_provider is None
    assert Config.of({"tracer_provider": provider}, {}).tracer_provider is provider


def test_all_records_can_be_kept() -> None:
    """``None`` in code is ``all`` in the environment."""
    assert Config.of({}, {"LATSPAN_KEEP_RECORDS": "all"}).keep_records is None


@pytest.mark.parametrize(
    "endpoint", ["http://localhost:4318?token=abc", "http://localhost:4318/otlp#abc"]
)
def test_an_endpoint_with_a_query_is_refused_and_the_query_not_shown(endpoint: str) -> None:
    """The path of a signal cannot be added behind it."""
    with pytest.raises(ConfigError, match="a query") as refused:
        Config(endpoint=endpoint).validate({})
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "localhost:4318"),
        ("endpoint", "ftp://localhost"),
        ("endpoint", "http://"),
        ("endpoint", "http://localhost:99999"),
        ("endpoint", "http://localhost:0"),
        ("endpoint", "http://localhost:4318/v1/traces"),
        ("endpoint", "http://localhost:4318/otlp/v1/metrics/"),
        ("endpoint", "http://[::1"),
        ("endpoint", ""),
        ("endpoint", 4318),
        ("protocol", "http/json"),
        ("metrics_interval_s", 0),
        ("metrics_interval_s", -1),
        ("metrics_interval_s", math.nan),
        ("metrics_interval_s", "60"),
        ("stall_threshold_ms", 0),
        ("stall_threshold_ms", None),
        ("propagate", "false"),
        ("export_enabled", None),
        ("stall_threshold_ms", math.inf),
        ("first_token_target_ms", 0),
        ("token_target_ms", -200),
        ("reading_tokens_per_s", 0),
        ("keep_records", -1),
        ("keep_records", 1.5),
        ("keep_records", "all"),
        ("metrics_scale", 21),
        ("metrics_scale", 8.0),
        ("metrics_max_buckets", 1),
        ("cardinality_limit", 0),
        ("series_idle_s", 0),
        ("histogram_log_dir", __file__),
        ("histogram_log_dir", f"{__file__}/below"),
        ("histogram_log_dir", 5),
        ("export_raw_histograms", 1),
        ("stall_threshold_ms", 1e308),
        ("stall_threshold_ms", True),
        ("first_token_target_ms", 1e308),
        ("token_target_ms", 1e308),
        ("tail_sampling_slow_ms", 1e308),
        ("series_idle_s", 1e308),
        ("metrics_interval_s", 1e308),
        ("scrape_interval_s", 1e-320),
        ("reading_tokens_per_s", 1e-320),
        ("keep_records", 10**30),
        ("keep_records", True),
        ("cardinality_limit", 10**30),
        ("metrics_max_buckets", 10**30),
        ("inference_path", 5),
        ("route", b"/checkout"),
        ("traffic_class", ["batch"]),
        ("service_name", 5),
        ("tracer_provider", "a provider"),
    ],
)
def test_an_impossible_value_is_refused(field: str, value: object) -> None:
    """The message names field and value, and how to mend it."""
    with pytest.raises(ConfigError) as caught:
        Config.of({field: value}, {})

    assert field in caught.value.message
    assert str(value) in caught.value.message
    assert caught.value.hint


def test_a_folder_that_no_system_can_name_is_refused() -> None:
    """It is shown as Python writes it."""
    with pytest.raises(ConfigError, match=r"histogram_log_dir is 'logs\\x00'"):
        Config.of({"histogram_log_dir": "logs\0"}, {})


def test_the_largest_and_the_smallest_numbers_can_be_held() -> None:
    """Whatever passes the check is held in nanoseconds without an overflow."""
    times = (
        "stall_threshold_ms",
        "first_token_target_ms",
        "token_target_ms",
        "tail_sampling_slow_ms",
    )
    for value in (1e-9, 1e12):
        config = Config.of({**dict.fromkeys(times, value), "reading_tokens_per_s": value}, {})
        assert config.expected.stall_ns == config.slow_ns == round(value * 1e6)


@pytest.mark.parametrize(
    ("settings", "environment", "refused"),
    [
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (
            {"protocol": "http/protobuf"},
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4318"},
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ),
        (
            {},
            {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "collector:4317"},
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ),
        (
            {"export_raw_histograms": True},
            {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "ftp://collector"},
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        ),
    ],
)
def test_where_every_signal_is_sent_is_checked(
    settings: dict[str, Any], environment: dict[str, str], refused: str
) -> None:
    """The message names the variable, whichever signal it is of."""
    with pytest.raises(ConfigError) as caught:
        Config.of(settings, environment)

    assert caught.value.message.startswith(f"{refused} is '{environment[refused]}'")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({}, {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "nowhere"}),
        ({}, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "nowhere"}),
        ({"export_enabled": False}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "nowhere"}),
        ({"endpoint": "http://c:4318"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "nowhere"}),
        ({"protocol": "grpc"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}),
    ],
)
def test_an_address_that_is_not_used_or_that_grpc_resolves_is_not_refused(
    settings: dict[str, Any], environment: dict[str, str]
) -> None:
    """Only what an exporter would be given, by the rules of its protocol."""
    Config.of(settings, environment)


def test_an_unknown_protocol_of_opentelemetrys_is_ignored_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the specification has it, and once for all signals."""
    Config.of({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/jason"})

    assert caplog.messages == [
        "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/jason', not one of http/protobuf, grpc: it is ignored"
    ]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("export_enabled", "maybe"),
        ("propagate", "2"),
        ("set_global_provider", "nein"),
        ("metrics_interval_s", "a minute"),
        ("stall_threshold_ms", "0.5s"),
        ("keep_records", "many"),
        ("keep_records", "1.5"),
        ("metrics_scale", "fine"),
        ("cardinality_limit", "1e3"),
    ],
)
def test_an_unreadable_variable_is_refused(field: str, text: str) -> None:
    """The message names the variable, because that is what is to be mended."""
    variable = f"LATSPAN_{field.upper()}"

    with pytest.raises(ConfigError) as caught:
        Config.of({}, {variable: text})

    assert caught.value.message == f"{variable} is '{text}'"
    assert caught.value.hint


def test_an_unknown_setting_is_refused() -> None:
    """All settings there are stand in the hint."""
    with pytest.raises(UnknownNameError) as caught:
        Config.of({"endpont": "http://localhost:4318"}, {})

    assert caught.value.message == "no setting 'endpont'"
    assert caught.value.hint is not None
    assert all(field.name in caught.value.hint for field in fields(Config))


@pytest.mark.parametrize(
    ("config", "environment", "protocol"),
    [
        (Config(), {}, "http/protobuf"),
        (Config(endpoint="http://c:4317"), {}, "grpc"),
        (Config(endpoint="http://c:4318"), {}, "http/protobuf"),
        (Config(endpoint="http://c:4317", protocol="http/protobuf"), {}, "http/protobuf"),
        (Config(protocol="grpc"), {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "grpc"),
        (Config(endpoint="http://c:9"), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        (Config(), {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/protobuf"),
        (Config(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, "grpc"),
        (Config(), {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, "grpc"),
        (
            Config(),
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            },
            "grpc",
        ),
        (Config(), {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, "http/protobuf"),
    ],
)
def test_the_protocol(config: Config, environment: dict[str, str], protocol: str) -> None:
    """What is said, then what OpenTelemetry's variable says, then what the port says."""
    assert config.protocol_of("traces", environment) == protocol


@pytest.mark.parametrize(
    ("config", "environment", "endpoint"),
    [
        (Config(), {}, "http://localhost:4318/v1/traces"),
        (Config(protocol="grpc"), {}, "http://localhost:4317"),
        (Config(), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://localhost:4317"),
        (Config(endpoint="http://c:4318/"), {}, "http://c:4318/v1/traces"),
        (Config(endpoint="http://c/otlp"), {}, "http://c/otlp/v1/traces"),
        (Config(endpoint="http://c:4317"), {}, "http://c:4317"),
        (Config(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318"}, None),
        (Config(), {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://e:1/x"}, None),
        (
            Config(),
            {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://e:1/x"},
            "http://localhost:4318/v1/traces",
        ),
        (
            Config(endpoint="http://c:4318"),
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318"},
            "http://c:4318/v1/traces",
        ),
    ],
)
def test_where_traces_go(config: Config, environment: dict[str, str], endpoint: str | None) -> None:
    """``None`` leaves it to the exporter, which reads the same environment."""
    assert config.endpoint_of("traces", environment) == endpoint


def test_metrics_have_a_path_of_their_own() -> None:
    """One endpoint serves both signals."""
    assert Config(endpoint="http://c").endpoint_of("metrics", {}) == "http://c/v1/metrics"


def test_keywords_are_the_fields() -> None:
    """What ``configure`` is typed to take is what a configuration has."""
    assert set(ConfigFields.__annotations__) == {field.name for field in fields(Config)}


def test_what_requests_are_about_by_default() -> None:
    """Only what is said."""
    assert Config().defaults == {}
    assert Config(inference_path="a", traffic_class="b").defaults == {
        "inference_path": "a",
        "traffic_class": "b",
    }


def test_what_streams_are_held_against() -> None:
    """In nanoseconds; a schedule always moves on, however short its step."""
    config = Config(
        stall_threshold_ms=0.5,
        first_token_target_ms=800,
        token_target_ms=1e-9,
        reading_tokens_per_s=12.5,
    )
    assert config.expected == Expectations(
        stall_ns=500_000, first_token_ns=800_000_000, token_ns=1, reading_ns=80_000_000
    )
    assert Config().expected == Expectations()
