"""Waiting for what another thread fulfils, from a thread and from an event loop.

``asyncio.wrap_future`` is not used because a cancelled waiter would cancel the future under everybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Protocol, TypeVar

from radixrt.errors import InvalidRequest

__all__ = ["PoolThread", "call_soon", "running_loop", "spawn", "wait_async", "wait_seconds", "waits"]

T = TypeVar("T")


async def wait_async(future: Future[T]) -> T:
    """Wait without blocking the running loop. Cancelling the waiter leaves the future alone."""
    if not future.done():
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake(_: Future[T]) -> None:
            call_soon(loop, lambda: None if woken.done() else woken.set_result(None))

        future.add_done_callback(wake)
        await woken
    return future.result()


def wait_seconds(timeout: object) -> float | None:
    """How long ``wait(timeout)`` waits: None and infinity for ever. Raises ``InvalidRequest``."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidRequest(f"timeout is a number of seconds from 0, not {timeout!r}", param="timeout")
    return float(timeout) if timeout <= threading.TIMEOUT_MAX else None


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Run ``callback`` on the loop; does nothing when the loop is closed, because nobody waits there any more."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def spawn(target: Callable[[], object], name: str) -> threading.Thread:
    """Start a daemon thread with the caller's context variables: it never keeps the interpreter from exiting."""
    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(target), name=name, daemon=True)
    thread.start()
    return thread


class CountsThreads(Protocol):
    """Who must know which of its threads wait."""

    def block(self, *, for_program: bool) -> None: ...

    def unblock(self, *, for_program: bool) -> None: ...


class PoolThread(threading.Thread):
    """A daemon thread of a pool, which hears when what runs on it waits."""

    def __init__(self, pool: CountsThreads, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)
        self.pool = pool


@contextlib.contextmanager
def waits(*, for_program: bool) -> Iterator[None]:
    """Everything that blocks a thread stands inside, so that the pool lets another thread go on meanwhile.

    ``for_program`` tells waiting for another program, which may need a thread itself, from waiting for the engine.
    """
    thread = threading.current_thread()
    if not isinstance(thread, PoolThread):
        yield
        return
    thread.pool.block(for_program=for_program)
    try:
        yield
    finally:
        thread.pool.unblock(for_program=for_program)
