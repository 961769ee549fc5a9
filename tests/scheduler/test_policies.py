"""Orders of admission, and that none of them lets anybody starve or looks at the whole queue."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from radixrt.scheduler import policies
from radixrt.scheduler.policies import AGED_TURN, AGING_STEPS, WINDOW


def _start_order(bench: Any, sinks: list[Any]) -> list[int]:
    order: list[int] = []
    for k, sink in enumerate(sinks):
        sink.on_finish = lambda _, k=k: order.append(k)
    bench.run()
    return order


def test_fcfs_keeps_the_order_of_arrival(make_bench: Any) -> None:
    bench = make_bench(policy="fcfs", max_running=1)
    rng = random.Random(0)
    sinks = [bench.submit([rng.randrange(60) for _ in range(10)], 1) for _ in range(20)]
    assert _start_order(bench, sinks) == list(range(20))


def test_random_is_seeded(make_bench: Any) -> None:
    orders = []
    for seed in (1, 1, 2):
        bench = make_bench(policy="random", max_running=1, random_seed=seed)
        orders.append(_start_order(bench, [bench.submit([k], 1) for k in range(20)]))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(20)) != orders[0]


def test_lpm_prefers_the_longest_cached_prefix(make_bench: Any) -> None:
    bench = make_bench(policy="lpm", max_running=1)
    bench.submit([1] * 20, 0)
    bench.submit([2] * 30, 0)
    bench.run()
    sinks = [bench.submit(ids, 1) for ids in ([3] * 20, [1] * 20, [2] * 20, [2] * 30, [4] * 5)]
    assert _start_order(bench, sinks) == [3, 1, 2, 0, 4]


@pytest.mark.parametrize("policy", ["lpm", "dfs"])
def test_prefix_orders_reach_the_best_hit_rate(make_bench: Any, policy: str) -> None:
    """A tree of prefixes, submitted shuffled, with a pool of a fifth of its distinct tokens."""
    rng = random.Random(1)
    prompts = [[a] * 30 + [20 + b] * 20 + [40 + c] * 5 for a in range(8) for b in range(6) for c in range(4)]
    distinct = 8 * 30 + 8 * 6 * 20 + 8 * 6 * 4 * 5
    rng.shuffle(prompts)
    bench = make_bench(distinct // 5, policy=policy, max_running=4, max_queued=1000)
    bench.check_each_step = False
    sinks = [bench.submit(ids, 1) for ids in prompts]
    bench.run()
    computed = sum(s.result.computed_tokens for s in sinks)
    assert computed == distinct  # the best there is

    bench = make_bench(distinct // 5, policy="fcfs", max_running=4, max_queued=1000)
    bench.check_each_step = False
    sinks = [bench.submit(ids, 1) for ids in prompts]
    bench.run()
    assert sum(s.result.computed_tokens for s in sinks) > distinct * 1.5


def test_dfs_finishes_a_subtree_before_the_next(make_bench: Any) -> None:
    bench = make_bench(policy="dfs", max_running=1, chunk=512)
    sinks = [bench.submit([1 + k % 3] * 12 + [k], 1) for k in range(12)]
    order = _start_order(bench, sinks)
    assert [k % 3 for k in order] == [0] * 4 + [1] * 4 + [2] * 4


def test_higher_priority_first(make_bench: Any) -> None:
    for policy in ("fcfs", "lpm", "dfs", "random"):
        bench = make_bench(policy=policy, max_running=1)
        sinks = [bench.submit([k], 1, priority=p) for k, p in enumerate((0, 5, -1, 5, 0))]
        order = _start_order(bench, sinks)
        assert [(0, 5, -1, 5, 0)[k] for k in order] == [5, 5, 0, 0, -1]


def _steps_until_cold_starts(bench: Any, hot: Any, cold: list[int], *, limit: int, **fields: Any) -> int:
    """A stream of hot arrivals that never lets the queue run dry, against one cold request."""
    for k in range(6):
        bench.submit(hot(k), 4, end_ids=(), priority=1 if fields else 0)
    bench.step()
    sink = bench.submit(cold, 1, end_ids=())
    for step in range(limit):
        while bench.stat("waiting") < 6:
            bench.submit(hot(len(bench.sinks)), 4, end_ids=(), priority=1 if fields else 0)
        bench.scheduler.step()
        if sink.results:
            return step
    return limit


HOT = [7] * 40


@pytest.mark.parametrize("policy", ["lpm", "dfs"])
@pytest.mark.parametrize("cold", [[50] * 10, [50] * 95])
def test_a_cold_request_is_overtaken_a_bounded_number_of_times(
    make_bench: Any, policy: str, cold: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(limit: int) -> int:
        bench = make_bench(100, policy=policy, max_running=2)
        return _steps_until_cold_starts(bench, lambda k: [*HOT, k // 50, k % 50], cold, limit=limit)

    # Two run at a time for four tokens each, so at the slowest every fourth step admits somebody.
    bound = 4 * (AGING_STEPS + AGED_TURN + 3)
    assert measure(bound + 50) <= bound
    monkeypatch.setattr(policies, "AGING_STEPS", 10**9)
    assert measure(3 * bound) == 3 * bound  # without aging it starves: the test can fail


def test_priorities_age_too(make_bench: Any) -> None:
    bench = make_bench(200, policy="fcfs", max_running=2)
    bound = 4 * (AGING_STEPS + AGED_TURN + 3)
    assert _steps_until_cold_starts(bench, lambda k: [k % 40, 3], [50], limit=bound + 50, low=True) <= bound


def test_a_burst_is_not_torn_apart_by_aging(make_bench: Any) -> None:
    """Sequences that arrive together do not age against each other, however long the burst takes."""
    bench = make_bench(200, policy="lpm", max_running=1, max_queued=1000)
    bench.check_each_step = False
    sinks = [bench.submit([1 + k % 2] * 40 + [k % 50, k // 50], 1) for k in range(200)]
    order = _start_order(bench, sinks)
    switches = sum(a % 2 != b % 2 for a, b in pairwise(order))
    assert switches == 1


def test_waiting_rows_do_not_push_back_the_calls_of_running_programs(make_bench: Any, make_sink: Any) -> None:
    """Many programs of several calls each: the next call of one that runs goes on over its warm context."""
    bench = make_bench(300, policy="lpm", max_running=4, max_queued=1000)
    bench.check_each_step = False
    computed = 0

    def call(program: int, turn: int, ids: list[int]) -> None:
        def follow(result: Any) -> None:
            nonlocal computed
            computed += result.computed_tokens
            if turn < 4:
                call(program, turn + 1, [*ids, *result.output_ids, 1])

        bench.submit(ids, 12, end_ids=(), sink=make_sink(on_finish=follow))

    for program in range(100):
        call(program, 0, [program % 60, program // 60, *range(38)])
    bench.run()
    once_each = 100 * (40 + 4 * 2)
    assert computed < once_each * 2.5  # it is more than four times as much when every turn is for the aged


@pytest.mark.parametrize("policy", ["fcfs", "random", "lpm", "dfs"])
def test_a_step_looks_at_a_bounded_number_of_waiting_sequences(make_bench: Any, policy: str) -> None:
    bench = make_bench(3000, policy=policy, max_running=8, max_queued=10_000)
    bench.check_each_step = False
    rng = random.Random(3)
    for _ in range(2000):
        bench.submit([rng.randrange(60) for _ in range(12)], 3, end_ids=())
    tree = bench.scheduler._kv.tree
    looks = 0
    original = tree.match_length

    def counting(*args: Any) -> int:
        nonlocal looks
        looks += 1
        return int(original(*args))

    tree.match_length = counting
    worst = 0
    for _ in range(50):
        before = looks
        bench.step()
        worst = max(worst, looks - before)
    assert worst <= 2 * WINDOW
    if policy != "random":
        assert worst > 0


def test_no_matching_while_nothing_can_be_admitted(make_bench: Any) -> None:
    """With the batch full or the pool short, waiting costs nothing per step."""
    for options in ({"total": 4000, "max_running": 2}, {"total": 60, "max_running": 20}):
        bench = make_bench(**options)
        for k in range(30):
            bench.submit([k] * 20, 25, end_ids=())
        for _ in range(4):
            bench.step()
        tree = bench.scheduler._kv.tree
        tree.match_length = tree.match = None
        running = bench.stat("running")
        for _ in range(5):
            bench.step()
        assert bench.stat("running") == running
