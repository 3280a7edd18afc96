"""Callables of the user, ``module:function``: loaded, tried and called with each prompt."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, cast

from latspan._base.shown import foreign
from latspan._live.instrument import outcome_of, request
from latspan._load._progress import RequestResult
from latspan._load._prompts import PromptSet
from latspan._model.segments import Outcome
from latspan.errors import MeasurementError

_MAX_THREADS: Final = 512


class FunctionExitError(Exception):
    """
    The measured function raised an exception that would end the event loop or one of its tasks.

    It fails its request like any error.
    """


def load_callable(name: str) -> Callable[[str], Any]:
    """
    Import ``module:function``; modules of the current folder are found too.

    Raises:
        MeasurementError: It cannot be imported, or is not a function of one prompt.
    """
    module_name, _, attribute = name.partition(":")
    if module_name.endswith(".py"):
        module = module_name.removesuffix(".py").replace("/", ".")
        raise MeasurementError(
            f"'{module_name}' is the name of a file, not of a module",
            hint=f"use {module}:{attribute}",
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise _failed_import(name, error) from error
        raise MeasurementError(
            f"no module named '{module_name}'",
            hint="run the command in the folder of the module, or install its package",
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed_import(name, error) from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise MeasurementError(
            f"the module '{module_name}' has no function '{attribute}'",
            hint="name a function that takes the text of a prompt: module:function",
        )
    try:
        inspect.signature(found).bind("")
    except ValueError:
        pass
    except TypeError as error:
        raise MeasurementError(
            f"{name} cannot be called with a prompt: {error}",
            hint="it is called with one argument, the text of a prompt",
        ) from error
    return found


def _failed_import(name: str, error: BaseException) -> MeasurementError:
    return MeasurementError(
        f"{name} cannot be imported: {type(error).__name__}: {foreign(str(error))}",
        hint="import it with python to see where it fails",
    )


class CallableSender:
    """
    Sender of requests through a function; each of its runs is a ``latspan.request``.

    A generator is read to its end. A synchronous function runs in a pool of threads. A
    run that exceeds the time limit counts as a timeout at once, although its thread goes on.

    Args:
        function: Function that takes the text of a prompt.
        name: Name of the requests.
        prompts: The prompts.
        timeout_s: Time limit of each request in seconds.
    """

    def __init__(
        self,
        function: Callable[[str], Any],
        name: str,
        prompts: PromptSet,
        *,
        timeout_s: float | None = None,
    ) -> None:
        self._function = function
        self._name = name
        self._prompts = prompts
        self._timeout_s = timeout_s
        self._threads: _Threads | None = None
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            self._threads = _Threads()

    async def send(self, index: int) -> RequestResult:
        """Call the function with the prompt of that index, and return when it has ended."""
        began_ns = time.perf_counter_ns()
        outcome, error = Outcome.COMPLETED, None
        try:
            # Inside the request, whose outcome is then a timeout and not a cancellation.
            with request(self._name):
                async with asyncio.timeout(self._timeout_s):
                    await self._call(self._prompts.of(index).text)
        except asyncio.CancelledError:
            raise
        except Exception as failure:  # noqa: BLE001 - the outcome of a request, not of the runner
            outcome, error = outcome_of(failure), failure
        return RequestResult(
            outcome=outcome, duration_ns=time.perf_counter_ns() - began_ns, error=error
        )

    async def _call(self, text: str) -> None:
        try:
            await self._call_to_its_end(text)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _failure(error) from error
        except (SystemExit, GeneratorExit) as error:
            # asyncio would end the event loop, and with it the measurement, with its exit code.
            raise _failure(error) from error

    async def _call_to_its_end(self, text: str) -> None:
        if self._threads is None:
            result = self._function(text)
        else:
            context = contextvars.copy_context()
            result = await self._threads.run(lambda: context.run(self._call_in_thread, text))
        if inspect.isasyncgen(result):
            async for _ in cast("AsyncGenerator[object]", result):
                pass
        elif inspect.isawaitable(result):
            await result

    def _call_in_thread(self, text: str) -> Any:
        try:
            result = self._function(text)
            if inspect.isgenerator(result):
                deque(cast("Iterator[object]", result), maxlen=0)
        except (SystemExit, StopIteration, GeneratorExit, asyncio.CancelledError) as error:
            raise _failure(error) from error
        return result

    async def try_once(self) -> RequestResult:
        """
        Call the function once before the load.

        Raises:
            MeasurementError: It raised.
        """
        answer = await self.send(0)
        if answer.error is not None:
            reason = self._prompts.of(0).hidden_in(str(answer.error))
            raise MeasurementError(
                f"{self._name} fails on the first prompt: {type(answer.error).__name__}:"
                f" {foreign(reason)}",
                hint="call it once yourself to see the traceback",
            ) from answer.error
        return answer

    async def close(self) -> None:
        """Let threads that still run end by themselves."""
        if self._threads is not None:
            self._threads.close()


class _Threads:
    """
    Pool of threads that run a synchronous function.

    They are daemons: a run that never ends does not keep the process from ending. All methods are
    called on the thread of one event loop.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Return the result of ``function``, which a thread calls."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()

        def job() -> None:
            result, error = None, None
            # The request may have run into its time limit while it waited for a thread.
            if not ended.cancelled():
                try:
                    result = function()
                except BaseException as failure:  # noqa: BLE001 - the caller decides what it means
                    error = failure
            # The loop is closed if the measurement has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end, ended, result, error)

        self._busy += 1
        self._jobs.put(job)
        if self._busy > self._started and self._started < _MAX_THREADS:
            self._started += 1
            name = f"latspan-measure-{self._started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return await ended

    def _end(self, ended: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._busy -= 1
        # It is done if the request ran into its time limit.
        if ended.done():
            return
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        """End the threads that have nothing to do, and the others after their run."""
        for _ in range(self._started):
            self._jobs.put(None)


def _failure(error: BaseException) -> FunctionExitError:
    return FunctionExitError(f"{type(error).__name__}: {error}")
