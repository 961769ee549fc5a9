"""Waiting for a future that another thread fulfils, from a thread and from an event loop.

``asyncio.wrap_future`` is not used because a cancelled waiter would cancel the future under everybody else.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["call_soon", "running_loop", "spawn", "wait_async"]

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
