"""Traffic of inference paths: requests per path, counted as the scorecard counts them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from operator import itemgetter

from latspan._study.scorecard import Cycle, ScorecardBuilder, add_source
from latspan.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Traffic:
    """
    Requests per inference path.

    Args:
        requests: Number of requests by the name of the inference path, the largest number first.
        unnamed: Number of requests without an inference path.
        notes: What is missing in the sources, one sentence each.
    """

    requests: dict[str, int]
    unnamed: int = 0
    notes: tuple[str, ...] = ()

    def ranked(self, names: Collection[str], max_count: int | None = None) -> list[str]:
        """
        Return names of inference paths, the one with most requests first.

        Args:
            names: Names to rank. Those without requests come last, in their order.
            max_count: Maximum number of names to return, each with requests; ``None`` for all.

        Raises:
            UnknownNameError: ``max_count`` is given, and none of the names has requests.
        """
        found = [name for name in self.requests if name in names]
        if max_count is None:
            return [*found, *(name for name in names if name not in found)]
        if not found:
            others = ", ".join(list(self.requests)[:5])
            raise UnknownNameError(
                "none of the inference paths has requests in the traffic",
                hint=f"the traffic has: {others}"
                if others
                else "name the path of each request with latspan.attributes(inference_path=NAME)",
            )
        return found[:max_count]

    def without_file(self, names: Collection[str]) -> dict[str, int]:
        """Return the inference paths that have requests and are not among these names."""
        return {name: number for name, number in self.requests.items() if name not in names}


def traffic_of(sources: Iterable[str]) -> Traffic:
    """
    Return the traffic in some sources.

    Args:
        sources: What a scorecard reads: recordings, histogram logs, files of traces, folders of
            them, or the URL of a Prometheus server.

    Raises:
        LatspanError: A source cannot be read, or no request was counted.
    """
    builder = ScorecardBuilder(cycles=[Cycle.MONTH])
    notes = [note for source in sources for note in add_source(builder, source)]
    scorecard = builder.build()
    requests: dict[str, int] = {}
    unnamed = 0
    for card in scorecard.cards:
        number = sum(row.figures.requests for rows in card.rows.values() for row in rows)
        if card.group is None:
            unnamed += number
        else:
            # Client and server may both have recorded the same requests, so they are not added up.
            requests[card.group] = max(number, requests.get(card.group, 0))
    ranked = sorted(requests.items(), key=itemgetter(1), reverse=True)
    return Traffic(dict(ranked), unnamed, (*notes, *scorecard.notes))
