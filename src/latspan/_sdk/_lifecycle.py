"""Configure once, flush, shut down."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Final, Unpack

from latspan import _runtime
from latspan._log import logger

if TYPE_CHECKING:
    # Importing `configure` must stay cheap; what it puts together is imported when it does.
    from latspan._recording import Snapshot
    from latspan._sdk._config import ConfigFields
    from latspan._sdk._pipeline import Assembly

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
    latspan's own. Calling it again replaces what was configured before, once everything of the
    new configuration is known to work: a failure leaves the one before as it is. A child that is
    forked later need not call it: it exports what is its own, as an instance of its own.

    Args:
        settings: Fields of :class:`latspan._sdk.Config`. What is not given comes from
            ``LATSPAN_*`` variables, then from defaults; ``OTEL_*`` variables mean what they mean.

    Raises:
        ConfigError: A value cannot work, of a setting or of an ``OTEL_*`` variable; the message
            has a ``hint:``.
        UnknownNameError: There is no such setting.
        MissingExtraError: A package is absent that a setting needs.
    """
    global _live
    from latspan._sdk._config import Config
    from latspan._sdk._pipeline import assemble

    config = Config.of(settings)
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
            # Another thread may have configured meanwhile: that one is shut down first.
            if _live is None:
                _live = made
                _runtime.install(made.runtime)
                return


def snapshot() -> Snapshot:
    """
    Return the histograms of everything since :func:`configure`, as they are now.

    An empty snapshot when latspan is not configured. A signal handler may ask for one too; where
    it interrupted the recorder, that is of everything up to the last export.
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
        timeout_s: How long to wait at most, in seconds.

    Returns:
        Whether all of it left in time; ``True`` when latspan is not configured.
    """
    live = _live
    return live is None or live.flush(timeout_s)


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
    from latspan._operations import abandon_open_calls

    abandon_open_calls()
    live.stop(timeout_s)


atexit.register(shutdown)
