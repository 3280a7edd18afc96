"""Arguments take priority over the environment, and the environment over the defaults."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from latspan._live.sdk import Config, configure, expectations, read_config
from latspan._live.sdk._config import default_attributes, otlp_target
from latspan._model.metrics import Expectations
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
    "series_attributes": ("prompt.version, arm,", ("prompt.version", "arm")),
    "response_headers": ("x-worker, X-Zone,", ("x-worker", "X-Zone")),
    "series_idle_s": ("60", 60.0),
    "histogram_log_dir": ("/var/log/shop", "/var/log/shop"),
    "export_raw_histograms": ("true", True),
    "propagate": ("off", False),
    "export_url_paths": ("on", True),
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
    "watch_event_loop": ("false", False),
    "scrape_interval_s": ("0.25", 0.25),
    "tail_sampling_ratio": ("0.05", 0.05),
    "tail_sampling_slow_ms": ("2000", 2000.0),
    "console": ("1", True),
    "console_waterfalls": ("true", True),
    "keep_records": ("7", 7),
    "record_dir": ("/var/log/shop", "/var/log/shop"),
    "record_rate_limit": ("all", None),
    "record_size_limit_mb": ("20", 20),
}


@pytest.mark.parametrize("field", FROM_ENVIRONMENT)
def test_every_field_has_a_variable(field: str) -> None:
    """``LATSPAN_`` and the field's name in upper case; spaces around the value are ignored."""
    text, value = FROM_ENVIRONMENT[field]

    config = read_config({}, {f"LATSPAN_{field.upper()}": f" {text} "})

    assert getattr(config, field) == value
    assert getattr(Config(), field) != value


def test_every_field_is_covered_here() -> None:
    """Except the provider, which is an object, not text."""
    assert {field.name for field in fields(Config)} - set(FROM_ENVIRONMENT) == {"tracer_provider"}


@pytest.mark.parametrize("field", FROM_ENVIRONMENT)
def test_arguments_take_priority_over_the_environment(field: str) -> None:
    """Even if the argument equals the default, and even if the variable is invalid."""
    default = getattr(Config(), field)

    config = read_config({field: default}, {f"LATSPAN_{field.upper()}": "\0"})

    assert config == Config()


@pytest.mark.parametrize("field", FROM_ENVIRONMENT)
def test_an_empty_variable_counts_as_unset(field: str) -> None:
    """This is also the rule for ``OTEL_*`` variables."""
    assert read_config({}, {f"LATSPAN_{field.upper()}": ""}) == Config()


def test_a_provider_cannot_be_set_by_a_variable() -> None:
    """It can only be an argument."""
    provider = TracerProvider(shutdown_on_exit=False)

    assert read_config({}, {"LATSPAN_TRACER_PROVIDER": "x"}).tracer_provider is None
    assert read_config({"tracer_provider": provider}, {}).tracer_provider is provider


def test_all_records_can_be_kept() -> None:
    """``None`` as an argument is ``all`` in the environment."""
    assert read_config({}, {"LATSPAN_KEEP_RECORDS": "all"}).keep_records is None


@pytest.mark.parametrize(
    "endpoint", ["http://localhost:4318?token=abc", "http://localhost:4318/otlp#abc"]
)
def test_an_endpoint_with_a_query_is_refused_without_showing_the_query(endpoint: str) -> None:
    """The path of a signal cannot be appended to a query."""
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
        ("series_attributes", "prompt.version"),
        ("series_attributes", 5),
        ("response_headers", "x-worker"),
        ("response_headers", 5),
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
    """The message names the field and the value, and has a hint."""
    with pytest.raises(ConfigError) as caught:
        read_config({field: value}, {})

    assert field in caught.value.message
    assert str(value) in caught.value.message
    assert caught.value.hint


def test_a_directory_name_with_a_null_character_is_refused() -> None:
    """The message shows it escaped."""
    with pytest.raises(ConfigError, match=r"histogram_log_dir is 'logs\\x00'"):
        read_config({"histogram_log_dir": "logs\0"}, {})


def test_the_largest_and_smallest_numbers_do_not_overflow() -> None:
    """Every accepted value can be converted to nanoseconds."""
    times = (
        "stall_threshold_ms",
        "first_token_target_ms",
        "token_target_ms",
        "tail_sampling_slow_ms",
    )
    for value in (1e-9, 1e12):
        config = read_config({**dict.fromkeys(times, value), "reading_tokens_per_s": value}, {})
        assert expectations(config).stall_ns == round(value * 1e6)


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
def test_the_endpoint_of_every_signal_is_checked(
    settings: dict[str, Any], environment: dict[str, str], refused: str
) -> None:
    """The message names the variable."""
    with pytest.raises(ConfigError) as caught:
        read_config(settings, environment)

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
def test_an_unused_endpoint_or_a_grpc_target_is_not_refused(
    settings: dict[str, Any], environment: dict[str, str]
) -> None:
    """Only endpoints that an exporter would use are checked, by the rules of its protocol."""
    read_config(settings, environment)


def test_an_unknown_protocol_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the specification requires; one warning for all signals."""
    read_config({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/jason"})

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
    """The message names the variable, because the user must correct it there."""
    variable = f"LATSPAN_{field.upper()}"

    with pytest.raises(ConfigError) as caught:
        read_config({}, {variable: text})

    assert caught.value.message == f"{variable} is '{text}'"
    assert caught.value.hint
    assert ("all" in caught.value.hint) is (field == "keep_records")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("endpoint_url", "endpoint"), ("colour", None), ("servicename", "service_name")],
)
def test_only_a_similar_setting_is_suggested(name: str, meant: str | None) -> None:
    """A wrong suggestion is worse than none."""
    with pytest.raises(UnknownNameError) as caught:
        read_config({name: "x"}, {})

    assert caught.value.hint is not None
    start = "one of " if meant is None else f"did you mean '{meant}'? "
    assert caught.value.hint.startswith(start)


@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
@pytest.mark.parametrize(
    ("settings", "variable"),
    [({"endpoint": ...}, None), ({}, "LATSPAN_ENDPOINT"), ({}, "OTEL_EXPORTER_OTLP_ENDPOINT")],
)
def test_an_endpoint_with_the_path_of_a_signal_is_refused(
    settings: dict[str, Any], variable: str | None, signal: str
) -> None:
    """The path of each signal is added to it; the hint has the base address, without password."""
    address = f"http://user:hush@collector:4318/otlp/v1/{signal}"

    with pytest.raises(ConfigError) as caught:
        read_config(
            dict.fromkeys(settings, address), {} if variable is None else {variable: address}
        )

    assert "the address of one signal" in caught.value.message
    assert "hush" not in str(caught.value)
    assert caught.value.hint == (
        "use the base address http://***@collector:4318/otlp:"
        " the path of each signal is added to it"
    )


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}),
        ({"protocol": "grpc"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317/v1/traces"}),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317/v1/traces"}),
    ],
)
def test_the_path_of_a_signal_is_accepted_where_it_is_not_followed_by_another(
    settings: dict[str, Any], environment: dict[str, str]
) -> None:
    """In a variable of one signal, and over gRPC, which ignores the path."""
    read_config(settings, environment)


def test_an_unknown_setting_is_refused() -> None:
    """The hint has the nearest setting, and lists all of them."""
    with pytest.raises(UnknownNameError) as caught:
        read_config({"endpont": "http://localhost:4318"}, {})

    assert caught.value.message == "no setting 'endpont'"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean 'endpoint'? It is one of ")
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
def test_the_protocol_follows_from_setting_variable_and_port(
    config: Config, environment: dict[str, str], protocol: str
) -> None:
    """The setting has priority over OpenTelemetry's variables, and these over the port."""
    assert otlp_target(config, "traces", environment).protocol == protocol


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
def test_the_endpoint_for_traces(
    config: Config, environment: dict[str, str], endpoint: str | None
) -> None:
    """``None`` means that the exporter reads the same variables itself."""
    assert otlp_target(config, "traces", environment).endpoint == endpoint


def test_metrics_have_their_own_path() -> None:
    """One endpoint serves both signals."""
    assert otlp_target(Config(endpoint="http://c"), "metrics", {}).endpoint == "http://c/v1/metrics"


def test_configure_shows_every_field_in_its_signature() -> None:
    """``help(latspan.configure)`` shows keyword-only parameters with the defaults."""
    shown = inspect.signature(configure)

    assert shown.parameters == inspect.signature(Config).parameters
    assert shown.parameters["metrics_scale"].kind is inspect.Parameter.KEYWORD_ONLY
    assert shown.parameters["metrics_scale"].default == 8
    assert shown.return_annotation == "None"


def test_default_request_attributes() -> None:
    """Only those that are set."""
    assert default_attributes(Config()) == {}
    assert default_attributes(Config(inference_path="a", traffic_class="b")) == {
        "inference_path": "a",
        "traffic_class": "b",
    }


def test_stream_expectations_are_converted_to_nanoseconds() -> None:
    """A step is at least 1 ns, so that a schedule always advances."""
    config = Config(
        stall_threshold_ms=0.5,
        first_token_target_ms=800,
        token_target_ms=1e-9,
        reading_tokens_per_s=12.5,
    )
    assert expectations(config) == Expectations(
        stall_ns=500_000, first_token_ns=800_000_000, token_ns=1, reading_ns=80_000_000
    )
    assert expectations(Config()) == Expectations()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([5], "5 is not the name of an attribute"),
        ([""], "'' is not the name of an attribute"),
        (["two words"], "'two words' is not the name of an attribute"),
        (["a\nb"], "is not the name of an attribute"),
        (["\ud800"], "is not the name of an attribute"),
        (["x" * 257], "is not the name of an attribute"),
        (["tenant"], "'tenant' is a name of latspan's own"),
        (["unit"], "'unit' is a name of latspan's own"),
        (["latspan.colour"], "'latspan.colour' is a name of latspan's own"),
        (["gen_ai.request.model"], "'gen_ai.request.model' is a name of latspan's own"),
        (["a", "a"], "series_attributes has 2 names"),
        ([f"a{number}" for number in range(17)], "series_attributes has 17 names"),
    ],
)
def test_names_of_series_attributes_are_validated(names: list[Any], message: str) -> None:
    """They must be few, valid text, and no names that series have already."""
    with pytest.raises(ConfigError, match=message) as refused:
        Config(series_attributes=names).validate({})
    assert refused.value.hint


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([5], "5 is not the name of a header"),
        (["Set-Cookie"], "'Set-Cookie' is not the name of a header"),
        (["two words"], "'two words' is not the name of a header"),
        ([f"x-{number}" for number in range(17)], "response_headers has 17 names"),
    ],
)
def test_names_of_response_headers_are_validated(names: list[Any], message: str) -> None:
    """A header that may hold a secret cannot be recorded."""
    with pytest.raises(ConfigError, match=message) as refused:
        Config(response_headers=names).validate({})
    assert refused.value.hint
