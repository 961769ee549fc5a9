"""``radixrt bench step``: what a decode step costs beside its forward pass.

Opens one program a sequence on a real engine (worker process, sockets, text deltas), lets all of them reach
decoding, and compares the worker's own clocks at two moments between which only decode steps happen. Nothing is
simulated, so the messages and the interpreter are in the figures.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time

from rich.console import Console
from rich.table import Table

from radixrt.api import Constraint, DeltaEvent, EndEvent, Event, GenNode, SamplingParams, TokensNode
from radixrt.client.engine import Engine
from radixrt.config import EngineConfig

__all__ = ["measure"]

# Long enough that no row ends while it is measured.
SCHEMA = {
    "type": "array",
    "minItems": 500,
    "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
}
PHASES = (
    ("forward", "forward_s", "the model"),
    ("schedule", "schedule_s", "order, admit, compose, allocate"),
    ("masks", "masks_s", "grammar bitmasks"),
    ("sample", "sample_s", "sampling"),
    ("advance", "advance_s", "tokens to sequences, text, stop strings"),
)


class _Progress:
    """Counts, over all programs, who has begun to decode and who has ended."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.ended = 0
        self.changed = threading.Condition()

    def on_event(self, event: Event) -> None:
        with self.changed:
            if isinstance(event, DeltaEvent):
                self.begun.add(event.program)
            elif isinstance(event, EndEvent):
                self.ended += 1
            self.changed.notify_all()


def measure(model: str, config: EngineConfig, *, batch: int, prompt: int, steps: int, constrained: bool) -> None:
    """Print the table and one line of JSON. ``steps`` decode steps at ``batch`` sequences are measured."""
    flags = {name: getattr(config, name) for name in config.__struct_fields__}
    flags["max_running"] = max(batch, config.max_running)
    rng = random.Random(0)
    constraint = Constraint(kind="json_schema", source=json.dumps(SCHEMA)) if constrained else None
    with Engine(model, **flags) as engine:
        progress = _Progress()
        slack = 24
        for _ in range(batch):
            # Half of the rows greedy, half sampled with a nucleus, as a mixed server would see.
            params = SamplingParams(
                max_tokens=steps + slack,
                temperature=rng.choice([0.0, 0.8]),
                top_p=0.95,
                ignore_eos=True,
                min_tokens=0 if constrained else steps + slack,
            )
            ids = tuple(rng.randrange(1000, engine.model.vocab_size - 1000) for _ in range(prompt))
            nodes = (
                TokensNode(node=1, tokens=ids),
                GenNode(node=2, name="x", params=params, constraint=constraint),
            )
            engine.open_program(nodes, progress.on_event, seed=1, final=True, deltas=True)
        with progress.changed:
            progress.changed.wait_for(lambda: len(progress.begun) == batch or progress.ended, timeout=600)
        before = engine.stats()
        target = before["steps"] + steps
        after = before
        while after["steps"] < target and progress.ended == 0:
            time.sleep(0.05)
            after = engine.stats()
    _report(before, after, batch=batch, prompt=prompt, constrained=constrained)


def _report(
    before: dict[str, float], after: dict[str, float], *, batch: int, prompt: int, constrained: bool
) -> None:
    steps = int(after["steps"] - before["steps"])
    if steps <= 0:
        raise SystemExit("no decode step was measured: the sequences ended too early")
    passed = {name: (after[key] - before[key]) / steps * 1e3 for name, key, _ in PHASES}
    whole = (after["busy_s"] - before["busy_s"]) / steps * 1e3
    passed["messages and programs"] = whole - sum(passed.values())
    notes = {name: note for name, _, note in PHASES} | {"messages and programs": "commands, interpreter, events"}
    table = Table(f"decode step at batch {batch}", "ms", "share", "")
    for name, value in passed.items():
        table.add_row(name, f"{value:.2f}", f"{value / whole:.1%}", notes[name])
    table.add_row("whole step", f"{whole:.2f}", "100 %", f"{batch / whole * 1e3:.0f} tokens/s")
    Console().print(table)
    overhead = 1 - passed["forward"] / whole
    print(
        json.dumps(
            {
                "bench": "step",
                "batch": batch,
                "prompt": prompt,
                "constrained": constrained,
                "steps": steps,
                "ms": {name: round(value, 3) for name, value in passed.items()},
                "step_ms": round(whole, 3),
                "beside_forward": round(overhead, 4),
                "load": os.getloadavg()[0],
            }
        )
    )
