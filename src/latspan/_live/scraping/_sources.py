"""Monitor of all sources of samples: their polling, and the attributes for a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from latspan import semconv
from latspan._base.nanoseconds import to_seconds
from latspan._live.scraping._addresses import Address, address_of
from latspan._live.scraping._poller import Poller
from latspan._live.scraping._sample_buffer import SampleBuffer
from latspan._model.segments import Side

if TYPE_CHECKING:
    from latspan._live.otel.spans import AttributeValue
    from latspan._live.process.event_loop import EventLoops, LoopWatch
    from latspan._live.process.runtime import Observation
    from latspan._live.scraping._gc import GcPauses
    from latspan._live.scraping._server import Server


class Monitor:
    """
    Samples of servers and of this process for requests.

    A request calls this object at its start; the returned observation is called at its end.

    Args:
        now: Function that returns the clock's monotonic time, in nanoseconds.
        servers: Addresses of servers to scrape.
        loops: Event loops of this process, if the process and its machine are monitored.
        interval_s: Seconds between two samples, more than 0.
    """

    def __init__(
        self,
        now: Callable[[], int],
        *,
        servers: Sequence[str] = (),
        loops: EventLoops | None = None,
        interval_s: float,
    ) -> None:
        self._now = now
        self._interval_s = interval_s
        self._servers: dict[tuple[str, int], Server] = {}
        self._host: SampleBuffer | None = None
        self._pauses: GcPauses | None = None
        self._loops = loops
        self._pollers: list[Poller] = []
        if servers:
            self._sample_servers(map(address_of, servers))
        if loops is not None:
            self._sample_host()

    def _sample_servers(self, addresses: Iterable[Address]) -> None:
        from latspan._live.scraping._server import Server

        for address in addresses:
            if address.server not in self._servers:
                server = Server(interval_s=self._interval_s, now=self._now)
                self._servers[address.server] = server
                # One thread per server: a server that does not respond does not delay the others.
                self._poll(":".join(map(str, address.server)), server.poll)
            self._servers[address.server].add(address.pages)

    def _sample_host(self) -> None:
        from latspan._live.scraping._gc import GcPauses
        from latspan._live.scraping._host import Host

        host, history = Host(), SampleBuffer(self._interval_s)

        def poll() -> None:
            at_ns = self._now()
            history.add(at_ns, host.reading(at_ns))

        self._host, self._pauses = history, GcPauses(self._now)
        self._poll("host", poll)

    def _poll(self, what: str, poll: Callable[[], None]) -> None:
        self._pollers.append(Poller(f"latspan-scraper-{what}", poll, self._interval_s))

    def start(self) -> None:
        """Start sampling, unless it has already started in this process."""
        if self._pauses is not None:
            self._pauses.start()
        for poller in self._pollers:
            poller.start()

    def stop(self) -> None:
        """Stop sampling, without waiting for a response that is being read."""
        if self._pauses is not None:
            self._pauses.stop()
        for poller in self._pollers:
            poller.stop()

    def __call__(self) -> Observation:
        """Start an observation for a request; called on the thread on which the request starts."""
        return _Observation(self, self._loops, self._pauses)

    def samples(
        self, start_ns: int, done_ns: int, server: tuple[str, int] | None, side: Side
    ) -> dict[str, float]:
        """
        Return the summary of all samples during a request, by attribute.

        Args:
            start_ns: Start of the request, monotonic nanoseconds.
            done_ns: End of the request, monotonic nanoseconds.
            server: Host and port that the request was sent to, if any.
            side: Side on which the request was recorded. On the server side, all scraped servers
                count as its engine.
        """
        servers: Iterable[Server | None] = ()
        if side is Side.SERVER:
            servers = self._servers.values()
        elif server is not None:
            servers = (self._servers.get((server[0].lower(), server[1])),)
        histories = [page.history for each in servers if each is not None for page in each.pages]
        if self._host is not None:
            histories.append(self._host)
        found: dict[str, float] = {}
        for history in histories:
            for name, value in history.during(start_ns, done_ns).items():
                found[name] = max(value, found.get(name, value))
        return found


class _Observation:
    """Observation of one request, from its start until its attributes are read."""

    __slots__ = ("_loop", "_monitor", "_paused_before_ns", "_pauses")

    def __init__(self, monitor: Monitor, loops: EventLoops | None, pauses: GcPauses | None) -> None:
        self._monitor = monitor
        self._pauses = pauses
        self._paused_before_ns = 0 if pauses is None else pauses.total_ns
        self._loop: LoopWatch | None = None if loops is None else loops.watch()

    def __call__(
        self, start_ns: int, done_ns: int, server: tuple[str, int] | None, side: Side
    ) -> dict[str, AttributeValue]:
        """Return the attributes of the request's span, and the names of the sampled ones."""
        samples = self._monitor.samples(start_ns, done_ns, server, side)
        if self._loop is not None:
            self._loop.end()
            lag_ns = self._loop.greatest_lag(start_ns, done_ns)
            if lag_ns is not None:
                samples[semconv.LATSPAN_HOST_EVENT_LOOP_LAG] = to_seconds(lag_ns)
        attributes: dict[str, AttributeValue] = {**samples}
        if samples:
            attributes[semconv.LATSPAN_SAMPLED_ATTRIBUTES] = sorted(samples)
        if self._pauses is not None:
            paused_ns = self._pauses.during(self._paused_before_ns, done_ns)
            if paused_ns is not None:
                attributes[semconv.LATSPAN_HOST_GC_DURATION] = to_seconds(paused_ns)
        return attributes
