"""
Target: a metric's percentile that must stay under a limit, and the budget that divides the limit.

The classes check their values when they are created, so an invalid one does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, NamedTuple

from latspan._model.goals._fields import FieldError
from latspan._model.goals._goal import PercentileGoal
from latspan._model.segments import SegmentName, Stage
from latspan._model.units import exact_ms


class Component(NamedTuple):
    """
    Part of the time of a request that one team can be responsible for.

    Args:
        label: Name in tables.
        segments: Segments and stage kinds whose time counts as this component's.
        application: Which part of the segment ``application`` counts as this component's: the time
            before the first step of a request, or after the last one.
    """

    label: str
    segments: tuple[str, ...]
    application: Literal["before", "after"] | None = None


BUDGET_COMPONENTS: Final[dict[str, Component]] = {
    "parsing": Component("parsing and authentication", (Stage.PARSE, Stage.AUTH)),
    "preparation": Component(
        "tokenization and input preparation",
        (SegmentName.PREPARE, Stage.RETRIEVE, Stage.TOKENIZE),
        application="before",
    ),
    "queueing": Component(
        "routing and queueing",
        (Stage.ROUTE, SegmentName.GATEWAY, SegmentName.QUEUE, SegmentName.POOL_WAIT),
    ),
    "prefill": Component("prefill", (SegmentName.MODEL_LOAD, SegmentName.PREFILL)),
    "decode": Component("decode", (SegmentName.REASONING, SegmentName.DECODE)),
    "postprocessing": Component(
        "post-processing and safety",
        (Stage.SAFETY, SegmentName.POSTPROCESS),
        application="after",
    ),
    "network": Component(
        "network and client",
        (
            SegmentName.CONNECT,
            SegmentName.DNS,
            SegmentName.TCP,
            SegmentName.TLS,
            SegmentName.SEND,
            SegmentName.NETWORK,
            Stage.SEND_STREAM,
            SegmentName.CONSUMER,
            SegmentName.STREAM_CLOSE,
        ),
    ),
}
"""
Components by the name of their field in :class:`Budget`, in the order of a request.

A segment in none of them (``retry``, ``server_wait``, ``event_loop``, ``unattributed``,
``dispatch_lag``, a tool, an HTTP exchange, ``application`` between the steps) is a row of its own
in tables.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """
    Limit of each component, in nanoseconds; ``None`` if the component has no limit.

    The limits of one budget sum at most to the limit of its target. They apply to the mean times of
    the requests near the target's percentile, which add up; percentiles of components do not.

    Args:
        parsing_ns: Parsing and authentication, more than 0.
        preparation_ns: Tokenization and input preparation, more than 0.
        queueing_ns: Routing and queueing, more than 0.
        prefill_ns: Prefill, and loading the model; more than 0.
        decode_ns: Decode, reasoning included; more than 0.
        postprocessing_ns: Post-processing and safety checks, more than 0.
        network_ns: Network and client, more than 0.

    Raises:
        ConfigError: A limit is not positive.
    """

    parsing_ns: int | None = None
    preparation_ns: int | None = None
    queueing_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    postprocessing_ns: int | None = None
    network_ns: int | None = None

    def __post_init__(self) -> None:
        for name, limit_ns in self.limits_ns.items():
            if limit_ns <= 0:
                raise FieldError(
                    f"{name}_ns",
                    "{key} must be more than 0",
                    hint="leave the line out if the component has no limit",
                )

    @property
    def limits_ns(self) -> dict[str, int]:
        """The limits that are set, by the component's name in :data:`BUDGET_COMPONENTS`."""
        limits = {each.name.removesuffix("_ns"): getattr(self, each.name) for each in fields(self)}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def sum_ns(self) -> int:
        """Sum of the limits that are set, in nanoseconds."""
        return sum(self.limits_ns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(PercentileGoal):
    """
    Limit that a percentile of a metric must not exceed.

    Args:
        metric: Name or alias of one of :data:`TARGET_METRICS`; stored as its name.
        percentile: In [1, 100): that share of the requests, in percent, must be within the limit.
        limit_ns: In nanoseconds, more than 0.
        use_case: What the user does, for example ``chat``.
        load: Load under which the target must be met, for example ``50 users at the same time``.
        owner: Person or team that decides on the target.
        source: Origin of the limit: a contract, a user study, a competitor.
        tolerated_ns: Highest value of the percentile that is accepted for a time, at least
            ``limit_ns``; ``None`` if none above the limit is.
        budget: Limits of the components of a request; they sum at most to ``limit_ns``.

    Raises:
        ConfigError: A value is outside its range, or the budget exceeds the limit.
    """

    # Unlike a goal, a target always has a limit.
    limit_ns: int  # pyright: ignore[reportGeneralTypeIssues]
    use_case: str = ""
    load: str = ""
    owner: str = ""
    source: str = ""
    tolerated_ns: int | None = None
    budget: Budget = Budget()

    def __post_init__(self) -> None:
        # A class with slots is created twice, so super() without arguments fails in it.
        PercentileGoal.__post_init__(self)
        if self.tolerated_ns is not None and self.tolerated_ns < self.limit_ns:
            raise FieldError(
                "tolerated_ns",
                "{key} is below the limit",
                hint="leave {key} out, or use a time above the limit",
            )
        excess_ns = self.budget.sum_ns - self.limit_ns
        if excess_ns > 0:
            raise FieldError(
                "budget",
                f"the limits of the budget sum to {exact_ms(self.budget.sum_ns)},"
                f" more than the target's limit of {exact_ms(self.limit_ns)}",
                hint=f"lower them by {exact_ms(excess_ns)} in all, or raise the target's limit",
            )

    @property
    def label(self) -> str:
        """The target in words, for example ``p95 of time_to_first_token at most 500 ms``."""
        return f"p{self.percentile:g} of {self.metric} at most {exact_ms(self.limit_ns)}"
