"""Every ``LATSPAN_*`` variable is checked: its name, its value, and the package that it needs."""

from __future__ import annotations

import sys

import pytest

from latspan._live.instrument import integrations
from latspan._live.sdk._config import Config
from latspan._live.sdk._variables import VariableFinding, examine_variables, readable_config
from latspan._live.sdk._zero_code import OBSERVATION_FOLDER, environment_for


def found(environment: dict[str, str]) -> list[VariableFinding]:
    config, unreadable, _ = readable_config(environment)
    return [*unreadable, *examine_variables(environment, config, integrations())]


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("LATSPAN_ENDPONT", "did you mean LATSPAN_ENDPOINT?"),
        ("LATSPAN_SERVICENAME", "did you mean LATSPAN_SERVICE_NAME?"),
        ("latspan_endpoint", "did you mean LATSPAN_ENDPOINT?"),
        ("LATSPAN_DISABLED_INSTRUMENTATION", "did you mean LATSPAN_DISABLED_INSTRUMENTATIONS?"),
    ],
)
def test_a_misspelt_variable_is_an_error_with_the_nearest_name(variable: str, hint: str) -> None:
    """It would otherwise have no effect, without a message."""
    assert found({variable: "x"}) == [
        VariableFinding(variable, "is not a setting of latspan and has no effect", hint)
    ]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPONT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("OTEL_EXPORTER_OTLP_METRIC_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
    ],
)
def test_a_misspelt_variable_of_otlp_is_an_error(variable: str, meant: str) -> None:
    """Telemetry would be sent to the default address."""
    assert found({variable: "http://collector:4318", meant: "http://collector:4318"}) == [
        VariableFinding(
            variable,
            "is not a variable of OpenTelemetry and has no effect",
            f"did you mean {meant}?",
        )
    ]
    assert found({"OTEL_EXPORTER_OTLP_XYZZY_PLUGH": "1"}) == []


def test_an_unknown_variable_without_a_similar_name_is_a_note() -> None:
    """Another program may use the prefix."""
    assert found({"LATSPAN_XYZZY_PLUGH": "1"}) == [
        VariableFinding(
            "LATSPAN_XYZZY_PLUGH", "is not a setting of latspan and has no effect", is_error=False
        )
    ]


def test_variables_that_latspans_own_commands_set_are_known() -> None:
    """``latspan run`` and ``latspan doctor`` set them for the programs that they start."""
    environment = environment_for({OBSERVATION_FOLDER: "/d"}, becomes=True, records_folder="/r")

    assert sum(name.startswith("LATSPAN_") for name in environment) == 3
    assert found(environment) == []


def test_every_invalid_value_is_found_and_not_only_the_first() -> None:
    """The valid variables are still in effect."""
    environment = {
        "LATSPAN_STALL_THRESHOLD_MS": "half",
        "LATSPAN_EXPORT_ENABLED": "maybe",
        "LATSPAN_SERVICE_NAME": "shop",
    }

    config, findings, has_endpoint = readable_config(environment)

    assert config == Config(service_name="shop")
    assert has_endpoint
    assert {each.variable: each.problem for each in findings} == {
        "LATSPAN_STALL_THRESHOLD_MS": "LATSPAN_STALL_THRESHOLD_MS is 'half'",
        "LATSPAN_EXPORT_ENABLED": "LATSPAN_EXPORT_ENABLED is 'maybe'",
    }
    assert all(each.hint and each.is_error for each in findings)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LATSPAN_ENDPOINT", "collector"),
        ("LATSPAN_ENDPOINT", "http://collector:4318/v1/traces"),
        ("LATSPAN_PROTOCOL", "http"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector"),
    ],
)
def test_with_an_invalid_endpoint_it_is_not_known_where_to_send(variable: str, value: str) -> None:
    """A probe of the default endpoint would answer another question."""
    config, findings, has_endpoint = readable_config({variable: value})

    assert not has_endpoint
    assert [each.variable for each in findings] == [variable]
    assert isinstance(config, Config)


def test_a_setting_that_exists_only_in_code_is_named() -> None:
    """There is a setting of that name, so the variable looks right."""
    (finding,) = found({"LATSPAN_TRACER_PROVIDER": "mine"})

    assert finding.problem == "has no effect"
    assert finding.hint is not None
    assert "tracer_provider=..." in finding.hint


@pytest.mark.parametrize("name", ["openai", "latspan_openai", "*", " openai , latspan_httpx "])
def test_latspans_own_variable_accepts_the_library_and_the_integration(name: str) -> None:
    """Both names are valid there."""
    assert found({"LATSPAN_DISABLED_INSTRUMENTATIONS": name}) == []


def test_a_misspelt_integration_is_an_error() -> None:
    """It would otherwise stay on, without a message."""
    own, opentelemetrys = found(
        {
            "LATSPAN_DISABLED_INSTRUMENTATIONS": "opnai",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "latspan_opnai,celery",
        }
    )

    assert (own.problem, own.hint) == (
        "'opnai' is not an integration of latspan",
        "did you mean 'openai'?",
    )
    assert (opentelemetrys.problem, opentelemetrys.hint) == (
        "'latspan_opnai' is not an integration of latspan",
        "did you mean 'latspan_openai'?",
    )


def test_a_library_in_opentelemetrys_variable_is_a_note() -> None:
    """There it disables the instrumentations of other packages only."""
    (finding,) = found({"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "openai"})

    assert not finding.is_error
    assert finding.problem.endswith("and not latspan_openai")
    assert finding.hint == ("LATSPAN_DISABLED_INSTRUMENTATIONS=latspan_openai disables latspan's")


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a program fails because of it."""
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)

    (finding,) = found({"LATSPAN_SCRAPE_SERVERS": "http://127.0.0.1:8080"})

    assert finding == VariableFinding(
        "LATSPAN_SCRAPE_SERVERS",
        "needs the package 'prometheus_client', which is not installed",
        "pip install 'latspan[scraping]'",
    )
