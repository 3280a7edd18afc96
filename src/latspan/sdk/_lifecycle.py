"""Configure once, flush, shut down."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING, Final, Unpack

from latspan import _runtime
from latspan._log import logger

if TYPE_CHECKING:
    # Importing `configure` must stay cheap; what it puts together is imported when it does.
    from latspan.recording import Snapshot
    from latspan.sdk._assembly import Assembly
    from latspan.sdk._config import ConfigFields

__all__ = ["configure", "force_flush", "shutdown", "snapshot"]


_FLUSH_TIMEOUT_S: Final = 10.0
_SHUTDOWN_TIMEOUT_S: Final = 5.0


_live: Assembly | None = None
# Reentrant, because a signal handler may shut down while its thread does just that. Held for the
# exchange alone, never while waiting.
_lock = threading.RLock()


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock_in_child)


def configure(**settings: Unpack[ConfigFields]) -> None:
    """
    Switch latspan on: ``latspan.configure(endpoint="http://localhost:4318")``.

    Spans go through the application's own tracer provider where it has one, now or later, and
    otherwise through a private one over OTLP. Histograms leave as OTLP metrics on a thread of
    latspan's own. Calling it again replaces what was configured before. A child that is forked
    later need not call it: it exports what is its own, as an instance of its own.

    Args:
        settings: Fields of :class:`latspan.sdk.Config`. What is not given comes from
            ``LATSPAN_*`` variables, then from defaults; ``OTEL_*`` variables mean what they mean.

    Raises:
        ConfigError: A value cannot work; the message has a ``hint:``.
        UnknownNameError: There is no such setting.
        MissingExtraError: A package is absent that a setting needs.
    """
    global _live
    from latspan.sdk._assembly import assemble
    from latspan.sdk._config import Config

    config = Config.of(settings)
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        logger.info("OTEL_SDK_DISABLED is true: latspan stays off")
        return
    if config.count_tokens:
        from latspan.tokens import encodings

        # The first time it takes a second, too long to hold the lock.
        encodings()
    if config.sample_servers:
        from latspan._surroundings import require_parser

        # What cannot work is said before what works is shut down.
        require_parser()
    _runtime.expect_nothing()
    shutdown()
    with _lock:
        _live = assemble(config, at_end=shutdown)
        _runtime.install(_live.runtime)


def snapshot() -> Snapshot:
    """
    Return the histograms of everything since :func:`configure`, as they are now.

    An empty snapshot when latspan is not configured.
    """
    runtime = _runtime.current()
    if runtime is None:
        from latspan.recording import NoopRecorder

        return NoopRecorder().snapshot()
    runtime.drain(None)
    return runtime.recorder.snapshot()


def force_flush(timeout_s: float = _FLUSH_TIMEOUT_S) -> bool:
    """
    Export everything that has ended so far.

    Args:
        timeout_s: How long to wait at most, in seconds.

    Returns:
        Whether all of it left in time; ``True`` when latspan is not configured.
    """
    live = _live
    if live is None:
        return True
    deadline = time.monotonic() + timeout_s
    flushed = live.worker.drain(timeout_s)
    # Side by side: spans and metrics may go to different places, of which one is slow.
    spans_sent = None if live.spans is None else live.spans.flushing()
    intervals = None if live.intervals is None else live.intervals.made()
    if intervals is not None:
        flushed &= intervals.force_flush(_left_s(deadline))
    if spans_sent is not None:
        flushed &= spans_sent(_left_s(deadline))
    return flushed


def shutdown(timeout_s: float = _SHUTDOWN_TIMEOUT_S) -> None:
    """
    Switch latspan off: end open calls as ``abandoned``, export what is left, stop its threads.

    Done by itself when the process exits; in a child of ``multiprocessing`` or Celery too, but not
    in one that is killed. Calling it twice is once.

    Args:
        timeout_s: How long to wait at most for the last export, in seconds.
    """
    global _live
    with _lock:
        live, _live = _live, None
        if live is None:
            return
        _runtime.install(None)
    from latspan._request import abandon_open_calls

    abandon_open_calls()
    deadline = time.monotonic() + timeout_s
    live.worker.stop(timeout_s)
    if live.surroundings is not None:
        live.surroundings.stop()
    if live.sampling is not None:
        live.sampling.traces.release()
    wait_for_spans = None if live.spans is None else live.spans.closing()
    intervals = None if live.intervals is None else live.intervals.made()
    if intervals is not None:
        intervals.shutdown(_left_s(deadline))
    if wait_for_spans is not None:
        wait_for_spans(_left_s(deadline))


atexit.register(shutdown)


def _left_s(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0)
