"""Instrumentation of server frameworks for the duration of a test."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from latspan.integrations import Instrumentor


@contextmanager
def instrumented(*instrumentors: type[Instrumentor]) -> Generator[None]:
    """Switch the instrumentors on inside the block."""
    for each in instrumentors:
        each().instrument()
    try:
        yield
    finally:
        for each in instrumentors:
            each().uninstrument()
