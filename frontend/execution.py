"""Executing the function of a run: on the caller's thread, on a thread of its own, or as a task of a loop.

Whatever way, the function sees its run as the current one, and its outcome ends up in the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from radixrt.errors import Cancelled
from radixrt.frontend.run import Run, current_run
from radixrt.frontend.waiting import running_loop, spawn, wait_async

__all__ = ["execute", "execute_here", "launch", "run_async"]

Function = Callable[..., Any]


def execute(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
    """Call a plain function to its end on this thread. Never raises: the run holds what it raised."""
    try:
        execute_here(run, function, arguments)
    except BaseException:  # noqa: BLE001  (kept by the run; on a worker thread nobody else would hear it)
        return


def execute_here(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
    """The same, and the exception goes on to the caller with its own traceback."""
    token = current_run.set(run)
    try:
        value = function(run.state, **arguments)
    except BaseException as error:
        run.fail(error)
        raise
    finally:
        current_run.reset(token)
    run.succeed(value)


async def run_async(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
    """Execute an ``async def`` program as a task of this loop and wait for the run to be over.

    Cancelling the waiter cancels the run.
    """
    run.begin()
    start_task(run, function, arguments)
    try:
        await wait_async(run.over)
    except asyncio.CancelledError:
        run.cancel()
        raise


def start_task(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
    """Begin an ``async def`` program as a task of the running loop."""
    loop = asyncio.get_running_loop()
    run.attach(loop, loop.create_task(_await_function(run, function, arguments)))


async def _await_function(run: Run, function: Function, arguments: Mapping[str, Any]) -> None:
    current_run.set(run)  # a task has its own context
    try:
        value = await function(run.state, **arguments)
    except asyncio.CancelledError:
        run.fail(Cancelled("the program's task was cancelled"))
    except BaseException as error:
        run.fail(error)
        if not isinstance(error, Exception):
            raise
    else:
        run.succeed(value)


def launch(
    run: Run, function: Function, arguments: Mapping[str, Any], *, is_async: bool, on_this_loop: bool = True
) -> None:
    """Begin the program beside the caller and return at once.

    An ``async def`` program becomes a task of the running loop, if there is one and ``on_this_loop``.
    """
    run.begin()
    if not is_async:
        spawn(lambda: execute(run, function, arguments), name=f"radixrt-{run.program}")
    elif on_this_loop and running_loop() is not None:
        start_task(run, function, arguments)
    else:
        spawn(lambda: asyncio.run(run_async(run, function, arguments)), name=f"radixrt-{run.program}")
