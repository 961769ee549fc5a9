"""What a branch is doing right now: one node that takes longer than a moment.

An activity is started by its program, on the loop's thread, and ends by calling ``Host.finished`` exactly once,
or is abandoned by ``cancel``, after which nothing of it is heard. This module knows no particular kind of node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from radixrt.api import NodeEvent, Sample, Usage
from radixrt.errors import ErrorInfo, RadixrtError
from radixrt.scheduler.request import SequenceRequest, SequenceResult
from radixrt.worker.context import Context
from radixrt.worker.runtime import Runtime

if TYPE_CHECKING:
    from radixrt.worker.branch import Branch

__all__ = ["Activity", "Host", "Job", "Outcome", "caused_by", "error_info", "usage_of"]

T = TypeVar("T")
log = logging.getLogger(__name__)


class Job(Protocol):
    """Work on the preparation pool."""

    def cancel(self) -> Any: ...


class Outcome(msgspec.Struct, frozen=True):
    """How a node ended: its event (None for one that has nothing to say), and what the branch says now.

    ``added`` is the text that the node appended. ``closes`` is the error of every later node of the branch.
    """

    event: NodeEvent | None = None
    context: Context | None = None
    added: str = ""
    closes: ErrorInfo | None = None


class Host(Protocol):
    """What an activity may ask of the program it belongs to. All on the loop's thread."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> tuple[str, ...]: ...
    @property
    def priority(self) -> int: ...
    def key(self, seed: int | None, path: tuple[int, ...], sample: int) -> int: ...
    def prepare(self, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[ErrorInfo], None]) -> Job:
        """Run ``work`` on the pool; its result or error comes back on the loop's thread."""

    def submit(self, request: SequenceRequest) -> None: ...
    def cancel_sequence(self, sequence: int) -> None: ...
    def next_sequence(self) -> int: ...
    def later(self, call: Callable[[], None]) -> None:
        """Call after the scheduler's step, from which the scheduler may be called again."""

    def delta(self, node: int, sample: int, text: str) -> None: ...
    def finished(self, activity: Activity, outcome: Outcome) -> None: ...


class Activity:
    """Base of all: the sequences in flight and the one end.

    ``weight`` is how many sequences it will have in flight, 0 for what needs none. ``usage`` is what those that
    have ended have cost, however they ended.
    """

    weight = 0

    def __init__(self, host: Host, node: int) -> None:
        self.host = host
        self.node = node
        self.branch: Branch | None = None
        self.over = False
        self.usage = Usage()
        self._job: Job | None = None
        self._sequences: set[int] = set()

    def start(self) -> None:
        raise NotImplementedError

    def cancel(self) -> tuple[Sample, ...]:
        """Stop everything and return what there is of the samples. ``finished`` will not be called.

        Afterwards ``usage`` counts what the sequences have done up to here.
        """
        if not self.over:
            self._end()
        return ()

    def prepare(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run ``work`` on the pool, then ``then``; an error of either is the node's."""

        def ready(result: T) -> None:
            if self.over:
                return
            try:
                then(result)
            except RadixrtError as error:
                self.fail(error.to_info())

        self._job = self.host.prepare(work, ready, self.fail)

    def submit(self, request: SequenceRequest) -> None:
        self.host.submit(request)
        self._sequences.add(request.id)

    def sequence_over(self, sequence: int, usage: Usage) -> None:
        """A sequence has ended, by itself or by ``cancel``. Called once for each."""
        self._sequences.discard(sequence)
        self.usage += usage

    def finish(self, outcome: Outcome) -> None:
        if not self.over:
            self._end()
            self.host.finished(self, outcome)

    def fail(self, error: ErrorInfo) -> None:
        """The node ends with ``error``, and with it the branch."""
        if self.over:
            return
        self._end()  # the sequences that it ends have their usage, too
        event = NodeEvent(program=self.host.name, node=self.node, error=error, usage=self.usage)
        self.host.finished(self, Outcome(event=event, closes=caused_by(self.node, error)))

    def _end(self) -> None:
        self.over = True
        if self._job is not None:
            self._job.cancel()
        for sequence in list(self._sequences):
            self.host.cancel_sequence(sequence)
        self._sequences.clear()


def usage_of(result: SequenceResult, completion_tokens: int | None = None) -> Usage:
    """``completion_tokens`` where not all of the output counts: what only repeats the prompt completes nothing."""
    return Usage(
        prompt_tokens=result.cached_tokens + result.computed_tokens,
        cached_tokens=result.cached_tokens,
        computed_tokens=result.computed_tokens,
        completion_tokens=len(result.output_ids) if completion_tokens is None else completion_tokens,
        forced_tokens=result.forced_tokens,
        decode_steps=result.decode_steps,
    )


def caused_by(node: int, error: ErrorInfo) -> ErrorInfo:
    """The error as other nodes report it: ``detail["node"]`` is the id of the node where it began."""
    if "node" in error.detail:
        return error
    return msgspec.structs.replace(error, detail={**error.detail, "node": node})


def error_info(error: BaseException) -> ErrorInfo:
    """The error as a message; one that nobody raised on purpose is logged and called internal."""
    if isinstance(error, RadixrtError):
        return error.to_info()
    log.error("internal error", exc_info=error)
    return RadixrtError(f"internal error: {type(error).__name__}").to_info()
