"""Where the functions of a map run: on a bounded number of daemon threads, or as tasks of one event loop.

``concurrent.futures`` is not used because it joins its threads at exit, which would turn Ctrl-C into a wait for
every tool that is still running.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from radixrt.errors import Cancelled
from radixrt.frontend.execution import execute, start_task
from radixrt.frontend.run import Run
from radixrt.frontend.waiting import call_soon, spawn

__all__ = ["Executor", "LoopExecutor", "ThreadExecutor"]

Function = Callable[..., Any]

# A program without a read only records, which takes well under this: one thread then serves all rows.
_PATIENCE_S = 0.001


class Executor(Protocol):
    """Executes the functions of runs, each to its end, without making the caller wait."""

    def submit(self, run: Run, function: Function, arguments: Mapping[str, Any]) -> None: ...

    def close(self) -> None:
        """Let the threads go when they have nothing left to do."""


class ThreadExecutor:
    """At most ``limit`` daemon threads; one is started only when none is idle."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    def submit(self, run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
        context = contextvars.copy_context()
        self._tasks.put(lambda: context.run(execute, run, function, arguments))
        if self._threads == self._limit:
            self._idle.acquire(blocking=False)
        elif not self._idle.acquire(timeout=_PATIENCE_S if self._threads else 0.0):
            self._threads += 1
            spawn(self._work, name=f"radixrt-{self._name}-{self._threads}")

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # or the last run lives as long as the thread idles
            self._idle.release()

    def close(self) -> None:
        for _ in range(self._threads):
            self._tasks.put(None)


class LoopExecutor:
    """Tasks on one loop: the given one, or one of its own on a daemon thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None, name: str) -> None:
        self._owns_loop = loop is None
        self._closing: asyncio.Event | None = None
        if loop is None:
            ready = threading.Event()
            spawn(lambda: asyncio.run(self._serve(ready)), name=f"radixrt-{name}-loop")
            ready.wait()
        else:
            self._loop = loop

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        ready.set()
        await self._closing.wait()

    def submit(self, run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
        try:
            self._loop.call_soon_threadsafe(start_task, run, function, arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            run.fail(Cancelled("the event loop of the map is closed"))

    def close(self) -> None:
        closing = self._closing
        if closing is not None:
            call_soon(self._loop, closing.set)
