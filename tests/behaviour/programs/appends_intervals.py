"""Appends intervals to a log until it is killed, and acknowledges each one after the write."""

from __future__ import annotations

import itertools
import os
import random
import sys

from latspan.histogram import Histogram, HistogramLogWriter


def interval_of(number: int) -> dict[str, Histogram]:
    """Return the histograms of an interval; they are the same in every process."""
    # The seed makes them the same in every process; nothing here is secret.
    values = random.Random(number)  # noqa: S311
    histograms: dict[str, Histogram] = {}
    for tag in range(values.randint(1, 8)):
        histogram = Histogram()
        histogram.record_many(values.randrange(10**9) for _ in range(values.randint(0, 200)))
        histograms[f"series{tag}"] = histogram
    return histograms


def main() -> None:
    path, first = sys.argv[1], int(sys.argv[2])
    with HistogramLogWriter(path) as writer:
        for number in itertools.count(first):
            writer.write(number, number + 1, interval_of(number))
            os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main()
