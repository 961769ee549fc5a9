"""Where the functions of a map, and of the programs that programs start, run: a pool of few threads, or a loop.

The rule for plain functions, at most ``limit`` threads in all:

- One thread runs one function after the other. A function that only records returns, and costs no thread.
- A function that waits, for a value or for another program, keeps its thread; another thread goes on meanwhile.
- A function that neither returns nor waits for a while is busy with code of the person's (a tool). Then twice as
  many may run side by side.
- Whoever waits for a program that has not begun runs it on the spot, so nobody waits for a free thread in vain.
  Where that is impossible and every thread waits for programs, one thread more than ``limit`` begins it.

``concurrent.futures`` is not used because it joins its threads at exit, which would turn Ctrl-C into a wait for
every tool that is still running.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from radixrt.errors import Cancelled
from radixrt.frontend.execution import execute, execute_here, start_task
from radixrt.frontend.run import Run
from radixrt.frontend.waiting import PoolThread, call_soon, running_loop, spawn

__all__ = ["Pool"]

Function = Callable[..., Any]

# How long a function may go without returning or waiting before others run beside it. Counted in short waits, each
# of which lets the function's thread go on: a machine that stalls everybody proves nothing about the function.
_TICK_S = 0.005
_TICKS = 10
# Programs run on the spot inside one another, each some ten frames deep in Python's stack of a thousand.
_MAX_NESTED = 16

_nested: contextvars.ContextVar[int] = contextvars.ContextVar("radixrt_nested", default=0)


class _Task:
    """A plain function that has not begun. Whoever claims it first executes it."""

    def __init__(self, pool: Pool, run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
        self._pool = pool
        self._work: tuple[Run, Function, Mapping[str, Any]] | None = (run, function, arguments)
        self._context = contextvars.copy_context()

    @property
    def is_claimed(self) -> bool:
        return self._work is None

    def claim(self) -> Callable[[Callable[[Run, Function, Mapping[str, Any]], None]], None] | None:
        """What executes it, None when somebody has claimed it before. Called under the pool's lock."""
        work, self._work = self._work, None
        if work is None:
            return None
        run, function, arguments = work
        context = self._context

        def go(how: Callable[[Run, Function, Mapping[str, Any]], None]) -> None:
            if not run.done:  # cancelled, or out of time, before it began
                context.run(how, run, function, arguments)

        return go

    def run_here(self) -> None:
        depth = _nested.get()
        if depth >= _MAX_NESTED or running_loop() is not None:
            self.hurry()
            return
        go = self._pool.claim(self)

        def inline(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
            _nested.set(depth + 1)
            try:
                execute_here(run, function, arguments)
            except Exception:  # noqa: BLE001  (kept by the run, for whoever reads it; Ctrl-C goes on)
                return

        if go is not None:
            go(inline)

    def hurry(self) -> None:
        self._pool.hurry(self)


def _on_own_thread(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
    _nested.set(0)  # the context is that of whoever called the program
    execute(run, function, arguments)


class Pool:
    """Executes functions of runs, each to its end, without making the caller wait.

    Threads and loop are started when they are needed. ``loop`` is for ``async def`` programs; without it they
    share one on a thread of its own. After ``close`` the threads end when they have nothing left to do.
    """

    def __init__(self, limit: int, name: str, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._limit = limit
        self._name = name
        self._changed = threading.Condition()
        self._tasks: deque[_Task] = deque()
        self._urgent: deque[_Task] = deque()  # those somebody waits for who cannot run them on the spot
        self._threads = 0
        self._started = 0
        self._idle = 0
        self._waiting = 0  # for a value from the engine
        self._waiting_for_programs = 0
        self._width = 1  # how many functions may run at once, those that wait not counted
        self._turns = 0  # grows whenever a function begins, ends, waits or goes on
        self._watched = False
        self._closing = False
        self._loop = loop
        self._tasks_of_loop: _LoopExecutor | None = None

    def submit(self, run: Run, function: Function, arguments: Mapping[str, Any], *, is_async: bool) -> None:
        """Execute ``function`` soon. ``run.queued`` is set while a plain one may still be run by who waits."""
        if is_async:
            self._executor_of_loop().submit(run, function, arguments)
            return
        task = _Task(self, run, function, arguments)
        run.queued = task
        with self._changed:
            self._tasks.append(task)
            self._call_help()

    def _executor_of_loop(self) -> _LoopExecutor:
        with self._changed:
            if self._tasks_of_loop is None:
                self._tasks_of_loop = _LoopExecutor(self._loop, self._name)
            return self._tasks_of_loop

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            loop = self._tasks_of_loop
        if loop is not None:
            loop.close()

    # --- claiming ---

    def claim(self, task: _Task) -> Callable[..., None] | None:
        with self._changed:
            return task.claim()

    def hurry(self, task: _Task) -> None:
        """Begin this one first, if need be on one thread more."""
        with self._changed:
            if not task.is_claimed:
                self._urgent.append(task)
                self._call_help()

    def _head(self) -> deque[_Task] | None:
        """The queue whose first task is next, None when nothing is left to begin."""
        for tasks in (self._urgent, self._tasks):
            while tasks and tasks[0].is_claimed:
                tasks.popleft()
            if tasks:
                return tasks
        return None

    # --- threads; all of it under the lock ---

    def _call_help(self) -> None:
        """See to it that a thread looks at what is left to begin."""
        if self._head() is None:
            return
        if self._idle:
            self._changed.notify()
        elif self._threads < self._limit or (self._urgent and self._waiting_for_programs == self._threads):
            self._start_thread()

    def _start_thread(self) -> None:
        self._threads += 1
        self._started += 1
        self._idle += 1
        try:
            PoolThread(self, self._work, f"radixrt-{self._name}-{self._started}").start()
        except RuntimeError:  # the system has no thread to give; those that are there do the work
            self._threads -= 1
            self._idle -= 1
            if not self._threads:
                raise

    def _work(self) -> None:
        while (go := self._next()) is not None:
            go(_on_own_thread)
            del go  # or the last run lives as long as the thread idles
            with self._changed:
                self._idle += 1
                self._turns += 1

    def _next(self) -> Callable[..., None] | None:
        """Wait for a function that may begin and claim it; None when the thread is to end."""
        with self._changed:
            while True:
                tasks = self._head()
                if (tasks is None and self._closing) or (self._threads > self._limit and not self._is_stuck()):
                    self._idle -= 1
                    self._threads -= 1
                    return None
                if tasks is None:
                    self._changed.wait()
                elif self._busy() < self._width:
                    go = tasks.popleft().claim()
                    self._idle -= 1
                    self._turns += 1
                    self._call_help()
                    return go
                else:
                    self._watch()

    def _is_stuck(self) -> bool:
        """Whether all threads but those without work wait for programs that somebody needs begun."""
        return bool(self._urgent) and self._waiting_for_programs + self._idle == self._threads

    def _busy(self) -> int:
        return self._threads - self._idle - self._waiting - self._waiting_for_programs

    def _watch(self) -> None:
        """Wait until a function may begin, or widen when those that run do nothing else for a while."""
        if self._watched:
            self._changed.wait()
            return
        self._watched = True
        turns, ticks = self._turns, 0
        while ticks < _TICKS and self._turns == turns and self._head() is not None:
            if not self._changed.wait(_TICK_S):
                ticks += 1
        self._watched = False
        if ticks == _TICKS:
            self._width = min(2 * self._width, self._limit)
            self._changed.notify_all()

    def block(self, *, for_program: bool) -> None:
        """The present thread, one of the pool, is about to wait."""
        with self._changed:
            if for_program:
                self._waiting_for_programs += 1
            else:
                self._waiting += 1
            self._turns += 1
            self._call_help()

    def unblock(self, *, for_program: bool) -> None:
        with self._changed:
            if for_program:
                self._waiting_for_programs -= 1
            else:
                self._waiting -= 1
            self._turns += 1


class _LoopExecutor:
    """Tasks on one loop: the given one, or one of its own on a daemon thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None, name: str) -> None:
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
