"""The runner as the scheduler sees it: pools, limits, and errors instead of reads outside a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from radixrt.api import SamplingParams
from radixrt.errors import InvalidRequest
from radixrt.model.batch import ForwardBatch, RowSampling
from radixrt.model.config import DecoderConfig, RopeConfig
from radixrt.model.runner import TorchRunner
from radixrt.model.weights import DecoderWeights, LayerWeights


def random_model(threads: int, **sizes: Any) -> TorchRunner:
    """A decoder of these sizes with random weights and no pool."""
    torch.manual_seed(0)
    config = DecoderConfig(
        architecture="llama", norm_eps=1e-5, rope=RopeConfig(theta=10000.0), tied_embeddings=True, **sizes
    )

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns) * columns**-0.5

    hidden, inner = config.hidden_size, config.intermediate_size
    layers = tuple(
        LayerWeights(
            input_norm=torch.ones(hidden),
            qkv=matrix(config.query_size + 2 * config.kv_size, hidden),
            output=matrix(hidden, config.query_size),
            post_norm=torch.ones(hidden),
            gate_up=matrix(2 * inner, hidden),
            down=matrix(hidden, inner),
        )
        for _ in range(config.layers)
    )
    embedding = torch.randn(config.vocab_size, hidden)
    return TorchRunner(config, DecoderWeights(embedding, layers, torch.ones(hidden), embedding), threads=threads)


@pytest.fixture
def runner() -> TorchRunner:
    """One layer, two heads."""
    return random_model(
        1,
        vocab_size=50,
        hidden_size=8,
        intermediate_size=12,
        layers=1,
        heads=2,
        kv_heads=1,
        head_dim=4,
        context_length=32,
        windows=(None,),
    )


def test_pool_sizes(runner: TorchRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runner.bytes_per_slot == 1 * 2 * 4 * 4
    monkeypatch.setattr("radixrt.model.runner.free_memory", lambda device: 32 * 400)
    assert runner.default_total_slots() == 100
    monkeypatch.setattr("radixrt.model.runner.free_memory", lambda device: 1 << 60)
    assert runner.default_total_slots() == 1 << 16
    monkeypatch.setattr("radixrt.model.runner.free_memory", lambda device: 0)
    assert runner.default_total_slots() == 1


def test_a_pool_larger_than_memory_names_the_flag(runner: TorchRunner) -> None:
    with pytest.raises(InvalidRequest, match="max_total_tokens=1000000000000000 takes") as caught:
        runner.allocate(10**15)
    assert caught.value.param == "max_total_tokens"


def test_allocate_once(runner: TorchRunner) -> None:
    runner.allocate(16)
    with pytest.raises(RuntimeError, match="already"):
        runner.allocate(16)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_ids", 50),
        ("token_ids", -1),
        ("write_slots", 16),
        ("write_slots", -1),
        ("positions", 32),
        ("positions", -1),
        ("logit_index", 4),
    ],
)
def test_indices_outside_are_errors(
    runner: TorchRunner, make_batch: Callable[..., ForwardBatch], field: str, value: int
) -> None:
    runner.allocate(16)
    batch = make_batch([([1, 2, 3, 4], 0, range(4))])
    array = getattr(batch, field).copy()
    array[-1] = value
    with pytest.raises(ValueError, match=field):
        runner.forward(msgspec.structs.replace(batch, **{field: array}))


def test_context_slots_outside_are_errors(runner: TorchRunner, make_batch: Any) -> None:
    runner.allocate(16)
    batch = make_batch([([1, 2, 3, 4], 3, range(4))])
    for bad in (16, -1):
        slots = [np.array([0, bad, 2, 3], np.int32)]
        with pytest.raises(ValueError, match="context_slots"):
            runner.forward(msgspec.structs.replace(batch, context_slots=slots))


def test_rows_that_disagree_are_errors(runner: TorchRunner, make_batch: Any) -> None:
    runner.allocate(16)
    batch = make_batch([([1, 2, 3, 4], 0, range(4))])
    with pytest.raises(ValueError, match="disagree"):
        runner.forward(msgspec.structs.replace(batch, positions=batch.positions[:3]))
    with pytest.raises(ValueError, match="context"):
        runner.forward(msgspec.structs.replace(batch, context_slots=[np.arange(3, dtype=np.int32)]))


def test_what_a_slot_held_before_does_not_matter(runner: TorchRunner, make_batch: Any) -> None:
    """Reused slots, and slots that nobody wrote: the same bits."""
    runner.allocate(16)
    batch = make_batch([([1, 2, 3, 4], 0, [5, 3, 9, 1])])
    expected = runner.forward(batch).copy()
    for keys, values in runner._pools:
        keys.fill_(torch.nan)
        values.fill_(torch.nan)
    np.testing.assert_array_equal(runner.forward(batch), expected)


def test_sample_is_the_sampler(runner: TorchRunner) -> None:
    logits = np.array([[0.0, 2.0, 1.0]], np.float32)
    row = RowSampling(params=SamplingParams(temperature=0.0), key=0, position=0)
    assert runner.sample(logits, [row], None)[0].token == 1
    assert runner.sample(logits, [row], np.array([[0b101]], np.int32))[0].token == 2


@pytest.mark.skipif(
    not torch.equal(
        torch.nn.functional.linear(torch.ones(8, 576), torch.linspace(-1, 1, 576 * 96).view(96, 576)),
        torch.nn.functional.linear(torch.ones(200, 576), torch.linspace(-1, 1, 576 * 96).view(96, 576))[:8],
    ),
    reason="this machine's matrix library computes a row differently in a batch of eight and of two hundred",
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden_size": 576, "intermediate_size": 1536, "heads": 9, "kv_heads": 3, "head_dim": 64},
        {"hidden_size": 200, "intermediate_size": 300, "heads": 5, "kv_heads": 1, "head_dim": 40},
    ],
    ids=["three-queries-per-head", "one-key-head"],
)
def test_a_row_s_bits_do_not_depend_on_batch_or_cache(
    sizes: dict[str, int], threads: int, make_batch: Any, run_chunks: Any
) -> None:
    model = random_model(threads, vocab_size=64, layers=2, context_length=512, windows=(None, 150), **sizes)
    model.allocate(1024)
    rng = np.random.default_rng(4)
    length, slots = 400, rng.permutation(1024)
    ids = rng.integers(0, 64, length).tolist()
    whole = run_chunks(model, ids, [length], slots)
    for chunks in ([7] * 57 + [1], [128, 272], [1] * 20 + [33] * 11 + [17]):
        np.testing.assert_array_equal(run_chunks(model, ids, chunks, slots), whole)
    others = [
        (rng.integers(0, 64, size).tolist(), cached, slots[start : start + size])
        for size, cached, start in ((50, 49, 400), (130, 129, 450), (40, 0, 600), (70, 60, 700), (2, 1, 800))
    ]
    for at in (1, 17, 127, 128, 140, 300, 399):
        model.forward(make_batch([(ids[:at], 0, slots)]))
        logits = model.forward(make_batch([*others[:2], (ids[: at + 1], at, slots), *others[2:]]))
        np.testing.assert_array_equal(logits[2], whole[at])
