"""One run of a program: its value, its nodes, its end.

A run is over when its function has returned, all its nodes have ended and so have the programs it started; or
at once when it was cancelled or the engine ended it, wherever its function may be. Nothing here knows how the
function is executed (``execution``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from radixrt.api import Usage
from radixrt.client.protocol import EngineProtocol
from radixrt.errors import Cancelled, InvalidRequest, RadixrtError, UnknownName
from radixrt.frontend.live import Listener, LiveRecording, Terms, error_of_end
from radixrt.frontend.recording import Record, located
from radixrt.frontend.results import NodeResult, Nodes, value_of
from radixrt.frontend.seeds import derived_seed
from radixrt.frontend.state import ProgramState
from radixrt.frontend.trace import trace_of
from radixrt.frontend.waiting import call_soon, running_loop, wait_async, wait_seconds, waits

__all__ = ["Executor", "Queued", "Run", "RunSpec", "current_run"]


class Queued(Protocol):
    """The function of a run that may not have begun."""

    def run_here(self) -> None:
        """Execute it on this thread, unless another thread has begun it. Where that cannot be, ``hurry``."""

    def hurry(self) -> None:
        """Somebody waits for it: it must begin even if every thread waits for it."""


class Executor(Protocol):
    """Executes the functions of runs, each to its end, without making the caller wait."""

    def submit(
        self, run: Run, function: Callable[..., Any], arguments: Mapping[str, Any], *, is_async: bool
    ) -> None: ...

    def close(self) -> None:
        """Let the threads go when they have nothing left to do."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Everything a run is made of, besides the function and its arguments."""

    program: str
    engine: EngineProtocol
    defaults: Mapping[str, Any]
    terms: Terms
    executor: Executor  # of the programs that this one calls
    keep_trace: bool = True
    index: int | None = None
    listener: Listener | None = None
    is_async: bool = False


class Run:
    """What became of one call of a program. ``index`` is its row in a map.

    Reading ``value``, ``run[name]``, ``text``, ``messages``, ``nodes``, ``usage``, ``errors`` or ``trace`` waits
    for what it needs; ``await run`` waits in an event loop. Made by ``program.run`` and its kin.
    """

    def __init__(self, spec: RunSpec) -> None:
        self.program = spec.program
        self.index = spec.index
        self.seed = spec.terms.seed
        self.queued: Queued | None = None
        self._spec = spec
        self._recording = LiveRecording(spec.engine, spec.terms, blocks_loop=spec.is_async, listener=spec.listener)
        self._state = ProgramState(self._recording, spec.defaults)
        self._lock = threading.Lock()
        self._children: list[Run] = []
        self._running_children = 0
        self._calls = 0
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._returned: Future[None] = Future()
        self._settled = False
        self._over: Future[None] = Future()
        self._recording.ended.add_done_callback(lambda _: self._settle())

    # --- what a person reads ---

    @property
    def value(self) -> Any:
        """What the program returned. Waits for the run; raises its error."""
        self.wait()
        self.raise_error()
        return self._value

    @property
    def error(self) -> BaseException | None:
        """What ended the program, None when it returned. Waits for the run. Nodes nobody read are in ``errors``."""
        self.wait()
        return self._error

    def __getitem__(self, name: str) -> Any:
        """The latest value of this name in the root, else the list of those of the branches, in branch order.

        Branch order is that of the forks and of the branches in each. Waits for those values; raises their error.
        """
        self._wait(self._returned)
        latest: dict[Any, Record] = {}
        for record in self._recording.records:
            if record.name == name:
                latest[record.path] = record
        if not latest:
            raise UnknownName(f"nothing is called {name!r} in this run", param=str(name))
        if () in latest:
            return self._read(latest[()])
        return [self._read(latest[path]) for path in sorted(latest)]

    def __contains__(self, name: object) -> bool:
        self._wait(self._returned)
        return any(record.name == name for record in self._recording.records)

    def _read(self, record: Record) -> Any:
        if record.event is None:
            raise RuntimeError(f"{record.label} has no result")
        self._wait(record.event)
        return value_of(record, record.event.result())

    @property
    def nodes(self) -> Nodes:
        """Every gen and select of the run, read or not."""
        self.wait()
        return Nodes(
            [
                NodeResult.of(record, record.event.result())
                for record in self._recording.records
                if record.name is not None and record.event is not None and record.event.done()
            ]
        )

    @property
    def errors(self) -> list[BaseException]:
        """The errors of all nodes that failed, read or not, in the order the program wrote them.

        Then those of the programs it started, each with what ended it and the errors of its own nodes.
        """
        self.wait()
        found: list[BaseException] = []
        for record in self._recording.records:
            if record.error is not None:
                found.append(located(record.error, record))
        for child in self.children:
            own = [] if child.error is None else [child.error]
            found += own + [error for error in child.errors if error not in own]
        return found

    @property
    def text(self) -> str:
        """The content of the root branch, in order."""
        self._wait(self._returned)
        return self._state.text()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages of the root branch as ``{"role": ..., "content": ...}``."""
        self._wait(self._returned)
        return self._state.messages

    @property
    def usage(self) -> Usage:
        """Tokens of all nodes, those of programs called by this one included. Waits for the run."""
        self.wait()
        return self.usage_now()

    def usage_now(self) -> Usage:
        """The usage so far. Never waits."""
        total = self._recording.usage()
        for child in self.children:
            total += child.usage_now()
        return total

    @property
    def trace(self) -> dict[str, Any]:
        """The seed and, unless ``keep_trace=False``, where the time went: one entry for each node. JSON-ready."""
        self.wait()
        return self._trace_now()

    def _trace_now(self) -> dict[str, Any]:
        if not self._spec.keep_trace:
            return {"program": self.program, "seed": self.seed}
        calls = [child._trace_now() for child in self.children]
        return trace_of(self.program, self.seed, self._recording, calls)

    @property
    def children(self) -> list[Run]:
        """The runs of the programs that this one called."""
        with self._lock:
            return list(self._children)

    @property
    def done(self) -> bool:
        """Whether the run is over. Never waits."""
        return self._over.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run is over, at most ``timeout`` seconds. True when it is."""
        return self._wait(self._over, wait_seconds(timeout))

    def __await__(self) -> Generator[Any, None, Run]:
        if self.queued is not None:
            self.queued.hurry()
        yield from wait_async(self._over).__await__()
        return self

    def raise_error(self) -> None:
        """Raise what ended the program, if something did."""
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)  # or every reader would make it longer

    def cancel(self) -> None:
        """Stop the run and the programs it called. Its nodes end as cancelled; harmless after the end."""
        self._recording.cancel()
        for child in self.children:
            child.cancel()

    def _wait(self, future: Future[Any], timeout: float | None = None) -> bool:
        if future.done():
            return True
        if self._task is not None and self._task[0] is running_loop():
            raise InvalidRequest(
                f"waiting for {self.program} here would block the event loop it runs on: use `await run`",
                param="program",
            )
        try:
            if self.queued is not None:
                self.queued.run_here() if timeout is None else self.queued.hurry()
            if not future.done():
                with waits(for_program=True):
                    future.exception(timeout)
        except TimeoutError:
            return False
        except KeyboardInterrupt:
            self.cancel()
            raise
        return True

    def __repr__(self) -> str:
        if not self.done:
            return f"<Run of {self.program}, running>"
        return f"<Run of {self.program}, {'done' if self._error is None else repr(self._error)}>"

    # --- what execution does ---

    def child_spec(self, program: str, *, is_async: bool) -> RunSpec:
        """The terms of a program called by this one: same engine, defaults and deadline, a seed of its own."""
        with self._lock:
            seed = derived_seed(self.seed, "call", self._calls)
            self._calls += 1
        terms = Terms(seed, self._spec.terms.salt, self._spec.terms.priority, self._spec.terms.deadline)
        return replace(self._spec, program=program, terms=terms, index=None, listener=None, is_async=is_async)

    @property
    def executor(self) -> Executor:
        """Executes the programs that this one calls."""
        return self._spec.executor

    def adopt(self, child: Run) -> None:
        """Make ``child`` end with this run. Raises ``Cancelled`` when this one is over."""
        with self._lock:
            if self._settled:
                raise Cancelled("the calling program is over")
            self._children.append(child)
            self._running_children += 1
        child.on_over(self._child_over)
        if not self._recording.is_open:
            child.cancel()

    def _child_over(self, _: Run) -> None:
        with self._lock:
            self._running_children -= 1
        self._settle()

    def on_over(self, callback: Callable[[Run], None]) -> None:
        """Call ``callback(run)`` once when the run is over, on whatever thread ends it."""
        self._over.add_done_callback(lambda _: callback(self))

    def attach(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        """Say which task executes the function, to be cancelled when the run ends before it."""
        self._task = (loop, task)

    def begin(self) -> None:
        """Let the deadline run, if there is one, although the function may be busy long before its first node."""
        try:
            self._recording.open_for_deadline()
        except RadixrtError:
            return  # it ended the recording, and so the run holds it

    @property
    def over(self) -> Future[None]:
        """Fulfilled when the run is over."""
        return self._over

    @property
    def state(self) -> ProgramState:
        return self._state

    def succeed(self, value: Any) -> None:
        """The function returned. Sends what is left."""
        with self._lock:
            if not self._settled:
                self._value = value
        try:
            self._recording.finish()
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, RadixrtError):
                raise
            return
        self._leave()

    def fail(self, error: BaseException) -> None:
        """The function raised: the first error counts, the nodes are cancelled."""
        self._keep(error)
        self.cancel()
        self._leave()

    def _keep(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None and not self._settled:
                self._error, self._traceback = error, error.__traceback__

    def _leave(self) -> None:
        self._mark_returned()
        self._settle()

    def _mark_returned(self) -> bool:
        """True the first time."""
        with self._lock:
            if self._returned.done():
                return False
            self._returned.set_result(None)
            return True

    def _settle(self) -> None:
        end = self._recording.end
        if end is None:
            return
        ended_early = end.outcome != "done"
        with self._lock:
            if self._settled or not (ended_early or (self._returned.done() and self._running_children == 0)):
                return
            self._settled = True
            if self._error is None:
                self._error = error_of_end(end)
        if ended_early:
            for child in self.children:
                child.cancel()
        # The function may still be busy somewhere: nobody waits for it any more.
        if self._mark_returned() and self._task is not None:
            loop, task = self._task
            call_soon(loop, task.cancel)
        self._over.set_result(None)


current_run: ContextVar[Any] = ContextVar("radixrt_current_run", default=None)
