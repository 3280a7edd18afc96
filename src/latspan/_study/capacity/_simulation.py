"""
Event simulation of a queue with slots, in which requests slow each other down.

Requests wait in the order of their arrival until one of the slots is free. Each of ``n`` requests
in service proceeds at the speed ``1 / (1 + slowdown * (n - 1))``, so its service takes longer while
others are served: a model server that batches behaves like this. With a slowdown of 0 this is
G/G/c; with a slowdown of 1 and no limit on the slots it is egalitarian processor sharing.

All requests in service have the same speed at any instant. So the simulation keeps one *virtual
time*, which runs at that speed. A request ends when the virtual time has grown by its work since
its service began, whatever happens in between, and a heap finds the next one that ends.

Source of the virtual time: Kleinrock, Queueing Systems, volume 2, section 4.4.

A *rate limiter* is another kind of service: it admits a number of requests per second, and requests
that are admitted do not slow each other down. Many APIs and gateways have one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Service:
    """
    How a system serves requests.

    Args:
        slots: Number of requests in service at most, at least 1.
        slowdown: Growth of the time of a request per further request in service, at least 0.
    """

    slots: int
    slowdown: float

    def speed(self, in_service: int) -> float:
        """Return the speed of each of that many requests, at least 1; alone it is 1."""
        return 1 / (1 + self.slowdown * (in_service - 1))

    @property
    def throughput(self) -> float:
        """Work per second while all slots are used."""
        return self.slots * self.speed(self.slots)


@dataclass(frozen=True, slots=True)
class Limiter:
    """
    How a rate limiter admits requests: a bucket of tokens that fills at a constant rate.

    Args:
        per_s: Tokens per second; a request needs one.
        burst: Tokens that the bucket holds, at least 1: requests that may be admitted at once.
    """

    per_s: float
    burst: int

    def begins(self, arrivals: Values) -> Values:
        """
        Return when requests are admitted, in the order of their arrivals.

        Source: the generic cell rate algorithm, ITU-T I.371, annex A; its theoretical arrival time
        is a running maximum.
        """
        places = np.arange(len(arrivals)) / self.per_s
        full = places + np.maximum.accumulate(arrivals - places)
        return np.maximum(arrivals, full - (self.burst - 1) / self.per_s)


class Times(NamedTuple):
    """
    Instants of each request, in the order of their arrivals.

    Args:
        begin: Begin of the service, seconds.
        first: Instant at which the first part of its work was done, seconds.
        end: End of the service, seconds.
    """

    begin: Values
    first: Values
    end: Values


def simulate(
    service: Service | Limiter, arrivals: Values, work: Values, first: Values | None = None
) -> Times:
    """
    Return when requests begin and end.

    Args:
        service: How they are served.
        arrivals: Instants of their arrivals, ascending; shape ``(n,)``, seconds.
        work: Time that the service of each takes if it is alone; shape ``(n,)``, seconds.
        first: First part of the work, at most ``work``; ``None`` if it is of no interest.
    """
    if isinstance(service, Limiter):
        admitted = service.begins(arrivals)
        firsts_at = admitted if first is None else admitted + first
        return Times(admitted, firsts_at, admitted + work)
    size = len(arrivals)
    begin, first_at, end = [0.0] * size, [0.0] * size, [0.0] * size
    arrive, works = arrivals.tolist(), work.tolist()
    firsts: list[float] = [] if first is None else first.tolist()
    speeds = [0.0] + [service.speed(n) for n in range(1, min(service.slots, size) + 1)]
    # Virtual time at which each request in service ends, or has done its first part.
    active: list[tuple[float, int]] = []
    partial: list[tuple[float, int]] = []
    now = virtual = 0.0
    arrived = begun = 0
    slots = service.slots
    push, pop = heapq.heappush, heapq.heappop
    while arrived < size or active:
        speed = speeds[len(active)]
        ends = now + (active[0][0] - virtual) / speed if active else inf
        is_end = arrived == size or ends < arrive[arrived]
        if is_end:
            until, virtual_until = ends, active[0][0]
        else:
            until, virtual_until = arrive[arrived], virtual + (arrive[arrived] - now) * speed
            arrived += 1
        while partial and partial[0][0] <= virtual_until:
            at, request = pop(partial)
            first_at[request] = now + (at - virtual) / speed
        now, virtual = until, virtual_until
        if is_end:
            end[pop(active)[1]] = now
        while begun < arrived and len(active) < slots:
            begin[begun] = now
            push(active, (virtual + works[begun], begun))
            if firsts:
                push(partial, (virtual + firsts[begun], begun))
            begun += 1
    return Times(np.array(begin), np.array(first_at), np.array(end))
