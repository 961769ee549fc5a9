"""The call graph without an engine, and the pass that merges text."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import msgspec
import pytest

import radixrt as rx
from radixrt.api import ForkNode, GenNode, JoinNode, Node, TextNode
from radixrt.errors import InvalidRequest
from radixrt.frontend.passes.merge_text import merge_text


@rx.program
def card(s: Any, name: str) -> Any:
    s += rx.user(f'Describe "{name}" [x].')
    s += rx.assistant(rx.gen("card", schema={"type": "object"}))
    b = s.fork(["a", "b"])
    for f in b:
        f += rx.user(f.key)
        f += rx.assistant(rx.select("score", ["1", "2"]))
    with s.user():
        s.join(b)
    return s["card"]


def test_the_graph_ends_where_a_value_is_read_and_says_so() -> None:
    graph = card.graph(name="x")
    assert graph.read is not None
    assert "card" in graph.read.what
    assert graph.read.source.endswith(f":{card.function.__code__.co_firstlineno + 10}")
    assert [n.name for n in graph.nodes if isinstance(n, GenNode)] == ["card"]
    for words in (
        "Describe",
        "gen 'card' json_schema",
        "select 'score'",
        "fork into 1, 2",
        "join 1, 2",
        "reads gen",
    ):
        assert words in str(graph)


def test_a_graph_without_reads_is_whole() -> None:
    @rx.program
    def program(s: Any) -> None:
        s += "a" + rx.gen("x")

    graph = program.graph()
    assert graph.read is None
    assert json.loads(graph.json())["read"] is None


@pytest.mark.parametrize("read", ["s['x']", "s.text()", "s.messages", "b['y']", "called.value", "called['x']"])
def test_every_kind_of_read_ends_the_static_part(read: str) -> None:
    reads = {
        "s['x']": lambda s, b, called: s["x"],
        "s.text()": lambda s, b, called: s.text(),
        "s.messages": lambda s, b, called: s.messages,
        "b['y']": lambda s, b, called: b["y"],
        "called.value": lambda s, b, called: called.value,
        "called['x']": lambda s, b, called: called["x"],
    }

    @rx.program
    def other(s: Any) -> None: ...

    @rx.program
    def program(s: Any) -> None:
        with s.assistant():
            s += rx.gen("x")
        b = s.fork(2)
        for f in b:
            f += rx.assistant(rx.gen("y"))
        called = other()
        try:
            reads[read](s, b, called)
        except Exception:  # noqa: BLE001  (a program that catches everything does not hide the end)
            s += "wrong"
        s += rx.user("never")

    graph = program.graph()
    assert graph.read is not None
    assert graph.calls == ("other",)
    assert "never" not in str(graph)
    assert "calls other" in str(graph)


def test_the_graph_of_an_async_program() -> None:
    @rx.program
    async def program(s: Any) -> None:
        s += "a" + rx.gen("x")
        await s.read("x")
        s += "never"

    graph = program.graph()
    assert graph.read is not None
    assert len(graph.nodes) == 2


def test_what_the_program_raises_comes_out() -> None:
    @rx.program
    def program(s: Any) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        program.graph()
    with pytest.raises(InvalidRequest):
        card.graph()
    with pytest.raises(InvalidRequest):
        card.graph(name="x", temprature=0)


def test_json_holds_the_nodes_as_messages_carry_them() -> None:
    graph = card.graph(name="x", temperature=0)
    plain = json.loads(graph.json())
    assert plain["program"] == "card"
    assert plain["version"] == 1
    for entry, node in zip(plain["nodes"], graph.nodes, strict=True):
        assert re.search(r"test_frontend_graphs\.py:\d+$", entry.pop("source"))
        assert msgspec.convert(entry, Node) == node


def test_mermaid_is_one_box_for_each_node_and_one_arrow_for_each_dependency() -> None:
    lines = card.graph(name='"]; evil --> `x`').mermaid().splitlines()
    assert lines[0] == "flowchart TD"
    boxes = [line for line in lines if re.fullmatch(r'    n\d+\["[^"\]\[`;>]*(#\d+;[^"\]\[`>]*)*"\]', line)]
    nodes = card.graph(name="x").nodes
    assert len(boxes) == len(nodes)
    arrows = [line for line in lines if re.fullmatch(r"    n\d+ --> n\d+", line)]
    joins = sum(len(n.children) for n in nodes if isinstance(n, JoinNode))
    branches = 1 + sum(len(n.children) for n in nodes if isinstance(n, ForkNode))
    assert len(arrows) == len(nodes) - 1 + joins, f"a tree of {branches} branches, and the joins"
    assert any("-.-> read" in line for line in lines)


def test_merging_text_keeps_what_every_branch_reads() -> None:
    rng = random.Random(1)
    for _ in range(200):
        nodes: list[Node] = []
        for i in range(rng.randrange(30)):
            branch = rng.randrange(3)
            make = rng.choice([TextNode, TextNode, GenNode])
            about: dict[str, Any] = {"text": f"t{i} "} if make is TextNode else {"name": f"g{i}"}
            nodes.append(make(node=i, branch=branch, **about))
        merged = merge_text(nodes)

        def content(some: list[Node], branch: int) -> str:
            mine = [n for n in some if n.branch == branch]
            return "".join(n.text if isinstance(n, TextNode) else f"<{n.node}>" for n in mine)

        for branch in range(3):
            assert content(merged, branch) == content(nodes, branch)
            kinds = [type(n) for n in merged if n.branch == branch]
            assert (TextNode, TextNode) not in itertools.pairwise(kinds)
        ids = [n.node for n in merged]
        assert ids == sorted(set(ids))
