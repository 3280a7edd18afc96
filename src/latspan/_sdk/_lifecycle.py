"""
Lifecycle of latspan: configure, flush, shut down.

``configure`` first assembles a complete new pipeline and starts its threads. Only then does it shut
the previous pipeline down and install the new one, so that a configuration that fails leaves the
previous one in effect. ``shutdown`` removes the runtime first, so that no new call is opened, and
then ends the open calls and exports. ``_lock`` guards the exchange of ``_live`` and nothing else:
no thread holds it while it waits, exports or runs application code.

A process ends in one of three ways: by ``atexit``, by the exit hook of a library that skips
``atexit`` (`_exit_hooks`), or by SIGTERM (`_sigterm`). All three shut down within the same limits.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Final

from latspan import _runtime
from latspan._log import logger
from latspan._sdk._config import Config, read_config, with_parameters_of
from latspan._sdk._sigterm import Delivery, handle_sigterm, wake_sigterm

if TYPE_CHECKING:
    # Importing `configure` must stay cheap; the assembled parts are imported when it runs.
    from latspan._recording import Snapshot
    from latspan._sdk._pipeline import Assembly

__all__ = ["configure", "end_in_order", "force_flush", "shutdown", "snapshot"]


_FLUSH_TIMEOUT_S: Final = 10.0
_SHUTDOWN_TIMEOUT_S: Final = 5.0
_SILENCE_S: Final = 1.5
"""
Time without an accepted message after which a shutdown gives a receiver up, in seconds.

The whole exit of a process is to take at most 2 s longer if its receiver is dead.
"""


_live: Assembly | None = None
# Reentrant, because a signal handler may call shutdown while its own thread is in it. Held only
# while `_live` is exchanged, never while waiting.
_lock = threading.RLock()


# Pipelines whose shutdown is in progress.
_stopping: list[Assembly] = []


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    _stopping.clear()


os.register_at_fork(after_in_child=_unlock_in_child)


@with_parameters_of(Config)
def configure(**settings: object) -> None:
    """
    Switch latspan on: ``latspan.configure(endpoint="http://localhost:4318")``.

    Spans use the application's own tracer provider if it has one, now or later, and otherwise a
    private one that exports over OTLP. Histograms are exported as OTLP metrics on latspan's own
    thread. A further call replaces the previous configuration once every part of the new one has
    been created; if that fails, the previous configuration stays in effect. A process that is
    forked later does not need to call this: it exports its own data, as a separate service
    instance. If SIGTERM has its default action, and this function is called on the main thread,
    everything recorded is exported before the signal ends the process.

    Args:
        settings: Fields of :class:`latspan.Config`, which describes each. An omitted field is read
            from its ``LATSPAN_*`` variable; if that is not set, the default applies. ``OTEL_*``
            variables keep their standard meaning.

    Raises:
        ConfigError: A setting or an ``OTEL_*`` variable has an invalid value; the message has a
            ``hint:``.
        UnknownNameError: There is no such setting.
        MissingExtraError: A package that a setting needs is not installed.
    """
    global _live
    from latspan._sdk._pipeline import assemble

    config = read_config(settings)
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        logger.info("OTEL_SDK_DISABLED is true: latspan stays off")
        return
    made = assemble(config, at_end=shutdown)
    _runtime.expect_nothing()
    try:
        made.begin()
    except BaseException:
        made.stop(0)
        raise
    while True:
        shutdown()
        with _lock:
            # Another thread may have configured meanwhile: its configuration is shut down first.
            if _live is None:
                _live = made
                _runtime.install(made.runtime)
                break
    end_in_order(asleep=False)
    wake_sigterm()


def snapshot() -> Snapshot:
    """
    Return the current histograms of everything recorded since :func:`configure`.

    The snapshot is empty if latspan is not configured. A signal handler may call this function; if
    the handler interrupted the recorder, the snapshot holds everything up to the last export.
    """
    runtime = _runtime.current()
    if runtime is None:
        from latspan._recording import NoopRecorder

        return NoopRecorder().snapshot()
    recorder = runtime.recorder
    if not recorder.is_held_here:
        runtime.drain(_FLUSH_TIMEOUT_S)
    return recorder.snapshot()


def force_flush(timeout_s: float = _FLUSH_TIMEOUT_S) -> bool:
    """
    Export everything that has ended so far.

    Args:
        timeout_s: Maximum wait, in seconds.

    Returns:
        Whether everything was exported in time; ``True`` if latspan is not configured.
    """
    live = _live
    return live is None or live.flush(timeout_s)


def shutdown(timeout_s: float | None = None) -> None:
    """
    Switch latspan off: end the open calls, export the remaining data, stop the threads.

    A call whose stream the caller has stopped reading ends with its own outcome, any other open
    call as ``abandoned``. latspan calls this function when the process exits, also in a child of
    ``multiprocessing`` or Celery, and on SIGTERM if that signal has its default action, but not in
    a process that is killed in another way. A second call has no effect.

    Args:
        timeout_s: Maximum wait for the last export, in seconds. If not given, latspan waits 5 s for
            a receiver that accepts data, and 1.5 s for one that does not answer. A receiver that
            refuses the connection is not tried again, unless it accepted the data before.
    """
    _shut_down(timeout_s, flush_provider=False)


def _shut_down(timeout_s: float | None, *, flush_provider: bool) -> None:
    global _live
    with _lock:
        live, _live = _live, None
        if live is None:
            return
        _runtime.install(None)
    _stopping.append(live)
    try:
        from latspan._operations import abandon_open_calls

        abandon_open_calls()
        if timeout_s is None:
            live.stop(_SHUTDOWN_TIMEOUT_S, _SILENCE_S, flush_provider=flush_provider)
        else:
            live.stop(timeout_s, flush_provider=flush_provider)
    finally:
        _stopping.remove(live)


def end_in_order(*, asleep: bool) -> None:
    """
    Export what was recorded if SIGTERM ends the process; see :mod:`latspan._sdk._sigterm`.

    Args:
        asleep: Whether nothing is recorded yet, so that the default action stays in effect.
    """
    handle_sigterm(_AT_SIGTERM, asleep=asleep)


def _flush_at_sigterm(timeout_s: float) -> None:
    live = _live
    if live is not None:
        live.flush(timeout_s, flush_provider=True)


_AT_SIGTERM: Final = Delivery(
    is_needed=lambda: _live is not None,
    is_ending=lambda: bool(_stopping),
    # The application's provider flushes itself at `atexit`, but not on a signal.
    end=lambda: _shut_down(None, flush_provider=True),
    flush=_flush_at_sigterm,
)

atexit.register(shutdown)
