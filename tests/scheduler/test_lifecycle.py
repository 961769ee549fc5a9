"""Every accepted sequence ends exactly once, whatever its neighbours, its sink, the model or the caller do."""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import pytest

from radixrt.api import FinishReason, SamplingParams
from radixrt.errors import Cancelled, ErrorInfo, InvalidRequest
from radixrt.model.sampler import sample_rows
from radixrt.testing.scripted_model import ScriptedModel

VOCAB = 61


def _boom(*_: Any) -> Any:
    raise ValueError("boom")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


# --- cancel -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("page_size", [1, 4])
def test_cancel_frees_at_once(make_bench: Any, steps: int, page_size: int) -> None:
    bench = make_bench(64, chunk=6, page_size=page_size)
    sink = bench.submit(list(range(20)), 40, end_ids=())
    for _ in range(steps):
        bench.step()
    assert bench.scheduler.cancel(0)
    assert sink.result.finish_reason is FinishReason.CANCELLED
    bench.check_done()
    assert not bench.scheduler.cancel(0)
    assert not bench.scheduler.cancel(99)


def test_cancel_of_a_retracted_sequence(make_bench: Any) -> None:
    bench = make_bench(60, radix="off")
    sinks = [bench.submit([k] * 10, 50, end_ids=()) for k in range(4)]
    while bench.stat("retractions") == 0:
        bench.step()
    for k in range(4):
        bench.scheduler.cancel(k)
    bench.check_done()
    assert all(s.result.finish_reason is FinishReason.CANCELLED for s in sinks)


def test_cancel_from_a_sink_waits_for_the_end_of_the_step(make_bench: Any, make_sink: Any) -> None:
    """A sink may cancel itself, an older, a younger or a waiting sequence; none of them hears another token."""
    bench = make_bench(max_running=3)
    everyone = range(5)

    def cancel_all(_: Any) -> None:
        for k in everyone:
            bench.scheduler.cancel(k)

    sinks = [
        bench.submit([k], 20, end_ids=(), sink=make_sink(on_push=cancel_all if k == 1 else None)) for k in everyone
    ]
    bench.step()
    bench.check_done()
    assert [len(s.tokens) for s in sinks] == [1, 1, 0, 0, 0]
    assert all(s.result.finish_reason is FinishReason.CANCELLED for s in sinks)


def test_an_id_reused_within_the_step_is_not_hit_by_an_old_cancel(make_bench: Any, make_sink: Any) -> None:
    bench = make_bench()
    later = make_sink()

    def reuse(_: Any) -> None:
        bench.scheduler.cancel(0)

    def submit_again(_: Any) -> None:
        bench.submit([3], 4, sink=later, id=0, end_ids=())

    bench.submit([1], 1, end_ids=(), sink=make_sink(on_push=reuse, on_finish=submit_again))
    bench.run()
    assert len(later.tokens) == 4


# --- sinks that call back ---------------------------------------------------------------------------------------


def test_a_sink_may_submit_from_finish_and_push(make_bench: Any, make_sink: Any) -> None:
    """A program's next node starts from the callback of the one before."""
    bench = make_bench()
    chain: list[Any] = []

    def follow(result: Any) -> None:
        chain.append(result)
        if len(chain) < 5:
            ids = [1, 2, 3, *(token for r in chain for token in r.output_ids)]
            bench.submit(ids, 4, end_ids=(), sink=make_sink(on_finish=follow))
            bench.scheduler.note_future_use((), ids, 1)
            bench.scheduler.note_future_use((), ids, -1)

    bench.submit([1, 2, 3], 4, end_ids=(), sink=make_sink(on_finish=follow))
    bench.run()
    assert len(chain) == 5
    assert [r.computed_tokens for r in chain] == [3, 1, 1, 1, 1]


# --- guards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["push", "finish"])
def test_a_sink_that_raises_hurts_nobody_else(make_bench: Any, make_sink: Any, where: str) -> None:
    bench = make_bench()
    bad = make_sink(**{f"on_{where}": _boom})
    bench.submit([1, 2], 5, sink=bad, end_ids=())
    good = bench.submit([1, 3], 5, end_ids=())
    bench.run()
    assert len(good.tokens) == 5
    if where == "push":
        assert bad.result.finish_reason is FinishReason.ERROR
        assert (bad.result.error.code, bad.result.error.message) == ("internal_error", "ValueError: boom")


class RaisingMatcher:
    """Raises at the chosen place."""

    def __init__(self, where: str) -> None:
        self.where = where

    def _at(self, where: str) -> bool:
        if self.where == where:
            _boom()
        return False

    @property
    def is_accepting(self) -> bool:
        return self._at("is_accepting")

    @property
    def is_complete(self) -> bool:
        return self._at("is_complete")

    @property
    def failed(self) -> bool:
        return self._at("failed")

    def accept(self, token: int, /) -> bool:
        return not self._at("accept")

    def forced_tokens(self) -> list[int]:
        self._at("forced_tokens")
        return []

    def fill_mask(self, row: np.ndarray) -> None:
        self._at("fill_mask")
        row[:] = -1


def _fill(matchers: Any, bitmask: np.ndarray) -> None:
    for matcher, row in zip(matchers, bitmask, strict=True):
        row[:] = -1
        if matcher is not None:
            matcher.fill_mask(row)


@pytest.mark.parametrize("where", ["is_accepting", "is_complete", "failed", "accept", "forced_tokens", "fill_mask"])
def test_a_matcher_that_raises_hurts_nobody_else(make_bench: Any, where: str) -> None:
    bench = make_bench(fill_masks=_fill, model=ScriptedModel(VOCAB, script=lambda _: 5))
    good = bench.submit([1, 3], 5)
    bad = bench.submit([1, 2], 5, matcher=RaisingMatcher(where), end_ids=(5,))
    calm = bench.submit([1, 4], 5, matcher=RaisingMatcher("nowhere"))
    bench.run()
    assert bad.result.finish_reason is FinishReason.ERROR
    assert good.tokens == [5] * 5
    assert calm.tokens == [5] * 5


def test_a_row_that_cannot_be_sampled_hurts_nobody_else(make_bench: Any, naive_output: Any) -> None:
    def sampler(logits: Any, rows: Any, bitmask: Any) -> Any:
        if any(row.key == 13 for row in rows):
            logits[:] = np.nan  # a sampler may have spoiled them before it raised
            _boom()
        return sample_rows(logits, rows, bitmask)

    bench = make_bench(model=ScriptedModel(VOCAB, seed=7, sampler=sampler))
    sinks = [bench.submit([1, k], 5, key=k) for k in range(12, 15)]
    twins = [bench.submit([1, 2, 3], 5, key=k) for k in (12, 13, 14)]
    bench.run()
    params = SamplingParams(temperature=0.0, max_tokens=5)
    assert sinks[0].tokens == naive_output([1, 12], params)
    assert sinks[2].tokens == naive_output([1, 14], params)
    assert twins[0].tokens == twins[2].tokens == naive_output([1, 2, 3], params)
    assert sinks[1].result.finish_reason is FinishReason.ERROR
    assert twins[1].result.finish_reason is FinishReason.ERROR


def test_logits_that_are_not_numbers_end_their_own_sequence(make_bench: Any) -> None:
    class Spoiled(ScriptedModel):
        def forward(self, batch: Any) -> Any:
            logits = super().forward(batch)
            for row, slots in enumerate(batch.context_slots):
                if self._tokens[slots[0]] == 13:
                    logits[row] = np.nan
            return logits

    bench = make_bench(model=Spoiled(VOCAB))
    good, bad = bench.submit([1, 2], 3, end_ids=()), bench.submit([13], 3, end_ids=())
    scored = bench.submit([13, 1], 0, logprob_start=1)
    bench.run()
    assert len(good.tokens) == 3
    assert bad.result.finish_reason is FinishReason.ERROR
    assert scored.result.finish_reason is FinishReason.ERROR


def test_a_failing_forward_leaves_step_and_close_tells_everybody(make_bench: Any) -> None:
    def hook(batch: Any) -> None:
        if len(batch.token_ids) == 3:
            raise RuntimeError("device lost")

    bench = make_bench(20, model=ScriptedModel(VOCAB, hook=hook), max_running=3, chunk=12)
    sinks = [bench.submit([k, 1, 2, 3], 9, end_ids=()) for k in range(6)]
    bench.step()
    with pytest.raises(RuntimeError, match="device lost"):
        bench.run()
    bench.scheduler.check_invariants()
    bench.scheduler.close(ErrorInfo(code="worker_died", message="gone"))
    assert all(s.result.error.code == "worker_died" for s in sinks)
    assert all(s.result.finish_reason is FinishReason.ERROR for s in sinks)
    bench.check_done()


def test_close_cancels_and_refuses_what_comes_later(make_bench: Any, make_sink: Any) -> None:
    bench = make_bench()
    refused: list[Exception] = []

    def again(_: Any) -> None:
        with pytest.raises(Cancelled) as caught:
            bench.submit([1], 1)
        refused.append(caught.value)

    sink = bench.submit([1, 2, 3], 9, sink=make_sink(on_finish=again))
    bench.step()
    bench.scheduler.close()
    assert sink.result.finish_reason is FinishReason.CANCELLED
    assert len(refused) == 1
    assert not bench.scheduler.step()


# --- storms -----------------------------------------------------------------------------------------------------


CONFIGS: list[dict[str, Any]] = [
    {"total": 150},
    {"total": 60, "chunk": 5, "max_running": 4},
    {"total": 128, "page_size": 16, "chunk": 9},
    {"total": 64, "page_size": 4, "policy": "dfs", "force_retract_every": 3},
    {"total": 64, "radix": "off", "policy": "random"},
    {"total": 64, "radix": "table", "policy": "fcfs", "chunk": 3},
    {"total": 64, "radix": "force-miss", "max_running": 5},
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join(map(str, c.values())))
def test_storm(make_bench: Any, make_sink: Any, naive_output: Any, config: dict[str, Any]) -> None:
    """Random submit, cancel, step, hint and flush, the books checked after every step."""
    rng = random.Random(str(config))
    bench = make_bench(**config)
    limit = bench.stat("total_slots")
    accepted: dict[int, tuple[list[int], SamplingParams]] = {}
    notes: list[list[int]] = []
    for number in range(600):
        action = rng.random()
        if action < 0.35:
            ids = [rng.randrange(2) for _ in range(rng.randrange(1, 40))]
            room = int(limit) - len(ids)
            params = SamplingParams(
                max_tokens=rng.randrange(0, min(12, room + 2)), temperature=rng.choice((0.0, 1.0))
            )
            sink = make_sink(on_push=_boom if rng.random() < 0.03 else None)
            try:
                bench.submit(
                    ids,
                    params=params,
                    key=number,
                    sink=sink,
                    id=number,
                    namespace=("salt", rng.choice("ab")),
                    priority=rng.randrange(2),
                )
            except InvalidRequest:
                assert not sink.results
                continue
            accepted[number] = (ids, params)
            if rng.random() < 0.3:
                notes.append(ids)
                bench.scheduler.note_future_use(("salt", "a"), ids, 1)
        elif action < 0.42 and accepted:
            bench.scheduler.cancel(rng.choice(list(accepted)))
        elif action < 0.44:
            bench.scheduler.flush_cache()
        elif action < 0.50 and notes:
            bench.scheduler.note_future_use(("salt", "a"), notes.pop(rng.randrange(len(notes))), -1)
        else:
            bench.step()
    bench.run()
    compared = 0
    for number, (ids, params) in accepted.items():
        result = bench.sinks[number].result
        if result.finish_reason in (FinishReason.STOP, FinishReason.LENGTH) and compared < 40:
            assert bench.sinks[number].tokens == naive_output(ids, params, key=number)
            assert result.cached_tokens + result.computed_tokens == len(ids)
            compared += 1
    assert compared > 10
    for ids in notes:
        bench.scheduler.note_future_use(("salt", "a"), ids, -1)
    bench.scheduler.flush_cache()
    assert bench.stat("free_slots") == bench.stat("total_slots")
