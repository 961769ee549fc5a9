"""One open program: its branches, and which node of each may run now.

Nodes of a branch run in order; branches run side by side. Texts, roles and forks take effect at once, a gen, a
select, a join and the settling of tokens at a fork are activities that end later. ``pump`` moves every branch that
can move. A node that fails ends its branch: what comes later in it, and whoever joins it, gets the same error.

Every gen, select and join ends in exactly one ``NodeEvent`` and the program in exactly one ``EndEvent`` after them.
This module knows neither clients nor deadlines; the interpreter does.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from radixrt.api import (
    DeltaEvent,
    EndEvent,
    Event,
    ForkNode,
    GenNode,
    JoinNode,
    Node,
    NodeEvent,
    RoleNode,
    Sample,
    SelectNode,
    TextNode,
    TokensNode,
    Usage,
)
from radixrt.cache.namespaces import namespace
from radixrt.errors import Cancelled, ErrorInfo, InvalidRequest, RadixrtError
from radixrt.scheduler.request import SequenceRequest
from radixrt.worker.activity import Activity, Job, Outcome, T, caused_by
from radixrt.worker.branch import Branch, JoinMark
from radixrt.worker.generation import Generation
from radixrt.worker.join import Joining, Settling
from radixrt.worker.messages import Open
from radixrt.worker.runtime import Runtime
from radixrt.worker.select import Selection
from radixrt.worker.tree import BranchTree

__all__ = ["Program", "Services"]


class Services(Protocol):
    """What the interpreter gives to all its programs."""

    @property
    def runtime(self) -> Runtime: ...
    def begin(self, owner: Program, activity: Activity) -> None:
        """Start an activity that needs the model, now or when there is room for its sequences."""

    def release(self, owner: Program, activity: Activity) -> None:
        """An activity that was given to ``begin`` is over. Called once for each."""

    def prepare(
        self, owner: Program, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[ErrorInfo], None]
    ) -> Job: ...
    def submit(self, request: SequenceRequest) -> None: ...
    def cancel_sequence(self, sequence: int) -> None: ...
    def next_sequence(self) -> int: ...
    def later(self, owner: Program, call: Callable[[], None]) -> None: ...
    def emit(self, owner: Program, event: Event) -> None: ...
    def note_future_use(self, namespace: tuple[str, ...], ids: list[int], delta: int) -> None: ...
    def ended(self, owner: Program) -> None: ...


class Program:
    """See the module. ``client`` is whom the events are for."""

    def __init__(self, services: Services, client: bytes, opened: Open) -> None:
        self._services = services
        self.client = client
        self.name = opened.program
        self.runtime = services.runtime
        self.priority = opened.priority
        self.namespace = namespace(self.runtime.info.name, salt=opened.salt)
        self.final = False
        self.over = False
        self._seed = opened.seed
        self._deltas = opened.deltas
        self._usage = Usage()
        self._tree = BranchTree()
        self._outstanding = 0
        self._ready: deque[Branch] = deque()
        self._pumping = False
        # frontend_parallelism off: the one branch at work, and those that wait for their turn.
        self._serial = self.runtime.config.frontend_parallelism == "off"
        self._hints = self.runtime.config.frontend_hint == "on"
        self._at_work: Branch | None = None
        self._turns: deque[Branch] = deque()

    # --- what the client does ------------------------------------------------------------------------------------

    def extend(self, nodes: Sequence[Node], final: bool) -> None:
        """Queue ``nodes`` and go on. Raises ``InvalidRequest`` for nodes that do not belong: the program fails."""
        if self.final:
            raise InvalidRequest("nodes after the final message", param="final")
        self.final = final
        touched: dict[int, Branch] = {}
        for node in nodes:
            for branch in self._tree.admit(node):
                self._outstanding += 1
                touched[branch.id] = branch
        self._ready.extend(touched.values())
        if final:
            # Nothing will use these any more.
            self._ready.extend(branch for branch in self._tree.branches.values() if branch.hint is not None)
        self.pump()

    def cancel_branch(self, branch_id: int) -> None:
        """Cancel a branch and all forked from it; one that does not exist yet will be born cancelled."""
        error = Cancelled("the branch was cancelled").to_info()
        for branch in self._tree.close(branch_id, error):
            activity = branch.activity
            if activity is not None:
                samples = activity.cancel()
                self._release(branch)
                if isinstance(activity, Settling):
                    self._start_children(branch, activity.children)
                else:
                    self._emit_failure(activity.node, error, samples, activity.usage)
                self._done_one()
            self._ready.append(branch)
        self.pump()

    def end(self, outcome: Literal["cancelled", "failed"], error: ErrorInfo, *, silent: bool = False) -> None:
        """End now: every unfinished node with ``error``, then the program. ``silent``: nobody listens."""
        if self.over:
            return
        self.over = True
        for branch in self._tree.branches.values():
            activity = branch.activity
            if activity is not None:
                samples = activity.cancel()
                self._release(branch)
                if not silent and not isinstance(activity, Settling):
                    self._emit_failure(activity.node, error, samples, activity.usage)
            for item in () if silent else branch.queue:
                if isinstance(item, GenNode | SelectNode | JoinNode):
                    self._emit_failure(item.node, error)
            branch.queue.clear()
            self._unhint(branch)
        self._ready.clear()
        self._turns.clear()
        if not silent:
            info = error if outcome == "failed" else None
            self._services.emit(self, EndEvent(program=self.name, outcome=outcome, usage=self._usage, error=info))
        self._services.ended(self)

    # --- moving on -----------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let every branch that can move do so, then see whether the program has ended."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self.over:
                if self._ready:
                    self._advance(self._ready.popleft())
                elif self._turns and self._at_work is None:
                    branch = self._turns.popleft()
                    branch.in_turns = False
                    self._advance(branch)
                else:
                    break
        finally:
            self._pumping = False
        if self.final and not self._outstanding and not self.over:
            self.over = True
            for branch in self._tree.branches.values():
                self._unhint(branch)
            self._services.emit(self, EndEvent(program=self.name, outcome="done", usage=self._usage))
            self._services.ended(self)

    def _advance(self, branch: Branch) -> None:
        while branch.queue and branch.started and branch.activity is None:
            item = branch.queue[0]
            if isinstance(item, JoinMark):
                branch.queue.popleft()
                item.settle(branch.text(), branch.error)
                self._done_one()
                continue
            if branch.error is not None:
                branch.queue.popleft()
                self._skip(branch, item, branch.error)
                continue
            if self._serial and isinstance(item, GenNode | SelectNode) and self._at_work is not None:
                if not branch.in_turns:
                    branch.in_turns = True
                    self._turns.append(branch)
                break
            branch.queue.popleft()
            try:
                self._run(branch, item)
            except RadixrtError as error:
                self._fail_node(branch, item.node, error.to_info())
        if branch.started and branch.activity is None and not branch.queue:
            if self.final or branch.error is not None:
                self._unhint(branch)
            else:
                self._hint(branch)

    def _run(self, branch: Branch, node: Node) -> None:
        """Start ``node``, or do it when it takes no time."""
        if isinstance(node, TextNode):
            branch.append_text(node.text)
        elif isinstance(node, TokensNode):
            branch.append_tokens(node.tokens, self.runtime)
        elif isinstance(node, RoleNode):
            branch.set_role(node.role, self.runtime)
        elif isinstance(node, ForkNode):
            children = [self._tree.branches[child] for child in node.children]
            if branch.has_unsettled:
                self._begin(branch, Settling(self, node.node, branch.context, children))
                return
            self._start_children(branch, children)
        elif isinstance(node, JoinNode):
            branch.check_can_join()
            self._begin(branch, Joining(self, node, branch.joins.pop(node.node), branch.context))
            return
        else:
            path = (*branch.path, branch.outputs)
            branch.outputs += 1
            if isinstance(node, GenNode):
                self._begin(branch, Generation(self, node, branch.context, path))
            else:
                self._begin(branch, Selection(self, node, branch.context))
            return
        self._done_one()

    def _begin(self, branch: Branch, activity: Activity) -> None:
        branch.activity = activity
        activity.branch = branch
        if activity.weight:
            self._at_work = branch
            self._services.begin(self, activity)
        else:
            activity.start()

    def _start_children(self, branch: Branch, children: Sequence[Branch]) -> None:
        for child in children:
            child.start_from(branch)
        self._hint_children(branch, children)
        self._ready.extend(children)

    def finished(self, activity: Activity, outcome: Outcome) -> None:
        """An activity has ended by itself."""
        branch = activity.branch
        if self.over or branch is None:
            return
        self._release(branch)
        if outcome.context is not None:
            branch.context = outcome.context
        if outcome.added:
            branch.added[-1].append(outcome.added)
        if outcome.closes is not None:
            branch.error = outcome.closes
        if isinstance(activity, Settling):
            self._start_children(branch, activity.children)
        if outcome.event is not None:
            self._usage += outcome.event.usage
            self._services.emit(self, outcome.event)
        self._unhint(branch)
        self._done_one()
        self._ready.append(branch)
        self.pump()

    def _release(self, branch: Branch) -> None:
        activity, branch.activity = branch.activity, None
        if activity is not None and activity.weight:
            self._services.release(self, activity)
        if self._at_work is branch:
            self._at_work = None

    def _fail_node(self, branch: Branch, node: int, error: ErrorInfo) -> None:
        activity, usage = branch.activity, None
        if activity is not None:
            activity.cancel()
            self._release(branch)
            usage = activity.usage
        branch.error = caused_by(node, error)
        self._emit_failure(node, error, usage=usage)
        self._done_one()

    def _skip(self, branch: Branch, node: Node, error: ErrorInfo) -> None:
        """Let a node of a branch that has failed end with the branch's error."""
        if isinstance(node, ForkNode):
            self._start_children(branch, [self._tree.branches[child] for child in node.children])
        elif isinstance(node, GenNode | SelectNode | JoinNode):
            self._emit_failure(node.node, error)
        self._done_one()

    def _emit_failure(
        self, node: int, error: ErrorInfo, samples: tuple[Sample, ...] = (), usage: Usage | None = None
    ) -> None:
        usage = usage or Usage()
        self._usage += usage
        event = NodeEvent(program=self.name, node=node, samples=samples, usage=usage, error=error)
        self._services.emit(self, event)

    def _done_one(self) -> None:
        self._outstanding -= 1

    # --- hints: how often prefixes will still be wanted ----------------------------------------------------------

    def _hint(self, branch: Branch) -> None:
        if self._hints and branch.hint is None and branch.context.ids.length:
            branch.hint = branch.context.ids.to_list()
            self._services.note_future_use(self.namespace, branch.hint, 1)

    def _hint_children(self, branch: Branch, children: Sequence[Branch]) -> None:
        if self._hints and branch.context.ids.length and branch.error is None:
            shared = branch.context.ids.to_list()
            self._services.note_future_use(self.namespace, shared, len(children))
            for child in children:
                child.hint = shared

    def _unhint(self, branch: Branch) -> None:
        if branch.hint is not None:
            self._services.note_future_use(self.namespace, branch.hint, -1)
            branch.hint = None

    # --- what activities ask for (activity.Host) -----------------------------------------------------------------

    def key(self, seed: int | None, path: tuple[int, ...], sample: int) -> int:
        """64 bits from the seed and the place in the program alone: no clock, no order of messages."""
        parts = (self._seed if seed is None else seed, *path, sample)
        text = ",".join(map(str, parts)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"radixrt-key").digest(), "little")

    def prepare(self, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[ErrorInfo], None]) -> Job:
        return self._services.prepare(self, work, then, failed)

    def submit(self, request: SequenceRequest) -> None:
        self._services.submit(request)

    def cancel_sequence(self, sequence: int) -> None:
        self._services.cancel_sequence(sequence)

    def next_sequence(self) -> int:
        return self._services.next_sequence()

    def later(self, call: Callable[[], None]) -> None:
        self._services.later(self, call)

    def delta(self, node: int, sample: int, text: str) -> None:
        if self._deltas and not self.over:
            self._services.emit(self, DeltaEvent(program=self.name, node=node, sample=sample, text=text))
