"""
The setting of a recorded program: its users, and what it does for each request.

A program reads its setting from the variable ``PROGRAM_SETTING`` (JSON), and the address of the
model server from ``MODEL_URL``. ``SPARE_URL`` is the address of the server of spare models.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

Range = tuple[float, float]
"""Smallest and largest value of a number that is drawn for each request."""

Weights = Mapping[str, float]
"""Values of an attribute, with the weight of each."""


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call of the model.

    Args:
        words: Length of the prompt.
        tokens: Limit of the answer, in tokens.
        model: Name of the model.
        hidden: Whether the user does not receive the answer.
        chunk_ms: The program's own work for each chunk of the answer.
        close_after: Number of chunks after which the user closes the answer.
        fallback: Model of a second call, sent if the first one fails.
        body_kb: Length of further text in the request, in kilobytes.
    """

    words: Range = (20, 60)
    tokens: Range = (10, 20)
    model: str = "m"
    hidden: bool = False
    chunk_ms: float = 0
    close_after: int | None = None
    fallback: str | None = None
    body_kb: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """
    A part of the program's work for a request.

    Args:
        stage: Name of the stage; ``None`` for work outside any stage.
        kind: Kind of the stage, if its name is not one of the kinds.
        ms: Duration of the work.
        work: ``wait`` for other systems, ``compute``, ``block`` the thread, or ``thread``: block
            a thread of the pool.
        call: Call of the model inside the step.
        only: Labels of the requests that take the step.
        one_in: One in this many of these requests takes the step, drawn at random.
        first: The step is taken for the first requests of each user only.
        times: How often the step is repeated.
        gate: Name of the gate that the step passes.
    """

    stage: str | None = None
    kind: str | None = None
    ms: Range = (0, 0)
    work: str = "wait"
    call: Call | None = None
    only: Mapping[str, str] = field(default_factory=dict[str, str])
    one_in: float = 1
    first: int | None = None
    times: Range = (1, 1)
    gate: str | None = None


@dataclass(frozen=True, slots=True)
class Background:
    """
    Work of the process beside its requests.

    Args:
        every_ms: Pause between two runs.
        ms: Duration of a run.
        work: ``compute`` or ``block`` on the event loop, or ``hold``: hold the interpreter's lock
            in a thread.
    """

    every_ms: Range
    ms: Range
    work: str = "compute"


@dataclass(slots=True)
class Request:
    """
    A request of a user.

    Args:
        number: Number of the request in the program.
        turn: Number of the request among those of its user.
        labels: Attributes of the request.
        random: Source of the values that are drawn for this request.
    """

    number: int
    turn: int
    labels: dict[str, str]
    random: Random

    @property
    def route(self) -> str | None:
        """The route of the application, if the setting has routes."""
        return self.labels.get("route")

    @property
    def tenant(self) -> str | None:
        """The customer, if the setting has tenants."""
        return self.labels.get("tenant")

    @property
    def others(self) -> dict[str, str]:
        """The application's own attributes."""
        return {
            name: value for name, value in self.labels.items() if name not in ("route", "tenant")
        }

    def takes(self, step: Step) -> bool:
        """Return whether the request takes a step."""
        return (
            all(self.labels.get(name) == value for name, value in step.only.items())
            and (step.first is None or self.turn < step.first)
            and self.random.random() * step.one_in < 1
        )

    def between(self, bounds: Range) -> float:
        """Draw a number."""
        return self.random.uniform(*bounds)

    def messages(self, call: Call) -> list[dict[str, str]]:
        """Return a prompt that no other request begins with."""
        words = " ".join(["word"] * round(self.between(call.words)))
        return [{"role": "user", "content": f"{self.number} {words}" + "x" * 1000 * call.body_kb}]

    def body(self, call: Call, model: str) -> dict[str, Any]:
        """Return the fields of the model call."""
        return {
            "model": model,
            "messages": self.messages(call),
            "max_tokens": round(self.between(call.tokens)),
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass(frozen=True, slots=True)
class Setting:
    """
    What a program does.

    Args:
        steps: Steps of each request.
        users: Users that send one request at a time.
        requests: Requests of all users.
        think_ms: Pause of a user between two requests.
        name: Name of the request; ``None`` if the program opens no request of its own.
        labels: Attributes, and the weight of each of their values.
        slo_ms: Limit of the attribute ``slo``, which is set at the end of a request.
        gates: Number of requests that pass each gate at a time.
        background: Work beside the requests.
        client: Options of the client library.
        threads: Size of the thread pool.
        reader: How the users of a server read: ``buffer`` of a socket in bytes, ``pause_ms`` after
            each read, and ``padding``, the number of bytes that each part of an answer has more.
        seed: Seed of the drawn values.
    """

    steps: tuple[Step, ...]
    users: int = 8
    requests: int = 130
    think_ms: Range = (20, 60)
    name: str | None = None
    labels: Mapping[str, Weights] = field(default_factory=dict[str, Weights])
    slo_ms: float | None = None
    gates: Mapping[str, int] = field(default_factory=dict[str, int])
    background: tuple[Background, ...] = ()
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])
    threads: int | None = None
    reader: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: int = 0

    def request(self, number: int, turn: int) -> Request:
        """Draw a request."""
        random = Random(f"{self.seed}:{number}")  # noqa: S311 - a benchmark
        labels = {
            name: random.choices(list(values), list(values.values()))[0]
            for name, values in self.labels.items()
        }
        return Request(number, turn, labels, random)


def _step(fields: dict[str, Any]) -> Step:
    if "call" in fields:
        fields = {**fields, "call": Call(**fields["call"])}
    return Step(**fields)


def _read(fields: dict[str, Any]) -> Setting:
    steps = tuple(_step(each) for each in fields.pop("steps"))
    background = tuple(Background(**each) for each in fields.pop("background", ()))
    return Setting(steps, background=background, **fields)


MODEL_URL: Final = os.environ["MODEL_URL"]
"""Address of the model server, with the version of its API."""

SPARE_URL: Final = os.environ["SPARE_URL"]
"""Address of the server that has the models for the case that the first one fails."""

SETTING: Final = _read(json.loads(os.environ["PROGRAM_SETTING"]))
"""Setting of this program."""
