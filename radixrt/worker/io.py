"""The worker's I/O thread: it owns the socket, so that a long step or a long load never silences the worker.

It decodes commands and hands them on, sends what the step loop posts, beats every ``heartbeat_s``, and notices
a client that is gone (the next message for it has no route). It knows nothing about programs but their ids.

Slow clients. What a client's socket does not take is queued here. While something is queued, deltas of one sample
are merged into one, so that text costs its own length and no more. A client whose queue grows beyond
``MAX_QUEUED_BYTES`` loses the programs that have events in it: each is cancelled and ends as ``overloaded``; its
other programs, and other clients, notice nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from radixrt.api import DeltaEvent, EndEvent, NodeEvent
from radixrt.errors import ErrorInfo, InvalidRequest, Overloaded
from radixrt.worker.ipc import ClientId, SendResult, ServerChannel, Waker
from radixrt.worker.messages import (
    Command,
    Extend,
    Failed,
    Flush,
    Heartbeat,
    Hello,
    Open,
    Query,
    QueryReply,
    Ready,
    Reply,
    decode_command,
    encode,
)

__all__ = ["CommandHandler", "WorkerIO"]

MAX_QUEUED_BYTES = 64 * 2**20
_FRAMES_PER_MESSAGE = 256
# How soon a socket that refused a message is tried again.
_RETRY_S = 0.02

# What decoding raises for bytes from outside; the last for nesting that is too deep.
_NOT_A_MESSAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

log = logging.getLogger(__name__)

Key = tuple[str, int, int]


class CommandHandler(msgspec.Struct, frozen=True):
    """What the I/O thread calls; every callable must only put something in a queue.

    ``command`` gets all commands but ``Hello``; ``refused`` a program whose message could not be decoded;
    ``gone`` a client that vanished; ``overflow`` a program of a client that does not read; ``progress`` returns
    (steps done, whether the loop is at work).
    """

    command: Callable[[ClientId, Command], None]
    refused: Callable[[ClientId, str, ErrorInfo], None]
    gone: Callable[[ClientId], None]
    overflow: Callable[[ClientId, str], None]
    progress: Callable[[], tuple[int, bool]]


class _Envelope(msgspec.Struct):
    """The part of a broken message that tells whom to answer."""

    program: str | None = None
    id: int | None = None


_envelope_decoder = msgspec.msgpack.Decoder(_Envelope)


class _Queued:
    """An encoded reply that waits, or a delta that may still grow."""

    __slots__ = ("data", "delta", "program", "texts")

    def __init__(self, reply: Reply) -> None:
        self.program = reply.program if isinstance(reply, NodeEvent | DeltaEvent | EndEvent) else None
        self.delta = reply if isinstance(reply, DeltaEvent) else None
        self.texts = [reply.text] if isinstance(reply, DeltaEvent) else []
        self.data = b"" if self.delta is not None else encode(reply)

    def encoded(self) -> bytes:
        if self.delta is None:
            return self.data
        return encode(msgspec.structs.replace(self.delta, text="".join(self.texts)))


class _Client:
    """The outgoing queue of one client."""

    def __init__(self) -> None:
        self.queue: deque[_Queued] = deque()
        self.size = 0
        self.open_deltas: dict[Key, _Queued] = {}
        # Programs that lost events: whatever else they say is dropped, their end included.
        self.muted: set[str] = set()

    def add(self, reply: Reply) -> None:
        if isinstance(reply, NodeEvent | DeltaEvent | EndEvent) and reply.program in self.muted:
            if isinstance(reply, EndEvent):
                self.muted.discard(reply.program)
            return
        if isinstance(reply, DeltaEvent):
            key = (reply.program, reply.node, reply.sample)
            waiting = self.open_deltas.get(key)
            self.size += len(reply.text)
            if waiting is not None:
                waiting.texts.append(reply.text)
                return
            queued = self.open_deltas[key] = _Queued(reply)
        else:
            queued = _Queued(reply)
            self.size += len(queued.data)
        self.queue.append(queued)

    def take(self) -> list[_Queued]:
        """The next entries to send, still counted; ``taken`` settles them."""
        return [self.queue[i] for i in range(min(len(self.queue), _FRAMES_PER_MESSAGE))]

    def taken(self, entries: Sequence[_Queued]) -> None:
        for entry in entries:
            self.queue.popleft()
            if entry.delta is not None:
                del self.open_deltas[(entry.delta.program, entry.delta.node, entry.delta.sample)]
                self.size -= sum(map(len, entry.texts))
            else:
                self.size -= len(entry.data)

    def overflow(self) -> list[str]:
        """Drop the events of every program that has some queued; return those that still run."""
        error = Overloaded("the client does not read its events").to_info()
        ended = {e.program for e in self.queue if e.program and e.delta is None and _is_end(e.data)}
        hit = list(dict.fromkeys(entry.program for entry in self.queue if entry.program))
        kept = [entry for entry in self.queue if entry.program is None]
        self.queue.clear()
        self.open_deltas.clear()
        self.queue.extend(kept)
        self.queue.extend(_Queued(EndEvent(program=p, outcome="failed", error=error)) for p in hit)
        self.size = sum(len(entry.data) for entry in self.queue)
        running = [program for program in hit if program not in ended]
        self.muted.update(running)
        return running


def _is_end(data: bytes) -> bool:
    return msgspec.msgpack.decode(data, type=dict[str, object]).get("type") == "end"


class WorkerIO:
    """Runs the I/O thread. ``post``, ``announce`` and ``stop`` may be called from any thread."""

    def __init__(self, channel: Callable[[], ServerChannel], handler: CommandHandler, heartbeat_s: float) -> None:
        self._make_channel = channel
        self._handler = handler
        self._heartbeat_s = heartbeat_s
        self._posted: deque[Sequence[tuple[ClientId, Reply]]] = deque()
        self._announced: deque[Ready | Failed] = deque()
        self._waker = Waker()
        self._stop = threading.Event()
        self._flush_s = 0.0
        self._clients: dict[ClientId, _Client] = {}
        self._state: Ready | Failed | None = None
        self._told = False
        self._bound = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="radixrt-worker-io", daemon=True)

    def start(self) -> None:
        """Start the thread and return once the socket is bound. Raises what binding raised."""
        self._thread.start()
        self._bound.wait()
        if self._error is not None:
            raise self._error

    def post(self, replies: Sequence[tuple[ClientId, Reply]]) -> None:
        """Send replies in order. Those for unknown clients are dropped: nobody is there to read them."""
        self._posted.append(replies)
        self._waker.wake()

    def announce(self, state: Ready | Failed) -> None:
        """Tell every client, now and when it says hello, that the worker is ready or has failed."""
        self._announced.append(state)
        self._waker.wake()

    def stop(self, flush_s: float = 1.0) -> None:
        """Send what is queued for at most ``flush_s`` seconds, then close the socket and end the thread."""
        self._flush_s = flush_s
        self._stop.set()
        self._waker.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            channel = self._make_channel()
        except Exception as error:  # reported by start()
            log.debug("cannot bind", exc_info=error)
            self._error = error
            self._bound.set()
            return
        self._bound.set()
        try:
            self._serve(channel)
        finally:
            channel.close(linger_s=min(self._flush_s, 0.5))

    def _serve(self, channel: ServerChannel) -> None:
        next_beat = time.monotonic() + self._heartbeat_s
        give_up = float("inf")
        while True:
            blocked = any(client.queue for client in self._clients.values())
            now = time.monotonic()
            wait_s = max(0.0, next_beat - now)
            hurry = blocked or self._stop.is_set()
            channel.wait(min(wait_s, _RETRY_S) if hurry else wait_s, (self._waker.fd,))
            self._waker.clear()
            stopping = self._stop.is_set()
            for client, frames in channel.receive():
                for frame in frames:
                    self._take(client, frame)
            self._collect(channel)
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + self._heartbeat_s
                self._beat()
            for client in list(self._clients):
                self._flush(channel, client)
            if stopping:
                give_up = min(give_up, now + self._flush_s)
                # A failure to load may be known before the client has even connected to hear of it.
                unheard = isinstance(self._state, Failed) and not self._told
                waiting = any(client.queue for client in self._clients.values())
                if now >= give_up or not (waiting or unheard):
                    return

    def _take(self, client: ClientId, frame: bytes) -> None:
        known = self._clients.setdefault(client, _Client())
        try:
            command = decode_command(frame)
        except _NOT_A_MESSAGE as error:
            self._refuse(client, known, frame, error)
            return
        if isinstance(command, Hello):
            steps, busy = self._handler.progress()
            known.add(Heartbeat(steps=steps, busy=busy))
            if self._state is not None:
                known.add(self._state)
                self._told = True
        elif isinstance(self._state, Failed):
            self._answer_failed(known, command, self._state.error)
        else:
            self._handler.command(client, command)

    def _answer_failed(self, client: _Client, command: Command, error: ErrorInfo) -> None:
        """The loop has ended: nobody else will answer."""
        if isinstance(command, Open | Extend):
            client.add(EndEvent(program=command.program, outcome="failed", error=error))
        elif isinstance(command, Query | Flush):
            client.add(QueryReply(id=command.id, error=error))

    def _refuse(self, client: ClientId, known: _Client, frame: bytes, error: Exception) -> None:
        """Answer a message outside the closed set as far as it says who sent it; else log and drop it."""
        info = InvalidRequest(f"message not understood: {error}", param="message").to_info()
        try:
            envelope = _envelope_decoder.decode(frame)
        except _NOT_A_MESSAGE:
            log.warning("dropped a frame of %d bytes that is no message", len(frame))
            return
        if envelope.program is not None:
            self._handler.refused(client, envelope.program, info)
        elif envelope.id is not None:
            known.add(QueryReply(id=envelope.id, error=info))
        else:
            log.warning("dropped a message that names neither program nor query: %s", error)

    def _collect(self, channel: ServerChannel) -> None:
        while self._announced:
            self._state = self._announced.popleft()
            for client in self._clients.values():
                client.add(self._state)
                self._told = True
        by_client: dict[ClientId, list[Reply]] = {}
        while self._posted:
            for name, reply in self._posted.popleft():
                by_client.setdefault(name, []).append(reply)
        for name, replies in by_client.items():
            if name in self._clients and not self._send_at_once(channel, name, replies):
                self._enqueue(name, replies)

    def _send_at_once(self, channel: ServerChannel, name: ClientId, replies: Sequence[Reply]) -> bool:
        """The usual case: nothing waits for this client, and the socket takes everything."""
        client = self._clients[name]
        if client.queue or client.muted or len(replies) > _FRAMES_PER_MESSAGE:
            return False
        result = channel.send(name, [encode(reply) for reply in replies])
        if result is SendResult.GONE:
            self._forget(name)
        return result is not SendResult.FULL

    def _enqueue(self, name: ClientId, replies: Iterable[Reply]) -> None:
        client = self._clients[name]
        for reply in replies:
            client.add(reply)
            if client.size > MAX_QUEUED_BYTES:
                running = client.overflow()
                log.warning("a client does not read its events: %d programs ended as overloaded", len(running))
                for program in running:
                    self._handler.overflow(name, program)

    def _forget(self, name: ClientId) -> None:
        del self._clients[name]
        self._handler.gone(name)

    def _beat(self) -> None:
        steps, busy = self._handler.progress()
        for client in self._clients.values():
            # A client that has mail waiting hears from us anyway, and sending that mail shows if it is gone.
            if not client.queue:
                client.add(Heartbeat(steps=steps, busy=busy))

    def _flush(self, channel: ServerChannel, name: ClientId) -> None:
        client = self._clients[name]
        while client.queue:
            entries = client.take()
            result = channel.send(name, [entry.encoded() for entry in entries])
            if result is SendResult.FULL:
                return
            if result is SendResult.GONE:
                self._forget(name)
                return
            client.taken(entries)
