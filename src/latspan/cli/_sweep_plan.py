"""Plan of ``latspan sweep``: which inference paths are measured, how, and how long that takes."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._study.render.sweep import PlannedRow
from latspan.cli._measure_options import add_options, overriding_option, settings_of
from latspan.cli._results import NamedPath, named_path
from latspan.errors import ConfigError, LatspanError

if TYPE_CHECKING:
    from latspan._load import MeasureSettings
    from latspan._model.goals import InferencePath
    from latspan._study.loop import Listed, Result
    from latspan._study.sweep import Traffic

_REFUSED: Final = ("output", "no_result", "json", "ladder")
"""Options of a measurement that a sweep sets itself, or that belong to a single measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """
    Inference path that is to be measured.

    Args:
        named: The path, as it is now.
        results: Its results, the oldest first.
        options: Options of ``latspan measure``.
        settings: Settings of one run.
        changed: Parts of its file that changed since it was last measured; ``None`` if it never
            was.
        is_other: Whether the options replace what its file describes.
    """

    named: NamedPath
    results: Sequence[Result]
    options: tuple[str, ...]
    settings: MeasureSettings
    changed: tuple[str, ...] | None
    is_other: bool

    @property
    def name(self) -> str:
        """Name of its file without the suffix."""
        return self.named.file.stem

    @property
    def expected_s(self) -> float | None:
        """How long a run probably takes, in seconds; ``None`` if that is not known."""
        from latspan._study.sweep import last_sweep, seconds_in_sweep

        last = last_sweep(self.results)
        if last is not None and not self.changed and not self.options:
            return seconds_in_sweep(last)
        (step,) = self.settings.steps
        if step.measured is None or not step.schedule.is_open:
            return None if step.duration_ns is None else step.duration_ns / 1e9
        return step.schedule.offsets_ns[step.warmup + step.measured - 1] / 1e9


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """
    What a sweep does.

    Args:
        paths: Inference paths that are measured, in order.
        errors: Error of each path that cannot be measured, by its name.
        notes: What a reader must know, one sentence each.
        traffic: Traffic by which they are ranked; ``None`` without.
        unchanged: Paths that are left out because nothing changed since their last result.
    """

    paths: tuple[Planned, ...]
    errors: dict[str, LatspanError]
    notes: tuple[str, ...]
    traffic: Traffic | None
    unchanged: tuple[str, ...] = ()

    def rows(self, runs: int) -> Iterator[PlannedRow]:
        """Yield a row of the table of ``--dry-run`` for each path."""
        from latspan._study.sweep import last_measured

        for each in self.paths:
            last = last_measured(each.results)
            expected_s = each.expected_s
            yield PlannedRow(
                name=each.name,
                load=each.settings.steps[0].schedule.conditions(),
                requests=each.settings.steps[0].measured,
                traffic=_traffic_of(each.named.path, self.traffic),
                last=None if last is None else last.day,
                changed=each.changed,
                seconds=None if expected_s is None else runs * expected_s,
            )


def given_options(options: str) -> tuple[str, ...]:
    """
    Return the options of ``latspan measure`` in a text.

    Raises:
        ConfigError: The text has an unclosed quote.
    """
    try:
        return tuple(shlex.split(options))
    except ValueError as error:
        raise ConfigError(f"options '{options}': {error}", hint="close every quote") from error


def plan_sweep(
    listed: Sequence[Listed], arguments: argparse.Namespace, traffic: Traffic | None
) -> SweepPlan:
    """
    Return the plan of a sweep of the inference paths of the current folder.

    Args:
        listed: Its inference paths.
        arguments: The command line.
        traffic: Traffic by which they are ranked.

    Raises:
        ConfigError: An option contradicts another one, or names no inference path.
        UnknownNameError: No inference path has traffic.
    """
    names = [each.file.stem for each in listed]
    for wanted in arguments.path:
        if wanted not in names:
            raise ConfigError(
                f"there is no inference path '{wanted}' in this folder",
                hint=f"these are: {', '.join(names)}" if names else f"latspan init {wanted}",
            )
    if not names:
        raise ConfigError(
            "there is no inference path in this folder", hint="latspan init chat writes one"
        )
    _check(given_options(arguments.options))
    errors: dict[str, LatspanError] = {}
    notes: list[str] = []
    planned: dict[str, Planned] = {}
    called: dict[str, str] = {}
    for each in listed:
        name = each.file.stem
        if arguments.path and name not in arguments.path:
            continue
        if each.loop is None:
            errors[name] = each.error or ConfigError("it cannot be read")
            continue
        called[each.loop.path.name] = name
        if not each.loop.path.endpoint:
            notes.append(f"{name} is not measured: endpoint is empty in {each.file.name}.")
            continue
        try:
            planned[name] = _planned(each.file, arguments)
        except LatspanError as error:
            errors[name] = error
    chosen = list(planned)
    if traffic is not None:
        ranked = traffic.ranked(list(called), arguments.top)
        chosen = [called[each] for each in ranked if called[each] in planned]
        notes += traffic.notes
        notes += _unknown(traffic, called)
    same: list[str] = []
    if arguments.only_changed:
        same = [name for name in chosen if planned[name].changed == ()]
        chosen = [name for name in chosen if name not in same]
        if same:
            notes.append(f"Nothing changed since the last result: {', '.join(same)}.")
    paths = tuple(planned[name] for name in chosen)
    return SweepPlan(paths, errors, tuple(notes), traffic, tuple(same))


def _planned(file: Path, arguments: argparse.Namespace) -> Planned:
    from latspan._study.loop import changed_since, read_results
    from latspan._study.sweep import last_measured

    named = named_path(file.name, arguments)
    if named is None:
        raise ConfigError(f"{file.name} is not an inference path", hint="rename the file")
    options = (*given_options(arguments.options), *_load_of(named.path, arguments.load_factor))
    parsed = _parsed(file.name, options)
    results = read_results(file)
    last = last_measured(results)
    changed = None if last is None else tuple(changed_since(last, named.fingerprints))
    return Planned(
        named=named,
        results=results,
        options=options,
        settings=settings_of(parsed),
        changed=changed,
        is_other=overriding_option(parsed) is not None,
    )


def _check(options: Sequence[str]) -> None:
    """Check the options of each run."""
    parsed = _parsed("any", options)
    refused = [name for name in _REFUSED if getattr(parsed, name)]
    if refused:
        raise ConfigError(
            f"--{refused[0].replace('_', '-')} is not an option of a run of a sweep",
            hint="see latspan sweep --help",
        )
    if any(len(each or ()) > 1 for each in (parsed.rate, parsed.concurrency)):
        raise ConfigError("a sweep measures at one load", hint="use one rate or concurrency")


class _Options(argparse.ArgumentParser):
    """Parser of options inside an argument, whose errors are those of the whole command."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise the error."""
        raise ConfigError(f"--options: {message}", hint="latspan measure --help lists them")


def _parsed(what: str, options: Sequence[str]) -> argparse.Namespace:
    parser = _Options(add_help=False)
    add_options(parser)
    return parser.parse_args([what, *options])


def _load_of(path: InferencePath, factor: float | None) -> tuple[str, ...]:
    """Return the options that multiply the load of an inference path."""
    from latspan._model.goals import Arrivals

    if factor is None:
        return ()
    traffic = path.traffic
    size = (
        *(() if traffic.requests is None else ("--requests", f"{traffic.requests}")),
        *(() if traffic.duration_s is None else ("--duration", f"{traffic.duration_s:g}s")),
    )
    if traffic.arrivals is Arrivals.CLOSED:
        return (*size, "--concurrency", f"{max(1, round((traffic.concurrency or 1) * factor))}")
    rate = f"{(traffic.rate_per_s or 1) * factor:.9g}"
    bursts = () if traffic.burstiness is None else ("--burstiness", f"{traffic.burstiness:g}")
    return (*size, "--rate", rate, "--arrivals", traffic.arrivals.value, *bursts)


def _traffic_of(path: InferencePath, traffic: Traffic | None) -> int | None:
    return None if traffic is None else traffic.requests.get(path.name, 0)


def _unknown(traffic: Traffic, called: dict[str, str]) -> Iterator[str]:
    for name, number in list(traffic.without_file(called).items())[:3]:
        yield (
            f"{number:,} requests have the inference path '{name}', which has no file here:"
            f" latspan init {name}."
        )
    if traffic.unnamed:
        yield f"{traffic.unnamed:,} requests have no inference path."
