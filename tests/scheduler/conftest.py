"""A bench for the scheduler: recording sinks, a loop that checks the books after every step, a naive oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from radixrt.api import FinishReason, SamplingParams
from radixrt.config import EngineConfig
from radixrt.model.batch import ForwardBatch, RowSampling
from radixrt.model.sampler import sample_rows
from radixrt.scheduler.loop import Scheduler
from radixrt.scheduler.request import SequenceRequest, SequenceResult
from radixrt.testing.scripted_model import ScriptedModel

VOCAB = 61
END = 60


class Sink:
    """Records what it hears. ``stop_after`` tokens it ends the sequence; the callbacks may do anything."""

    def __init__(
        self,
        stop_after: int | None = None,
        on_push: Callable[[list[int]], Any] | None = None,
        on_finish: Callable[[SequenceResult], Any] | None = None,
    ) -> None:
        self.tokens: list[int] = []
        self.results: list[SequenceResult] = []
        self.stop_after = stop_after
        self.on_push = on_push
        self.on_finish = on_finish

    def push(self, tokens: list[int], /) -> bool:
        assert not self.results, "a token after the end"
        assert tokens
        self.tokens.extend(tokens)
        if self.on_push is not None:
            self.on_push(tokens)
        return self.stop_after is not None and len(self.tokens) >= self.stop_after

    def finish(self, result: SequenceResult, /) -> None:
        self.results.append(result)
        assert len(self.results) == 1, "a second finish"
        assert result.output_ids == self.tokens
        if self.on_finish is not None:
            self.on_finish(result)

    @property
    def result(self) -> SequenceResult:
        (only,) = self.results
        return only


class Bench:
    """A scheduler over a scripted model. Options that are not fields of the config go to the model."""

    def __init__(
        self,
        total: int = 512,
        *,
        model: ScriptedModel | None = None,
        fill_masks: Any = None,
        context_length: int = 4096,
        **config: Any,
    ) -> None:
        self.model = model or ScriptedModel(VOCAB, context_length, seed=7)
        self.config = EngineConfig(**config)
        self.scheduler = Scheduler(self.model, self.config, total_slots=total, fill_masks=fill_masks)
        self.sinks: dict[int, Sink] = {}
        self.check_each_step = True

    def submit(
        self,
        ids: Sequence[int],
        max_tokens: int = 8,
        *,
        sink: Sink | None = None,
        id: int | None = None,
        params: SamplingParams | None = None,
        **fields: Any,
    ) -> Sink:
        sink = sink or Sink()
        number = len(self.sinks) if id is None else id
        if params is None:
            sampling = {k: fields.pop(k) for k in list(fields) if k in SamplingParams.__struct_fields__}
            params = SamplingParams(**{"temperature": 0.0, **sampling}, max_tokens=max_tokens)
        fields.setdefault("end_ids", (END,))
        self.scheduler.submit(SequenceRequest(id=number, ids=list(ids), params=params, sink=sink, **fields))
        self.sinks[number] = sink
        return sink

    def step(self) -> bool:
        worked = self.scheduler.step()
        if self.check_each_step:
            self.scheduler.check_invariants()
        return worked

    def run(self, limit: int = 20_000) -> None:
        """Step until there is nothing left, then look for leaks."""
        for _ in range(limit):
            if not self.step():
                break
        else:
            raise AssertionError(f"still working after {limit} steps")
        self.check_done()

    def check_done(self) -> None:
        assert not self.scheduler.has_work()
        for sink in self.sinks.values():
            assert len(sink.results) == 1
        stats = self.scheduler.stats()
        assert stats["held_slots"] == 0
        assert stats["evictable_slots"] == stats["cached_slots"]
        assert stats["free_slots"] + stats["cached_slots"] == stats["total_slots"]
        self.scheduler.check_invariants()

    def stat(self, name: str) -> float:
        return self.scheduler.stats()[name]


def naive(
    ids: Sequence[int],
    params: SamplingParams,
    *,
    key: int = 0,
    end_ids: Iterable[int] = (END,),
    seed: int = 7,
) -> list[int]:
    """One sequence alone, everything recomputed for every token: no cache, no batch, no chunks."""
    context, output = list(ids), []
    while len(output) < params.max_tokens:
        model = ScriptedModel(VOCAB, seed=seed)
        model.allocate(len(context))
        n = len(context)
        everything = np.arange(n, dtype=np.int64)
        logits = model.forward(
            ForwardBatch(
                token_ids=np.array(context, np.int64),
                positions=everything,
                write_slots=everything,
                query_start=np.array([0, n], np.int64),
                context_slots=[np.arange(n, dtype=np.int32)],
                context_lens=np.array([n], np.int64),
                logit_index=np.array([n - 1], np.int64),
            )
        )
        row = RowSampling(params=params, key=key, position=len(output), prompt_ids=ids, output_ids=output)
        token = sample_rows(logits, [row], None)[0].token
        if token in end_ids:
            break
        output.append(token)
        context.append(token)
    return output


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    return Bench


@pytest.fixture
def make_sink() -> Callable[..., Sink]:
    return Sink


@pytest.fixture
def naive_output() -> Callable[..., list[int]]:
    return naive


@pytest.fixture
def finish_reasons() -> type[FinishReason]:
    return FinishReason
