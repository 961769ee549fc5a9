"""Attention over the paged pool against one query at a time, written out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from radixrt.kernels.ref import attention, paged_attention, plan_attention

SLOTS = 4096


@dataclass
class Case:
    query: Tensor
    key_pool: Tensor
    value_pool: Tensor
    query_start: np.ndarray
    context_slots: list[np.ndarray]

    def run(self, **options: Any) -> Tensor:
        window, softcap = options.get("window"), options.get("softcap")
        plan = plan_attention(self.query_start, self.context_slots, self.key_pool.shape[1], window=window)
        scale = options.get("scale", 0.3)
        return attention(self.query, self.key_pool, self.value_pool, plan, scale=scale, softcap=softcap)

    def by_hand(self, window: int | None = None, softcap: float | None = None, scale: float = 0.3) -> Tensor:
        out = torch.empty_like(self.query)
        group = self.query.shape[1] // self.key_pool.shape[1]
        for row, slots in enumerate(self.context_slots):
            first, last = int(self.query_start[row]), int(self.query_start[row + 1])
            for token in range(first, last):
                position = len(slots) - (last - token)
                oldest = 0 if window is None else max(0, position + 1 - window)
                seen = torch.from_numpy(slots[oldest : position + 1].astype(np.int64))
                for head in range(self.query.shape[1]):
                    keys, values = self.key_pool[seen, head // group], self.value_pool[seen, head // group]
                    scores = keys @ self.query[token, head] * scale
                    if softcap is not None:
                        scores = softcap * torch.tanh(scores / softcap)
                    out[token, head] = torch.softmax(scores, 0) @ values
        return out


def make(rows: list[tuple[int, int]], heads: int = 6, kv_heads: int = 2, dim: int = 5, seed: int = 0) -> Case:
    """Rows of (query length, context length), every context in slots of its own, in random order."""
    generator = torch.Generator().manual_seed(seed)
    starts = np.concatenate(([0], np.cumsum([queries for queries, _ in rows]))).astype(np.int64)
    slots = np.random.default_rng(seed).permutation(SLOTS).astype(np.int32)
    ends = np.cumsum([context for _, context in rows])
    contexts = [slots[end - context : end] for (_, context), end in zip(rows, ends, strict=True)]
    double = {"generator": generator, "dtype": torch.float64}
    return Case(
        torch.randn(int(starts[-1]), heads, dim, **double),
        torch.randn(SLOTS, kv_heads, dim, **double),
        torch.randn(SLOTS, kv_heads, dim, **double),
        starts,
        contexts,
    )


RAGGED = [(1, 1), (1, 40), (1, 33), (7, 7), (3, 20), (2, 64), (1, 64), (30, 30), (5, 31), (4, 9), (1, 2)]


@pytest.mark.parametrize("options", [{}, {"window": 1}, {"window": 8}, {"window": 1000}, {"softcap": 0.7}], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 4), (5, 1)])
def test_ragged_rows(options: dict[str, Any], heads: int, kv_heads: int) -> None:
    case = make(RAGGED, heads, kv_heads)
    torch.testing.assert_close(case.run(**options), case.by_hand(**options), atol=1e-12, rtol=0)


@pytest.mark.parametrize("window", [None, 5, 40])
def test_long_prefills_and_full_blocks_are_cut(monkeypatch: pytest.MonkeyPatch, window: int | None) -> None:
    """With tiny limits the same rows take many pieces and blocks, and nothing else changes."""
    case = make([*RAGGED, (90, 100)])
    whole = case.run(window=window)
    monkeypatch.setattr(paged_attention, "MAX_QUERIES", 16)
    monkeypatch.setattr(paged_attention, "MAX_SCORES", 256)
    monkeypatch.setattr(paged_attention, "MAX_KEYS", 128)
    plan = plan_attention(case.query_start, case.context_slots, 2, window=window)
    assert len(plan.blocks) > len(RAGGED)
    torch.testing.assert_close(case.run(window=window), whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(whole, case.by_hand(window=window), atol=1e-12, rtol=0)


def test_like_rows_are_one_block() -> None:
    """Thirty-two decode rows of like length take one padded product, not thirty-two."""
    case = make([(1, 65 + row) for row in range(32)])
    assert len(plan_attention(case.query_start, case.context_slots, 2).blocks) == 1


def test_rows_may_share_slots() -> None:
    case = make([(1, 40), (3, 30), (9, 20)])
    case.context_slots[1] = np.concatenate((case.context_slots[0][:20], case.context_slots[1][20:]))
    torch.testing.assert_close(case.run(), case.by_hand(), atol=1e-12, rtol=0)


def test_what_is_broken_in_one_row_stays_there() -> None:
    """NaN in one row's cache, and in every slot nobody reads, reaches no other row."""
    rows = [(1, 40), (1, 35), (4, 38), (1, 12), (6, 6)]
    case = make(rows)
    expected = case.run()
    read = np.concatenate(case.context_slots)
    unread = torch.ones(SLOTS, dtype=torch.bool)
    unread[torch.from_numpy(read.astype(np.int64))] = False
    case.key_pool[unread] = math.nan
    case.value_pool[unread] = math.nan
    torch.testing.assert_close(case.run(), expected, atol=1e-12, rtol=0)
    case.key_pool[int(case.context_slots[1][3])] = math.nan
    result = case.run()
    own = slice(int(case.query_start[1]), int(case.query_start[2]))
    assert result[own].isnan().all()
    keep = torch.ones(len(result), dtype=torch.bool)
    keep[own] = False
    torch.testing.assert_close(result[keep], expected[keep], atol=1e-12, rtol=0)


def test_no_rows_and_rows_without_queries() -> None:
    case = make([(0, 5), (2, 9), (0, 0)])
    torch.testing.assert_close(case.run(), case.by_hand(), atol=1e-12, rtol=0)
    empty = plan_attention(np.zeros(1, np.int64), [], 2)
    nothing = case.query[:0]
    assert attention(nothing, case.key_pool, case.value_pool, empty, scale=1.0).shape == nothing.shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_types_accumulate_in_float32(dtype: torch.dtype) -> None:
    case = make([(1, 500), (20, 300)], dim=16)
    expected = case.by_hand()
    small = Case(
        case.query.to(dtype),
        case.key_pool.to(dtype),
        case.value_pool.to(dtype),
        case.query_start,
        case.context_slots,
    )
    result = small.run()
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), expected, atol=0.05 if dtype == torch.bfloat16 else 0.01, rtol=0)
