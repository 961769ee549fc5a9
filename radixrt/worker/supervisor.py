"""The client's side of a worker's life: start it, talk to it, watch it, start it again.

One thread owns the socket and does all of it. A worker that exits is noticed at once, one that is silent or whose
loop stands still is killed; either way everything in flight is reported as down, and after a pause a new worker
starts. What is sent meanwhile waits for it. Several failures in a row, or one before the first worker was ever
ready, end the supervisor: then every call raises the reason. Nothing here knows programs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from radixrt.errors import RadixrtError, WorkerDied
from radixrt.worker.ipc import ClientChannel, Waker
from radixrt.worker.launch import Launcher, ProcessLauncher, RunningWorker, ThreadLauncher
from radixrt.worker.messages import (
    Failed,
    Heartbeat,
    Hello,
    ModelInfo,
    Ready,
    Reply,
    Shutdown,
    decode_reply,
    encode,
)

__all__ = ["Launcher", "Listener", "Patience", "ProcessLauncher", "Supervisor", "ThreadLauncher"]

log = logging.getLogger(__name__)

_FRAMES_PER_MESSAGE = 64


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits for what.

    ``silent_beats`` heartbeats may be missed (never less than ``silent_min_s`` seconds; the first one may take
    ``start_s``); a step of the loop may take ``step_s``. After a failure the pause doubles from ``pause_s`` up to
    ``max_pause_s``; after ``max_failures`` in a row, without ``healthy_s`` seconds of service between, no new
    worker is started. A worker that is asked to end gets ``goodbye_s``.
    """

    silent_beats: int = 15
    silent_min_s: float = 5.0
    start_s: float = 120.0
    step_s: float = 900.0
    pause_s: float = 0.1
    max_pause_s: float = 5.0
    max_failures: int = 5
    healthy_s: float = 30.0
    goodbye_s: float = 3.0


class Listener(Protocol):
    """Hears the worker, on the supervisor's thread. Must not block; what it raises is logged and dropped."""

    def on_reply(self, reply: Reply) -> None: ...
    def on_down(self, error: RadixrtError) -> Callable[[], None]:
        """Everything in flight is lost to ``error``. Called under ``Supervisor.lock``: forget it all, and
        return what tells those concerned, which is called after the lock is free."""


class Supervisor:
    """Runs the thread. ``lock`` guards sending, so that a caller can register what it sends in one go."""

    def __init__(
        self, launcher: Launcher, listener: Listener, heartbeat_s: float, patience: Patience | None = None
    ) -> None:
        self.lock = threading.RLock()
        self._launcher = launcher
        self._listener = listener
        self._heartbeat_s = heartbeat_s
        self._patience = patience or Patience()
        self._outbox: deque[bytes] = deque()
        self._waker = Waker()
        self._close_asked = False
        self._settled = threading.Event()  # the first worker is ready, or there will be none
        self._error: RadixrtError | None = None
        self._model: ModelInfo | None = None
        self._pid: int | None = None
        self._thread = threading.Thread(target=self._run, name="radixrt-engine", daemon=True)
        self._thread.start()

    # --- any thread ----------------------------------------------------------------------------------------------

    def wait_ready(self) -> ModelInfo:
        """Wait for the first worker. Raises what kept it from being ready."""
        self._settled.wait()
        if self._model is None or self._error is not None:
            raise self._error or WorkerDied("the engine is closed")
        return self._model

    @property
    def pid(self) -> int | None:
        """Process id of the worker that is ready now."""
        return self._pid

    def check(self) -> None:
        """Raise if there is no worker and will be none. Call under ``lock`` before registering anything."""
        if self._error is not None:
            raise self._error

    def send(self, frame: bytes) -> None:
        """Queue an encoded command. Raises like ``check``."""
        with self.lock:
            self.check()
            self._outbox.append(frame)
        self._waker.wake()

    def request_close(self) -> None:
        """Start closing. Takes no lock: a finalizer may call it in the middle of anything."""
        self._close_asked = True
        self._waker.wake()

    def close(self) -> None:
        """End the worker and wait until it is gone. May be called again, and from anywhere."""
        self.request_close()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=self._patience.goodbye_s + 10.0)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures, pause = 0, self._patience.pause_s
        while True:
            if self._is_closing():
                error: RadixrtError = WorkerDied("the engine is closed")
                break
            started = time.monotonic()
            try:
                error = self._serve_one()
            except RadixrtError as refused:
                error = refused
            except Exception as bug:
                log.exception("the supervisor failed")
                error = WorkerDied(f"the engine's own thread failed: {type(bug).__name__}")
                break
            if self._is_closing():
                continue
            if self._model is None:
                break  # never been ready: the reason is the model or the machine, and would be the same again
            if time.monotonic() - started > self._patience.healthy_s:
                failures, pause = 0, self._patience.pause_s
            failures += 1
            if failures >= self._patience.max_failures:
                error = WorkerDied(f"the worker ended {failures} times in a row, the last time: {error}")
                break
            log.warning("%s; starting a new worker", error)
            self._down(error)
            self._pause(pause)
            pause = min(pause * 2, self._patience.max_pause_s)
        self._down(error, for_good=True)
        self._settled.set()

    def _is_closing(self) -> bool:
        return self._close_asked

    def _down(self, error: RadixrtError, *, for_good: bool = False) -> None:
        lost = error if isinstance(error, WorkerDied) else WorkerDied(error.message)
        with self.lock:
            self._pid = None
            self._outbox.clear()
            if for_good:
                self._error = error if self._model is None else lost
            tell = self._listener.on_down(lost)
        self._call(tell)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_closing() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def _serve_one(self) -> RadixrtError:
        """Start one worker and stay with it to its end; return the reason of the end."""
        worker = self._launcher.launch()
        channel = ClientChannel(worker.endpoint.address, worker.endpoint.context)
        watch = _Watch(self._heartbeat_s, self._patience)
        ended = False
        try:
            channel.send([encode(Hello())])
            error = self._converse(worker, channel, watch)
            if self._is_closing() and watch.ready:
                ended = self._say_goodbye(worker, channel)
        finally:
            channel.close()
            self._pid = None
            if not ended:
                worker.kill()
            how = worker.dispose(self._patience.goodbye_s)
        return error or WorkerDied(f"the worker process ended ({how})")

    def _converse(self, worker: RunningWorker, channel: ClientChannel, watch: _Watch) -> RadixrtError | None:
        """Until close is asked for or the worker ends (None: by itself, without a word)."""
        while not self._is_closing():
            waiting = watch.ready and bool(self._outbox)
            before = time.monotonic()
            readable = channel.wait(self._heartbeat_s, (self._waker.fd, worker.exit_fd), to_send=waiting)
            if time.monotonic() - before > 2 * self._heartbeat_s + 1.0:
                watch.forgive()  # we were stopped ourselves: the worker's beats are still to be read
            self._waker.clear()
            failed = self._receive(channel, watch)
            if failed is None and worker.exit_fd in readable:
                channel.wait(0.05, ())  # its last words may still be on the way
                failed = self._receive(channel, watch)
                return failed or None
            if failed is not None:
                return failed
            if watch.ready:
                self._flush(channel)
            complaint = watch.complaint()
            if complaint is not None:
                return WorkerDied(complaint)
        return None

    def _receive(self, channel: ClientChannel, watch: _Watch) -> RadixrtError | None:
        """Hand on what has arrived. Returns the error of a worker that says it has failed."""
        for frame in channel.receive():
            try:
                reply = decode_reply(frame)
            except (msgspec.DecodeError, RecursionError) as error:
                return WorkerDied(f"the worker sent something that is no reply: {error}")
            watch.heard(reply)
            if isinstance(reply, Failed):
                return reply.error.to_exception()
            if isinstance(reply, Ready):
                self._pid, self._model = reply.pid, reply.model
                self._settled.set()
            elif not isinstance(reply, Heartbeat):
                self._call(self._listener.on_reply, reply)
        return None

    def _flush(self, channel: ClientChannel) -> None:
        while self._outbox:
            with self.lock:
                frames = [self._outbox.popleft() for _ in range(min(len(self._outbox), _FRAMES_PER_MESSAGE))]
            if not channel.send(frames):
                with self.lock:
                    self._outbox.extendleft(reversed(frames))
                return

    def _say_goodbye(self, worker: RunningWorker, channel: ClientChannel) -> bool:
        """Ask the worker to end, and listen to how its programs end. False if it does not end in time."""
        channel.send([encode(Shutdown())])
        watch = _Watch(self._heartbeat_s, self._patience)
        until = time.monotonic() + self._patience.goodbye_s
        while (left := until - time.monotonic()) > 0:
            ended = worker.exit_fd in channel.wait(left, (worker.exit_fd,))
            self._receive(channel, watch)
            if ended:
                return True
        return False

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception:
            log.exception("a callback for the worker's events failed")


class _Watch:
    """Judges by what one worker says, and when, whether it is well."""

    def __init__(self, heartbeat_s: float, patience: Patience) -> None:
        self.ready = False
        self._patience = patience
        self._silence_s = max(patience.silent_beats * heartbeat_s, patience.silent_min_s)
        self._heard = False
        self._last = self._progress = time.monotonic()
        self._steps = -1
        self._busy = False

    def heard(self, reply: Reply) -> None:
        self._heard = True
        self._last = time.monotonic()
        if isinstance(reply, Ready):
            self.ready = True
            self._progress = self._last
        elif isinstance(reply, Heartbeat):
            if reply.steps != self._steps or not reply.busy:
                self._progress = self._last
            self._steps, self._busy = reply.steps, reply.busy

    def forgive(self) -> None:
        self._last = self._progress = time.monotonic()

    def complaint(self) -> str | None:
        now = time.monotonic()
        if now - self._last > (self._silence_s if self._heard else self._patience.start_s):
            return f"the worker was silent for {now - self._last:.0f} s"
        if self.ready and self._busy and now - self._progress > self._patience.step_s:
            return f"a step of the worker took longer than {self._patience.step_s:.0f} s"
        return None
