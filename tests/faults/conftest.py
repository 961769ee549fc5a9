"""Engines whose worker is a real process over the scripted model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from radixrt.api import EndEvent, Event, GenNode, NodeEvent, SamplingParams, TextNode
from radixrt.client.engine import Engine
from radixrt.config import resolve
from radixrt.worker.supervisor import Patience, ProcessLauncher


class Program:
    """A program in flight and what was heard of it."""

    def __init__(self, engine: Engine, nodes: Any, **rest: Any) -> None:
        self.events: list[Event] = []
        self.ended = threading.Event()
        self.handle = engine.open_program(nodes, self._hear, seed=1, **{"final": True, **rest})

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, EndEvent):
            self.ended.set()

    def wait(self, seconds: float = 20.0) -> EndEvent:
        assert self.ended.wait(seconds), "the program did not end"
        ends = [event for event in self.events if isinstance(event, EndEvent)]
        assert len(ends) == 1
        assert self.events[-1] is ends[0]
        return ends[0]

    @property
    def nodes(self) -> dict[int, NodeEvent]:
        found = [event for event in self.events if isinstance(event, NodeEvent)]
        assert len({event.node for event in found}) == len(found)
        return {event.node: event for event in found}


@pytest.fixture
def start_engine() -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def start(model: str = "scripted", patience: Patience | None = None, **flags: Any) -> Engine:
        config = resolve({"heartbeat_s": 0.1, **flags}, environ={})
        launcher = ProcessLauncher(model, config, module="radixrt.testing.scripted_worker")
        engine = Engine.from_launcher(launcher, config, patience=patience or Patience(goodbye_s=5.0))
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def open_program() -> type[Program]:
    return Program


@pytest.fixture
def long_nodes() -> Callable[..., list[Any]]:
    """A program of one gen that takes a while; ``prompt`` may hold bytes that the scripted worker obeys."""

    def build(prompt: str = "go", max_tokens: int = 2000, gens: int = 1) -> list[Any]:
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        nodes: list[Any] = [TextNode(node=0, text=prompt)]
        nodes += [GenNode(node=1 + i, name="x", params=params, heal=False) for i in range(gens)]
        return nodes

    return build
