"""
Inference path: one route, model, prompt template and traffic profile, with its targets.

An empty text or list means that the value is not known yet: a new inference path is valid, and
:meth:`InferencePath.blanks` lists what its owner still has to decide.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Final, cast

from latspan._model.goals._fields import FieldError
from latspan._model.goals._load_settings import SETTINGS, LoadSettings
from latspan._model.goals._target import Target

_MAY_BE_EMPTY: Final = frozenset({"risks"})
_MIN_RUNS: Final = 2
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class Arrivals(StrEnum):
    """Pattern in which the requests of a load test arrive."""

    POISSON = "poisson"
    """Independent users: a random time between arrivals, with an exponential distribution."""
    CONSTANT = "constant"
    """The same time between all arrivals."""
    GAMMA = "gamma"
    """Bursts: more uneven than Poisson if ``burstiness`` is below 1, more even if it is above."""
    CLOSED = "closed"
    """A fixed number of users, each of which waits for the response before the next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTemplate:
    """
    Prompt of the inference path, and the set of prompts that measurements send.

    Args:
        template: File of the template; a change of it calls for a new measurement.
        stable: Parts that are the same in every request. A server can cache them if they come
            first.
        variable: Parts that differ from request to request.
        prompts: JSONL file of the fixed prompts, one object with ``prompt`` or ``messages`` per
            line.
    """

    template: str = ""
    stable: tuple[str, ...] = ()
    variable: tuple[str, ...] = ()
    prompts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficProfile(LoadSettings):
    """
    Load of a measurement: its arrivals, and the settings of every request.

    Args:
        arrivals: Pattern of the arrivals.
        rate_per_s: Mean number of requests per second, more than 0; needed unless ``arrivals`` is
            closed.
        concurrency: Number of requests in flight, at least 1; needed if ``arrivals`` is closed.
        burstiness: Shape of the gamma distribution, more than 0; 1 is Poisson.
        requests: Number of measured requests, at least 1; ``None`` for as many as the targets need.
        duration_s: Length of the measurement in seconds, more than 0; ``None`` for no limit.

    Raises:
        ConfigError: A value is outside its range, or the pattern needs a value that is not given.
    """

    arrivals: Arrivals = Arrivals.POISSON
    rate_per_s: float | None = None
    concurrency: int | None = None
    burstiness: float | None = None
    requests: int | None = None
    duration_s: float | None = None

    def __post_init__(self) -> None:
        LoadSettings.__post_init__(self)
        for name in ("rate_per_s", "burstiness", "duration_s"):
            value: float | None = getattr(self, name)
            if value is not None:
                if not (math.isfinite(value) and value > 0):
                    raise FieldError(name, "{key} must be more than 0", hint="use a number above 0")
                object.__setattr__(self, name, float(value))
        for name, least in (("concurrency", 1), ("requests", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise FieldError(
                    name, f"{{key}} must be at least {least}", hint=f"use {{key}} = {least}"
                )
        if self.arrivals is Arrivals.CLOSED:
            self._require("concurrency", "the number of users", "50")
            for setting in SETTINGS:
                if setting.needs_rate and getattr(self, setting.name) != setting.default:
                    raise FieldError(
                        setting.name,
                        "{key} has no effect: with closed arrivals, concurrency is the number in"
                        " flight",
                        hint="remove {key}, or use arrivals with a rate",
                    )
        else:
            self._require("rate_per_s", "the mean number of requests per second", "2")
        if self.arrivals is Arrivals.GAMMA:
            self._require("burstiness", "below 1 for bursts", "0.5")

    def _require(self, field: str, meaning: str, example: str) -> None:
        if getattr(self, field) is None:
            raise FieldError(
                "arrivals",
                f'arrivals = "{self.arrivals}" needs {field}',
                hint=f"add {field} = {example}: {meaning}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCheck:
    """
    Check that a faster response is still as good.

    Args:
        command: Command that ``latspan verify`` runs twice: before the change and after it. With
            ``items`` it writes the answers to the file ``{answers}``; otherwise its exit code is 0
            if the quality is sufficient, and 1 if it is not.
        limit: What the check requires, in words.
        items: JSONL file of the evaluation set, as for ``latspan verify --items``.
        before: JSONL file of the answers before the change.
        after: JSONL file of the answers after it.
    """

    command: str = ""
    limit: str = ""
    items: str = ""
    before: str = ""
    after: str = ""

    @property
    def is_described(self) -> bool:
        """Whether there is a command or an evaluation set."""
        return bool(self.command or self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    The one change that is verified, and how it is rolled out and taken back.

    Args:
        lever: One of the levers of ``latspan verify``.
        description: What is changed, in words.
        options: Options of ``latspan measure`` that make the change.
        apply: Command that makes the change.
        undo: Command that takes it back.
        runs: Runs per side of the verification, at least 2; ``None`` for the usual number.
        flag: Flag or setting that switches the change on for users.
        rollback: Steps that take it back in production, in order.

    Raises:
        ConfigError: There are too few runs.
    """

    lever: str = ""
    description: str = ""
    options: str = ""
    apply: str = ""
    undo: str = ""
    runs: int | None = None
    flag: str = ""
    rollback: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < _MIN_RUNS:
            raise FieldError("runs", f"{{key}} must be at least {_MIN_RUNS}", hint="use {key} = 5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """
    Open risk that its owner accepts until a date.

    Args:
        text: The risk.
        owner: Person or team that decides on it.
        due: Date of the decision; ``None`` if it is not set yet.
    """

    text: str = ""
    owner: str = ""
    due: dt.date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferencePath:
    """
    Description of an inference path: the unit in which latency is measured and improved.

    Args:
        name: 1 to 100 letters, digits, ``_``, ``.`` and ``-``; the value of the attribute
            ``inference_path`` in everything that is measured.
        endpoint: Base URL of an OpenAI-compatible API, or ``module:function`` that makes one
            request.
        route: Route of the application that users call.
        model: Model that the requests name.
        provider: Company or server that runs the model.
        routing: Rules by which a request reaches this model: fallbacks, regions, experiments.
        never_ship: The failure that must never reach a user, however fast the response is.
        may_give_up: What may be traded for speed.
        prompt: Prompt template and prompt set.
        traffic: Load of a measurement.
        targets: At least one; each percentile of a metric has one limit.
        quality: Check that a faster response is still as good.
        change: The one change that is verified.
        risks: Open risks.

    Raises:
        ConfigError: The name is invalid, or there is no target, or two for one percentile.
    """

    name: str
    traffic: TrafficProfile
    targets: tuple[Target, ...]
    endpoint: str = ""
    route: str = ""
    model: str = ""
    provider: str = ""
    routing: str = ""
    never_ship: str = ""
    may_give_up: tuple[str, ...] = ()
    prompt: PromptTemplate = PromptTemplate()
    quality: QualityCheck = QualityCheck()
    change: Change = Change()
    risks: tuple[Risk, ...] = ()

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise FieldError(
                "name",
                f"'{self.name}' is not a name of an inference path",
                hint="use 1 to 100 letters, digits, '_', '.' and '-', not beginning with '.' or"
                " '-'; for example chat",
            )
        if not self.targets:
            raise FieldError(
                "targets",
                "there is no target",
                hint='add [[target]] with metric = "ttft", percentile = 95 and limit_ms = 500',
            )
        held: set[tuple[str, float]] = set()
        for each in self.targets:
            if (each.metric, each.percentile) in held:
                raise FieldError(
                    "targets",
                    f"two targets limit p{each.percentile:g} of {each.metric}",
                    hint="keep one of them",
                )
            held.add((each.metric, each.percentile))

    def blanks(self) -> tuple[str, ...]:
        """Return the fields that are still empty, for example ``model`` or ``targets[0].owner``."""
        return tuple(_blanks_of(self, ""))


def _blanks_of(value: object, prefix: str) -> Iterator[str]:
    if value in ("", ()) and prefix not in _MAY_BE_EMPTY:
        yield prefix
    elif isinstance(value, tuple):
        for index, each in enumerate(cast("tuple[object, ...]", value)):
            yield from _blanks_of(each, f"{prefix}[{index}]")
    elif is_dataclass(value):
        for field in fields(value):
            name = f"{prefix}.{field.name}" if prefix else field.name
            yield from _blanks_of(getattr(value, field.name), name)
