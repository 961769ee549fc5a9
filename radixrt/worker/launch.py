"""How a worker comes to run: as a process of its own, or as a thread of this one (tests and notebooks).

Used by the supervisor, which sees both alike: an endpoint to talk to, a file that becomes readable when the worker
has ended, and a way to end it by force. Nothing here knows what the worker does.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from radixrt.config import EngineConfig
from radixrt.errors import WorkerDied
from radixrt.worker.ipc import Endpoint, ServerChannel
from radixrt.worker.loop import serve
from radixrt.worker.runtime import Runtime, load_runtime

__all__ = ["Launcher", "ProcessLauncher", "RunningWorker", "ThreadLauncher", "WorkerSetup"]

log = logging.getLogger(__name__)


class WorkerSetup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of the worker process's standard input, as JSON."""

    model: str
    address: str
    config: EngineConfig


class RunningWorker(Protocol):
    """A worker that was started. ``exit_fd`` becomes readable when it has ended."""

    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def exit_fd(self) -> int: ...
    def kill(self) -> None:
        """End it at once, if that can be done."""

    def dispose(self, timeout_s: float) -> str:
        """Wait for the end, free everything, and say how it ended."""


class Launcher(Protocol):
    def launch(self) -> RunningWorker:
        """Start a worker. Raises ``WorkerDied`` when that can't be done at all."""


class ProcessLauncher:
    """Starts ``python -m radixrt.worker``. Works from any parent: no fork, no main module is imported."""

    def __init__(self, model: str, config: EngineConfig, *, module: str = "radixrt.worker") -> None:
        self._model = model
        self._config = config
        self._module = module

    def launch(self) -> RunningWorker:
        try:
            endpoint = Endpoint.for_process()
        except OSError as error:
            raise WorkerDied(f"cannot start a worker: {error}") from error
        setup = WorkerSetup(model=self._model, address=endpoint.address, config=self._config)
        try:
            return _Process(endpoint, setup, self._module)
        except OSError as error:
            endpoint.remove()
            raise WorkerDied(f"cannot start a worker: {error}") from error


class _Process:
    def __init__(self, endpoint: Endpoint, setup: WorkerSetup, module: str) -> None:
        self.endpoint = endpoint
        # The child inherits the mask of this thread, the supervisor's own: so a Ctrl-C meant for the parent
        # does not reach the child in the moment before it has asked to ignore it.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Waiting OpenMP threads sleep instead of spinning: where other processes want the cores too,
                # spinning threads keep each other from the work they wait for, and a step takes ten times as long.
                env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONSAFEPATH": "1"},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("the worker has no pipes")
        # Standard output is a life line: the worker never writes to it and holds it until it ends.
        self.exit_fd = self._process.stdout.fileno()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(setup) + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()

    def dispose(self, timeout_s: float) -> str:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.endpoint.remove()
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


class ThreadLauncher:
    """Runs the worker as a thread; ``load`` makes its runtime."""

    def __init__(self, load: Callable[[], Runtime], config: EngineConfig) -> None:
        self._load = load
        self._config = config

    @classmethod
    def for_model(cls, model: str, config: EngineConfig) -> ThreadLauncher:
        return cls(functools.partial(load_runtime, model, config), config)

    def launch(self) -> RunningWorker:
        return _Thread(self._load, self._config.heartbeat_s)


class _Thread:
    def __init__(self, load: Callable[[], Runtime], heartbeat_s: float) -> None:
        self.endpoint = Endpoint.for_thread()
        self.exit_fd, self._alive_fd = os.pipe()
        self._code: int | None = None
        self._load = load
        self._heartbeat_s = heartbeat_s
        self._thread = threading.Thread(target=self._run, name="radixrt-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._code = serve(
                lambda: ServerChannel(self.endpoint.address, self.endpoint.context), self._load, self._heartbeat_s
            )
        finally:
            os.close(self._alive_fd)

    def kill(self) -> None:
        """A thread cannot be ended by force; ``dispose`` gives up on one that hangs."""

    def dispose(self, timeout_s: float) -> str:
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.error("the worker thread hangs and is left behind")
            return "hangs"
        os.close(self.exit_fd)
        self.endpoint.remove()
        return f"exit code {self._code}"
