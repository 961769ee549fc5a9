"""``python -m radixrt.bench.soak``: minutes of random programs and cancels, then the books must balance.

Runs on the scripted engine, so that the load is on scheduler, tree, interpreter and client, not on arithmetic. Ends
with exit status 1 when a program had no terminal event, an output differed from what the same program gives alone,
slots were lost, or memory kept growing.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from radixrt.errors import Cancelled, DeadlineExceeded, RadixrtError
from radixrt.frontend.expressions import gen, select
from radixrt.frontend.program import program
from radixrt.frontend.state import ProgramState
from radixrt.testing.scripted_engine import scripted_engine

__all__ = ["main"]

PREAMBLES = [f"Preamble number {n}: " + "shared words " * (20 * (n + 1)) for n in range(4)]
MAX_GROWTH = 1.5  # of the resident size after the first minute
CONCURRENCY = 32


@program
def storm(s: ProgramState, kind: int, preamble: str, length: int) -> list[str]:
    """One of several shapes, so that rows share prefixes, fork, join, select, fail and wait for Python."""
    s += preamble
    s += f"kind {kind}:"
    s += gen("first", max_tokens=length)
    if kind == 1:
        branches = s.fork(4)
        for branch in branches:
            branch += f" branch {branch.index}" + gen("leaf", max_tokens=length)
        s.join(branches, sep="|")
        s += gen("last", max_tokens=length)
        return [s["first"], *branches["leaf"], s["last"]]
    if kind == 2:
        s += select("pick", ["one", "two", "three"])
        return [s["first"], s["pick"]]
    if kind == 3:
        time.sleep(0.01)
        s += " then" + gen("second", max_tokens=length, regex="[a-c]{3}")
        return [s["first"], s["second"]]
    if kind == 4:
        raise ArithmeticError("a program that fails half-way")
    return [s["first"]]


def rows(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        yield {
            "kind": rng.randrange(6),
            "preamble": rng.choice(PREAMBLES),
            "length": rng.choice([1, 3, 8, 20]),
        }


def resident_bytes() -> int:
    """Resident size of this process (Linux), 0 where it cannot be read."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    ends: Counter[str] = Counter()
    problems: list[str] = []
    known: dict[tuple[Any, ...], list[str]] = {}
    deadline = time.monotonic() + options.minutes * 60
    early_size = 0
    with scripted_engine(max_total_tokens=6000, max_running=16, chunk=64) as engine:
        started = time.monotonic()
        while time.monotonic() < deadline and not problems:
            batch = list(rows(rng, 200))
            timeout = rng.choice([None, None, None, 0.2])
            runs = storm.map(
                batch,
                engine=engine,
                temperature=0,
                seed=1,
                concurrency=CONCURRENCY,
                timeout=timeout,
                progress=False,
            )
            if rng.random() < 0.3:
                timer = threading.Timer(rng.random(), runs.cancel)
                timer.start()
            for row, run in zip(batch, runs, strict=False):
                ends[_end(run.error)] += 1
                if run.error is None:
                    key = tuple(row.values())
                    if known.setdefault(key, run.value) != run.value:
                        problems.append(f"{row} gave {run.value!r}, before {known[key]!r}")
                elif not isinstance(run.error, RadixrtError | ArithmeticError):
                    problems.append(f"{row} ended in {run.error!r}")
            if not early_size and time.monotonic() - started > min(60.0, options.minutes * 20):
                gc.collect()
                early_size = resident_bytes()
        stats = engine.stats()
    gc.collect()
    size = resident_bytes()
    if early_size and size > early_size * MAX_GROWTH:
        problems.append(f"resident size grew from {early_size >> 20} to {size >> 20} MiB")
    held = stats["held_slots"]
    if held:
        problems.append(f"{held:.0f} slots are still held with nothing running")
    print(f"{sum(ends.values())} programs: {dict(ends)}; {len(known)} distinct outputs; {size >> 20} MiB resident")
    for problem in problems[:20]:
        print("PROBLEM:", problem, file=sys.stderr)
    return 1 if problems else 0


def _end(error: BaseException | None) -> str:
    if error is None:
        return "done"
    if isinstance(error, Cancelled | DeadlineExceeded):
        return error.code
    return type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
