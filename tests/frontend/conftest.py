"""A fake engine that answers nodes by a table, on an I/O thread of its own as a real one does.

It checks what it is sent as strictly as the worker: every breach of the protocol fails the test at its end.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from radixrt.api import (
    DeltaEvent,
    EndEvent,
    FinishReason,
    ForkNode,
    GenNode,
    JoinNode,
    Node,
    NodeEvent,
    RoleNode,
    Sample,
    SelectNode,
    TextNode,
    Usage,
)
from radixrt.client.protocol import EventCallback
from radixrt.errors import Cancelled, DeadlineExceeded, ErrorInfo, RadixrtError, WorkerDied
from radixrt.worker.messages import ModelInfo

USAGE = Usage(prompt_tokens=3, cached_tokens=1, computed_tokens=2, completion_tokens=4, decode_steps=4)


class Waiting(msgspec.Struct):
    """An answer that comes when the test calls ``engine.release(name)``, or after ``seconds``."""

    answer: Any = "late"
    seconds: float | None = None


class FakeBranch:
    def __init__(self, context: str = "", start: int = 0) -> None:
        self.context = context
        self.start = start
        self.nodes: list[Node] = []
        self.busy = False
        self.error: ErrorInfo | None = None
        self.cancelled = False
        self.children: list[int] = []


class FakeProgram:
    """One open program; all of it happens on the engine's thread except the counting of what was sent."""

    def __init__(self, engine: FakeEngine, ident: str, on_event: EventCallback, deltas: bool) -> None:
        self.engine = engine
        self.id = ident
        self.on_event = on_event
        self.deltas = deltas
        self.branches: dict[int, FakeBranch] = {0: FakeBranch()}
        self.final = False
        self.ended = False
        self.usage = Usage()
        self.next_node = 0
        self.segments: list[list[Node]] = []

    def extend(self, nodes: Sequence[Node], *, final: bool = False) -> None:
        self.segments.append(list(nodes))
        self.engine.post(lambda: self.take(list(nodes), final))

    def cancel(self, branch: int | None = None) -> None:
        self.engine.post(lambda: self.end("cancelled") if branch is None else self.cancel_branch(branch))

    def take(self, nodes: list[Node], final: bool) -> None:
        if self.ended:
            return
        if self.final:
            self.engine.violations.append("nodes after final")
        for node in nodes:
            if node.node < self.next_node:
                self.engine.violations.append(f"node id {node.node} is not increasing")
            self.next_node = node.node + 1
            if node.branch not in self.branches:
                self.engine.violations.append(f"unknown branch {node.branch}")
                continue
            if isinstance(node, ForkNode):  # the ids exist from now on; their content comes with the node's turn
                for child in node.children:
                    if child in self.branches:
                        self.engine.violations.append(f"branch {child} exists")
                    self.branches[child] = FakeBranch()
                    self.branches[child].busy = True
                self.branches[node.branch].children.extend(node.children)
            self.branches[node.branch].nodes.append(node)
        self.final = self.final or final
        self.advance()

    def advance(self) -> None:
        moved = True
        while moved and not self.ended:
            moved = False
            for branch in list(self.branches.values()):
                while branch.nodes and not branch.busy and not self.ended and self.step(branch):
                    moved = True
        idle = all(not b.nodes and not b.busy for b in self.branches.values())
        if self.final and idle and not self.ended:
            self.end("done")

    def step(self, branch: FakeBranch) -> bool:
        node = branch.nodes[0]
        if isinstance(node, JoinNode):
            children = [self.branches[c] for c in node.children]
            if any(c.nodes or c.busy for c in children):
                return False
            branch.nodes.pop(0)
            failed = next((c.error for c in children if c.error), None)
            text = node.sep.join(c.context[c.start :] for c in children)
            self.finish(branch, node, NodeEvent(self.id, node.node, samples=(Sample(text),), error=failed))
            return True
        branch.nodes.pop(0)
        if isinstance(node, ForkNode):
            for child in node.children:
                self.branches[child].context = branch.context
                self.branches[child].start = len(branch.context)
                self.branches[child].error = branch.error
                self.branches[child].busy = False
        elif isinstance(node, TextNode):
            branch.context += node.text
        elif isinstance(node, RoleNode):
            branch.context += f"<{node.role}>" if node.role else "</>"
        elif isinstance(node, GenNode | SelectNode):
            self.generate(branch, node)
        return True

    def generate(self, branch: FakeBranch, node: GenNode | SelectNode) -> None:
        if branch.error is not None:
            self.finish(branch, node, NodeEvent(self.id, node.node, error=branch.error))
            return
        self.engine.contexts.append((node.name, branch.context))
        answer = self.engine.answers.get(node.name, "ok")
        if isinstance(answer, Waiting):
            branch.busy = True

            def finish_late() -> None:
                if branch.busy and not self.ended:
                    branch.busy = False
                    self.answer(branch, node, answer.answer)
                    self.advance()

            if answer.seconds is None:
                self.engine.held.setdefault(node.name, []).append(finish_late)
            else:
                self.engine.post(finish_late, after=answer.seconds)
            return
        self.answer(branch, node, answer)

    def answer(self, branch: FakeBranch, node: GenNode | SelectNode, answer: Any) -> None:
        if callable(answer):
            answer = answer(branch.context)
        if isinstance(answer, RadixrtError):
            self.finish(branch, node, NodeEvent(self.id, node.node, error=answer.to_info()))
            return
        samples: tuple[Sample, ...]
        if isinstance(node, SelectNode):
            choice = node.choices.index(answer) if answer in node.choices else 0
            scores = tuple(float(-abs(i - choice)) for i in range(len(node.choices)))
            samples = (Sample(node.choices[choice], (1, 2)),)
            event = NodeEvent(self.id, node.node, samples=samples, choice=choice, scores=scores, usage=USAGE)
        else:
            samples = tuple(_sample(answer, i) for i in range(node.params.n))
            event = NodeEvent(self.id, node.node, samples=samples, usage=USAGE)
            if self.deltas:
                for place, sample in enumerate(samples):
                    for letter in sample.text:
                        self.on_event(DeltaEvent(self.id, node.node, letter, place))
        self.finish(branch, node, event)

    def finish(self, branch: FakeBranch, node: Node, event: NodeEvent) -> None:
        branch.error = branch.error or event.error
        if event.samples:
            branch.context += event.samples[0].text
        self.usage += event.usage
        self.on_event(event)

    def cancel_branch(self, ident: int) -> None:
        branch = self.branches[ident]
        if self.ended or branch.cancelled:
            return
        branch.cancelled = True
        error = Cancelled("the branch was cancelled").to_info()
        branch.error = branch.error or error
        if branch.busy:
            branch.busy = False
        open_nodes = [n for n in branch.nodes if isinstance(n, GenNode | SelectNode | JoinNode)]
        branch.nodes = []
        for node in self.engine.running_nodes(self, ident) + open_nodes:
            self.on_event(NodeEvent(self.id, node.node, error=error))
        for child in branch.children:
            self.cancel_branch(child)
        self.advance()

    def end(self, outcome: Any, error: ErrorInfo | None = None) -> None:
        if self.ended:
            return
        self.ended = True
        if outcome != "done":
            info = error or Cancelled("the program was cancelled").to_info()
            for ident, branch in self.branches.items():
                for node in self.engine.running_nodes(self, ident) + branch.nodes:
                    if isinstance(node, GenNode | SelectNode | JoinNode):
                        self.on_event(NodeEvent(self.id, node.node, error=info))
        self.engine.ends.append((self.id, outcome))
        self.on_event(EndEvent(self.id, outcome, usage=self.usage, error=error))


def _sample(answer: Any, place: int) -> Sample:
    if isinstance(answer, Sample):
        return answer
    if isinstance(answer, list):
        return _sample(answer[place % len(answer)], place)
    return Sample(str(answer), tuple(range(len(str(answer)))), FinishReason.STOP)


class FakeEngine:
    """``answers`` maps names to a text, a Sample, a list of these (for n), an error, a function of the context,
    or a ``Waiting`` of any of these."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.opened: list[dict[str, Any]] = []
        self.programs: list[FakeProgram] = []
        self.contexts: list[tuple[str, str]] = []
        self.ends: list[tuple[str, str]] = []
        self.held: dict[str, list[Callable[[], None]]] = {}
        self.violations: list[str] = []
        self.closed = False
        self._ids = itertools.count()
        self._inbox: queue.Queue[tuple[float, int, Callable[[], None]] | None] = queue.Queue()
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._work, name="fake-io", daemon=True)
        self._thread.start()

    @property
    def model(self) -> ModelInfo:
        return ModelInfo("fake", "fake", 256, 1024, 4096, (0,), None, True, 0)

    def open_program(
        self,
        nodes: Sequence[Node],
        on_event: EventCallback,
        *,
        seed: int,
        final: bool = False,
        salt: str | None = None,
        priority: int = 0,
        timeout_s: float | None = None,
        deltas: bool = False,
    ) -> FakeProgram:
        if self.closed:
            raise WorkerDied("the engine is closed")
        program = FakeProgram(self, f"p{next(self._ids)}", on_event, deltas)
        self.programs.append(program)
        self.opened.append(
            {"seed": seed, "final": final, "salt": salt, "priority": priority, "timeout_s": timeout_s}
        )
        program.segments.append(list(nodes))
        self.post(lambda: program.take(list(nodes), final))
        if timeout_s is not None:
            error = DeadlineExceeded("its time ran out").to_info()
            self.post(lambda: program.end("failed", error), after=timeout_s)
        return program

    def running_nodes(self, program: FakeProgram, branch: int) -> list[Node]:
        """Nodes of the branch that were begun and have no event: those that wait to be released."""
        sent = [n for segment in program.segments for n in segment if n.branch == branch]
        state = program.branches[branch]
        if not state.busy and not state.cancelled:
            return []
        queued = {n.node for n in state.nodes}
        begun = [n for n in sent if n.node not in queued and isinstance(n, GenNode | SelectNode)]
        return [n for n in begun[-1:] if isinstance(self.answers.get(n.name), Waiting)]

    def release(self, name: str) -> None:
        self.post(lambda: [finish() for finish in self.held.pop(name, [])] and None)

    def die(self) -> None:
        """As if the worker process had ended."""
        info = WorkerDied("the worker ended").to_info()
        for program in self.programs:
            self.post(functools.partial(program.end, "failed", info))

    def post(self, work: Callable[[], object], after: float = 0.0) -> None:
        self._inbox.put((time.monotonic() + after, next(self._order), lambda: (work(), None)[1]))

    def _work(self) -> None:
        waiting: list[tuple[float, int, Callable[[], None]]] = []
        while True:
            timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            try:
                item = self._inbox.get(timeout=timeout)
            except queue.Empty:
                item = heapq.heappop(waiting)
            else:
                if item is None:
                    return
                if item[0] > time.monotonic():
                    heapq.heappush(waiting, item)
                    continue
            try:
                item[2]()
            except Exception as error:  # noqa: BLE001  (reported by the fixture)
                self.violations.append(f"{type(error).__name__}: {error}")

    def sent_nodes(self) -> list[Node]:
        """All nodes of the first program."""
        return [node for segment in self.programs[0].segments for node in segment]

    def close(self) -> None:
        self.closed = True
        self._inbox.put(None)
        self._thread.join(5)


class Fakes:
    """Makes engines and the parts of their answers."""

    Waiting = Waiting

    def __init__(self) -> None:
        self.engines: list[FakeEngine] = []

    def __call__(self, **answers: Any) -> FakeEngine:
        engine = FakeEngine(answers)
        self.engines.append(engine)
        return engine

    @staticmethod
    def cut(text: str, reason: FinishReason = FinishReason.LENGTH) -> Sample:
        return Sample(text, (1,), reason)


@pytest.fixture
def fake() -> Iterator[Fakes]:
    fakes = Fakes()
    yield fakes
    for engine in fakes.engines:
        engine.close()
        assert engine.violations == []


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen in time")
        time.sleep(0.002)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    return wait_until
