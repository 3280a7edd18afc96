"""
Recordings of systems whose truth is known, written from the published schema alone.

Nothing here imports latspan, and nothing comes from the simulation of ``make bench-diagnose``: the
bench must not share an assumption with the rules that it judges. The format is that of
``docs/reference/recording-1.schema.json`` and ``docs/guides/recording.md``.

A :class:`System` is the truth about one side: how long requests take, how long their answers are,
when they arrive. The *latent* duration of a request is the one that it has if its user waits for
it. A recording does not show it for users who leave (:class:`Patience`), for requests that fail,
and for requests that are not written (:class:`Sampling`).

A request has three segments that share one random factor: a queue, a prefill, and a decode that is
proportional to the number of output tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

Shape: TypeAlias = Literal["lognormal", "autocorrelated", "bimodal", "two_modes_at_p95"]
Lengths: TypeAlias = Literal["spread", "half", "always_10", "always_100", "50_or_150"]

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

_QUEUE_MS: Final = 80.0
_PREFILL_MS: Final = 220.0
_TOKEN_MS: Final = 12.0
"""Medians of the segments of a request at level 1; that of the decode is per token."""

_FIXED_LENGTHS: Final[Mapping[str, int]] = {"always_10": 10, "always_100": 100}
"""Numbers of tokens of lengths that do not vary."""

_COMMON_SPREAD: Final = 0.35
"""Standard deviation of the logarithm of the factor that all segments of one request share."""

_CORRELATION: Final = 0.8
"""Correlation of the logarithms of consecutive requests in the shape *autocorrelated*."""

_MODES: Final = {"bimodal": (0.3, 2.5), "two_modes_at_p95": (0.05, 2.5)}
"""Share of slow requests and their factor, by shape."""

_FAILED_AFTER_NS: Final = 50 * NS_PER_MS
_REQUESTS_PER_USER: Final = 5
_PATIENCE_SPREAD: Final = 0.5
_SLOWNESS_OF_IMPATIENT: Final = 0.7
"""How strongly the users of slow requests are the impatient ones, if the two are correlated."""

_CALIBRATION: Final = 200_000
_CREATED: Final = "2026-11-02T08:00:00.000Z"
START_NS: Final = 1_793_606_400 * NS_PER_S
"""2 November 2026, 08:00 UTC: a Monday, so that a recording is in one week and one month."""


@dataclass(frozen=True, slots=True)
class Route:
    """
    One route of the application.

    Args:
        name: Its name.
        share: Share of the requests.
        factor: Factor on all times of its requests.
    """

    name: str
    share: float
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Bursts:
    """
    Times of high load, in which requests are slow.

    Args:
        share: Probability that a request is in a burst.
        factor: Factor on all times of its requests.
        number: Number of bursts in a recording.
        faster: How many times as fast requests arrive in a burst.
    """

    share: float = 0.2
    factor: float = 2.5
    number: int = 4
    faster: float = 10.0


@dataclass(frozen=True, slots=True)
class Patience:
    """
    Users who cancel a request after a time.

    Args:
        share: Share of the requests that are cancelled.
        correlated: Whether the users of slow requests are less patient than others.
    """

    share: float = 0.1
    correlated: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """
    Probability with which a request is written, which is also its ``ratio``.

    Args:
        quiet: Outside bursts.
        burst: In bursts.
    """

    quiet: float = 1.0
    burst: float = 0.1


@dataclass(frozen=True, slots=True)
class Runs:
    """
    How the level of a system varies from run to run.

    Args:
        spread: Standard deviation of the logarithm of the level.
        outlier_share: Probability that a run is an outlier.
        outlier_factor: Factor on the level of an outlier.
    """

    spread: float = 0.0
    outlier_share: float = 0.0
    outlier_factor: float = 1.0

    def level(self, rng: np.random.Generator) -> float:
        """Draw the level of one run."""
        is_outlier = rng.random() < self.outlier_share
        factor = self.outlier_factor if is_outlier else 1.0
        return factor * float(np.exp(self.spread * rng.standard_normal()))


@dataclass(frozen=True, slots=True)
class System:
    """
    What is true of one side.

    Args:
        level: Factor on all times.
        shape: Distribution of the times.
        own_spread: Standard deviation of the logarithm of the factor that each segment has alone.
        lengths: Distribution of the number of output tokens.
        usage: Whether the provider reports numbers of tokens.
        chunks: Whether the gaps between chunks are recorded, one chunk per token.
        routes: Routes; a single one without a name sets no attribute.
        bursts: Times of high load, if there are any.
        rate_per_s: Requests per second, outside bursts.
        patience: Users who leave, if any do.
        failures: Share of the requests that fail after a short time.
        sampling: Share of the requests that is written; ``None`` for all.
        runs: How runs vary.
        requests: Requests per run, before sampling.
        kind: Whether the recording has requests with one call inside, or calls only.
    """

    level: float = 1.0
    shape: Shape = "lognormal"
    own_spread: float = 0.1
    lengths: Lengths = "spread"
    usage: bool = True
    chunks: bool = False
    routes: tuple[Route, ...] = (Route("", 1.0),)
    bursts: Bursts | None = None
    rate_per_s: float = 2.0
    patience: Patience | None = None
    failures: float = 0.0
    sampling: Sampling | None = None
    runs: Runs = Runs()
    requests: int = 400
    kind: Literal["request", "call"] = "call"


@dataclass(frozen=True, slots=True)
class Requests:
    """
    Requests of one run with the truth about them, in the order of their starts.

    Args:
        start_ns: Unix time of the start.
        queue_ns: Time in the queue if the user waits.
        prefill_ns: Time of the prefill.
        decode_ns: Time of the decoding.
        tokens: Output tokens of the whole answer.
        route: Index of the route.
        in_burst: Whether it is in a burst.
        patience_ns: Time after which the user leaves.
        failed: Whether it fails.
        ratio: Probability with which it was written.
        kept: Whether it was written.
    """

    start_ns: Integers
    queue_ns: Integers
    prefill_ns: Integers
    decode_ns: Integers
    tokens: Integers
    route: Integers
    in_burst: Flags
    patience_ns: Integers
    failed: Flags
    ratio: Floats
    kept: Flags

    @property
    def latent_ns(self) -> Integers:
        """Duration of each request if its user waits and it does not fail."""
        return self.queue_ns + self.prefill_ns + self.decode_ns

    @property
    def cut(self) -> Flags:
        """Whether the user leaves before the end; a request that fails ends before that."""
        return (self.patience_ns < self.latent_ns) & ~self.failed


def draw(
    system: System, rng: np.random.Generator, *, level: float = 1.0, start_ns: int = START_NS
) -> Requests:
    """
    Return the requests of one run.

    Args:
        system: What is true.
        rng: Source of random numbers.
        level: Factor on all times of this run.
        start_ns: Unix time at which the run starts.
    """
    size = system.requests
    in_burst, gaps = _arrivals(system, rng)
    route = rng.choice(len(system.routes), size=size, p=[each.share for each in system.routes])
    factors = np.array([each.factor for each in system.routes], dtype=np.float64)
    factor: Floats = _common(system, rng, size) * (level * system.level) * factors[route]
    if system.bursts is not None:
        factor = np.where(in_burst, factor * system.bursts.factor, factor)
    tokens = _tokens(system.lengths, rng, size)
    queue_ns = _segment(_QUEUE_MS * factor, system, rng)
    prefill_ns = _segment(_PREFILL_MS * factor, system, rng)
    decode_ns = _segment(_TOKEN_MS * (tokens - 1) * factor, system, rng)
    latent = (queue_ns + prefill_ns + decode_ns).astype(np.float64)
    sampling = system.sampling or Sampling(1.0, 1.0)
    ratio = np.where(in_burst, sampling.burst, sampling.quiet)
    return Requests(
        start_ns=start_ns + (np.cumsum(gaps) * NS_PER_S).astype(np.int64),
        queue_ns=queue_ns,
        prefill_ns=prefill_ns,
        decode_ns=decode_ns,
        tokens=tokens,
        route=route.astype(np.int64),
        in_burst=in_burst,
        patience_ns=_patience(system, latent, rng),
        failed=rng.random(size) < system.failures,
        ratio=ratio,
        kept=rng.random(size) < ratio,
    )


def _arrivals(system: System, rng: np.random.Generator) -> tuple[Flags, Floats]:
    """Return whether each request is in a burst, and the seconds since the one before it."""
    size = system.requests
    gaps = rng.exponential(1 / system.rate_per_s, size)
    in_burst = np.zeros(size, dtype=np.bool_)
    bursts = system.bursts
    if bursts is None:
        return in_burst, gaps
    # The number of requests in bursts is binomial, so the times of all requests are a sample of
    # independent values in an order that depends on the load.
    inside = int(rng.binomial(size, bursts.share))
    sizes = np.full(bursts.number, inside // bursts.number)
    sizes[: inside % bursts.number] += 1
    before = np.sort(rng.integers(0, size - inside + 1, bursts.number))
    for number, (quiet, length) in enumerate(zip(before, sizes, strict=True)):
        first = quiet + int(sizes[:number].sum())
        in_burst[first : first + length] = True
    return in_burst, np.where(in_burst, gaps / bursts.faster, gaps)


def _common(system: System, rng: np.random.Generator, size: int) -> Floats:
    """Return the factor that all segments of each request share."""
    noise = rng.standard_normal(size)
    if system.shape == "autocorrelated":
        rest = float(np.sqrt(1 - _CORRELATION**2))
        for index in range(1, size):
            noise[index] = _CORRELATION * noise[index - 1] + rest * noise[index]
    factor: Floats = np.exp(_COMMON_SPREAD * noise)
    if system.shape in _MODES:
        share, slow = _MODES[system.shape]
        # The two modes are narrow, so that few requests are between them.
        factor = np.where(rng.random(size) < share, slow, 1.0) * factor**0.3
    return factor


def _tokens(lengths: Lengths, rng: np.random.Generator, size: int) -> Integers:
    if lengths in _FIXED_LENGTHS:
        return np.full(size, _FIXED_LENGTHS[lengths], dtype=np.int64)
    if lengths == "50_or_150":
        return np.where(rng.random(size) < 0.5, 50, 150).astype(np.int64)
    spread = 0.3
    mean = 50 if lengths == "half" else 100
    drawn = mean * np.exp(spread * rng.standard_normal(size) - spread**2 / 2)
    return np.maximum(np.rint(drawn), 2).astype(np.int64)


def _segment(middle_ms: Floats, system: System, rng: np.random.Generator) -> Integers:
    """Return the times of one segment of the requests, in nanoseconds."""
    own = np.exp(system.own_spread * rng.standard_normal(middle_ms.size))
    return np.maximum(middle_ms * own * NS_PER_MS, 1).astype(np.int64)


def _patience(system: System, latent: Floats, rng: np.random.Generator) -> Integers:
    """Return the time after which the user of each request leaves, in nanoseconds."""
    if system.patience is None:
        return np.full(latent.size, np.iinfo(np.int64).max)
    middle, center, spread = _middle_patience(replace(system, requests=_CALIBRATION, sampling=None))
    users = max(1, latent.size // _REQUESTS_PER_USER)
    user = rng.integers(0, users, latent.size)
    mood = rng.standard_normal(users)[user]
    logs = middle + _PATIENCE_SPREAD * _moods(system.patience, latent, mood, center, spread)
    return np.maximum(np.exp(logs), 1).astype(np.int64)


def _moods(
    patience: Patience, latent: Floats, mood: Floats, center: float, spread: float
) -> Floats:
    if not patience.correlated:
        return mood
    slowness = (np.log(latent) - center) / spread
    rest = float(np.sqrt(1 - _SLOWNESS_OF_IMPATIENT**2))
    return rest * mood - _SLOWNESS_OF_IMPATIENT * slowness


@cache
def _middle_patience(system: System) -> tuple[float, float, float]:
    """
    Return the median patience with which the right share of the requests is cancelled.

    Returns:
        Its logarithm, and the mean and the standard deviation of the logarithm of the times.
    """
    patience = system.patience
    if patience is None:
        raise ValueError("the users of this system never leave")
    rng = np.random.default_rng(20261128)
    # Autocorrelation does not change the distribution of a single request.
    shape = "lognormal" if system.shape == "autocorrelated" else system.shape
    requests = draw(replace(system, patience=None, shape=shape), rng)
    latent = requests.latent_ns.astype(np.float64)
    logs = np.log(latent)
    center, spread = float(logs.mean()), float(logs.std())
    moods = _moods(patience, latent, rng.standard_normal(_CALIBRATION), center, spread)
    excess = logs - _PATIENCE_SPREAD * moods
    return float(np.quantile(excess[~requests.failed], 1 - patience.share)), center, spread


class Observed(NamedTuple):
    """
    What a recording shows of one request.

    Args:
        duration_ns: Time until it ended, in whatever way.
        outcome: How it ended.
        first_token_ns: Time to the first token; ``None`` if it ended before.
        ratio: Probability with which it was written.
    """

    duration_ns: int
    outcome: str
    first_token_ns: int | None
    ratio: float


def observed_of(requests: Requests) -> list[Observed]:
    """Return what a recording shows of the requests that were written."""
    first_ns = requests.queue_ns + requests.prefill_ns
    rows = zip(
        first_ns.tolist(),
        requests.latent_ns.tolist(),
        requests.patience_ns.tolist(),
        requests.failed.tolist(),
        requests.ratio.tolist(),
        requests.kept.tolist(),
        strict=True,
    )
    found: list[Observed] = []
    for first, latent, patience, failed, ratio, kept in rows:
        if kept:
            outcome, ended = _end(latent, patience, failed=failed)
            token = first if first <= ended and not failed else None
            found.append(Observed(ended, outcome, token, ratio))
    return found


def miss_share(system: System, metric: str, limit_ms: float) -> float:
    """
    Return the exact share of all requests that exceed a limit or fail.

    Args:
        system: A system of the shape *lognormal* with one route, ``own_spread=0`` and answers of
            one length, for which there is a closed form.
        metric: ``duration`` or ``time_to_first_token``.
        limit_ms: The limit.
    """
    has_closed_form = (
        system.shape == "lognormal"
        and system.lengths in _FIXED_LENGTHS
        and system.own_spread == 0
        and len(system.routes) == 1
    )
    if not has_closed_form:
        raise ValueError("the distribution of this system has no closed form")
    first_ms = _QUEUE_MS + _PREFILL_MS
    decode_ms = _TOKEN_MS * (_FIXED_LENGTHS[system.lengths] - 1)
    middle_ms = first_ms if metric == "time_to_first_token" else first_ms + decode_ms
    middle_ms *= system.level * system.routes[0].factor
    bursts = system.bursts or Bursts(share=0.0)

    def above(factor: float) -> float:
        logarithm = float(np.log(limit_ms / (middle_ms * factor)))
        return NormalDist().cdf(-logarithm / _COMMON_SPREAD)

    slow = (1 - bursts.share) * above(1) + bursts.share * above(bursts.factor)
    return system.failures + (1 - system.failures) * slow


def limit_missed_by(system: System, metric: str, share: float) -> float:
    """
    Return the limit in milliseconds that an exact share of all requests misses.

    Args:
        system: As in :func:`miss_share`.
        metric: ``duration`` or ``time_to_first_token``.
        share: The share, more than that of the failures.
    """
    low, high = 1e-3, 1e7
    for _ in range(100):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if miss_share(system, metric, middle) > share else (low, middle)
    return high


def write_recording(folder: Path, system: System, requests: Requests, identifier: str) -> None:
    """
    Write the requests of one run as a recording.

    Args:
        folder: Folder to create.
        system: The system that they were drawn from.
        requests: The requests.
        identifier: Identifier of the recording, 16 hexadecimal digits.
    """
    folder.mkdir(parents=True)
    manifest = {
        "schema": "latspan.recording/1",
        "id": identifier,
        "created": _CREATED,
        "source": "run",
        "latspan": "0.1.0",
        "conditions": {
            "host": "bench",
            "processors": 8,
            "platform": "Linux 6.8 x86_64",
            "python": "3.12.4",
        },
    }
    (folder / "recording.json").write_text(json.dumps(manifest), "utf-8")
    text = "".join(lines_of(system, requests))
    (folder / "requests.lost").write_text("0" * 20, "utf-8")
    (folder / f"requests-1-{identifier[:8]}.ended.jsonl").write_text(text, "utf-8")


def lines_of(system: System, requests: Requests) -> list[str]:
    """Return the lines of the requests that were written, in the order of their starts."""
    rows = zip(
        requests.start_ns.tolist(),
        requests.queue_ns.tolist(),
        requests.prefill_ns.tolist(),
        requests.decode_ns.tolist(),
        requests.tokens.tolist(),
        requests.route.tolist(),
        requests.patience_ns.tolist(),
        requests.failed.tolist(),
        requests.ratio.tolist(),
        requests.kept.tolist(),
        strict=True,
    )
    lines: list[str] = []
    for number, row in enumerate(rows, 1):
        *fields, kept = row
        if kept:
            lines += _lines(system, number, *fields)
    return lines


def _end(latent_ns: int, patience_ns: int, *, failed: bool) -> tuple[str, int]:
    """Return how a request ended and after what time."""
    if failed:
        return "error", min(latent_ns, _FAILED_AFTER_NS)
    if patience_ns < latent_ns:
        return "cancelled", patience_ns
    return "completed", latent_ns


def _lines(
    system: System,
    number: int,
    start_ns: int,
    queue_ns: int,
    prefill_ns: int,
    decode_ns: int,
    tokens: int,
    route: int,
    patience_ns: int,
    failed: bool,
    ratio: float,
) -> list[str]:
    first_ns = queue_ns + prefill_ns
    outcome, ended_ns = _end(first_ns + decode_ns, patience_ns, failed=failed)
    segments: list[list[Any]] = []
    begin = 0
    for name, length_ns in (("queue", queue_ns), ("prefill", prefill_ns), ("decode", decode_ns)):
        end = min(begin + length_ns, ended_ns)
        segments.append([name, begin, end, "server_reported"])
        begin = end
        if end == ended_ns:
            break
    metrics: dict[str, int] = {"duration": ended_ns}
    gap_ns = decode_ns // (tokens - 1)
    arrived = 0
    if first_ns <= ended_ns and not failed:
        arrived = tokens if outcome == "completed" else 1 + (ended_ns - first_ns) // gap_ns
        metrics["time_to_first_chunk"] = first_ns
        metrics["time_to_first_token"] = first_ns
        metrics["time_to_first_visible_token"] = first_ns
        if system.usage and outcome == "completed":
            metrics["time_per_output_token"] = gap_ns
        if system.chunks and arrived > 1:
            metrics["chunk_gap_max"] = gap_ns
    line: dict[str, Any] = {
        "kind": "call",
        "name": "chat small",
        "outcome": outcome,
        "start_epoch_ns": start_ns,
        "duration_ns": ended_ns,
        "segments": segments,
        "metrics": metrics,
    }
    if system.chunks and arrived > 1:
        line["chunk_gaps_ns"] = [gap_ns] * (arrived - 1)
    if system.usage and outcome == "completed":
        line["tokens"] = {"input": 500, "output": tokens, "source": "provider"}
    line["attributes"] = {"provider": "openai", "model": "small", "inference_path": "chat"}
    if system.routes[route].name:
        line["attributes"]["route"] = system.routes[route].name
    line["details"] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "small",
        "latspan.connection.reused": True,
    }
    if ratio < 1:
        line["ratio"] = ratio
    if system.kind == "call":
        return [_text(line)]
    return [_text({**line, "parent": number}), _text(_request(line, number))]


_BEFORE_NS: Final = 4 * NS_PER_MS
_AFTER_NS: Final = 1 * NS_PER_MS


def _request(call: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the request that a call is inside of: 4 ms before the call and 1 ms after it."""
    end_ns = _BEFORE_NS + call["duration_ns"]
    duration_ns = end_ns + _AFTER_NS
    before = ["prepare", 0, _BEFORE_NS, "measured"]
    after = ["postprocess", end_ns, duration_ns, "measured"]
    shifted = [
        [name, begin + _BEFORE_NS, end + _BEFORE_NS, source]
        for name, begin, end, source in call["segments"]
    ]
    metrics = {"duration": duration_ns}
    visible_ns = call["metrics"].get("time_to_first_visible_token")
    if visible_ns is not None:
        metrics["time_to_first_visible_token"] = visible_ns + _BEFORE_NS
    request: dict[str, Any] = {
        "kind": "request",
        "name": "answer",
        "outcome": call["outcome"],
        "start_epoch_ns": call["start_epoch_ns"] - _BEFORE_NS,
        "duration_ns": duration_ns,
        "segments": [before, *shifted, after],
        "own_segments": [before, after],
        "id": number,
        "metrics": metrics,
        "attributes": {
            name: value for name, value in call["attributes"].items() if name == "route"
        },
    }
    if "tokens" in call:
        request["tokens"] = call["tokens"]
    if "ratio" in call:
        request["ratio"] = call["ratio"]
    return request


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"
