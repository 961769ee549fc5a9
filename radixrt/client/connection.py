"""Programs and queries in flight over one supervisor: who gets which reply, and what they hear when it is lost.

A program's events arrive in order on the supervisor's thread. Whatever happens to worker and engine, each of its
gen, select and join nodes gets one ``NodeEvent`` and the program one ``EndEvent`` after them: what the worker can
no longer say is said here. Nothing here knows what a program means.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import msgspec

from radixrt.api import EndEvent, Event, GenNode, JoinNode, Node, NodeEvent, SelectNode
from radixrt.client.protocol import EventCallback
from radixrt.errors import Cancelled, ErrorInfo, InvalidRequest, RadixrtError
from radixrt.worker.ipc import MAX_MESSAGE_BYTES
from radixrt.worker.messages import Cancel, Command, Extend, Flush, Open, Query, QueryReply, Reply, encode
from radixrt.worker.supervisor import Supervisor

__all__ = ["Connection", "Handle"]

log = logging.getLogger(__name__)


class Connection:
    """Implements the supervisor's ``Listener``. ``attach`` gives it the supervisor."""

    def __init__(self) -> None:
        self._handles: dict[str, Handle] = {}
        self._queries: dict[int, Future[QueryReply]] = {}
        self._numbers = itertools.count(1)
        self._prefix = uuid.uuid4().hex[:8]
        self._supervisor: Supervisor | None = None

    def attach(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    @property
    def supervisor(self) -> Supervisor:
        if self._supervisor is None:
            raise RuntimeError("used before it was attached")
        return self._supervisor

    @property
    def in_flight(self) -> int:
        return len(self._handles)

    def new_program_id(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"

    def open(self, handle: Handle, message: Open) -> None:
        frame = encoded(message)
        with self.supervisor.lock:
            self.supervisor.check()
            self._handles[handle.id] = handle
            self.supervisor.send(frame)

    def forget(self, program: str) -> None:
        self._handles.pop(program, None)

    def ask(self, build: Callable[[int], Query | Flush]) -> Future[QueryReply]:
        """Send a query; the future fails with ``WorkerDied`` when no answer can come any more."""
        number = next(self._numbers)
        frame = encoded(build(number))
        future: Future[QueryReply] = Future()
        with self.supervisor.lock:
            self.supervisor.check()
            self._queries[number] = future
            self.supervisor.send(frame)
        return future

    # --- Listener ------------------------------------------------------------------------------------------------

    def on_reply(self, reply: Reply) -> None:
        if isinstance(reply, QueryReply):
            future = self._queries.pop(reply.id, None)
            if future is not None and future.set_running_or_notify_cancel():
                if reply.error is not None:
                    future.set_exception(reply.error.to_exception())
                else:
                    future.set_result(reply)
        elif isinstance(reply, Event):
            handle = self._handles.get(reply.program)
            if handle is not None:
                handle.deliver(reply)

    def on_down(self, error: RadixrtError) -> Callable[[], None]:
        handles, self._handles = list(self._handles.values()), {}
        queries, self._queries = list(self._queries.values()), {}
        info = error.to_info()

        def tell() -> None:
            for handle in handles:
                handle.deliver(EndEvent(program=handle.id, outcome="failed", error=info))
            for future in queries:
                if future.set_running_or_notify_cancel():
                    future.set_exception(info.to_exception())

        return tell


class Handle:
    """A program in flight: ``radixrt.client.protocol.ProgramHandle``.

    ``owner`` is kept alive as long as the handle is: a program keeps its engine.
    """

    def __init__(self, connection: Connection, owner: object, on_event: EventCallback, final: bool) -> None:
        self.id = connection.new_program_id()
        self._connection = connection
        self._owner = owner
        self._on_event = on_event
        self._final = final
        self._over = False
        self._unfinished: dict[int, None] = {}

    def expect(self, nodes: Sequence[Node]) -> None:
        """Note which of ``nodes`` will have an event."""
        for node in nodes:
            if isinstance(node, GenNode | SelectNode | JoinNode):
                self._unfinished[node.node] = None

    def extend(self, nodes: Sequence[Node], *, final: bool = False) -> None:
        """Send more nodes. Raises ``InvalidRequest`` after ``final``; has no effect once the program ended."""
        frame = encoded(Extend(program=self.id, nodes=tuple(nodes), final=final))
        with self._connection.supervisor.lock:
            if self._over:
                return
            if self._final:
                raise InvalidRequest("the program is final: no nodes can follow", param="final")
            self._final = final
            self.expect(nodes)
            self._send(frame)

    def cancel(self, branch: int | None = None) -> None:
        with self._connection.supervisor.lock:
            if not self._over:
                self._send(encoded(Cancel(program=self.id, branch=branch)))

    def _send(self, frame: bytes) -> None:
        try:
            self._connection.supervisor.send(frame)
        except RadixrtError as error:
            # The worker is gone for good, and the end of this program is on its way to us.
            log.debug("not sent: %s", error)

    def deliver(self, event: Event) -> None:
        """On the supervisor's thread."""
        if isinstance(event, EndEvent):
            with self._connection.supervisor.lock:
                if self._over:
                    return
                self._over = True
                unheard, self._unfinished = self._unfinished, {}
                self._connection.forget(self.id)
            error = event.error or _silent_end(event)
            for node in unheard:
                self._call(NodeEvent(program=self.id, node=node, error=error))
            self._call(event)
            self._owner = None
            return
        if isinstance(event, NodeEvent):
            self._unfinished.pop(event.node, None)
        self._call(event)

    def _call(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:
            log.exception("the callback of program %s failed", self.id)


def _silent_end(event: EndEvent) -> ErrorInfo:
    if event.outcome == "cancelled":
        return Cancelled("the program was cancelled").to_info()
    return RadixrtError("the program ended without a word about this node").to_info()


def encoded(message: Command) -> bytes:
    """The message as bytes. Raises ``InvalidRequest`` for text and numbers that cannot be sent."""
    try:
        frame = encode(message)
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"text contains a lone surrogate: {error.reason}", param="text") from error
    except (OverflowError, TypeError, msgspec.EncodeError) as error:
        raise InvalidRequest(f"cannot be sent: {error}", param="nodes") from error
    if len(frame) > MAX_MESSAGE_BYTES:
        raise InvalidRequest(f"a message of {len(frame)} bytes; the limit is {MAX_MESSAGE_BYTES}", param="nodes")
    return frame
