"""The worker's main loop: take commands, step the scheduler, send what came of it.

``serve`` is the whole worker, for the process and for the thread mode alike: it starts the I/O thread, loads the
model while heartbeats already go out, and runs the loop until a client says ``Shutdown``. An exception in the loop
itself (not in the work of one program) ends the worker: ``Failed`` goes to every client and the exit code is 1.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from radixrt.worker.activity import error_info
from radixrt.worker.interpreter import Interpreter
from radixrt.worker.io import CommandHandler, WorkerIO
from radixrt.worker.ipc import ServerChannel
from radixrt.worker.messages import Cancel, Failed, Ready
from radixrt.worker.runtime import Runtime

__all__ = ["WorkerLoop", "serve"]

PREPARATION_THREADS = 2
# Messages taken between two steps at most, so that a flood of them can't stop the programs that run.
_MESSAGES_PER_STEP = 256
# A deadline may lie further ahead than a lock can wait for.
_LONGEST_WAIT_S = 3600.0
# How long to wait for news when the scheduler has sequences but can't advance any.
_STUCK_WAIT_S = 0.005

log = logging.getLogger(__name__)

Call = Callable[[], None]


class WorkerLoop:
    """Owns scheduler and interpreter. Made before the model is loaded, because commands may arrive before."""

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self.rounds = 0
        self.busy = True
        self._interpreter: Interpreter | None = None

    @property
    def handler(self) -> CommandHandler:
        """What the I/O thread calls; each call only leaves a note in the inbox."""
        return CommandHandler(
            command=lambda client, command: self._put(lambda i: i.command(client, command)),
            refused=lambda client, name, error: self._put(lambda i: i.refused(client, name, error)),
            gone=lambda client: self._put(lambda i: i.gone(client)),
            overflow=lambda client, name: self._put(lambda i: i.command(client, Cancel(program=name))),
            progress=lambda: (self.rounds, self.busy),
        )

    def _put(self, call: Callable[[Interpreter], None]) -> None:
        self.inbox.put(functools.partial(self._with_interpreter, call))

    def _with_interpreter(self, call: Callable[[Interpreter], None]) -> None:
        if self._interpreter is None:
            raise RuntimeError("a command was taken before the loop ran")
        call(self._interpreter)

    def run(self, runtime: Runtime, io: WorkerIO) -> None:
        """Loop until a ``Shutdown``. Raises whatever is wrong with the loop itself."""
        scheduler = runtime.scheduler
        pool = ThreadPoolExecutor(PREPARATION_THREADS, thread_name_prefix="radixrt-prepare")
        interpreter = self._interpreter = Interpreter(runtime, pool, self.inbox)
        stuck = False
        try:
            while not interpreter.stopped:
                interpreter.idle_s += self._take_messages(_patience(interpreter, scheduler.has_work(), stuck))
                interpreter.expire()
                interpreter.run_deferred()
                self._send(interpreter, io)
                if scheduler.has_work():
                    stuck = not scheduler.step()
                    interpreter.run_deferred()
                    self._send(interpreter, io)
                self.rounds += 1
        finally:
            self._send(interpreter, io)
            pool.shutdown(wait=True, cancel_futures=True)

    def _take_messages(self, patience_s: float | None) -> float:
        """Take what messages are there, after waiting ``patience_s`` (None: for ever) at most; return the wait."""
        waited = 0.0
        with contextlib.suppress(queue.Empty):
            if patience_s != 0.0:
                self.busy = False
                began = time.monotonic()
                try:
                    call = self.inbox.get(timeout=patience_s)
                finally:
                    waited = time.monotonic() - began
                self.busy = True
                call()
            for _ in range(_MESSAGES_PER_STEP):
                self.inbox.get_nowait()()
        self.busy = True
        return waited

    def _send(self, interpreter: Interpreter, io: WorkerIO) -> None:
        if interpreter.replies:
            replies, interpreter.replies = interpreter.replies, []
            io.post(replies)


def _patience(interpreter: Interpreter, has_work: bool, stuck: bool) -> float | None:
    if has_work:
        return _STUCK_WAIT_S if stuck else 0.0
    due = interpreter.next_deadline()
    return None if due is None else min(due, _LONGEST_WAIT_S)


def serve(channel: Callable[[], ServerChannel], load: Callable[[], Runtime], heartbeat_s: float) -> int:
    """Run a worker to its end and return its exit code. ``load`` makes the runtime; its errors are reported."""
    loop = WorkerLoop()
    io = WorkerIO(channel, loop.handler, heartbeat_s)
    io.start()
    code = 1
    try:
        runtime = load()
        io.announce(Ready(pid=os.getpid(), model=runtime.info))
        loop.run(runtime, io)
        code = 0
    except Exception as error:  # noqa: BLE001 - reported to every client, logged when it is a bug
        io.announce(Failed(error=error_info(error)))
    finally:
        io.stop(flush_s=1.0)
    return code
