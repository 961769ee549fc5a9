"""Composition of one forward: budget, order, flat arrays, wanted logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radixrt.api import FinishReason
from radixrt.testing.scripted_model import ScriptedModel


def _recording(make_bench: Any, **options: Any) -> tuple[Any, list[Any]]:
    batches: list[Any] = []
    bench = make_bench(model=ScriptedModel(61, seed=7, hook=batches.append), **options)
    return bench, batches


@pytest.mark.parametrize("chunk", [1, 7, 50, 512])
def test_prefill_stays_within_the_budget_beside_all_decodes(make_bench: Any, chunk: int) -> None:
    bench, batches = _recording(make_bench, chunk=chunk, max_running=16, total=2000)
    for k in range(4):
        bench.submit([k], 40, end_ids=())
    for _ in range(5):
        bench.step()
    decoding = int(bench.stat("running"))
    for k in range(4):
        bench.submit([10 + k] * 30, 3, end_ids=())
    bench.step()
    lens = np.diff(batches[-1].query_start)
    assert sorted(lens[:decoding]) == [1] * decoding
    assert lens[decoding:].sum() == min(chunk, 120)
    bench.run()
    for batch in batches:
        # Whatever is more than a decode's own token is prefill.
        assert (np.diff(batch.query_start) - 1).sum() < chunk + 1


def test_a_prompt_is_fed_in_order_and_only_its_end_wants_logits(make_bench: Any) -> None:
    bench, batches = _recording(make_bench, chunk=8, radix="off")
    prompt = list(range(20))
    bench.submit(prompt, 1)
    bench.run()
    assert [batch.token_ids.tolist() for batch in batches] == [prompt[:8], prompt[8:16], prompt[16:]]
    assert np.concatenate([batch.positions for batch in batches]).tolist() == prompt
    assert [batch.logit_index.tolist() for batch in batches] == [[], [], [3]]
    assert [batch.context_lens.tolist() for batch in batches] == [[8], [16], [20]]
    for batch in batches:
        assert batch.token_ids.dtype == batch.positions.dtype == batch.write_slots.dtype == np.int64
        assert batch.query_start.dtype == batch.context_lens.dtype == batch.logit_index.dtype == np.int64
        assert all(slots.dtype == np.int32 for slots in batch.context_slots)


def test_wanted_scores_and_samples_are_told_apart(make_bench: Any) -> None:
    bench, batches = _recording(make_bench)
    bench.submit(list(range(10)), 1, logprob_start=6)
    bench.submit([30, 31, 32], 1)
    bench.submit([40, 41, 42], 0)
    bench.submit([50, 51], 0, logprob_start=0)
    bench.step()
    assert batches[0].logit_index.tolist() == [5, 6, 7, 8, 9, 12, 16]


def test_many_prefills_and_forced_runs_never_stop_the_oldest_prompt(make_bench: Any) -> None:
    bench, _ = _recording(make_bench, chunk=1, max_running=8)
    sinks = [bench.submit([k] * 9, 2, end_ids=()) for k in range(8)]
    bench.run(limit=200)
    assert all(s.result.finish_reason is FinishReason.LENGTH for s in sinks)


class _Runs:
    """A grammar that forces three tokens after every sampled one."""

    is_accepting = is_complete = failed = False

    def __init__(self) -> None:
        self.count = 0

    def accept(self, token: int, /) -> bool:
        self.count += 1
        return True

    def forced_tokens(self) -> list[int]:
        return [7, 7, 7] if self.count % 4 == 1 else []


def _allow_all(_: Any, bitmask: np.ndarray) -> None:
    bitmask[:] = -1


@pytest.mark.parametrize("chunk", [1, 2, 6])
def test_forced_runs_count_against_the_budget_and_leave_a_token_to_prefill(make_bench: Any, chunk: int) -> None:
    bench, batches = _recording(make_bench, chunk=chunk, fill_masks=_allow_all)
    bench.submit([1], 400, end_ids=(), matcher=_Runs())
    bench.submit([2], 400, end_ids=(), matcher=_Runs())
    for _ in range(4):
        bench.step()
    prompt = bench.submit([3] * 30, 1, end_ids=())
    for _ in range(30 // max(1, chunk // 2) + 2):
        bench.step()
    assert prompt.results
    for batch in batches[4:]:
        lens = np.diff(batch.query_start)
        assert lens[:2].min() >= 1
        assert (lens[:2] - 1).sum() + lens[2:].sum() <= chunk


def test_an_older_prompt_does_not_stop_a_younger_decode(make_bench: Any) -> None:
    bench, _ = _recording(make_bench, chunk=5)
    bench.submit([1] * 60, 1, priority=0)
    young = bench.submit([2], 30, priority=1, end_ids=())
    for steps in range(1, 11):
        bench.step()
        assert len(young.tokens) == steps
    bench.run()


def test_the_timers_add_up(make_bench: Any) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    bench, _ = _recording(make_bench)
    bench.scheduler._clock = clock
    bench.submit([1, 2, 3], 4, end_ids=())
    bench.run()
    stats = bench.scheduler.stats()
    assert stats["steps"] == 4
    phases = [stats[f"{name}_s"] for name in ("schedule", "forward", "masks", "sample", "advance")]
    assert phases == [4.0, 4.0, 4.0, 4.0, 8.0]


def test_the_steps_work_does_not_grow_with_the_context(make_bench: Any) -> None:
    """No list of the length of the context is rebuilt per token: the same arrays are handed on as views."""
    bench, batches = _recording(make_bench, total=4000, context_length=4000)
    bench.submit([1] * 3000, 40, end_ids=())
    bench.check_each_step = False
    for _ in range(20):
        bench.step()
    # Within a doubling of the buffer, steps share one array of slots.
    bases = {id(batch.context_slots[0].base) for batch in batches[-10:]}
    assert len(bases) == 1
