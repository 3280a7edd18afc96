"""
The line that is logged once per configuration: instrumented libraries, endpoint, service name.

An application may instrument its libraries before or after it configures latspan. The line must be
true when it is read, so it waits for the first of two events: a library is instrumented, or
something is recorded. If neither happens before the shutdown, another line reports that. A line
that the application's logging would discard is not built, and is tried again at the next event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from latspan._base.log import logger
from latspan._base.shown import address
from latspan._live.instrument import instrumented_libraries
from latspan._live.sdk._config import Config, is_exported, otlp_target
from latspan._live.sdk._endpoints import Signal

_APPLICATION: Final = "the application's tracer provider"


class StartLine:
    """
    Logs the start of one configuration.

    Args:
        config: The configuration.
        uses_application: Returns whether spans use the application's tracer provider.
        service_name: Returns the service name of exported telemetry.
    """

    def __init__(
        self,
        config: Config,
        uses_application: Callable[[], bool],
        service_name: Callable[[], str],
    ) -> None:
        self._config = config
        self.uses_application = uses_application
        self.service_name = service_name
        self._lock = threading.Lock()
        self._logged: tuple[str, ...] | None = None

    @property
    def endpoint(self) -> str:
        """Description of where telemetry is sent, without credentials."""
        return endpoint_of(self._config, spans_elsewhere=self.uses_application())

    def on_instrumented(self) -> None:
        """Log the line if a library is instrumented; log libraries that were not in the line."""
        libraries = instrumented_libraries()
        if not libraries:
            return
        if self._logged is None:
            self._log(libraries)
        elif added := sorted(set(libraries).difference(self._logged)):
            self._logged = libraries
            logger.info("latspan now instruments %s too", ", ".join(added))

    def on_record(self) -> None:
        """Log the line, because a request begins."""
        if self._logged is None:
            self._log(instrumented_libraries())

    def on_shutdown(self) -> None:
        """Log that nothing was instrumented or recorded, if that is so."""
        if self._logged is None and not instrumented_libraries():
            logger.info(
                "latspan recorded nothing: no client library was instrumented;"
                " hint: call latspan.auto_instrument()"
            )

    def _log(self, libraries: tuple[str, ...]) -> None:
        # Not `with self._lock`: a logging handler of the application may make a call of its own.
        if not logger.isEnabledFor(logging.INFO) or not self._lock.acquire(blocking=False):
            return
        try:
            if self._logged is None:
                self._logged = libraries
                logger.info(
                    "latspan is on: instrumented libraries: %s; endpoint: %s; service name: %s",
                    ", ".join(libraries) or "none",
                    self.endpoint,
                    self.service_name(),
                )
        finally:
            self._lock.release()


def endpoint_of(config: Config, *, spans_elsewhere: bool = False) -> str:
    """
    Return where a configuration sends spans and metrics, without credentials.

    Args:
        config: Validated configuration.
        spans_elsewhere: Whether spans use the application's tracer provider.
    """
    spans = _APPLICATION if spans_elsewhere else _address_of(config, "traces")
    metrics = _address_of(config, "metrics")
    if spans == metrics:
        return spans or "none, because export is off"
    return f"{spans or 'none'} (spans), {metrics or 'none'} (metrics)"


def _address_of(config: Config, signal: Signal) -> str:
    """Return the base address that a signal is sent to; empty if it is not exported."""
    if not is_exported(config, signal):
        return ""
    target = otlp_target(config, signal)
    return address(target.address).removesuffix(f"/v1/{signal}")
