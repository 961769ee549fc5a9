"""Every way of running gives the tokens of the naive way: one sequence alone, all of it recomputed each time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from radixrt.api import SamplingParams


def _workload(seed: int) -> list[tuple[list[int], SamplingParams, int]]:
    """Prompts that share prefixes at several depths, twins included; greedy, sampled and penalised ones."""
    rng = random.Random(seed)
    preamble = [rng.randrange(60) for _ in range(40)]
    work = []
    for i in range(14):
        shots = [i % 3] * 9
        prompt = [*preamble[: rng.choice((0, 17, 40))], *shots[: rng.randrange(10)], rng.randrange(4)]
        kind = {
            0: {"temperature": 0.0},
            1: {"temperature": 1.0},
            2: {"temperature": 0.9, "top_p": 0.9, "presence_penalty": 1.0},
            3: {"temperature": 0.0, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
        }[rng.randrange(4)]
        work.append((prompt, SamplingParams(max_tokens=rng.choice((1, 5, 13)), **kind), i))
        if i % 5 == 0:
            work.append(work[-1])
    return work


@pytest.fixture(scope="module")
def expected(request: pytest.FixtureRequest) -> dict[int, list[list[int]]]:
    return {}


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "chunk-1": {"chunk": 1},
    "chunk-7": {"chunk": 7},
    "one-by-one": {"max_running": 1},
    "small-batch": {"max_running": 3},
    "off": {"radix": "off"},
    "table": {"radix": "table"},
    "force-miss": {"radix": "force-miss"},
    "lru": {"eviction": "lru", "total": 96},
    "page-4": {"page_size": 4},
    "page-16": {"page_size": 16},
    "fcfs": {"policy": "fcfs"},
    "random": {"policy": "random", "random_seed": 3, "max_running": 4},
    "dfs": {"policy": "dfs", "max_running": 4},
    "retract-1": {"force_retract_every": 1},
    "retract-5": {"force_retract_every": 5},
    "retract-5-off": {"force_retract_every": 5, "radix": "off"},
    "retract-5-chunk-7": {"force_retract_every": 5, "chunk": 7, "page_size": 4},
    "retract-5-table": {"force_retract_every": 5, "radix": "table"},
    "retract-5-force-miss": {"force_retract_every": 5, "radix": "force-miss"},
    "tight": {"total": 70},
    "tight-off": {"total": 70, "radix": "off"},
    "tight-force-miss": {"total": 70, "radix": "force-miss"},
    "tight-pages": {"total": 80, "page_size": 16, "chunk": 7},
    "tight-pages-4": {"total": 72, "page_size": 4, "chunk": 3, "policy": "dfs"},
    "tight-retract": {"total": 72, "force_retract_every": 3, "chunk": 5},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_all_ways_lead_to_the_same_tokens(
    make_bench: Any, naive_output: Any, expected: dict[int, list[list[int]]], variant: str, seed: int
) -> None:
    work = _workload(seed)
    if seed not in expected:
        expected[seed] = [naive_output(ids, params, key=key) for ids, params, key in work]
    bench = make_bench(**VARIANTS[variant])
    sinks = [bench.submit(ids, params=params, key=key) for ids, params, key in work]
    bench.run()
    assert [sink.tokens for sink in sinks] == expected[seed]
    for sink, (ids, _, _) in zip(sinks, work, strict=True):
        assert sink.result.cached_tokens + sink.result.computed_tokens == len(ids)
    if VARIANTS[variant].get("radix") in ("off", "force-miss"):
        assert bench.stat("cached_tokens") == 0
    if "retract" in variant:
        assert bench.stat("retractions") > 0


def test_the_oracle_can_fail(make_bench: Any, naive_output: Any) -> None:
    """A slot that is overwritten behind the scheduler's back changes the output: the comparison means something."""
    prompt, params = list(range(30)), SamplingParams(max_tokens=12, temperature=0.0)
    bench = make_bench()
    sink = bench.submit(prompt, params=params)
    bench.step()
    bench.model._states[: bench.model.total_slots] += 1
    bench.run()
    assert sink.tokens != naive_output(prompt, params)


@pytest.mark.parametrize("page_size", [1, 4])
def test_late_arrivals_share_with_the_running_and_the_finished(
    make_bench: Any, naive_output: Any, page_size: int
) -> None:
    rng = random.Random(4)
    bench = make_bench(120, page_size=page_size, chunk=9)
    work = _workload(5)
    sinks = []
    for ids, params, key in work:
        sinks.append(bench.submit(ids, params=params, key=key))
        for _ in range(rng.randrange(4)):
            bench.step()
    bench.run()
    assert [s.tokens for s in sinks] == [naive_output(ids, params, key=key) for ids, params, key in work]
    assert bench.stat("cached_tokens") > 0
