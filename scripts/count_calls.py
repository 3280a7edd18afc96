#!/usr/bin/env python3
"""
Count the functions of latspan that run for one streamed chat, on each thread.

Most functions of latspan run once per call, so their code and data are no longer in the processor's
caches. Such a function costs about half a microsecond, nearly whatever it does. So the number of
different functions predicts the cost of a call, and unlike a time it is the same on each run.

The chat is made by the OpenAI client over bytes in memory, see ``benchmarks/_openai.py``. latspan
is switched on as by ``configure()``. The threads are counted apart: the caller's, and the worker,
which builds timeline, spans and record after the end of the call. Neither the export of spans is
counted, which runs once per batch, nor the constructors that Python generates for dataclasses and
named tuples.

Reproduce: ``python scripts/count_calls.py``, with ``--list`` for the names of the functions.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parent.parent
for _folder in ("src", "integrations", "benchmarks"):
    sys.path.insert(0, str(_ROOT / _folder))

import latspan  # noqa: E402
from _latspan_on import On, own_provider  # noqa: E402
from _openai import MESSAGES, async_client, client, stream_of  # noqa: E402
from latspan._live.process.runtime import install_runtime  # noqa: E402

_WARM_UP: Final = 20
_FOLDERS: Final = (f"{_ROOT}/src/", f"{_ROOT}/integrations/")
_WORKER: Final = "latspan-worker"
_MODEL: Final = "gpt-4o-mini"


class Function(NamedTuple):
    """
    A function of latspan.

    Args:
        file: Its file, below ``src`` or ``integrations``.
        line: Its first line.
        name: Its qualified name.
    """

    file: str
    line: int
    name: str


class Calls:
    """Calls of latspan's functions, while :meth:`counting`, by thread."""

    def __init__(self) -> None:
        self.caller: Counter[Function] = Counter()
        self.worker: Counter[Function] = Counter()
        self._is_on = False
        # A thread is profiled only if this is set before it starts.
        threading.setprofile(self._profile)

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count the calls inside the block."""
        self._is_on = True
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_on = False

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not self._is_on:
            return
        code = frame.f_code
        for folder in _FOLDERS:
            if code.co_filename.startswith(folder):
                file = code.co_filename.removeprefix(folder)
                self._count(Function(file, code.co_firstlineno, code.co_qualname))

    def _count(self, function: Function) -> None:
        thread = threading.current_thread()
        if thread is threading.main_thread():
            self.caller[function] += 1
        elif thread.name == _WORKER:
            self.worker[function] += 1


def _sync_chat(tokens: int) -> Callable[[], None]:
    openai = client(stream_of(tokens))

    def chat() -> None:
        for _ in openai.chat.completions.create(model=_MODEL, messages=MESSAGES, stream=True):
            pass

    return chat


def _async_chat(tokens: int, runner: asyncio.Runner) -> Callable[[], None]:
    openai = async_client(stream_of(tokens))

    async def chat() -> None:
        stream: Any = await openai.chat.completions.create(
            model=_MODEL, messages=MESSAGES, stream=True
        )
        async for _ in stream:
            pass

    return lambda: runner.run(chat())


def _counted(chat: Callable[[], None], calls: Calls, on: On) -> None:
    """Make chats until their caches are filled, and count the last one."""
    for _ in range(_WARM_UP):
        chat()
    on.settle()
    # A collection during the counted chat would count finalisers of earlier ones.
    gc.collect()
    gc.disable()
    with calls.counting():
        chat()
        # What follows is not the application's.
        sys.setprofile(None)
        on.runtime.drain(None)
    gc.enable()


def _summary(counted: Counter[Function]) -> str:
    files = {function.file for function in counted}
    return f"{counted.total():4} calls  {len(counted):4} functions  {len(files):3} files"


def main() -> None:
    """Print the counts of one synchronous and one asynchronous chat."""
    parser = argparse.ArgumentParser(description="Count the functions that run for one call.")
    parser.add_argument("--tokens", type=int, default=5, help="chunks with text (default: 5)")
    parser.add_argument("--list", action="store_true", help="list the functions of each thread")
    options = parser.parse_args()
    lines: list[str] = []
    latspan.auto_instrument()
    for name in ("sync", "async"):
        calls = Calls()
        with asyncio.Runner() as runner, own_provider() as on:
            install_runtime(on.runtime)
            tokens: int = options.tokens
            chat = _sync_chat(tokens) if name == "sync" else _async_chat(tokens, runner)
            _counted(chat, calls, on)
            install_runtime(None)
        both = calls.caller + calls.worker
        for thread, counted in (
            ("caller", calls.caller),
            ("worker", calls.worker),
            ("both", both),
        ):
            lines.append(f"{name:5}  {thread:6}  {_summary(counted)}")
            if options.list and thread != "both":
                lines += [
                    f"       {count:4}  {function.file}:{function.line}  {function.name}"
                    for function, count in sorted(counted.items())
                ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
