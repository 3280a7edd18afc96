"""
Check of the environment variables of latspan: unknown names, invalid values, missing extras.

A misspelt variable has no effect, and OpenTelemetry's loader reads names of integrations that
latspan does not know; neither is an error for an application. The doctor reports both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from latspan._base import shown as _shown
from latspan._live.instrument import DISABLING_VARIABLES, Integration
from latspan._live.sdk._config import Config, read_config
from latspan._live.sdk._settings import kind_of, nearest
from latspan._live.sdk._zero_code import INTERNAL_VARIABLES
from latspan.errors import ConfigError, LatspanError, MissingExtraError

_PREFIX: Final = "LATSPAN_"
_FOR_LATSPAN, _FOR_ALL = DISABLING_VARIABLES
_OURS: Final = "latspan_"
_EVERY: Final = "*"

_OTLP: Final = "OTEL_EXPORTER_OTLP_"
_OTLP_NAMES: Final = frozenset(
    f"{signal}{name}"
    for signal in ("", "TRACES_", "METRICS_", "LOGS_")
    for name in (
        "CERTIFICATE",
        "CLIENT_CERTIFICATE",
        "CLIENT_KEY",
        "COMPRESSION",
        "ENDPOINT",
        "HEADERS",
        "INSECURE",
        "PROTOCOL",
        "TIMEOUT",
    )
) | {"METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "METRICS_TEMPORALITY_PREFERENCE"}
"""
Variables of OTLP exporters, without their prefix.

Source: OpenTelemetry specification, "OpenTelemetry Protocol Exporter" and "Metrics Exporter".
"""

_FIELDS: Final = {field.name: field for field in fields(Config)}

_ENDPOINT: Final = frozenset({"LATSPAN_ENDPOINT", "LATSPAN_PROTOCOL"})
"""Variables without which it is not known where telemetry is sent."""


@dataclass(frozen=True, slots=True)
class VariableFinding:
    """
    Something wrong with an environment variable.

    Args:
        variable: Name of the variable.
        problem: Description of the problem, secrets hidden.
        hint: How to fix it.
        is_error: Whether it is certainly a mistake; otherwise it may be intended.
    """

    variable: str
    problem: str
    hint: str | None = None
    is_error: bool = True


class Readable(NamedTuple):
    """
    What the environment configures, apart from the variables that have an invalid value.

    Args:
        config: Configuration without these variables.
        findings: What is wrong with them.
        has_endpoint: Whether it is known where telemetry is sent.
    """

    config: Config
    findings: tuple[VariableFinding, ...]
    has_endpoint: bool


def readable_config(environment: Mapping[str, str]) -> Readable:
    """
    Return the configuration that the valid variables result in, and what is wrong with the others.

    Args:
        environment: Source of the ``LATSPAN_*`` and ``OTEL_*`` variables.
    """
    kept = dict(environment)
    findings: list[VariableFinding] = []
    for setting in _FIELDS:
        variable = _PREFIX + setting.upper()
        problem = _problem_of(setting, variable, kept)
        if problem is not None:
            findings.append(problem)
            del kept[variable]
    has_endpoint = not any(each.variable in _ENDPOINT for each in findings)
    try:
        config = read_config({}, kept)
    except ConfigError as error:
        # The endpoint in an OTEL_* variable, which is not read if nothing is exported.
        findings.append(VariableFinding(error.message.partition(" is ")[0], *_parts(error)))
        has_endpoint = False
        config = read_config({"export_enabled": False}, kept)
    return Readable(config, tuple(findings), has_endpoint)


def _problem_of(
    setting: str, variable: str, environment: Mapping[str, str]
) -> VariableFinding | None:
    value = environment.get(variable)
    if not value:
        return None
    kind = kind_of(_FIELDS[setting])
    if kind.parse is None:
        return VariableFinding(
            variable,
            "has no effect",
            f"pass {setting}=... to latspan.configure(): it can be set only in code",
        )
    try:
        kind.check(setting, kind.parse(variable, value.strip()))
    except ConfigError as error:
        return VariableFinding(variable, *_parts(error))
    return None


def _parts(error: LatspanError) -> tuple[str, str | None]:
    return error.message, error.hint


def examine_variables(
    environment: Mapping[str, str], config: Config, integrations: Iterable[Integration]
) -> Iterator[VariableFinding]:
    """
    Yield what is wrong with variables whose value can be read.

    Args:
        environment: The variables.
        config: Configuration that they result in.
        integrations: latspan's integrations.
    """
    yield from _unknown_names(environment)
    yield from misspelt_otlp(environment)
    yield from _disabled_names(environment, list(integrations))
    yield from _missing_extras(config)


def _unknown_names(environment: Mapping[str, str]) -> Iterator[VariableFinding]:
    known = {_PREFIX + name.upper() for name in _FIELDS} | {_FOR_LATSPAN, *INTERNAL_VARIABLES}
    for variable in sorted(environment):
        if variable.upper().startswith(_PREFIX) and variable not in known:
            # Without the prefix, which makes all of them similar.
            known_parts = [each.removeprefix(_PREFIX) for each in known - INTERNAL_VARIABLES]
            meant = nearest(variable.upper().removeprefix(_PREFIX), known_parts)
            yield VariableFinding(
                _shown.printable(variable),
                "is not a setting of latspan and has no effect",
                None if meant is None else f"did you mean {_PREFIX}{meant}?",
                is_error=meant is not None,
            )


def misspelt_otlp(environment: Mapping[str, str]) -> Iterator[VariableFinding]:
    """Yield the variables that are almost those of OTLP exporters, and have no effect."""
    for variable in sorted(environment):
        name = variable.removeprefix(_OTLP)
        if name != variable and name not in _OTLP_NAMES:
            meant = nearest(name, _OTLP_NAMES)
            if meant is not None:
                yield VariableFinding(
                    _shown.printable(variable),
                    "is not a variable of OpenTelemetry and has no effect",
                    f"did you mean {_OTLP}{meant}?",
                )


def _disabled_names(
    environment: Mapping[str, str], integrations: list[Integration]
) -> Iterator[VariableFinding]:
    by_library = {each.name.removeprefix(_OURS): each.name for each in integrations}
    names = {each.name for each in integrations}
    for named in _named_in(environment, _FOR_LATSPAN):
        if named not in names and named not in by_library:
            meant = nearest(named, [*by_library, *names])
            yield VariableFinding(
                _FOR_LATSPAN,
                f"'{_shown.printable(named)}' is not an integration of latspan",
                f"one of {', '.join(sorted(names))}"
                if meant is None
                else f"did you mean '{meant}'?",
            )
    for named in _named_in(environment, _FOR_ALL):
        if named in by_library:
            yield VariableFinding(
                _FOR_ALL,
                f"'{named}' disables other packages' instrumentations, and not {by_library[named]}",
                f"{_FOR_LATSPAN}={by_library[named]} disables latspan's",
                is_error=False,
            )
        elif named.startswith(_OURS) and named not in names:
            meant = nearest(named, names)
            yield VariableFinding(
                _FOR_ALL,
                f"'{_shown.printable(named)}' is not an integration of latspan",
                None if meant is None else f"did you mean '{meant}'?",
            )


def _named_in(environment: Mapping[str, str], variable: str) -> Iterator[str]:
    for part in environment.get(variable, "").split(","):
        if (name := part.strip()) and name != _EVERY:
            yield name


def _missing_extras(config: Config) -> Iterator[VariableFinding]:
    for setting, is_used, require in (
        ("scrape_servers", bool(config.scrape_servers), _require_parser),
        ("count_tokens", config.count_tokens, _require_encodings),
    ):
        missing = _missing(require) if is_used else None
        if missing is not None:
            yield VariableFinding(
                _PREFIX + setting.upper(),
                f"needs the package '{missing.package}', which is not installed",
                missing.hint,
            )


def _missing(require: Callable[[], object]) -> MissingExtraError | None:
    try:
        require()
    except MissingExtraError as error:
        return error
    return None


def _require_parser() -> None:
    from latspan._live.scraping import require_parser

    require_parser()


def _require_encodings() -> None:
    from latspan._model.tokens import encodings

    # Without the extra, tiktoken's cache is enough.
    if not encodings():
        raise MissingExtraError("bpe_openai", extra="tokens")
