"""A recording whose nodes run on an engine: sends segments of the graph, hears events, ends exactly once.

Lock order: ``_send_lock`` (segments leave in order) before ``_lock`` (records and the end). The engine is never
called under ``_lock``, so its I/O thread can always deliver an event.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from radixrt.api import DeltaEvent, EndEvent, Event, Node, NodeEvent, Usage
from radixrt.client.protocol import EngineProtocol, ProgramHandle
from radixrt.errors import Cancelled, DeadlineExceeded, ErrorInfo, InvalidRequest, RadixrtError
from radixrt.frontend.passes.merge_text import merge_text
from radixrt.frontend.recording import Record, Recording
from radixrt.frontend.waiting import running_loop, wait_async, waits

__all__ = ["LiveRecording", "Terms", "error_of_end"]

Listener = Callable[[Event, Record | None], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a program is opened. ``deadline`` is on the clock of ``time.monotonic``."""

    seed: int
    salt: str | None = None
    priority: int = 0
    deadline: float | None = None


def error_of_end(end: EndEvent) -> RadixrtError | None:
    """The error that a program's end stands for; None when it is done."""
    if end.outcome == "done":
        return None
    if end.error is not None:
        return end.error.to_exception()
    if end.outcome == "cancelled":
        return Cancelled("the program was cancelled")
    return RadixrtError("the program failed")


class LiveRecording(Recording):
    """Nodes on their way to an engine.

    ``ended`` is fulfilled once, after the event of every answered node. ``listener`` hears every event, on the
    engine's I/O thread; giving one asks the engine for text as it comes.
    """

    def __init__(
        self, engine: EngineProtocol, terms: Terms, *, blocks_loop: bool = False, listener: Listener | None = None
    ) -> None:
        super().__init__()
        self._engine = engine
        self._terms = terms
        self._listener = listener
        self._send_lock = threading.Lock()
        self._handle: ProgramHandle | None = None
        self._opening = False
        self._cancelled = False
        self._complete = False  # the program's function has returned: nothing may follow
        self._end: EndEvent | None = None
        self.ended: Future[EndEvent] = Future()
        self.blocks_loop = blocks_loop

    # --- recording and sending ---

    def _check_open(self) -> None:
        if self._end is not None:
            error = error_of_end(self._end)
            if error is not None:
                raise error
        if self._cancelled:
            raise Cancelled("the program was cancelled")
        if self._complete:
            raise InvalidRequest("the program has returned: nothing can be added to it", param="program")

    @property
    def is_open(self) -> bool:
        return self._end is None and not self._cancelled and not self._complete

    def send(self) -> None:
        self._send(final=False)

    def finish(self) -> None:
        """Send the rest and promise that nothing follows."""
        self._send(final=True)

    def open_for_deadline(self) -> None:
        """Open the program before its first node, so that the engine ends it in time whatever happens here."""
        if self._terms.deadline is not None:
            self._send(final=False, open_empty=True)

    def _send(self, *, final: bool, open_empty: bool = False) -> None:
        with self._send_lock:
            with self._lock:
                segment = self._take_unsent()
                self._complete = self._complete or final
                ended = self._end is not None
                self._opening = bool(segment or open_empty) and self._handle is None and not ended
            opens = open_empty and self._handle is None
            if ended or not (segment or final or opens):
                return
            if self._handle is not None:
                self._stamp(segment)
                self._handle.extend(merge_text(segment), final=final)
            elif segment or opens:
                self._open(segment, final)
            else:  # a program without a node never reaches the engine
                self._finish(EndEvent(program="", outcome="done"))

    def _open(self, segment: list[Node], final: bool) -> None:
        timeout = None
        if self._terms.deadline is not None:
            timeout = self._terms.deadline - time.monotonic()
            if timeout <= 0:
                error = DeadlineExceeded(
                    "the time given to the program ran out before its first node", param="timeout"
                )
                self._finish(EndEvent(program="", outcome="failed", error=error.to_info()))
                raise error
        self._stamp(segment)
        try:
            handle = self._engine.open_program(
                merge_text(segment),
                self._on_event,
                seed=self._terms.seed,
                final=final,
                salt=self._terms.salt,
                priority=self._terms.priority,
                timeout_s=timeout,
                deltas=self._listener is not None,
            )
        except BaseException as error:
            with self._lock:
                self._opening = False
            reason = error if isinstance(error, RadixrtError) else RadixrtError(f"the engine failed: {error!r}")
            self._finish(EndEvent(program="", outcome="failed", error=reason.to_info()))
            raise
        with self._lock:
            self._handle, self._opening = handle, False
            cancelled = self._cancelled
        if cancelled:  # by another thread, while the engine opened it
            handle.cancel()

    def _stamp(self, segment: list[Node]) -> None:
        now = time.monotonic()
        for node in segment:
            self._records[node.node].sent_at = now

    # --- reading ---

    def result(self, record: Record) -> NodeEvent:
        promise = _promise(record)
        self.send()
        if self.blocks_loop and self.is_open and not record.awaited and running_loop() is not None:
            raise InvalidRequest(
                f"reading {record.label} here would block the event loop: "
                "use `await s.read(name)`, or `await s.wait()` before reading several",
                param=record.name,
            )
        if not promise.done():
            with waits(for_program=False):
                return promise.result()
        return promise.result()

    async def wait(self, record: Record) -> NodeEvent:
        promise = _promise(record)
        self.send()
        event = await wait_async(promise)
        record.awaited = True
        return event

    @property
    def end(self) -> EndEvent | None:
        return self._end

    def usage(self) -> Usage:
        """Of the whole program once it has ended, else of the nodes that have."""
        if self._end is not None and self._end.usage != Usage():
            return self._end.usage
        total = Usage()
        for record in self.records:
            if record.event is not None and record.event.done():
                total += record.event.result().usage
        return total

    # --- events, on the engine's I/O thread ---

    def _on_event(self, event: Event) -> None:
        if isinstance(event, EndEvent):
            self._finish(event)
            return
        with self._lock:
            record = self._records[event.node] if 0 <= event.node < len(self._records) else None
            if self._end is not None or record is None:
                return
            if isinstance(event, NodeEvent):
                if record.event is None:
                    record.failure = event.error
                record.ended_at = time.monotonic()
        if isinstance(event, NodeEvent) and record.event is not None and not record.event.done():
            record.event.set_result(event)
        self._tell(event, record)

    def _finish(self, end: EndEvent) -> None:
        """End once: every answered node that has no event yet gets the program's error."""
        error = error_of_end(end) or RadixrtError("the program ended before this node")
        info: ErrorInfo = error.to_info()
        with self._lock:
            if self._end is not None:
                return
            self._end = end
            self._unsent = []
            open_records = [r for r in self._records if r.event is not None and not r.event.done()]
        for record in open_records:
            event = NodeEvent(program=end.program, node=record.node, error=info)
            record.ended_at = time.monotonic()
            if record.event is not None and not record.event.done():
                record.event.set_result(event)
                self._tell(event, record)
        self._tell(end, None)
        self.ended.set_result(end)

    def _tell(self, event: NodeEvent | DeltaEvent | EndEvent, record: Record | None) -> None:
        if self._listener is not None:
            self._listener(event, record)

    # --- cancelling ---

    def cancel(self) -> None:
        """Cancel what is left of the program: from now on nothing can be added. Harmless after the end."""
        with self._lock:
            self._cancelled = True
            handle, opening = self._handle, self._opening
        if handle is not None:
            handle.cancel()  # its end event ends the recording
        elif not opening:
            self._finish(EndEvent(program="", outcome="cancelled"))

    def cancel_branch(self, branch: int) -> None:
        self.send()
        with self._lock:
            handle = self._handle
        if handle is not None:
            handle.cancel(branch)


def _promise(record: Record) -> Future[NodeEvent]:
    if record.event is None:
        raise RuntimeError(f"{record.label} has no result")
    return record.event
