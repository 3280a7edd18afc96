"""
A model server on real sockets, a process of its own.

``serving`` starts it. The process prints ``{"port": N}`` when it accepts connections, and runs
until it is ended. It answers OpenAI's chat completions over HTTP/1.1 and computes no answer: an
engine with slots, a queue, prompts and steps decides when each token is sent. For each request it
writes a line with the true times to the log of ``ServerConfig``. A token is a word.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from random import Random
from typing import IO, Any, Final, NamedTuple

Range = tuple[float, float]
"""Smallest and largest value of a number that is drawn for each request or event."""

_BLOCK: Final = 8
"""Number of tokens of a block of the prefix cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """
    A model server.

    Args:
        reports: What the server reports: ``none``; ``llamacpp`` (``timings``; a slot that starts
            sends the headers); ``vllm`` (``metrics`` in the chunk with the usage, and
            ``/metrics``); ``vllm_scrape`` (``/metrics`` only); ``server_timing`` (the header, sent
            with the first token); ``server_timing_body`` (a field of the last event); ``groq``
            (times in the usage).
        headers: When a server that does not report by headers sends them: ``arrival`` or
            ``first_token``.
        models: Names of the models.
        always_usage: Whether the last chunk has the usage although no request asks for it.
        name: Name of the server, or of a replica, in the header ``x-served-by``; "" for none.
        log: File of the true times; "" for a temporary one.
        seed: Seed of the random choices.

        slots: Number of sequences that run at the same time.
        policy: Order of the queue: ``fifo``, ``lifo``, ``short`` (short prompts first) or
            ``priority`` (smallest ``priority`` first).
        priority: Rank in a queue with the policy ``priority``.
        queue_limit: Number of waiting requests above which the server rejects; 0 for no limit.
        whole_batches: Whether requests start only when no sequence runs.
        own_slots: Further limit of the sequences of one group; 0 for none.

        prefill_ms: Fixed part of the prefill.
        prefill_token_ms: Prefill of a token that is not in the cache.
        prefill_mode: ``parallel`` (does not disturb others), ``chunked`` (shares steps) or
            ``whole`` (a step processes whole prompts while the other sequences wait).
        chunk_tokens: Number of prompt tokens in a step, if chunked.
        slow_prefill_share: Share of the requests with a slow prefill.
        slow_prefill: Factor of that prefill.
        cache_tokens: Size of the prefix cache; 0 for no cache.
        compile_tokens: Range of prompt lengths that share compiled code; 0 for none.
        compile_ms: Time to compile, at the first prompt of a range of lengths.

        step_ms: Duration of a step with one sequence.
        step_sequence_ms: Further duration for each further sequence.
        step_context_ms: Further duration for each 1,000 tokens in the KV cache.
        step_growth: Growth of the step per second, as a share.
        grows_after_s: Time after the first request at which this growth begins.
        jitter: Standard deviation of the logarithm of each duration.
        burst: Number of tokens that leave together.
        pace: Tokens per step and sequence.
        slow_share: Share of the sequences with slow tokens.
        slow_pace: Factor of the pace of these sequences.
        stall_share: Probability that a sequence pauses after a token.
        stall_ms: Duration of that pause.

        output_tokens: Range of the answer's length; (0, 0) for the limit of the request.
        output_sigma: Standard deviation of the logarithm of the length, around the middle of the
            range; 0 for uniform.
        long_share: Share of the answers that are longer.
        long_factor: Factor of the length of these answers.
        reasoning_tokens: Range of the length of the reasoning.
        effort: Whether the request's ``reasoning_effort`` scales the reasoning.

        kv_tokens: Size of the KV cache; 0 for no limit. If it is full, the youngest sequence is
            preempted and starts again.
        pause_every_ms: Mean time between pauses of the whole engine; 0 for none.
        pause_ms: Duration of a pause.
        throttle_every_ms: Period of a throttling; 0 for none.
        throttle_lasts_ms: Duration of each throttling.
        throttle: Factor of all durations while throttled.
        idle_ms: Idle time after which the engine falls asleep; 0 for never.
        wake_ms: Time that it takes to wake up.
        load_ms: Time to load a model.
        resident: Number of models that are loaded at the same time.
        cold_requests: Number of requests after the start that take longer.
        cold_ms: Range of that further time, a part of the prefill.

        reject_share: Share of the requests that are rejected at random.
        reject_status: Status of a rejection.
        retry_after_s: Header ``Retry-After`` of a rejection; 0 for none.
        error_share: Share of the requests that end with the status 500.
        error_ms: Time before such an error.
        break_share: Share of the streams whose connection ends early.
        hang_share: Share of the requests that are never answered.

        group_by: What decides the group of a request: ``model``, ``user``, ``header:NAME`` or "".
        groups: Fields of this class that differ in a group, by name of the group. They may only
            be fields that apply to one request, for example ``pace``.
        replicas: Fields that differ in each replica; each has its own engine. The response header
            ``x-served-by`` has its name.
        route: How a replica is chosen: ``turn``, ``random``, ``least`` (loaded) or ``group``.
    """

    reports: str = "none"
    headers: str = "arrival"
    models: tuple[str, ...] = ("m",)
    always_usage: bool = False
    name: str = "node-0"
    log: str = ""
    seed: int = 0

    slots: int = 8
    policy: str = "fifo"
    priority: int = 0
    queue_limit: int = 0
    whole_batches: bool = False
    own_slots: int = 0

    prefill_ms: float = 4.0
    prefill_token_ms: float = 0.05
    prefill_mode: str = "parallel"
    chunk_tokens: int = 128
    slow_prefill_share: float = 0.0
    slow_prefill: float = 1.0
    cache_tokens: int = 0
    compile_tokens: int = 0
    compile_ms: float = 0.0

    step_ms: float = 6.0
    step_sequence_ms: float = 0.0
    step_context_ms: float = 0.0
    step_growth: float = 0.0
    grows_after_s: float = 0.0
    jitter: float = 0.03
    burst: int = 1
    pace: float = 1.0
    slow_share: float = 0.0
    slow_pace: float = 1.0
    stall_share: float = 0.0
    stall_ms: Range = (0.0, 0.0)

    output_tokens: Range = (0, 0)
    output_sigma: float = 0.0
    long_share: float = 0.0
    long_factor: float = 1.0
    reasoning_tokens: Range = (0, 0)
    effort: bool = False

    kv_tokens: int = 0
    pause_every_ms: float = 0.0
    pause_ms: Range = (0.0, 0.0)
    throttle_every_ms: float = 0.0
    throttle_lasts_ms: float = 0.0
    throttle: float = 1.0
    idle_ms: float = 0.0
    wake_ms: float = 0.0
    load_ms: float = 0.0
    resident: int = 100
    cold_requests: int = 0
    cold_ms: Range = (0.0, 0.0)

    reject_share: float = 0.0
    reject_status: int = 429
    retry_after_s: float = 0.0
    error_share: float = 0.0
    error_ms: float = 5.0
    break_share: float = 0.0
    hang_share: float = 0.0

    group_by: str = ""
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    replicas: tuple[Mapping[str, Any], ...] = ()
    route: str = "least"

    @classmethod
    def from_json(cls, text: str) -> ServerConfig:
        """Return the configuration that was written as JSON."""
        values: dict[str, Any] = json.loads(text)
        for each in fields(cls):
            if isinstance(each.default, tuple) and each.name in values:
                values[each.name] = tuple[Any, ...](values[each.name])
        return cls(**values)


class Server(NamedTuple):
    """
    A running model server.

    Args:
        url: Address, without a path.
        pid: Process.
        log: File with a line of JSON for each request.
    """

    url: str
    pid: int
    log: Path


@contextmanager
def serving(config: ServerConfig) -> Generator[Server]:
    """Run a model server in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(config.log or Path(folder) / "truth.jsonl")
        config = replace(config, log=str(log))
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "diagnosis.sockets._server"),
                json.dumps(asdict(config)),
            ],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        try:
            stdout = process.stdout
            line = stdout.readline() if stdout else b""
            yield Server(f"http://127.0.0.1:{json.loads(line)['port']}", process.pid, log)
        finally:
            process.terminate()
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


class _Connection(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(slots=True, eq=False)
class _Sequence:
    """A request in an engine, with its state and its true times (seconds of the loop's clock)."""

    id: int
    group: str
    model: str
    config: ServerConfig
    arrived: float
    prompt: int
    cached: int
    blocks: list[int]
    reasoning: int
    output: int
    response: _Response
    done: asyncio.Event = field(default_factory=asyncio.Event)
    admitted: float = 0.0
    ready: float = 0.0
    first: float = 0.0
    last: float = 0.0
    to_process: int = 0
    extra_s: float = 0.0
    sent: int = 0
    credit: float = 0.0
    pace: float = 1.0
    stalled_until: float = 0.0
    preempted: int = 0
    batch: int = 0
    is_decoding: bool = False
    is_gone: bool = False

    @property
    def total(self) -> int:
        """Number of tokens of the answer, with the reasoning."""
        return self.reasoning + self.output

    @property
    def queue_s(self) -> float:
        """Time from the arrival to the start of the work."""
        return self.admitted - self.arrived

    @property
    def load_s(self) -> float:
        """Time for which the model was loaded."""
        return max(0.0, self.ready - self.admitted)

    @property
    def prefill_s(self) -> float:
        """Time from the start of the work, or the end of the load, to the first token."""
        return self.first - max(self.admitted, self.ready)

    @property
    def decode_s(self) -> float:
        """Time from the first token to the last one."""
        return self.last - self.first


class _Response:
    """Writes a response, as a stream or as one body."""

    def __init__(
        self, config: ServerConfig, connection: _Connection, body: Mapping[str, Any], name: str
    ) -> None:
        self._config = config
        self._reader, self._writer = connection
        self._is_stream = bool(body.get("stream"))
        options: Mapping[str, Any] = body.get("stream_options") or {}
        self._has_usage = bool(options.get("include_usage")) or config.always_usage
        self._name = name
        self._is_open = False
        self.breaks_after = 0
        head = {
            "id": f"chatcmpl-{id(self):x}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": body.get("model") or config.models[0],
        }
        self._head = json.dumps(head)[:-1]
        self._model = head["model"]

    @property
    def is_closed(self) -> bool:
        """Whether the client closed the connection."""
        return self._reader.at_eof() or self._writer.is_closing()

    def arrived(self) -> None:
        """Send the headers if they are due at the arrival."""
        if self._config.headers == "arrival" and self._config.reports not in (
            "llamacpp",
            "server_timing",
        ):
            self._open(())

    def started(self) -> None:
        """Send the headers if they are due at the start of the work."""
        if self._config.reports == "llamacpp":
            self._open(())

    def tokens(self, sequence: _Sequence, count: int) -> None:
        """Send the next tokens."""
        if not sequence.sent and not self._is_open:
            self._open(self._timing(sequence))
        if self._is_stream:
            parts: list[str] = []
            for place in range(sequence.sent, sequence.sent + count):
                kind = "content" if place >= sequence.reasoning else "reasoning_content"
                delta = f'{{"role": "assistant", "{kind}": "tide "}}'
                parts.append(self._event(f'[{{"index": 0, "delta": {delta}}}]'))
            self._write("".join(parts))
            if self.breaks_after and sequence.sent + count >= self.breaks_after:
                sequence.is_gone = True
                self._writer.close()

    def finished(self, sequence: _Sequence) -> None:
        """Send what follows the last token."""
        usage = json.dumps(self._usage(sequence))
        further = self._further(sequence)
        reason = '[{"index": 0, "delta": {}, "finish_reason": "stop"}]'
        if not self._is_stream:
            self._whole(sequence, usage, further)
            return
        if self._has_usage:
            events = [self._event(reason), self._event("[]", f', "usage": {usage}{further}')]
        else:
            keeps = further if self._config.reports != "vllm" else ""
            events = [self._event(reason, keeps)]
        self._write("".join(events) + "data: [DONE]\n\n")
        self._writer.write(b"0\r\n\r\n")

    def failed(self, status: int, retry_after_s: float = 0.0) -> None:
        """Send an error."""
        content = b'{"error": {"message": "not now", "type": "server", "code": null}}'
        lines = [f"HTTP/1.1 {status} Not", "content-type: application/json"]
        if retry_after_s:
            lines.append(f"retry-after: {retry_after_s:.3f}")
        self._send_whole(lines, content)

    def _open(self, lines: tuple[str, ...]) -> None:
        if self._is_stream:
            self._is_open = True
            head = [
                "HTTP/1.1 200 OK",
                "content-type: text/event-stream",
                "transfer-encoding: chunked",
                *self._served_by,
                *lines,
            ]
            self._writer.write(("\r\n".join(head) + "\r\n\r\n").encode())

    def _event(self, choices: str, further: str = "") -> str:
        return f'data: {self._head}, "choices": {choices}{further}}}\n\n'

    def _write(self, text: str) -> None:
        self._writer.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def _whole(self, sequence: _Sequence, usage: str, further: str) -> None:
        message = {
            "role": "assistant",
            "content": "tide " * sequence.output,
            **({"reasoning_content": "tide " * sequence.reasoning} if sequence.reasoning else {}),
        }
        choices = json.dumps([{"index": 0, "finish_reason": "stop", "message": message}])
        head = self._head.replace(".chunk", "")
        content = f'{head}, "choices": {choices}, "usage": {usage}{further}}}'.encode()
        lines = ["HTTP/1.1 200 OK", "content-type: application/json", *self._timing(sequence, True)]
        self._send_whole([*lines, *self._served_by], content)

    @property
    def _served_by(self) -> tuple[str, ...]:
        return (f"x-served-by: {self._name}",) if self._name else ()

    def _send_whole(self, lines: list[str], content: bytes) -> None:
        head = "\r\n".join([*lines, f"content-length: {len(content)}"])
        self._writer.write(f"{head}\r\n\r\n".encode() + content)

    def _timing(self, sequence: _Sequence, is_whole: bool = False) -> tuple[str, ...]:
        if self._config.reports != "server_timing":
            return ()
        return (f"server-timing: {_entries(sequence, is_whole)}",)

    def _usage(self, sequence: _Sequence) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": sequence.prompt,
            "completion_tokens": sequence.total,
            "total_tokens": sequence.prompt + sequence.total,
            "prompt_tokens_details": {"cached_tokens": sequence.cached},
            "completion_tokens_details": {"reasoning_tokens": sequence.reasoning},
        }
        if self._config.reports == "groq":
            usage["queue_time"] = sequence.queue_s
            usage["prompt_time"] = sequence.load_s + sequence.prefill_s
            usage["completion_time"] = sequence.decode_s
            usage["total_time"] = sequence.last - sequence.admitted
        return usage

    def _further(self, sequence: _Sequence) -> str:
        """Return further fields of the last body, as text that follows other fields."""
        prefill_ms = (sequence.load_s + sequence.prefill_s) * 1e3
        decode_ms = sequence.decode_s * 1e3
        further: dict[str, Any] = {}
        if self._config.reports == "llamacpp":
            further["timings"] = {
                "cache_n": sequence.cached,
                "prompt_n": sequence.prompt - sequence.cached,
                "prompt_ms": prefill_ms,
                "predicted_n": sequence.total,
                "predicted_ms": decode_ms,
            }
        elif self._config.reports == "vllm":
            further["metrics"] = {
                "queue_time_ms": sequence.queue_s * 1e3,
                "time_to_first_token_ms": prefill_ms,
                "generation_time_ms": decode_ms,
                "mean_itl_ms": decode_ms / max(1, sequence.total - 1),
                "tokens_per_second": sequence.total / max(1e-6, sequence.decode_s),
            }
        elif self._config.reports == "server_timing_body":
            further["server_timing"] = _entries(sequence, True)
        return ", " + json.dumps(further)[1:-1] if further else ""


def _entries(sequence: _Sequence, is_whole: bool) -> str:
    """Return the times of a request in the form of ``Server-Timing``."""
    times = {"queue": sequence.queue_s, "prefill": sequence.prefill_s}
    if sequence.load_s:
        times["model_load"] = sequence.load_s
    if is_whole:
        times["decode"] = sequence.decode_s
        times["total"] = sequence.last - sequence.arrived
    return ", ".join(f"{name};dur={1e3 * value:.3f}" for name, value in times.items())


class _Engine:
    """
    Runs the sequences of one replica.

    One loop makes the steps of all sequences. Its clock is the end of the last step, so that late
    timers do not slow the engine down. With the prefill mode ``parallel``, a timer of its own ends
    each prefill.
    """

    def __init__(self, config: ServerConfig, log: IO[str]) -> None:
        self.config = config
        self.name = config.name
        self.running: list[_Sequence] = []
        self._log = log
        self._random = Random(f"{config.seed}:{config.name}")  # noqa: S311 - a simulation
        self._waiting: list[tuple[float, int, _Sequence]] = []
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._began = self._clock = self._loop.time()
        self._idle_since = self._loop.time()
        self._first_arrived = math.inf
        self._awake_at = 0.0
        self._paused_until = 0.0
        self._loaded: OrderedDict[str, float] = OrderedDict()
        self._compiled: set[int] = set()
        self._cache: OrderedDict[int, None] = OrderedDict()
        self._cold_left = config.cold_requests
        self.hits = self.queries = 0

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._waiting)

    @property
    def kv_tokens(self) -> int:
        """Number of tokens in the KV cache."""
        return sum(each.prompt + each.sent for each in self.running)

    async def pause(self) -> None:
        """Pause the engine now and then."""
        while True:
            await asyncio.sleep(self._random.expovariate(1e3 / self.config.pause_every_ms))
            self._paused_until = self._loop.time() + self._drawn(self.config.pause_ms)
            await asyncio.sleep(self._paused_until - self._loop.time())

    def cached(self, blocks: list[int]) -> int:
        """Return the number of leading tokens that are in the prefix cache."""
        hits = 0
        for block in blocks:
            if block not in self._cache:
                break
            self._cache.move_to_end(block)
            hits += 1
        return hits * _BLOCK

    def add(self, sequence: _Sequence) -> None:
        """Put a request into the queue."""
        config = sequence.config
        self._first_arrived = min(self._first_arrived, sequence.arrived)
        sequence.pace = config.pace
        if self._random.random() < config.slow_share:
            sequence.pace *= config.slow_pace
        if self._random.random() < config.slow_prefill_share:
            sequence.extra_s = (config.slow_prefill - 1) * self._prefill_s(sequence)
        self._enqueue(sequence)
        if config.prefill_mode == "parallel":
            self._admit(self._loop.time())
        self._wake.set()

    async def run(self) -> None:
        """Make steps as long as there are sequences."""
        while True:
            self._admit(max(self._clock, self._loop.time()))
            duration, processed, decoding = self._next_step()
            if not duration:
                self._wake.clear()
                await self._wake.wait()
                self._clock = max(self._clock, self._loop.time())
                continue
            self._clock = max(self._clock + duration, self._paused_until)
            await self._until(self._clock)
            for sequence in processed:
                self._begin(sequence, self._clock)
            self._step(decoding)

    def _next_step(self) -> tuple[float, list[_Sequence], list[_Sequence]]:
        """Return the duration of the next step, and the sequences that it starts and continues."""
        self.running = [each for each in self.running if not self._has_left(each)]
        decoding = [each for each in self.running if each.is_decoding]
        duration = self._step_s(decoding) if decoding else 0.0
        processed: list[_Sequence] = []
        if self.config.prefill_mode == "parallel":
            return duration, processed, decoding
        budget = self.config.chunk_tokens if self.config.prefill_mode == "chunked" else math.inf
        starting = [each for each in self.running if not each.is_decoding]
        for sequence in starting:
            if sequence.ready > self._clock:
                continue
            part = int(min(budget, sequence.to_process))
            duration += part * sequence.config.prefill_token_ms / 1e3 * self._factor()
            sequence.to_process -= part
            budget -= part
            if not sequence.to_process:
                duration += sequence.config.prefill_ms / 1e3 * self._factor() + sequence.extra_s
                processed.append(sequence)
            if budget <= 0:
                break
        if starting and not duration:
            duration = max(1e-4, min(each.ready for each in starting) - self._clock)
        return duration, processed, decoding

    def _step(self, decoding: list[_Sequence]) -> None:
        """Send the tokens of a step."""
        for sequence in decoding:
            if sequence.is_gone or not sequence.is_decoding or sequence.stalled_until > self._clock:
                continue
            sequence.credit += sequence.pace
            sequence.batch += len(decoding)
            left = sequence.total - sequence.sent
            due = min(sequence.config.burst, left)
            if sequence.credit + 1e-9 >= due:
                sequence.credit -= due
                self._send(sequence, due, self._clock)
        if self.config.kv_tokens:
            self._preempt()

    def _send(self, sequence: _Sequence, count: int, now: float) -> None:
        sequence.response.tokens(sequence, count)
        sequence.sent += count
        sequence.last = now
        if self._random.random() < sequence.config.stall_share:
            sequence.stalled_until = now + self._drawn(sequence.config.stall_ms)
        if sequence.sent >= sequence.total and not sequence.is_gone:
            sequence.response.finished(sequence)
            self._end(sequence, "completed")
            self.running.remove(sequence)
            self._idle_since = now

    def _begin(self, sequence: _Sequence, now: float) -> None:
        """Send the first token, or continue a sequence that was preempted."""
        if self._has_left(sequence):
            self.running = [each for each in self.running if each is not sequence]
            return
        if now < self._paused_until:
            self._loop.call_at(self._paused_until, self._begin, sequence, self._paused_until)
            return
        sequence.is_decoding = True
        if not sequence.sent:
            sequence.first = now
            self._remember(sequence.blocks)
            self._send(sequence, 1, now)
        if self.config.prefill_mode == "parallel":
            self._admit(now)
        self._wake.set()

    def _admit(self, now: float) -> None:
        """Give free slots to waiting requests."""
        if self.config.whole_batches and self.running:
            return
        skipped: list[tuple[float, int, _Sequence]] = []
        while self._waiting and len(self.running) < self.config.slots:
            entry = heapq.heappop(self._waiting)
            sequence = entry[2]
            if self._has_left(sequence):
                continue
            limit = sequence.config.own_slots
            if limit and sum(each.group == sequence.group for each in self.running) >= limit:
                skipped.append(entry)
                continue
            need = sequence.prompt + sequence.sent + 8
            if (
                self.config.kv_tokens
                and self.running
                and (self.kv_tokens + need > self.config.kv_tokens)
            ):
                skipped.append(entry)
                break
            self._start(sequence, now)
        for entry in skipped:
            heapq.heappush(self._waiting, entry)

    def _start(self, sequence: _Sequence, now: float) -> None:
        config = self.config
        if not sequence.admitted:
            sequence.admitted = max(now, sequence.arrived)
            sequence.cached = self._reused(sequence)
            if config.idle_ms and not self.running:
                slept = now - self._idle_since > config.idle_ms / 1e3
                self._awake_at = now + config.wake_ms / 1e3 if slept else self._awake_at
            sequence.ready = max(self._awake_at, self._loaded_at(sequence, now))
            if self._cold_left:
                self._cold_left -= 1
                sequence.extra_s += self._drawn(config.cold_ms)
            if config.compile_tokens:
                length = sequence.prompt // config.compile_tokens
                if length not in self._compiled:
                    self._compiled.add(length)
                    sequence.extra_s += config.compile_ms / 1e3
            sequence.response.started()
        self.running.append(sequence)
        sequence.to_process = max(1, sequence.prompt - sequence.cached + sequence.sent)
        if config.prefill_mode == "parallel":
            end = max(now, sequence.ready) + self._prefill_s(sequence) + sequence.extra_s
            self._loop.call_at(end, self._begin, sequence, end)

    def _reused(self, sequence: _Sequence) -> int:
        """Return the number of cached tokens; at least one token is always processed."""
        self.queries += sequence.prompt
        if not sequence.config.cache_tokens:
            return 0
        cached = min(self.cached(sequence.blocks), sequence.prompt - 1)
        self.hits += cached
        return cached

    def _remember(self, blocks: list[int]) -> None:
        for block in blocks:
            self._cache[block] = None
            self._cache.move_to_end(block)
        while len(self._cache) * _BLOCK > self.config.cache_tokens:
            self._cache.popitem(last=False)

    def _loaded_at(self, sequence: _Sequence, now: float) -> float:
        """Return when the model of a request is loaded."""
        if not sequence.config.load_ms:
            return 0.0
        if sequence.model not in self._loaded:
            busy_until = max(self._loaded.values(), default=0.0)
            self._loaded[sequence.model] = max(now, busy_until) + sequence.config.load_ms / 1e3
            while len(self._loaded) > self.config.resident:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(sequence.model)
        return self._loaded[sequence.model]

    def _prefill_s(self, sequence: _Sequence) -> float:
        tokens = max(1, sequence.prompt - sequence.cached + sequence.sent)
        config = sequence.config
        return (config.prefill_ms + tokens * config.prefill_token_ms) / 1e3 * self._factor()

    def _step_s(self, decoding: list[_Sequence]) -> float:
        config = self.config
        duration_ms = config.step_ms + config.step_sequence_ms * (len(decoding) - 1)
        if config.step_context_ms:
            duration_ms += config.step_context_ms * self.kv_tokens / 1e3
        grown_s = max(0.0, self._clock - self._first_arrived - config.grows_after_s)
        growth = 1 + config.step_growth * grown_s
        return duration_ms / 1e3 * growth * self._factor()

    def _factor(self) -> float:
        """Return the factor of a duration: jitter and throttling."""
        factor = math.exp(self._random.gauss(0, self.config.jitter))
        if self.config.throttle_every_ms:
            phase = (self._clock_now() - self._began) * 1e3 % self.config.throttle_every_ms
            if phase < self.config.throttle_lasts_ms:
                factor *= self.config.throttle
        return factor

    def _clock_now(self) -> float:
        return max(self._clock, self._loop.time())

    def _preempt(self) -> None:
        """Send the youngest sequences back to the queue until the rest fits."""
        while self.kv_tokens > self.config.kv_tokens:
            decoding = [each for each in self.running if each.is_decoding]
            if len(decoding) < 2:
                break
            youngest = max(decoding, key=lambda each: each.admitted)
            self.running.remove(youngest)
            youngest.preempted += 1
            youngest.is_decoding = False
            youngest.cached = 0
            heapq.heappush(self._waiting, (-math.inf, next(self._order), youngest))

    def _enqueue(self, sequence: _Sequence) -> None:
        order = next(self._order)
        rank = {
            "fifo": 0.0,
            "lifo": -order,
            "short": sequence.prompt,
            "priority": sequence.config.priority,
        }[self.config.policy]
        heapq.heappush(self._waiting, (rank, order, sequence))

    def _has_left(self, sequence: _Sequence) -> bool:
        if not sequence.is_gone and sequence.response.is_closed:
            sequence.is_gone = True
        if sequence.is_gone and not sequence.done.is_set():
            self._end(sequence, "gone")
        return sequence.is_gone

    def _end(self, sequence: _Sequence, outcome: str) -> None:
        sequence.done.set()
        line = {
            "id": sequence.id,
            "outcome": outcome,
            "group": sequence.group,
            "model": sequence.model,
            "replica": self.name,
            "arrived_s": round(sequence.arrived - self._began, 4),
            "queue_ms": round(sequence.queue_s * 1e3, 2),
            "load_ms": round(sequence.load_s * 1e3, 2),
            "prefill_ms": round(sequence.prefill_s * 1e3, 2),
            "decode_ms": round(sequence.decode_s * 1e3, 2),
            "prompt": sequence.prompt,
            "cached": sequence.cached,
            "reasoning": sequence.reasoning,
            "output": sequence.output,
            "preempted": sequence.preempted,
            "batch": round(sequence.batch / max(1, sequence.sent), 2),
        }
        print(json.dumps(line), file=self._log, flush=True)

    def _drawn(self, low_and_high_ms: Range) -> float:
        """Return a duration of a range, in seconds."""
        return self._random.uniform(*low_and_high_ms) / 1e3

    async def _until(self, instant: float) -> None:
        await asyncio.sleep(instant - self._loop.time())


@dataclass(frozen=True, slots=True)
class _Request:
    """An HTTP request."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class _Service:
    """Answers the requests of all connections."""

    def __init__(self, config: ServerConfig, log: IO[str]) -> None:
        self._config = config
        self._log = log
        self._random = Random(f"{config.seed}:service")  # noqa: S311 - a simulation
        self._ids = itertools.count()
        self._loop = asyncio.get_running_loop()
        self._groups = {name: replace(config, **each) for name, each in config.groups.items()}
        self._engines = [_Engine(replace(config, **each), log) for each in config.replicas or ({},)]

    async def run(self) -> None:
        """Run the engines."""
        async with asyncio.TaskGroup() as tasks:
            for engine in self._engines:
                tasks.create_task(engine.run())
                if engine.config.pause_every_ms:
                    tasks.create_task(engine.pause())

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after another."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                await self._answer(await _read(reader), _Connection(reader, writer))
        writer.close()

    async def _answer(self, request: _Request, connection: _Connection) -> None:
        if not request.path.endswith("/chat/completions"):
            connection.writer.write(self._page(request.path))
            return
        group = self._group(request)
        config = self._groups.get(group, self._config)
        engine = self._engine(group)
        response = _Response(config, connection, request.body, engine.name)
        chance = self._random.random()
        if chance < config.hang_share:
            await connection.reader.read(1)
            return
        chance -= config.hang_share
        if chance < config.error_share:
            await asyncio.sleep(config.error_ms / 1e3)
            response.failed(500)
            return
        chance -= config.error_share
        is_full = config.queue_limit and engine.waiting >= config.queue_limit
        if chance < config.reject_share or is_full:
            response.failed(config.reject_status, config.retry_after_s)
            return
        sequence = self._sequence(request, response, group, config)
        if self._random.random() < config.break_share:
            response.breaks_after = max(2, sequence.total // 2)
        response.arrived()
        engine.add(sequence)
        await sequence.done.wait()

    def _sequence(
        self, request: _Request, response: _Response, group: str, config: ServerConfig
    ) -> _Sequence:
        words = _words(request.body)
        blocks: list[int] = []
        prefix = 0
        for start in range(0, len(words) - _BLOCK + 1, _BLOCK):
            prefix = hash((prefix, *words[start : start + _BLOCK]))
            blocks.append(prefix)
        return _Sequence(
            id=next(self._ids),
            group=group,
            model=str(request.body.get("model") or self._config.models[0]),
            config=config,
            arrived=self._loop.time(),
            prompt=max(1, len(words)),
            cached=0,
            blocks=blocks,
            reasoning=self._reasoning(request.body, config),
            output=self._output(request.body, config),
            response=response,
        )

    def _reasoning(self, body: Mapping[str, Any], config: ServerConfig) -> int:
        tokens = self._random.uniform(*config.reasoning_tokens)
        if config.effort:
            tokens *= {"low": 0.2, "medium": 0.5}.get(str(body.get("reasoning_effort")), 1.0)
        return round(tokens)

    def _output(self, body: Mapping[str, Any], config: ServerConfig) -> int:
        limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        low, high = config.output_tokens
        if not high:
            return limit
        tokens = self._random.uniform(low, high)
        if config.output_sigma:
            tokens = (low + high) / 2 * math.exp(self._random.gauss(0, config.output_sigma))
        if self._random.random() < config.long_share:
            tokens *= config.long_factor
        return max(2, min(limit, round(tokens)))

    def _group(self, request: _Request) -> str:
        by = self._config.group_by
        if by.startswith("header:"):
            return request.headers.get(by.removeprefix("header:"), "")
        return str(request.body.get(by, "")) if by else ""

    def _engine(self, group: str) -> _Engine:
        if len(self._engines) == 1:
            return self._engines[0]
        match self._config.route:
            case "turn":
                self._engines.append(self._engines.pop(0))
                return self._engines[-1]
            case "random":
                return self._random.choice(self._engines)
            case "group":
                return next(
                    (each for each in self._engines if each.name == group), self._engines[0]
                )
            case _:
                return min(self._engines, key=lambda each: each.waiting + len(each.running))

    def _page(self, path: str) -> bytes:
        if path.endswith("/models"):
            models = [{"id": name, "object": "model"} for name in self._config.models]
            content = json.dumps({"object": "list", "data": models})
        elif path.endswith("/metrics") and self._config.reports.startswith("vllm"):
            content = self._metrics()
        elif path.endswith("/health"):
            content = "{}"
        else:
            return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        kind = "text/plain" if path.endswith("/metrics") else "application/json"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
        return (head + content).encode()

    def _metrics(self) -> str:
        engines = self._engines
        size = self._config.kv_tokens
        used = max(each.kv_tokens for each in engines) / size if size else 0.0
        values = {
            "num_requests_running": sum(len(each.running) for each in engines),
            "num_requests_waiting": sum(each.waiting for each in engines),
            "kv_cache_usage_perc": min(1.0, used),
            "prefix_cache_hits_total": sum(each.hits for each in engines),
            "prefix_cache_queries_total": sum(each.queries for each in engines),
        }
        lines: list[str] = []
        for name, value in values.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines.append(f"# TYPE vllm:{name.removesuffix('_total')} {kind}")
            lines.append(f'vllm:{name}{{model_name="{self._config.models[0]}"}} {value}')
        return "\n".join(lines) + "\n"


async def _read(reader: asyncio.StreamReader) -> _Request:
    """Read one HTTP request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        content = b""
        while size := int(await reader.readline(), 16):
            content += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        content = await reader.readexactly(int(headers.get("content-length", 0)))
    path = head[0].split(" ")[1].partition("?")[0]
    return _Request(path, headers, json.loads(content) if content else {})


def _words(body: Mapping[str, Any]) -> list[str]:
    """Return the words of all messages."""
    texts: list[str] = []
    for message in body.get("messages", ()):
        content = message.get("content") or ""
        texts.append(
            content
            if isinstance(content, str)
            else " ".join(str(part.get("text", "")) for part in content)
        )
    return " ".join(texts).split()


async def _main(config: ServerConfig, log: IO[str]) -> None:
    service = _Service(config, log)
    server = await asyncio.start_server(service.connected, "127.0.0.1", 0, backlog=512, limit=2**22)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    async with server:
        await service.run()


def main() -> None:
    """Run the server of the configuration that is the argument."""
    config = ServerConfig.from_json(sys.argv[1])
    with Path(config.log).open("a") as log:
        asyncio.run(_main(config, log))


if __name__ == "__main__":
    main()
