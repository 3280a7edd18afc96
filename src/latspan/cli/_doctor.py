"""``latspan doctor``: reports versions, integrations, conflicts and whether telemetry arrives."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from latspan._shown import foreign, printable
from latspan.cli._command import Command
from latspan.cli._console import output
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._instrument import Integration
    from latspan._sdk._doctor import Examination

__all__ = ["COMMAND"]

_TROUBLE: Final = 1
_SCHEMA: Final = "latspan.doctor/1"

_DESCRIPTION: Final = """\
Diagnoses latspan in this environment, and reports:

  versions        of latspan, Python and OpenTelemetry
  integrations    which client libraries are installed, and which are instrumented
  conflicts       other instrumentations of the same libraries
  settings        the values in effect, and the source of each
  telemetry       whether a span and a metric arrive, and if not, why

It sends one span and one metric, both named latspan.doctor. The exit code is 1
if either does not arrive, or if an installed library cannot be instrumented.
Secrets are not shown. Settings that an application passes to latspan.configure()
override those shown here."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="seconds to wait for each response (default: %(default)g)",
    )
    parser.add_argument(
        "--all", action="store_true", help="also show the settings that have their default value"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help=f"print one JSON document ({_SCHEMA}) instead of the text",
    )


def _run(arguments: argparse.Namespace) -> int:
    examination = _examined(arguments.timeout)
    with output() as out:
        if arguments.json:
            print(json.dumps(_document(examination), indent=2), file=out)
        else:
            print("\n".join(_lines(examination, every_setting=arguments.all)), file=out)
    return 0 if examination.ok else _TROUBLE


def _examined(timeout_s: float) -> Examination:
    try:
        from latspan._sdk._doctor import examine
    except ValueError as error:
        # OpenTelemetry reads some variables, and rejects their values, during import.
        raise ConfigError(
            f"OpenTelemetry rejects an environment variable: {foreign(str(error))}",
            hint="correct or remove the variable; until then no program can use OpenTelemetry",
        ) from error
    return examine(timeout_s)


def _document(examination: Examination) -> dict[str, object]:
    found = asdict(examination)
    for row, integration in zip(found["integrations"], examination.integrations, strict=True):
        row["status"] = integration.status.value
    return {"schema": _SCHEMA, "ok": examination.ok, **found}


def _lines(examination: Examination, *, every_setting: bool) -> Iterator[str]:
    """Yield the lines for a reader: a mark, a name, and details."""
    yield from _section("versions", [("", *row) for row in _versions(examination)])
    yield from _section("integrations", [_of(each) for each in examination.integrations])
    conflicts = [
        ("note", each.name, f"{', '.join(each.packages)}: {each.meaning}")
        for each in examination.conflicts
    ]
    yield from _section("conflicts", conflicts or [("ok", "none", "")])
    settings = [
        ("", each.name, f"{each.value}  ({each.origin})")
        for each in examination.settings
        if every_setting or each.origin != "default"
    ]
    yield from _section("settings", settings or [("", "defaults", "all of them: --all")])
    telemetry: list[tuple[str, str, str]] = []
    for each in examination.exports:
        mark = {True: "ok", False: "fail", None: "note"}[each.arrived]
        telemetry.append(
            (mark, each.signal, f"{each.endpoint} over {each.protocol}: {each.response}")
        )
        if each.hint is not None:
            telemetry.append(("", "", f"hint: {each.hint}"))
    yield from _section("telemetry", telemetry)
    yield "no problem found" if examination.ok else "problems found: see the lines marked fail"


def _versions(examination: Examination) -> Iterator[tuple[str, str]]:
    for name, version in examination.versions.items():
        yield name, version or "not installed"


def _of(integration: Integration) -> tuple[str, str, str]:
    found, reason = integration.found, integration.reason
    mark, explanation = {
        "ready": ("ok", f"{found}"),
        "absent": ("", "not installed"),
        "disabled": ("note", f"{found}, disabled by {reason}"),
        "unsupported": ("fail", f"{found} is not supported: use {integration.requires}"),
        "broken": ("fail", f"cannot be loaded: {reason}"),
    }[integration.status.value]
    return mark, integration.name, explanation


def _section(title: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield title
    shown = [(mark, printable(name), printable(explanation)) for mark, name, explanation in rows]
    width = max(len(name) for _, name, _ in shown)
    for mark, name, explanation in shown:
        yield f"  {mark:<4}  {name:<{width}}  {explanation}".rstrip()
    yield ""


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return seconds


COMMAND: Final = Command(
    name="doctor",
    summary="show what is installed and active, and whether telemetry arrives",
    description=_DESCRIPTION,
    examples=(
        ("latspan doctor", "find out why no telemetry arrives in the backend"),
        (
            "LATSPAN_ENDPOINT=http://collector:4318 latspan doctor",
            "the same for another receiver",
        ),
        ("latspan doctor --json | jq .exports", "print whether telemetry arrives, for a script"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
