"""``latspan doctor`` sends to working, silent and missing receivers, and reports the results."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.distributions import write_distribution
from support.otlp import free_port, rotel_before
from support.receivers import receiving
from support.schemas import validated

DEADLINE_S = 60


def doctor(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "LATSPAN_")) and not name.lower().endswith("_proxy")
    }
    return subprocess.run(
        [sys.executable, "-m", "latspan", "doctor", *options],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def document(*options: str, **variables: str) -> tuple[int, dict[str, Any]]:
    done = doctor("--json", *options, **variables)
    assert done.stderr == ""
    found = validated(json.loads(done.stdout))
    assert found["schema"] == "latspan.doctor/1"
    assert found["ok"] is (done.returncode == 0)
    return done.returncode, found


def answers(found: dict[str, Any]) -> list[tuple[str, bool | None, str]]:
    return [(each["signal"], each["arrived"], each["response"]) for each in found["exports"]]


@contextmanager
def refusing(status: int, reason: str | None = None) -> Generator[str]:
    """Run a server that responds to every request with ``status``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_error(status, reason)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_accepted_export_is_reported_as_arrived() -> None:
    """The receiver gets the span and the metric that the doctor reports."""
    with receiving() as receiver:
        code, found = document(LATSPAN_ENDPOINT=receiver.url, LATSPAN_SERVICE_NAME="shop")

    assert code == 0
    assert answers(found) == [("traces", True, "arrived"), ("metrics", True, "arrived")]
    assert [span.name for span in receiver.all_spans] == ["latspan.doctor"]
    assert [metric.name for metric in receiver.all_metrics] == ["latspan.doctor"]
    (resource,) = {
        attribute.value.string_value
        for held in (*receiver.resource_spans, *receiver.resource_metrics)
        for attribute in held.resource.attributes
        if attribute.key == "service.name"
    }
    assert resource == "shop"


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_either_protocol_arrives(protocol: str, tmp_path: Path) -> None:
    """A collector accepts both, each on its own port."""
    with (
        receiving() as receiver,
        rotel_before(receiver.url, tmp_path / "rotel.log") as (grpc, http, process),
    ):
        endpoint = grpc if protocol == "grpc" else http
        code, found = document(
            OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL=protocol
        )
        process.terminate()
        process.wait(DEADLINE_S)

    assert code == 0
    assert [each["protocol"] for each in found["exports"]] == [protocol] * 2
    assert [span.name for span in receiver.all_spans] == ["latspan.doctor"]


def test_a_refused_connection_is_reported() -> None:
    """With a hint."""
    port = free_port()

    done = doctor(LATSPAN_ENDPOINT=f"http://127.0.0.1:{port}")

    assert done.returncode == 1
    assert done.stdout.count(f"refused: nothing listens on port {port}") == 2
    assert done.stdout.count("hint: start a collector there") == 2
    assert done.stdout.endswith("problems found: see the lines marked fail\n")
    assert done.stderr == ""


def test_an_unknown_host_is_reported() -> None:
    """With a hint."""
    code, found = document(LATSPAN_ENDPOINT="http://no-such-host.invalid:4318")

    assert code == 1
    response = "cannot resolve the host 'no-such-host.invalid'"
    assert [each["response"] for each in found["exports"]] == [response] * 2
    assert all(each["hint"] for each in found["exports"])


def test_a_silent_receiver_times_out() -> None:
    """It accepts the connection and the data, but does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        code, found = document("--timeout", "0.5", LATSPAN_ENDPOINT=endpoint)

    assert code == 1
    assert answers(found) == [
        ("traces", False, "no response within 0.5 s"),
        ("metrics", False, "no response within 0.5 s"),
    ]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (302, "use the receiver's own address"),
        (400, "read its log"),
        (401, "OTEL_EXPORTER_OTLP_HEADERS"),
        (404, "this may not be an OTLP receiver"),
        (413, "raise its limit"),
    ],
)
def test_an_error_status_is_reported_with_a_hint(status: int, word: str) -> None:
    """For example from a web server that is not a receiver, or for missing credentials."""
    with refusing(status) as url:
        code, found = document(LATSPAN_ENDPOINT=url)

    assert code == 1
    for each in found["exports"]:
        assert str(status) in each["response"]
        assert word in each["hint"]


def test_a_path_in_the_address_may_be_the_reason() -> None:
    """The paths of the signals are added to it."""
    with refusing(404) as url:
        code, found = document(LATSPAN_ENDPOINT=f"{url}/otlp")

    assert code == 1
    assert all("use the address without a path" in each["hint"] for each in found["exports"])


@pytest.mark.parametrize(
    ("status", "reason"), [(503, "Service Unavailable"), (429, "Too Many Requests")]
)
def test_an_overloaded_receiver_is_distinguished_from_a_silent_one(
    status: int, reason: str
) -> None:
    """The exporter is still retrying at the timeout; its lines are not those of the next one."""
    with refusing(status) as url:
        code, found = document("--timeout", "2", LATSPAN_ENDPOINT=url)

    assert code == 1
    for each in found["exports"]:
        assert reason in each["response"]
        sent = {"traces": "spans", "metrics": "metrics"}[each["signal"]]
        assert f"exporting {sent}" in each["response"]
        assert "wait and retry" in each["hint"]


def test_a_receiver_without_tls_is_distinguished_from_a_silent_one() -> None:
    """The address has `https` instead of `http`."""
    with refusing(500) as url:
        code, found = document("--timeout", "2", LATSPAN_ENDPOINT=url.replace("http:", "https:"))

    assert code == 1
    assert ["http://" in each["hint"] for each in found["exports"]] == [True, True]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"), ("OTEL_PROPAGATORS", "nope")],
)
def test_a_value_that_opentelemetry_refuses_is_a_usage_error(variable: str, value: str) -> None:
    """OpenTelemetry raises during its import."""
    done = doctor(**{variable: value})

    assert done.returncode == 2
    assert value in done.stderr
    assert "hint: correct or remove the variable" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disabled_signal_is_not_an_error() -> None:
    """The report names the variables that disable a signal."""
    with receiving() as receiver:
        code, found = document(LATSPAN_ENDPOINT=receiver.url, OTEL_TRACES_EXPORTER="none")

    assert code == 0
    assert answers(found) == [
        ("traces", None, "not sent: OTEL_TRACES_EXPORTER is none"),
        ("metrics", True, "arrived"),
    ]
    assert receiver.all_spans == []


def test_no_secret_is_shown() -> None:
    """Neither of headers nor of an address."""
    with receiving() as receiver:
        endpoint = receiver.url.replace("://", "://user:hush@")
        variables = {
            "LATSPAN_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hush",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": endpoint,
        }
        done = doctor("--all", **variables)
        _, found = document(**variables)

    assert "hush" not in done.stdout + done.stderr + json.dumps(found)
    origins = {each["name"]: each["origin"] for each in found["settings"]}
    assert origins["endpoint"] == "LATSPAN_ENDPOINT"
    assert origins["stall_threshold_ms"] == "default"


@pytest.mark.parametrize(
    "variables",
    [
        {"LATSPAN_ENDPOINT": "htps://user:hush@collector"},
        {"LATSPAN_ENDPOINT": "user:hush@collector"},
        {"LATSPAN_ENDPOINT": "http://user:hu/sh@127.0.0.1:9"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "user:hush@127.0.0.1:9"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:hush",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        },
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "user:hush@127.0.0.1:9",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        },
        {"LATSPAN_SCRAPE_SERVERS": "http://user:hush@127.0.0.1:9"},
        {"OTEL_RESOURCE_ATTRIBUTES": "api_key=hush,deployment.environment.name=test"},
    ],
    ids=lambda variables: " ".join(variables.values()),
)
def test_no_secret_of_an_invalid_setting_is_shown(variables: dict[str, str]) -> None:
    """Neither in the report nor in the error, and the doctor does not crash."""
    nowhere = {"LATSPAN_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    if "OTEL_EXPORTER_OTLP_ENDPOINT" in variables:
        nowhere = {}

    done = doctor("--all", **{**nowhere, **variables})

    assert done.returncode in {1, 2}
    assert "hush" not in done.stdout + done.stderr
    assert "sh@" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_control_characters_in_a_response_are_escaped() -> None:
    """The reason is shown with a limited length."""
    with refusing(403, "\x1b]0;x\x07" + "x" * 10_000) as url:
        done = doctor(LATSPAN_ENDPOINT=url)

    assert done.returncode == 1
    assert "\\x1b]0;x\\x07" in done.stdout
    assert all(line.isprintable() for line in (done.stdout + done.stderr).splitlines())
    assert len(done.stdout) < 20_000


def test_integrations_and_conflicts_are_reported(tmp_path: Path) -> None:
    """An unsupported library is a failure; a disabled integration is not."""
    write_distribution(tmp_path, "openai", "1.9")
    write_distribution(tmp_path, "more-of-openai", "1", "openai = more:Instrumentor")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    with receiving() as receiver:
        code, found = document(
            LATSPAN_ENDPOINT=receiver.url,
            LATSPAN_DISABLED_INSTRUMENTATIONS="latspan_httpx",
            PYTHONPATH=path,
        )

    statuses = {each["name"]: each["status"] for each in found["integrations"]}
    assert code == 1
    assert statuses["latspan_openai"] == "unsupported"
    assert statuses["latspan_httpx"] == "disabled"
    (conflict,) = [each for each in found["conflicts"] if each["name"] == "openai"]
    assert "more-of-openai" in conflict["packages"]


def test_every_invalid_variable_is_reported() -> None:
    """With a hint; nothing is sent to an endpoint that is not valid."""
    code, found = document(
        LATSPAN_ENDPOINT="collector", LATSPAN_STALL_THRESHOLD_MS="half", LATSPAN_ROUT="/chat"
    )

    assert code == 1
    assert {
        each["variable"]: (each["problem"], each["is_error"]) for each in found["variables"]
    } == {
        "LATSPAN_ENDPOINT": (
            "endpoint is 'collector', which is not an http:// or https:// address",
            True,
        ),
        "LATSPAN_STALL_THRESHOLD_MS": ("LATSPAN_STALL_THRESHOLD_MS is 'half'", True),
        "LATSPAN_ROUT": ("is not a setting of latspan and has no effect", True),
    }
    assert found["variables"][-1]["hint"] == "did you mean LATSPAN_ROUTE?"
    assert found["exports"] == []
    origins = {each["name"]: each["origin"] for each in found["settings"]}
    assert origins["stall_threshold_ms"] == "default"


def test_a_misspelt_variable_is_printed_with_the_nearest_name() -> None:
    """In a section of its own."""
    with receiving() as receiver:
        done = doctor(LATSPAN_ENDPOINT=receiver.url, LATSPAN_SERVICENAME="shop")

    assert done.returncode == 1
    assert "fail  LATSPAN_SERVICENAME  is not a setting of latspan and has no effect" in done.stdout
    assert "hint: did you mean LATSPAN_SERVICE_NAME?" in done.stdout
