"""The call graph of one program as it is recorded: numbered nodes, and a record of each on the program's side.

A ``Recording`` numbers nodes and branches and keeps them in order. What it means to read a value is up to the
subclass: ``LiveRecording`` asks an engine, the dry recording of ``graph`` ends there. Nothing here knows verbs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from radixrt.api import MAX_BRANCHES, MAX_NODES, ForkNode, JoinNode, Node, NodeEvent, TextNode
from radixrt.errors import ErrorInfo, InvalidRequest, RadixrtError, UnsatisfiableConstraint
from radixrt.output_types import OutputType

__all__ = ["BranchPath", "Record", "Recording", "SourceLine", "located", "program_line"]

BranchPath = tuple[tuple[int, int], ...]  # from the root: (ordinal of the fork in its branch, index of the child)

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class SourceLine(NamedTuple):
    """Where the program did something."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def program_line() -> SourceLine:
    """The innermost line outside this package on the present thread."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


class Record:
    """One recorded node: what it is called, where the program wrote it, and its terminal event once it is there.

    ``name`` is set for outputs (gen, select). ``event`` is a promise for nodes that end with an event whatever
    happens (gen, select, join) and None for the others. ``causes`` are the records whose failure makes this node
    fail: the one before it in its branch, or the fork, and for a join the last of each branch it joins.
    """

    __slots__ = (
        "awaited",
        "branch",
        "causes",
        "ended_at",
        "event",
        "failure",
        "kind",
        "many",
        "name",
        "node",
        "output",
        "path",
        "sent_at",
        "source",
        "value",
    )

    def __init__(
        self,
        node: Node,
        path: BranchPath,
        source: SourceLine,
        *,
        name: str | None = None,
        output: OutputType | None = None,
        many: bool = False,
        answered: bool = False,
        causes: tuple[Record, ...] = (),
    ) -> None:
        self.node = node.node
        self.causes = causes
        self.branch = node.branch
        self.path = path
        self.kind = str(node.__struct_config__.tag)
        self.source = source
        self.name = name
        self.output = output
        self.many = many
        self.event: Future[NodeEvent] | None = Future() if answered else None
        self.failure: ErrorInfo | None = None  # of a node that sends an event only when it fails
        self.awaited = False
        self.sent_at: float | None = None
        self.ended_at: float | None = None
        self.value: list[object] = []  # the parsed value, once somebody read it

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name is not None else self.kind

    @property
    def error(self) -> ErrorInfo | None:
        """What the engine said against this node by now. Never waits."""
        return self.event.result().error if self.event is not None and self.event.done() else self.failure

    @property
    def is_over(self) -> bool:
        """Whether the terminal event is there. Never waits."""
        return self.event is not None and self.event.done()


def origin_of(info: ErrorInfo, record: Record) -> Record:
    """The node that failed first with the error that ``record`` ended with; often ``record`` itself.

    A node that fails ends its branch and whoever joins it, all with the same error: that of the first.
    """
    origin, seen, waiting = record, {record}, [*record.causes]
    while waiting:
        cause = waiting.pop()
        if cause in seen:
            continue
        seen.add(cause)
        same = cause.error is not None and _what(cause.error) == _what(info)
        if same and cause.node < origin.node:
            origin = cause
        if same or not cause.is_over:  # what has a result had no failure before it
            waiting += cause.causes
    return origin


def _what(info: ErrorInfo) -> tuple[str, str, str | None]:
    return info.code, info.message, info.param


def located(info: ErrorInfo, record: Record) -> RadixrtError:
    """The exception for a node's error, with the line of the program that wrote the node that failed."""
    origin = origin_of(info, record)
    place, param = f"{origin.label} at {origin.source}", info.param
    if origin is not record:
        place += f"; {record.label} at {record.source} depends on it"
    message = f"{info.message} ({place})"
    if origin.output is not None:
        argument = origin.output.argument
        if param is None and info.code == UnsatisfiableConstraint.code:
            param = argument
        if param == argument:
            message = f"{argument}: {message}"
    error = msgspec.structs.replace(info, message=message, param=param).to_exception()
    source = origin.source
    error.add_note(f'{origin.label} was written in File "{source.file}", line {source.line}, in {source.function}')
    return error


class Recording:
    """Numbered nodes of one program. All methods may be called from any thread."""

    blocks_loop = False  # True for programs whose reads must be awaited

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[Record] = []  # its index is the node id
        self._branches = 1
        self._unsent: list[Node] = []
        self._sent_nodes = 0  # counted as the engine does, with unsent ones and neighbouring texts as one
        self._open_texts: set[int] = set()  # branches whose next text joins an unsent one
        self._last: dict[int, Record] = {}  # by branch: its last record; of a branch still empty the fork

    @property
    def records(self) -> list[Record]:
        with self._lock:
            return list(self._records)

    def new_branches(self, count: int) -> range:
        """Take ``count`` fresh branch ids. Raises ``InvalidRequest`` when the program would have too many."""
        with self._lock:
            first = self._branches
            if first + count > MAX_BRANCHES:
                raise InvalidRequest(
                    f"a program has at most {MAX_BRANCHES} branches, the root included; this one has {first}",
                    param="n_or_keys",
                )
            self._branches += count
            return range(first, first + count)

    def record(
        self,
        make: Callable[[int], Node],
        path: BranchPath,
        *,
        name: str | None = None,
        output: OutputType | None = None,
        many: bool = False,
        answered: bool = False,
    ) -> Record:
        """Number the node that ``make`` builds and keep it until the next send.

        Raises the error that ended the program, if it has ended.
        """
        source = program_line()
        with self._lock:
            self._check_open()
            node = make(len(self._records))
            self._count(node)
            record = Record(
                node,
                path,
                source,
                name=name,
                output=output,
                many=many,
                answered=answered,
                causes=self._causes(node),
            )
            self._last[node.branch] = record
            if isinstance(node, ForkNode):
                self._last.update(dict.fromkeys(node.children, record))
            self._records.append(record)
            self._unsent.append(node)
        return record

    def _causes(self, node: Node) -> tuple[Record, ...]:
        branches = (node.branch, *node.children) if isinstance(node, JoinNode) else (node.branch,)
        return tuple(self._last[branch] for branch in branches if branch in self._last)

    def _count(self, node: Node) -> None:
        is_text = isinstance(node, TextNode)
        if not (is_text and node.branch in self._open_texts):
            if self._sent_nodes == MAX_NODES:
                raise InvalidRequest(f"a program has at most {MAX_NODES} nodes", param="program")
            self._sent_nodes += 1
        if is_text:
            self._open_texts.add(node.branch)
        else:
            self._open_texts.discard(node.branch)

    def _take_unsent(self) -> list[Node]:
        """Everything recorded since the last time. Called under the lock."""
        segment, self._unsent = self._unsent, []
        self._open_texts.clear()
        return segment

    @property
    def is_open(self) -> bool:
        """Whether nodes may still be recorded."""
        return True

    def _check_open(self) -> None:
        """Raise if nothing may be recorded any more. Called under the lock."""

    # What a subclass decides.

    def send(self) -> None:
        """Let everything recorded so far begin."""
        raise NotImplementedError

    def result(self, record: Record) -> NodeEvent:
        """Wait for the terminal event of an answered node."""
        raise NotImplementedError

    async def wait(self, record: Record) -> NodeEvent:
        """The same without blocking the event loop; the record may be read directly afterwards."""
        raise NotImplementedError

    def cancel_branch(self, branch: int) -> None:
        """Cancel a branch and the branches forked from it."""
        raise NotImplementedError
