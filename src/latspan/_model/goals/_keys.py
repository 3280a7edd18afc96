"""
Keys of the file of an inference path: their names, forms, and the comments that explain them.

The reader, the writer and the documentation use this one description. If a key's name contains a
unit, the field may have another one: ``limit_ms`` in a file is ``limit_ns`` in the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from latspan._model.goals._fields import Form
from latspan._model.goals._load_settings import SETTINGS
from latspan._model.goals._path import (
    Arrivals,
    Change,
    InferencePath,
    PromptTemplate,
    QualityCheck,
    Risk,
    TrafficProfile,
)
from latspan._model.goals._target import BUDGET_COMPONENTS, Budget, Target


@dataclass(frozen=True, slots=True)
class Key:
    """
    One key of a table.

    Args:
        name: Name in the file.
        form: Form of its value.
        comment: Explanation, in the words of a newcomer; several lines for a table.
        field: Field of the dataclass; the name if empty.
        of: Class of the values of a choice, or of the elements of a table.
        example: Value that a new file shows in a comment if the field has none.
        share: The same for a time, as a fraction of the target's limit.
        required: Whether the file must have it.
        replaced_by: Key that can be given instead; a table has one or the other.
    """

    name: str
    form: Form
    comment: str
    field: str = ""
    of: type[object] = str
    example: str = ""
    share: float = 0
    required: bool = False
    replaced_by: str = ""

    @property
    def attribute(self) -> str:
        """Name of the field of the dataclass."""
        return self.field or self.name


_PATH: Final = (
    Key("name", Form.TEXT, "name in commands, files and reports", required=True),
    Key(
        "endpoint",
        Form.TEXT,
        "URL of an OpenAI-compatible API, or module:function",
    ),
    Key("route", Form.TEXT, "route of the application that users call"),
    Key("model", Form.TEXT, "model that the requests name"),
    Key("provider", Form.TEXT, "company or server that runs the model"),
    Key("routing", Form.TEXT, "how requests reach this model: fallbacks, regions"),
    Key("never_ship", Form.TEXT, "failure that no user may get, however fast the response"),
    Key("may_give_up", Form.TEXTS, "what may be traded for speed"),
    Key(
        "target",
        Form.TABLES,
        "Target: this percentile of the metric must not exceed the limit.\n"
        "Repeat [[target]] for another metric or percentile.",
        field="targets",
        of=Target,
        required=True,
    ),
    Key(
        "traffic",
        Form.TABLE,
        "Load of a measurement: arrivals as in production.\n"
        "poisson: independent users. closed: users who wait for a response before they go on.",
        of=TrafficProfile,
        required=True,
    ),
    Key(
        "prompt",
        Form.TABLE,
        "Prompt: every measurement sends the same prompts, long ones included.\n"
        'A line of the file of prompts: {"prompt": "..."} or {"messages": [...]}',
        of=PromptTemplate,
    ),
    Key(
        "quality",
        Form.TABLE,
        "Check that a faster response is still as good, on a fixed set of prompts.",
        of=QualityCheck,
    ),
    Key(
        "change",
        Form.TABLE,
        "The one change to verify, made by the commands apply and undo, or by options.\n"
        "latspan verify --levers lists the levers.",
        of=Change,
    ),
    Key(
        "risk",
        Form.TABLES,
        "Open risk that its owner accepts until a date.",
        field="risks",
        of=Risk,
    ),
)

_TARGET: Final = (
    Key("goal", Form.GOAL, "percentile, metric and limit, instead of the three keys below"),
    Key(
        "metric",
        Form.TEXT,
        "ttft, duration, time_per_output_token and others",
        required=True,
        replaced_by="goal",
    ),
    Key(
        "percentile",
        Form.NUMBER,
        "95: at least 95 of 100 requests are within the limit",
        required=True,
        replaced_by="goal",
    ),
    Key(
        "limit_ms",
        Form.MILLISECONDS,
        "the limit, in milliseconds",
        field="limit_ns",
        required=True,
        replaced_by="goal",
    ),
    Key(
        "tolerated_ms",
        Form.MILLISECONDS,
        "highest value accepted for a limited time",
        field="tolerated_ns",
        share=1.5,
    ),
    Key("use_case", Form.TEXT, "what the user does"),
    Key("load", Form.TEXT, "load under which the target must be met, in words"),
    Key("owner", Form.TEXT, "person or team that decides on the target"),
    Key("source", Form.TEXT, "origin of the limit: contract, user study, competitor"),
    Key(
        "budget",
        Form.TABLE,
        "Budget of this target: the limit of each component. The sum must not exceed limit_ms.",
        of=Budget,
    ),
)

_SHARES: Final = {
    "parsing": 0.02,
    "preparation": 0.08,
    "queueing": 0.2,
    "prefill": 0.3,
    "decode": 0.25,
    "postprocessing": 0.05,
    "network": 0.1,
}
"""Examples of a budget that sum to the target's limit."""

_BUDGET: Final = tuple(
    Key(f"{name}_ms", Form.MILLISECONDS, each.label, field=f"{name}_ns", share=_SHARES[name])
    for name, each in BUDGET_COMPONENTS.items()
)

_TRAFFIC: Final = (
    Key(
        "arrivals",
        Form.CHOICE,
        "poisson, constant, gamma (bursts) or closed",
        of=Arrivals,
    ),
    Key("rate_per_s", Form.NUMBER, "mean number of requests per second", example="2"),
    Key("concurrency", Form.COUNT, "users at the same time, for closed arrivals", example="50"),
    Key("burstiness", Form.NUMBER, "for gamma arrivals: below 1 for bursts", example="0.5"),
    Key(
        "requests",
        Form.COUNT,
        "measured requests; default: 100, or 300 for a p99",
        example="400",
    ),
    Key("duration_s", Form.NUMBER, "maximum length of the measurement, in seconds", example="300"),
    *(
        Key(setting.name, setting.form, setting.comment, of=setting.of, example=setting.example)
        for setting in SETTINGS
    ),
)

_PROMPT: Final = (
    Key("template", Form.TEXT, "file of the template; measure again if it changes"),
    Key("stable", Form.TEXTS, "parts that never change; put them first for caches"),
    Key("variable", Form.TEXTS, "parts that change from request to request"),
    Key(
        "prompts",
        Form.TEXT,
        "JSONL file of prompts to measure with",
    ),
)

_QUALITY: Final = (
    Key("command", Form.TEXT, "checks a side; {side} is its name, {answers} the file to write"),
    Key("limit", Form.TEXT, "what the check requires"),
    Key("items", Form.TEXT, "JSONL file of the evaluation set"),
    Key("before", Form.TEXT, "JSONL file of the answers before the change"),
    Key("after", Form.TEXT, "JSONL file of the answers after the change"),
)

_CHANGE: Final = (
    Key("lever", Form.TEXT, "the one thing that is changed"),
    Key("description", Form.TEXT, "what is changed, in words"),
    Key("apply", Form.TEXT, "command of the shell that makes the change"),
    Key("undo", Form.TEXT, "command that takes it back"),
    Key("options", Form.TEXT, "options of latspan measure, such as --model small"),
    Key("runs", Form.COUNT, "runs per side", example="5"),
    Key("flag", Form.TEXT, "flag or setting that switches it on for users"),
    Key("rollback", Form.TEXTS, "steps that take it back in production, in order"),
)

_RISK: Final = (
    Key("text", Form.TEXT, "the risk", required=True),
    Key("owner", Form.TEXT, "person or team that decides on it"),
    Key("due", Form.DATE, "date of the decision", example="2026-12-31"),
)

KEYS: Final[dict[type[object], tuple[Key, ...]]] = {
    InferencePath: _PATH,
    Target: _TARGET,
    Budget: _BUDGET,
    TrafficProfile: _TRAFFIC,
    PromptTemplate: _PROMPT,
    QualityCheck: _QUALITY,
    Change: _CHANGE,
    Risk: _RISK,
}
"""Keys of each table, by the class that the table becomes, in the order of a file."""
