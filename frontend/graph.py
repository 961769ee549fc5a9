"""The call graph of a program, recorded without an engine, as text, JSON and a Mermaid diagram.

Recording goes on until the program reads a generated value: what follows may depend on it, so the static part
ends there and says so. The function really runs up to that point, side effects included.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from radixrt.api import VERSION, ForkNode, GenNode, JoinNode, Node, NodeEvent, RoleNode, SelectNode, TextNode
from radixrt.arguments import sampling_values
from radixrt.frontend.passes.merge_text import merge_text
from radixrt.frontend.recording import BranchPath, Record, Recording, program_line
from radixrt.frontend.state import ProgramState

__all__ = ["DryRun", "Graph", "Read", "current_dry_run", "record_dry"]


class _StaticEnd(BaseException):
    """Ends the function at a read. Not an ``Exception``, so that the program's own handlers let it through."""


@dataclass(frozen=True, slots=True)
class Read:
    """Where the static part ends: what the program reads there, and its line."""

    what: str
    source: str


class DryRun(Recording):
    """A recording with no engine behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.read: Read | None = None
        self.calls: list[str] = []

    @property
    def nodes(self) -> list[Node]:
        return merge_text(self._unsent)

    def send(self) -> None:
        return

    def result(self, record: Record) -> NodeEvent:
        self.stop(record.label)

    async def wait(self, record: Record) -> NodeEvent:
        self.stop(record.label)

    def cancel_branch(self, branch: int) -> None:
        return

    def stop(self, what: str) -> NoReturn:
        if self.read is None:
            line = program_line()
            self.read = Read(what, f"{line.file}:{line.line}")
        raise _StaticEnd

    def call(self, program: str) -> _DryCall:
        """Note a program that starts on its own."""
        self.calls.append(program)
        return _DryCall(self, program)


class _DryCall:
    """Stands for the run of a called program: whatever is asked of it ends the static part."""

    def __init__(self, dry: DryRun, program: str) -> None:
        self._dry = dry
        self._program = program

    def __getattr__(self, name: str) -> Any:
        self._dry.stop(f"the run of {self._program}")

    def __getitem__(self, name: str) -> Any:
        self._dry.stop(f"the run of {self._program}")

    def __await__(self) -> Any:
        self._dry.stop(f"the run of {self._program}")


current_dry_run: ContextVar[DryRun | None] = ContextVar("radixrt_current_dry_run", default=None)


def record_dry(
    program: str,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    defaults: Mapping[str, Any],
    *,
    is_async: bool,
) -> Graph:
    """Run ``function`` until it reads a generated value. What it raises by itself comes out here."""
    checked = sampling_values(defaults, where=f"{program}.graph")
    checked.pop("seed", None)
    dry = DryRun()
    state = ProgramState(dry, checked)
    token = current_dry_run.set(dry)
    try:
        if is_async:
            _run_beside(lambda: asyncio.run(function(state, **arguments)))
        else:
            function(state, **arguments)
    except _StaticEnd:
        pass
    finally:
        current_dry_run.reset(token)
    sources = {record.node: f"{record.source.file}:{record.source.line}" for record in dry.records}
    paths = {record.branch: record.path for record in dry.records}
    return Graph(program, dry.nodes, dry.read, tuple(dry.calls), sources, paths)


def _run_beside(task: Callable[[], object]) -> None:
    """Run on a thread of its own, because this one may have a running event loop; raise here what it raises."""
    import contextvars

    raised: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            context.run(task)
        except BaseException as error:  # noqa: BLE001  (raised again on the caller's thread)
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


class Graph:
    """The nodes of a program in order. ``print(graph)``, ``graph.json()``, ``graph.mermaid()``.

    ``read`` is where the static part ends, None when the program reads nothing and the graph is whole. ``calls``
    names the programs that start on their own.
    """

    def __init__(
        self,
        program: str,
        nodes: list[Node],
        read: Read | None,
        calls: tuple[str, ...],
        sources: Mapping[int, str],
        paths: Mapping[int, BranchPath],
    ) -> None:
        self.program = program
        self.nodes = tuple(nodes)
        self.read = read
        self.calls = calls
        self._sources = sources
        self._paths = paths

    def json(self) -> str:
        """JSON text: the nodes as messages carry them, each with its line of the program."""
        return json.dumps(
            {
                "version": VERSION,
                "program": self.program,
                "nodes": [{**msgspec.to_builtins(n), "source": self._sources[n.node]} for n in self.nodes],
                "calls": list(self.calls),
                "read": None if self.read is None else {"what": self.read.what, "source": self.read.source},
            },
            ensure_ascii=False,
            indent=2,
        )

    def mermaid(self) -> str:
        """A Mermaid flowchart: one box for each node, an arrow for each dependency."""
        lines = ["flowchart TD"]
        last: dict[int, int] = {}  # branch -> the node that its next one follows
        for node in self.nodes:
            lines.append(f'    n{node.node}["{_mermaid_text(_label(node))}"]')
            if node.branch in last:
                lines.append(f"    n{last[node.branch]} --> n{node.node}")
            last[node.branch] = node.node
            if isinstance(node, ForkNode):
                last.update(dict.fromkeys(node.children, node.node))
            elif isinstance(node, JoinNode):
                lines.extend(f"    n{last[child]} --> n{node.node}" for child in node.children if child in last)
        if self.read is not None:
            lines.append(f'    read(["{_mermaid_text(self._read_line())}"])')
            lines.extend(f"    n{node} -.-> read" for node in [last[0]] if 0 in last)
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [f"program {self.program}"]
        for node in self.nodes:
            depth = len(self._paths.get(node.branch, ()))
            mark = f"[{node.branch}] " if node.branch else ""
            lines.append(f"{'  ' * (depth + 1)}{mark}{_label(node)}")
        lines.extend(f"  calls {program}" for program in self.calls)
        if self.read is not None:
            lines.append(f"  -- {self._read_line()} --")
        return "\n".join(lines)

    def _read_line(self) -> str:
        if self.read is None:
            return ""
        return f"reads {self.read.what} at {self.read.source}; what follows may depend on it"

    def __repr__(self) -> str:
        return f"<Graph of {self.program}: {len(self.nodes)} nodes{', open' if self.read else ''}>"


def _label(node: Node) -> str:
    match node:
        case TextNode():
            return f"text {_shortened(node.text)}"
        case RoleNode():
            return f"begin {node.role}" if node.role is not None else "end of message"
        case GenNode():
            kind = f" {node.constraint.kind}" if node.constraint is not None else ""
            return f"gen {node.name!r}{kind} max_tokens={node.params.max_tokens}"
        case SelectNode():
            return f"select {node.name!r} of {_shortened(', '.join(node.choices))}"
        case ForkNode():
            return f"fork into {', '.join(map(str, node.children))}"
        case JoinNode():
            return f"join {', '.join(map(str, node.children))}"
    return f"tokens {_shortened(' '.join(map(str, node.tokens)))}"


def _shortened(text: str, limit: int = 60) -> str:
    shown = repr(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _mermaid_text(text: str) -> str:
    """Mermaid reads entity codes in quoted labels; everything that could end or style one becomes a code."""
    return "".join(f"#{ord(c)};" if c in '"#<>&`\\[](){}|;' or ord(c) < 32 else c for c in text)
