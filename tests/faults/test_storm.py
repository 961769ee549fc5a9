"""Many threads, many programs, cancellations and killed workers at random: every program ends once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Any

import pytest

from radixrt.api import ForkNode, GenNode, JoinNode, SamplingParams, SelectNode, TextNode
from radixrt.errors import WorkerDied
from radixrt.worker.supervisor import Patience


def _random_nodes(rng: random.Random) -> list[Any]:
    children = tuple(range(1, rng.randint(2, 4)))
    nodes: list[Any] = [TextNode(node=0, text="t" * rng.randint(0, 40)), ForkNode(node=1, children=children)]
    for child in children:
        params = SamplingParams(max_tokens=rng.randint(1, 20), temperature=0.0, n=rng.choice((1, 1, 3)))
        nodes.append(GenNode(node=10 + child, branch=child, name="x", params=params, heal=False))
    if rng.random() < 0.5:
        nodes.append(JoinNode(node=50, children=children))
    nodes.append(SelectNode(node=51, name="s", choices=("a", "bc")))
    return nodes


def _client(engine: Any, open_program: Any, seed: int, programs: list[Any], errors: list[BaseException]) -> None:
    rng = random.Random(seed)
    try:
        for _ in range(25):
            nodes = _random_nodes(rng)
            cut = rng.randint(0, len(nodes))
            program = open_program(engine, nodes[:cut], final=False, deltas=rng.random() < 0.5)
            programs.append((program, {n.node for n in nodes if isinstance(n, GenNode | SelectNode | JoinNode)}))
            if rng.random() < 0.2:
                program.handle.cancel(rng.choice((None, 1)))
            program.handle.extend(nodes[cut:], final=True)
            if rng.random() < 0.2:
                time.sleep(rng.random() * 0.02)
                program.handle.cancel()
            if rng.random() < 0.5:
                program.wait()
    except BaseException as error:
        errors.append(error)
        raise


@pytest.mark.parametrize("kills", [0, 2])
def test_every_program_ends_once(start_engine: Any, open_program: Any, kills: int) -> None:
    engine = start_engine(patience=Patience(pause_s=0.01, max_failures=10), max_running=8)
    programs: list[Any] = []
    errors: list[BaseException] = []
    threads = [
        threading.Thread(target=_client, args=(engine, open_program, seed, programs, errors)) for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        time.sleep(0.5)
        pid = engine.worker_pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert not errors
    for program, expected in programs:
        program.wait(30.0)
        heard = set(program.nodes)
        assert heard <= expected
        if kills == 0 or program.wait().outcome == "done":
            # A program cancelled before its last nodes were sent never had them.
            assert heard == expected or program.wait().outcome == "cancelled"
    for _ in range(3):
        try:
            stats = engine.stats()
            break
        except WorkerDied:
            continue
    assert stats["programs"] == stats["held_slots"] == stats["waiting"] == 0
