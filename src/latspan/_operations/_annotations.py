"""What is said of a unit of work while it is open: by its code, and by the tokens it gives."""

from __future__ import annotations

from latspan import semconv
from latspan._metrics import MetricValue, time_per_output_token
from latspan._segments import Outcome
from latspan._spans import AttributeValue

__all__ = ["Annotations", "Generation"]


class Generation:
    """
    The tokens of one answer, as this process generates them or hands them on.

    Args:
        begun_ns: When it was first asked for one, monotonic nanoseconds.
    """

    __slots__ = ("begun_ns", "count", "first_ns", "last_ns")

    def __init__(self, begun_ns: int) -> None:
        self.begun_ns = begun_ns
        self.first_ns: int | None = None
        self.last_ns = begun_ns
        self.count = 0

    def token(self, instant_ns: int, count: int = 1) -> None:
        """
        Note that tokens came.

        Args:
            instant_ns: When, monotonic nanoseconds.
            count: How many at once, more than 0.
        """
        if self.first_ns is None:
            self.first_ns = instant_ns
        self.last_ns = instant_ns
        self.count += count

    def so_far(self) -> Generation:
        """Return what is known of it now."""
        known = Generation(self.begun_ns)
        known.first_ns, known.last_ns, known.count = self.first_ns, self.last_ns, self.count
        return known


class Annotations:
    """What has been said so far; empty at first."""

    __slots__ = (
        "attributes",
        "degraded",
        "generations",
        "metrics",
        "outcome",
        "series",
    )

    def __init__(self) -> None:
        self.attributes: dict[str, AttributeValue] = {}
        self.series: dict[str, str] = {}
        """What series are keyed by: the model and who provides it."""
        self.degraded: list[str] = []
        self.outcome: Outcome | None = None
        """How it ends, unless its client leaves or something fails."""
        self.generations: list[Generation] = []
        self.metrics: dict[str, MetricValue] = {}

    def closed(self) -> None:
        """Hear that the unit has ended: tokens that come later are none of its."""
        self.generations = [each.so_far() for each in self.generations]

    @property
    def output_tokens(self) -> int | None:
        """The tokens of all its answers, ``None`` where none were followed or none came."""
        return sum(each.count for each in self.generations) or None

    @property
    def last_token_ns(self) -> int | None:
        """When the last token came, monotonic nanoseconds; ``None`` where none did."""
        came = [each.last_ns for each in self.generations if each.count]
        return max(came, default=None)

    def all_metrics(self, start_ns: int) -> dict[str, MetricValue]:
        """
        Return its metrics, and those of its answers.

        Args:
            start_ns: When the unit began, monotonic nanoseconds.
        """
        metrics = dict(self.metrics)
        came = [(each.first_ns, each) for each in self.generations if each.first_ns is not None]
        if not came:
            return metrics
        first_ns = min(first_ns for first_ns, _ in came)
        metrics["time_to_first_token"] = MetricValue(first_ns - start_ns)
        if len(came) == 1:
            ((_, only),) = came
            pace = time_per_output_token(only.last_ns - first_ns, only.count)
            if pace is not None:
                metrics["time_per_output_token"] = MetricValue(pace)
        return metrics

    def span_attributes(self) -> dict[str, AttributeValue]:
        """Return what its span says of it."""
        said = dict(self.attributes)
        if self.output_tokens is not None:
            said[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] = self.output_tokens
        if self.degraded:
            said[semconv.LATSPAN_DEGRADED] = tuple(dict.fromkeys(self.degraded))
        return said
