"""The worker's table of open programs: takes commands, hands out what programs need, keeps deadlines.

Everything here runs on the step loop's thread; what takes longer than a moment (tokenizing, templates, compiling)
goes to the preparation pool and comes back through the loop's inbox. Everything done for one program runs under
one guard: an error that nobody raised on purpose fails that program as ``internal_error`` and is logged.
This module knows messages and programs; it knows neither sockets nor what happens in a step.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

from radixrt.api import VERSION, EndEvent, Event
from radixrt.errors import Cancelled, DeadlineExceeded, ErrorInfo, InvalidRequest, Overloaded, RadixrtError
from radixrt.scheduler.request import SequenceRequest
from radixrt.worker.activity import Activity, Job, T, error_info
from radixrt.worker.backlog import Backlog
from radixrt.worker.ipc import ClientId
from radixrt.worker.messages import (
    Cancel,
    Command,
    Extend,
    Flush,
    Open,
    Query,
    QueryReply,
    Reply,
    Shutdown,
)
from radixrt.worker.program import Program
from radixrt.worker.runtime import Runtime

__all__ = ["MAX_PROGRAMS", "Inbox", "Interpreter"]

MAX_PROGRAMS = 16_384
"""Programs open at the same time at most; one more is refused as overloaded."""

MAX_NAME_CHARS = 256
"""Characters of a program's id and of its salt at most."""

MAX_TOKENIZE_CHARS = 2**24
"""Characters of a text to tokenize (a query, not a prompt) at most."""

MAX_SEED = 2**64 - 1
MAX_PRIORITY = 2**31 - 1
MIN_PRIORITY = -(2**31)

MAX_SEQUENCES = 4096
"""Sequences that activities have in flight when no other is started; what comes after them is held back."""

# How many programs that have ended are remembered, to tell late messages from wrong ones.
_REMEMBERED = 32_768

Key = tuple[ClientId, str]


class Inbox(Protocol):
    """Where other threads leave calls for the loop's thread."""

    def put(self, call: Callable[[], None], /) -> None: ...


class Interpreter:
    """See the module. ``replies`` collects what is to be sent; the loop takes it after each step."""

    def __init__(
        self,
        runtime: Runtime,
        pool: Executor,
        inbox: Inbox,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runtime = runtime
        self.stopped = False
        self.idle_s = 0.0  # seconds the loop has waited for messages; the loop adds to it
        self._started = clock()
        self.replies: list[tuple[ClientId, Reply]] = []
        self._pool = pool
        self._inbox = inbox
        self._clock = clock
        self._programs: dict[Key, Program] = {}
        self._ended: OrderedDict[Key, None] = OrderedDict()
        # A heap of (time, number, key), which may hold entries of programs that have ended. An entry of
        # ``_timed`` is the one that counts for its key; neither keeps a program alive.
        self._deadlines: list[tuple[float, int, Key]] = []
        self._timed: dict[Key, int] = {}
        self._deferred: deque[tuple[Program, Callable[[], None]]] = deque()
        self._numbers = itertools.count(1)
        self._opened = 0
        # Activities that need the model: how many each program has, those that were started, those held back.
        self._at_work: dict[Program, int] = {}
        self._begun: set[Activity] = set()
        self._weight = 0
        self._backlog: Backlog[Program, Activity] = Backlog()
        # A batch must never want for sequences because some are held back.
        self._max_weight = max(MAX_SEQUENCES, 2 * runtime.config.max_running)

    # --- commands ------------------------------------------------------------------------------------------------

    def command(self, client: ClientId, command: Command) -> None:
        if isinstance(command, Open):
            self._open(client, command)
        elif isinstance(command, Extend):
            self._extend(client, command)
        elif isinstance(command, Cancel):
            self._cancel(client, command)
        elif isinstance(command, Query):
            self._query(client, command)
        elif isinstance(command, Flush):
            self.runtime.scheduler.flush_cache()
            self._reply(client, QueryReply(id=command.id))
        elif isinstance(command, Shutdown):
            self.stop()

    def refused(self, client: ClientId, name: str, error: ErrorInfo) -> None:
        """A message for program ``name`` could not be understood: the program fails, open or not."""
        program = self._programs.get((client, name))
        if program is not None:
            program.end("failed", error)
        elif (client, name) not in self._ended:
            self._never_opened((client, name), error)

    def gone(self, client: ClientId) -> None:
        """The client has vanished: its programs end unheard, and what they hold is free."""
        for (owner, _), program in list(self._programs.items()):
            if owner == client:
                program.end("cancelled", Cancelled("the client is gone").to_info(), silent=True)

    def stop(self) -> None:
        """End every program as cancelled; the loop ends after this."""
        self.stopped = True
        for program in list(self._programs.values()):
            program.end("cancelled", Cancelled("the worker shuts down").to_info())

    def _open(self, client: ClientId, message: Open) -> None:
        key = (client, message.program)
        running = self._programs.get(key)
        if running is not None:
            error = InvalidRequest(f"the program {message.program!r} is open already", param="program")
            running.end("failed", error.to_info())
            return
        try:
            _check(message)
            if len(self._programs) >= MAX_PROGRAMS:
                raise Overloaded(f"{MAX_PROGRAMS} programs are open")
            self._check_queue()
        except RadixrtError as error:
            self._never_opened(key, error.to_info())
            return
        self._ended.pop(key, None)
        program = self._programs[key] = Program(self, client, message)
        self._opened += 1
        if message.timeout_s is not None:
            self._set_deadline(key, self._clock() + message.timeout_s)
        self._guard(program, functools.partial(program.extend, message.nodes, message.final))

    def _check_queue(self) -> None:
        """Refuse a program when ``max_queued`` wait beside as many as can run. Nodes of open ones never are."""
        config = self.runtime.config
        if len(self._at_work) >= config.max_running + config.max_queued:
            raise Overloaded(
                f"{len(self._at_work)} programs are at work: {config.max_running} may run and "
                f"{config.max_queued} may wait",
                param="max_queued",
            )

    def _extend(self, client: ClientId, message: Extend) -> None:
        key = (client, message.program)
        program = self._programs.get(key)
        if program is not None:
            self._guard(program, functools.partial(program.extend, message.nodes, message.final))
        elif key not in self._ended:
            error = InvalidRequest(f"the program {message.program!r} was never opened", param="program")
            self._never_opened(key, error.to_info())

    def _cancel(self, client: ClientId, message: Cancel) -> None:
        # A program that has ended (or never was) has nothing to cancel: the two cross on the wire all the time.
        program = self._programs.get((client, message.program))
        if program is None:
            return
        if message.branch is None:
            program.end("cancelled", Cancelled("the program was cancelled").to_info())
        else:
            self._guard(program, functools.partial(program.cancel_branch, message.branch))

    def _never_opened(self, key: Key, error: ErrorInfo) -> None:
        self._remember(key)
        self._reply(key[0], EndEvent(program=key[1], outcome="failed", error=error))

    def _query(self, client: ClientId, message: Query) -> None:
        if message.what == "stats":
            self._reply(client, QueryReply(id=message.id, stats=self.stats()))
        elif message.what == "tokenize":
            self._answer(client, functools.partial(_tokenized, self.runtime, message), message.id)
        elif message.what == "detokenize":
            self._answer(client, functools.partial(_detokenized, self.runtime, message), message.id)
        else:
            error = InvalidRequest(f"there is no query {message.what!r}", param="what")
            self._reply(client, QueryReply(id=message.id, error=error.to_info()))

    def _answer(self, client: ClientId, work: Callable[[], QueryReply], query: int) -> None:
        """Work out a reply on the pool."""

        def done(future: Future[QueryReply]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            reply = QueryReply(id=query, error=error_info(error)) if error is not None else future.result()
            self._inbox.put(functools.partial(self._reply, client, reply))

        self._pool.submit(work).add_done_callback(done)

    def stats(self) -> dict[str, float]:
        """The scheduler's figures; programs open now (``programs``) and opened so far; ``busy_s`` of the loop."""
        own = {
            "programs": float(len(self._programs)),
            "programs_opened": float(self._opened),
            "busy_s": self._clock() - self._started - self.idle_s,
        }
        return {**self.runtime.scheduler.stats(), **own}

    # --- time and deferred calls ---------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Seconds until the next deadline, None without one."""
        self._drop_met_deadlines()
        return max(0.0, self._deadlines[0][0] - self._clock()) if self._deadlines else None

    def expire(self) -> None:
        """Fail the programs whose time is up."""
        self._drop_met_deadlines()
        while self._deadlines and self._deadlines[0][0] <= self._clock():
            program = self._programs[self._deadlines[0][2]]
            program.end("failed", DeadlineExceeded("the program's time ran out", param="timeout").to_info())
            self._drop_met_deadlines()

    def _set_deadline(self, key: Key, when: float) -> None:
        number = self._timed[key] = next(self._numbers)
        heapq.heappush(self._deadlines, (when, number, key))
        if len(self._deadlines) > 2 * len(self._timed) + 64:
            self._deadlines = [entry for entry in self._deadlines if self._timed.get(entry[2]) == entry[1]]
            heapq.heapify(self._deadlines)

    def _drop_met_deadlines(self) -> None:
        """Take from the top of the heap what belongs to programs that have ended."""
        while self._deadlines and self._timed.get(self._deadlines[0][2]) != self._deadlines[0][1]:
            heapq.heappop(self._deadlines)

    def run_deferred(self) -> None:
        """Make the calls that were put off until the scheduler may be called again, and use the room there is."""
        while self._deferred or (self._backlog and self._weight < self._max_weight):
            if self._deferred:
                program, call = self._deferred.popleft()
                self._guard(program, call)
            else:
                program, activity = self._backlog.pop()
                self._guard(program, functools.partial(self._start, activity))

    def _guard(self, program: Program, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - error_info logs what nobody raised on purpose
            program.end("failed", error_info(error))

    def _remember(self, key: Key) -> None:
        self._ended[key] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _reply(self, client: ClientId, reply: Reply) -> None:
        self.replies.append((client, reply))

    # --- what programs ask for (program.Services) ----------------------------------------------------------------

    def prepare(
        self, owner: Program, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[ErrorInfo], None]
    ) -> Job:
        def done(future: Future[T]) -> None:
            # On a thread of the pool. BaseException too: a panic in a native library must not be lost.
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:
                call = functools.partial(failed, error_info(error))
            else:
                call = functools.partial(then, future.result())
            self._inbox.put(functools.partial(self._guard, owner, call))

        future = self._pool.submit(work)
        future.add_done_callback(done)
        return future

    def begin(self, owner: Program, activity: Activity) -> None:
        self._at_work[owner] = self._at_work.get(owner, 0) + 1
        if self._backlog or self._weight >= self._max_weight:
            self._backlog.add(owner, activity, owner.priority)
        else:
            self._start(activity)

    def _start(self, activity: Activity) -> None:
        self._begun.add(activity)
        self._weight += activity.weight
        activity.start()

    def release(self, owner: Program, activity: Activity) -> None:
        self._at_work[owner] -= 1
        if not self._at_work[owner]:
            del self._at_work[owner]
        if activity in self._begun:
            self._begun.remove(activity)
            self._weight -= activity.weight
        else:
            self._backlog.discard(owner, activity, owner.priority)

    def submit(self, request: SequenceRequest) -> None:
        self.runtime.scheduler.submit(request)

    def cancel_sequence(self, sequence: int) -> None:
        self.runtime.scheduler.cancel(sequence)

    def next_sequence(self) -> int:
        return next(self._numbers)

    def later(self, owner: Program, call: Callable[[], None]) -> None:
        self._deferred.append((owner, call))

    def emit(self, owner: Program, event: Event) -> None:
        self.replies.append((owner.client, event))

    def note_future_use(self, namespace: tuple[str, ...], ids: list[int], delta: int) -> None:
        self.runtime.scheduler.note_future_use(namespace, ids, delta)

    def ended(self, owner: Program) -> None:
        key = (owner.client, owner.name)
        del self._programs[key]
        self._timed.pop(key, None)
        self._remember(key)


def _check(message: Open) -> None:
    if message.version != VERSION:
        raise InvalidRequest(
            f"version {message.version} of the program messages is not known, only {VERSION}", param="version"
        )
    if not 0 < len(message.program) <= MAX_NAME_CHARS:
        raise InvalidRequest(f"a program's id has 1 to {MAX_NAME_CHARS} characters", param="program")
    if message.salt is not None and len(message.salt) > MAX_NAME_CHARS:
        raise InvalidRequest(f"a salt has at most {MAX_NAME_CHARS} characters", param="salt")
    if not 0 <= message.seed <= MAX_SEED:
        raise InvalidRequest(f"seed must be between 0 and {MAX_SEED}", param="seed")
    if not MIN_PRIORITY <= message.priority <= MAX_PRIORITY:
        raise InvalidRequest(f"priority must be between {MIN_PRIORITY} and {MAX_PRIORITY}", param="priority")
    if message.timeout_s is not None and not (math.isfinite(message.timeout_s) and message.timeout_s > 0):
        raise InvalidRequest("timeout_s must be a positive number of seconds", param="timeout_s")


def _tokenized(runtime: Runtime, message: Query) -> QueryReply:
    if len(message.text) > MAX_TOKENIZE_CHARS:
        raise InvalidRequest(f"a text to tokenize has at most {MAX_TOKENIZE_CHARS} characters", param="text")
    return QueryReply(id=message.id, ids=tuple(runtime.tokenizer.encode_text(message.text, at_start=True)))


def _detokenized(runtime: Runtime, message: Query) -> QueryReply:
    size = runtime.tokenizer.vocab_size
    wrong = next((token for token in message.ids if not 0 <= token < size), None)
    if wrong is not None:
        raise InvalidRequest(f"token id {wrong} is outside the vocabulary of {size}", param="ids")
    return QueryReply(id=message.id, text=runtime.tokenizer.decode(message.ids, skip_special=False))
