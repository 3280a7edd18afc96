"""
Lifecycle of latspan: configure, flush, shut down.

``configure`` first assembles a complete new pipeline and starts its threads, so that a
configuration that fails leaves the previous one in effect. Then it exchanges ``_live`` and the
runtime in one step, and only after that does it end and export the previous pipeline, however long
the receiver takes: other threads record in the new pipeline meanwhile. ``shutdown`` removes the
runtime, and then does the same. ``_lock`` guards the exchange of ``_live`` and nothing else: no
thread waits, exports or runs application code while it holds the lock.

**What is open.** Calls, requests and stages that began in the pipeline which ends are abandoned
there before its last export. A thread may have read the old runtime just before the exchange, and
open its request after that. Such a request ends as usual, and its record goes to the old pipeline
until that takes its last interval, and to the new one after that (`_gate`).

**Concurrent ends.** ``_ending`` lists the threads that are ending a pipeline. ``shutdown`` and
``force_flush`` also wait for the other ones, within their own time limit: otherwise a process could
exit while a daemon thread exports in ``configure``. A thread never waits for itself: a signal
handler may call ``shutdown`` on the thread that it interrupts in ``configure``.

At the end of a process, ``atexit``, the exit hook of a library that skips ``atexit`` (`_fork`), or
SIGTERM (`_sigterm`) shuts latspan down, each within the same limits.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import logger
from latspan._live.process.runtime import (
    current_runtime,
    expect_no_start,
    install_runtime,
    when_instrumentation_is_requested,
)
from latspan._live.process.sigterm import Delivery, handle_sigterm, wake_sigterm
from latspan._live.sdk._config import Config, read_config, with_parameters_of

if TYPE_CHECKING:
    # Importing `configure` must stay cheap; the assembled parts are imported when it runs.
    from latspan._live.sdk._assembly import Assembly
    from latspan._live.sdk._observer import Observer
    from latspan._model.recording import Snapshot

_FLUSH_TIMEOUT_S: Final = 10.0
_SHUTDOWN_TIMEOUT_S: Final = 5.0
_HANDOVER_TIMEOUT_S: Final = 30.0
"""
Maximum duration of the last export at a reconfiguration, in seconds.

It delays no exit, and the requests of other threads compete with it for the processor.
"""
_SILENCE_S: Final = 1.5
"""
Time without an accepted message after which a shutdown stops waiting for a receiver, in seconds.

If the receiver does not respond, latspan must delay the exit of a process by at most 2 s in total.
"""


_live: Assembly | None = None
_was_configured: bool = False
"""Whether this process, or the one that it was forked from, has ever been configured."""

_observers: Final[list[Observer]] = []

# Reentrant, because a signal handler may call `shutdown` while the thread that it interrupts holds
# the lock. Held only while `_live` is exchanged, never while waiting.
_lock = threading.RLock()


_ending: list[tuple[int, threading.Event]] = []
"""Threads that exchange and end a pipeline now, each with the event that it sets afterwards."""


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    _ending.clear()


os.register_at_fork(after_in_child=_unlock_in_child)


@with_parameters_of(Config)
def configure(**settings: object) -> None:
    """
    Switch latspan on: ``latspan.configure(endpoint="http://localhost:4318")``.

    Spans use the application's tracer provider if it sets one, before or after this call, and
    otherwise a private one that exports over OTLP. Histograms are exported as OTLP metrics on
    latspan's own thread. A child process that is forked later does not need to call this: it
    exports its own data, as a separate service instance. If SIGTERM has its default action, and
    this function is called on the main thread, everything recorded is exported before the signal
    ends the process. If ``OTEL_SDK_DISABLED`` is true, latspan stays off.

    A further call replaces the previous configuration once every part of the new one has been
    created. If it fails, the previous configuration stays in effect. The new configuration records
    from that moment on, and the next snapshot starts empty. The call then exports what was recorded
    before, for at most 30 s or until the receiver has accepted nothing for 1.5 s, and returns.
    Other threads do not wait for it, and none of their requests is lost: each counts in exactly one
    of the two configurations. A call, request or stage that is open at that moment ends as
    ``abandoned`` in the previous one; your code inside it continues, and what it does with it has
    no effect.

    Args:
        settings: Fields of :class:`latspan.Config`, which describes each. An omitted field is read
            from its ``LATSPAN_*`` variable; if that is not set, the default applies. ``OTEL_*``
            variables keep their standard meaning.

    Raises:
        ConfigError: A setting or an ``OTEL_*`` variable has an invalid value; the message has a
            ``hint:``.
        UnknownNameError: There is no such setting.
        MissingExtraError: A package that a setting needs is not installed.
        RecordingError: ``record_dir`` cannot be written, or another release wrote it.
    """
    global _was_configured
    from latspan._live.sdk._api_variables import check_api_variables

    check_api_variables()
    # After the check, because this import loads modules of the API that read these variables.
    from latspan._live.sdk._pipeline import assemble

    config = read_config(settings)
    if is_sdk_disabled():
        logger.info("OTEL_SDK_DISABLED is true: latspan stays off")
        return
    made = assemble(config, at_end=shutdown)
    expect_no_start()
    try:
        made.begin()
    except BaseException:
        made.stop(0)
        raise
    with ExitStack() as afterwards:
        afterwards.callback(_report_configured, made)
        afterwards.enter_context(_ending_here())
        replaced = _exchange(made)
        _was_configured = True
        if replaced is not None:
            afterwards.callback(_end, replaced, _HANDOVER_TIMEOUT_S, _SILENCE_S, successor=made)
        export_at_sigterm(asleep=False)
        wake_sigterm()
        _log_start()


def _report_configured(live: Assembly) -> None:
    for observer in _observers:
        with handle_internal_errors("the doctor's observation"):
            observer.configured(live)


def _exchange(live: Assembly | None) -> Assembly | None:
    """Put a pipeline into effect, or none, and return the one that was in effect before."""
    global _live
    with _lock:
        replaced, _live = _live, live
        install_runtime(None if live is None else live.runtime)
    return replaced


def _log_start() -> None:
    """Log the start of the configuration in effect, once a library is instrumented."""
    live = _live
    if live is not None:
        with handle_internal_errors("the log line of the start"):
            live.start_line.on_instrumented()


when_instrumentation_is_requested(_log_start)


def snapshot() -> Snapshot:
    """
    Return the current histograms of everything recorded since :func:`configure`.

    The call waits at most 10 s until ended requests are processed. The snapshot is empty if latspan
    is not configured. The error of a query to an empty snapshot explains why it is empty. A signal
    handler may call this function; if the handler interrupted the recorder, the snapshot contains
    everything up to the last export.
    """
    runtime = current_runtime()
    if runtime is None:
        from latspan._model.recording import empty_snapshot

        return empty_snapshot(_off_reason())
    recorder = runtime.recorder
    if not recorder.is_held_here:
        runtime.drain(_FLUSH_TIMEOUT_S)
    return explained(recorder.snapshot())


def explained(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot of this process; if it is empty, with the reason."""
    if snapshot.series:
        return snapshot
    from latspan._live.instrument import instrumented_libraries
    from latspan._model.recording import NO_CALL, NOTHING_INSTRUMENTED

    reason = NO_CALL if instrumented_libraries() else NOTHING_INSTRUMENTED
    return replace(snapshot, empty_reason=reason)


def _off_reason() -> str:
    from latspan._model.recording import NOT_CONFIGURED, SDK_DISABLED, SHUT_DOWN

    if is_sdk_disabled():
        return SDK_DISABLED
    return SHUT_DOWN if _was_configured else NOT_CONFIGURED


def is_sdk_disabled() -> bool:
    """Return whether the environment switches OpenTelemetry, and latspan with it, off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def force_flush(timeout_s: float = _FLUSH_TIMEOUT_S) -> bool:
    """
    Export everything that has ended so far.

    Args:
        timeout_s: Maximum wait, in seconds.

    Returns:
        Whether everything was exported in time, and nothing was lost since the last flush, for
        example because a receiver refused it permanently. ``True`` if latspan is not configured.
    """
    deadline = time.monotonic() + timeout_s
    live = _live
    flushed = live is None or live.flush(timeout_s)
    return _wait_for_other_ends(deadline) and flushed


def stop_polling() -> None:
    """
    Let each finished request wake the worker thread, so that the worker does not poll.

    Use this in a process in which the CPU time of all threads matters. Without polling, the thread
    that ends a request needs some 15 µs to wake the worker. With polling, the polls take 0.2 to
    0.5 % of a processor while requests are made.
    """
    if _live is not None:
        _live.worker.stop_polling()


def shutdown(timeout_s: float | None = None) -> None:
    """
    Switch latspan off: end what is open, export the remaining data, stop the threads.

    An open call whose stream the caller has already left ends with the outcome of that moment, for
    example ``closed_early``; any other open call, request or stage ends as ``abandoned``. What your
    code does with it later has no effect. latspan calls this function
    when the process exits, also in a child of ``multiprocessing`` or Celery, and on SIGTERM if that
    signal has its default action. It cannot do so if the process is killed in another way. A second
    call has no effect.

    Args:
        timeout_s: Maximum wait for the last export, in seconds. If not given, latspan waits at most
            5 s for a receiver that accepts data, and 1.5 s for one that does not accept anything.
            If the receiver refuses the connection, latspan makes only one attempt, unless the
            receiver accepted the previous export.
    """
    _shut_down(timeout_s, flush_provider=False)


def _shut_down(timeout_s: float | None, *, flush_provider: bool) -> None:
    """Switch latspan off, and log that nothing was recorded, if that is so."""
    limit_s = _SHUTDOWN_TIMEOUT_S if timeout_s is None else timeout_s
    deadline = time.monotonic() + limit_s
    with _ending_here():
        ended = _exchange(None)
        if ended is not None:
            silence_s = _SILENCE_S if timeout_s is None else None
            _end(ended, limit_s, silence_s, flush_provider=flush_provider)
            with handle_internal_errors("the log line of the end"):
                ended.start_line.on_shutdown()
    _wait_for_other_ends(deadline)


def _end(
    live: Assembly,
    timeout_s: float,
    silence_s: float | None,
    *,
    flush_provider: bool = False,
    successor: Assembly | None = None,
) -> None:
    """End a pipeline that is no longer in effect, and export what it has recorded."""
    from latspan._live.operations import abandon_open_operations

    abandon_open_operations(None if successor is None else live.runtime)
    live.stop(timeout_s, silence_s, flush_provider=flush_provider, successor=successor)
    for observer in _observers:
        with handle_internal_errors("the doctor's observation"):
            observer.ended(live)


@contextmanager
def _ending_here() -> Generator[None]:
    """Register this thread as one that ends a pipeline; it does so inside the block."""
    ending = threading.get_ident(), threading.Event()
    _ending.append(ending)
    try:
        yield
    finally:
        # A forked child has cleared the list.
        with suppress(ValueError):
            _ending.remove(ending)
        ending[1].set()


def _wait_for_other_ends(deadline: float) -> bool:
    """Wait for the pipelines that other threads are ending, and return whether they have ended."""
    own = threading.get_ident()
    others = [done for thread, done in tuple(_ending) if thread != own]
    return all(done.wait(max(deadline - time.monotonic(), 0)) for done in others)


def observe(observer: Observer) -> None:
    """Report the start and the end of each configuration to the doctor's observer."""
    _observers.append(observer)


def export_at_sigterm(*, asleep: bool) -> None:
    """
    Export what was recorded if SIGTERM ends the process; see :mod:`latspan._live.process.sigterm`.

    Args:
        asleep: Whether nothing is recorded yet, so that the default action stays in effect.
    """
    handle_sigterm(_AT_SIGTERM, asleep=asleep)


def _flush_at_sigterm(timeout_s: float) -> None:
    live = _live
    if live is not None:
        live.flush(timeout_s, flush_provider=True)


def _end_at_sigterm() -> None:
    # The application's provider flushes itself at `atexit`, but not on a signal.
    _shut_down(None, flush_provider=True)
    for observer in _observers:
        observer.exit()


_AT_SIGTERM: Final = Delivery(
    is_needed=lambda: _live is not None or bool(_observers),
    is_ending=lambda: bool(_ending),
    end=_end_at_sigterm,
    flush=_flush_at_sigterm,
)

atexit.register(shutdown)
