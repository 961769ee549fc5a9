"""Shared prefixes are computed once, also by sequences that arrive together."""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.api import SamplingParams

GREEDY_5 = SamplingParams(temperature=0.0, max_tokens=5)


def _total_computed(sinks: list[Any]) -> int:
    return sum(sink.result.computed_tokens for sink in sinks)


@pytest.mark.parametrize("chunk", [7, 64, 512, 4096])
@pytest.mark.parametrize("policy", ["fcfs", "lpm", "dfs", "random"])
def test_forks_over_a_preamble_compute_it_once(make_bench: Any, chunk: int, policy: str) -> None:
    bench = make_bench(2000, chunk=chunk, policy=policy)
    preamble = [i % 59 for i in range(1000)]
    sinks = [bench.submit([*preamble, k, k + 1], 4) for k in range(8)]
    bench.check_each_step = False
    bench.run()
    assert _total_computed(sinks) == 1000 + 8 * 2
    assert sum(sink.result.cached_tokens for sink in sinks) == 7 * 1000


@pytest.mark.parametrize("page_size", [4, 16])
def test_whole_pages_are_shared(make_bench: Any, page_size: int) -> None:
    bench = make_bench(1024, page_size=page_size)
    preamble = [i % 59 for i in range(100)]
    sinks = [bench.submit([*preamble, k], 4) for k in range(4)]
    bench.run()
    assert all(s.result.cached_tokens == 100 // page_size * page_size for s in sinks[1:])


def test_identical_prompts_compute_all_but_the_last_token_once(make_bench: Any) -> None:
    bench = make_bench()
    sinks = [bench.submit(list(range(50)), 3, temperature=1.0, key=k) for k in range(6)]
    bench.run()
    assert _total_computed(sinks) == 50 + 5


def test_a_tree_of_prefixes_is_computed_once_each(make_bench: Any) -> None:
    bench = make_bench(2048, chunk=32)
    trunk = [1] * 60
    sinks = [bench.submit([*trunk, *([10 + a] * 20), *([30 + b] * 10), 2], 1) for a in range(3) for b in range(4)]
    bench.run()
    assert _total_computed(sinks) == 60 + 3 * 20 + 12 * 10 + 12


def test_a_short_common_start_is_not_waited_for(make_bench: Any) -> None:
    bench = make_bench()
    for k in range(4):
        bench.submit([1, 2, 3, 10 + k, 5, 6], 1)
    bench.step()
    assert bench.stat("finished") == 4


def test_other_namespaces_and_modes_do_not_wait(make_bench: Any) -> None:
    bench = make_bench()
    for k in range(3):
        bench.submit([1] * 30, 1, namespace=("salt", str(k)))
    bench.step()
    assert bench.stat("finished") == 3
    for radix in ("off", "force-miss"):
        bench = make_bench(radix=radix)
        for _ in range(3):
            bench.submit([1] * 30, 1)
        bench.step()
        assert bench.stat("finished") == 3


def test_table_mode_waits_only_for_whole_prompts(make_bench: Any) -> None:
    bench = make_bench(radix="table")
    same = [bench.submit([1] * 30, 1) for _ in range(2)]
    other = [bench.submit([2] * 30 + [k], 1) for k in range(3, 6)]
    bench.run()
    assert _total_computed(same) == 30 + 1
    # The last token may differ, everything before it is the whole of what may be matched.
    assert _total_computed(other) == 31 + 2
    different = [bench.submit([3] * 30 + [k, k], 1) for k in range(3, 6)]
    bench.run()
    assert _total_computed(different) == 3 * 32


@pytest.mark.parametrize("end", ["cancel", "retract"])
def test_followers_go_on_when_their_leader_goes(make_bench: Any, naive_output: Any, end: str) -> None:
    bench = make_bench(2000, chunk=10, max_running=8, **({"force_retract_every": 3} if end == "retract" else {}))
    prompt = [i % 50 for i in range(90)]
    leader = bench.submit([*prompt, 1], 5)
    followers = [bench.submit([*prompt, 2 + k], 5) for k in range(3)]
    for _ in range(4):
        bench.step()
    assert all(not s.tokens for s in followers)
    if end == "cancel":
        bench.scheduler.cancel(0)
    bench.run()
    for k, sink in enumerate(followers):
        assert sink.tokens == naive_output([*prompt, 2 + k], GREEDY_5)
    assert len(leader.results) == 1
    assert _total_computed([leader, *followers]) <= 90 + 4 + 3


@pytest.mark.parametrize("radix", ["on", "table"])
def test_after_an_abort_mid_prefill_the_prefix_is_still_right(
    make_bench: Any, naive_output: Any, radix: str
) -> None:
    """Chunks stay cached when their sequence is cancelled, and hold what they should."""
    bench = make_bench(200, chunk=4, radix=radix)
    prompt = list(range(30))
    for steps in (1, 2, 5):
        bench.submit(prompt, 5)
        for _ in range(steps):
            bench.step()
        bench.scheduler.cancel(len(bench.sinks) - 1)
        bench.scheduler.check_invariants()
        bench.submit([50 - i for i in range(40)], 1)
        bench.run()
    again = bench.submit(prompt, 5)
    bench.run()
    assert again.tokens == naive_output(prompt, GREEDY_5)


def test_a_continuation_finds_its_own_output(make_bench: Any) -> None:
    """The next turn of a conversation computes only what is new: the last sampled token and what follows."""
    bench = make_bench()
    ids = list(range(25))
    for _ in range(4):
        sink = bench.submit(ids, 10, end_ids=())
        bench.run()
        ids = [*ids, *sink.tokens, 3, 4]
    assert sink.result.computed_tokens == 3
    assert sink.result.cached_tokens == len(ids) - 2 - 10 - 3
