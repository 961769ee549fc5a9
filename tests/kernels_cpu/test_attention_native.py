"""Native attention against its reference in float64, and the rows it must not mix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from radixrt.kernels import ref
from radixrt.kernels.cpu.attention import (
    AttentionPlan,
    attention,
    available_instruction_sets,
    plan_attention,
)
from radixrt.kernels.cpu.instruction_sets import InstructionSet
from radixrt.kernels.cpu.thread_pool import ThreadPool

SETS = available_instruction_sets()
SLOTS = 4096
RAGGED = [(1, 1), (1, 300), (7, 310), (3, 320), (1, 64), (40, 140), (0, 5), (1, 700), (65, 65), (2, 65), (1, 256)]


@dataclass
class Case:
    query: npt.NDArray[np.float32]
    keys: npt.NDArray[Any]
    values: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    slots: list[npt.NDArray[np.int32]]

    def plan(self, window: int | None = None, threads: int = 1) -> AttentionPlan:
        _, heads, dim = self.query.shape
        return plan_attention(
            self.starts,
            self.slots,
            self.keys.shape[1],
            heads=heads,
            head_dim=dim,
            window=window,
            threads=threads,
        )

    def run(self, window: int | None = None, **options: Any) -> npt.NDArray[np.float32]:
        return attention(self.query, self.keys, self.values, self.plan(window), **{"scale": 0.2, **options})

    def wanted(self, window: int | None = None, softcap: float | None = None) -> npt.NDArray[np.float64]:
        plan = ref.plan_attention(self.starts, self.slots, self.keys.shape[1], window=window)
        wide = (torch.from_numpy(array.astype(np.float64)) for array in (self.query, self.keys, self.values))
        found: npt.NDArray[np.float64] = ref.attention(*wide, plan, scale=0.2, softcap=softcap).numpy()
        return found


def make(
    rows: list[tuple[int, int]],
    heads: int = 6,
    kv_heads: int = 2,
    dim: int = 64,
    dtype: Any = np.float32,
    shared: int = 0,
    seed: int = 0,
) -> Case:
    """Rows of (new tokens, context), slots in random order; rows begin with up to ``shared`` common slots."""
    rng = np.random.default_rng(seed)
    free = rng.permutation(SLOTS).astype(np.int32)
    common, free = free[:shared], free[shared:]
    slots = []
    for new, context in rows:
        same = min(shared, context - new)
        slots.append(np.concatenate((common[:same], free[: context - same])))
        free = free[context - same :]
    starts = np.concatenate(([0], np.cumsum([new for new, _ in rows]))).astype(np.int64)
    query = rng.standard_normal((starts[-1], heads, dim)).astype(np.float32)
    keys, values = (rng.standard_normal((SLOTS, kv_heads, dim)).astype(dtype) for _ in range(2))
    return Case(query, keys, values, starts, slots)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("window", "softcap"), [(None, None), (1, None), (70, 3.0), (280, None), (5000, 0.5)])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim"), [(9, 3, 64), (4, 4, 24), (5, 1, 72), (2, 1, 256), (8, 2, 128), (100, 1, 8)]
)
def test_ragged_rows(
    heads: int,
    kv_heads: int,
    dim: int,
    window: int | None,
    softcap: float | None,
    dtype: Any,
    instruction_set: InstructionSet,
) -> None:
    case = make(RAGGED, heads, kv_heads, dim, dtype, shared=130)
    found = case.run(window, softcap=softcap, instruction_set=instruction_set)
    np.testing.assert_allclose(found, case.wanted(window, softcap), atol=1e-5, rtol=0)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("dim", [64, 40])
def test_int8_keys_and_values(dim: int, instruction_set: InstructionSet) -> None:
    """A value is its integer times the scale of its slot and head, exactly."""
    case = make(RAGGED, dim=dim, shared=70)
    rng = np.random.default_rng(1)
    keys, values = (rng.integers(-128, 128, case.keys.shape, np.int8) for _ in range(2))
    key_scales, value_scales = (rng.uniform(0.001, 0.02, case.keys.shape[:2]).astype(np.float32) for _ in range(2))
    found = attention(
        case.query,
        keys,
        values,
        case.plan(),
        scale=0.2,
        key_scales=key_scales,
        value_scales=value_scales,
        instruction_set=instruction_set,
    )
    case.keys, case.values = keys * key_scales[..., None], values * value_scales[..., None]
    np.testing.assert_array_equal(found, case.run(instruction_set=instruction_set))


@pytest.mark.parametrize("instruction_set", SETS)
def test_extreme_values(instruction_set: InstructionSet) -> None:
    """Scores far apart, denormal keys, halves at the edge of their range, all finite: nothing overflows."""
    case = make(RAGGED, dtype=np.float16, shared=64)
    case.query *= 30
    case.keys[::3] = np.float16(6e-8)
    case.values[::2] = np.float16(65504)
    found = case.run(instruction_set=instruction_set)
    np.testing.assert_allclose(found, case.wanted(), atol=65504 * 1e-5, rtol=1e-5)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["query", "keys", "values"])
def test_what_is_not_finite_stays_with_those_who_see_it(
    where: str, bad: float, instruction_set: InstructionSet
) -> None:
    """Two siblings, one with a bad token of its own; a prefill whose fifth position is bad; a bystander."""
    case = make([(1, 300), (1, 300), (10, 10), (1, 77)], shared=256)
    clean = case.run(instruction_set=instruction_set)
    if where == "query":
        case.query[1], case.query[6] = bad, bad
    else:
        array = case.keys if where == "keys" else case.values
        array[case.slots[1][270]] = bad
        array[case.slots[2][4]] = bad
    found = case.run(instruction_set=instruction_set)
    seen = [1, 6] if where == "query" else [1, 6, 7, 8, 9, 10, 11]
    others = [token for token in range(len(clean)) if token not in seen]
    np.testing.assert_array_equal(found[others], clean[others])
    assert not np.isfinite(found[seen]).all(axis=(1, 2)).any()


@pytest.mark.parametrize("instruction_set", SETS)
def test_stale_slots_before_a_window_are_not_looked_at(instruction_set: InstructionSet) -> None:
    case = make([(3, 500)], shared=0)
    clean = case.run(100, instruction_set=instruction_set)
    case.keys[case.slots[0][:398]] = case.values[case.slots[0][:398]] = np.nan
    np.testing.assert_array_equal(case.run(100, instruction_set=instruction_set), clean)


def test_a_batch_of_nothing() -> None:
    case = make([(0, 4), (0, 0)])
    assert case.run().shape == (0, 6, 64)
    assert make([]).run().shape == (0, 6, 64)


def test_tokens_may_lie_apart_and_the_result_goes_where_it_is_asked() -> None:
    case = make(RAGGED)
    tokens = len(case.query)
    wide, out = np.full((tokens, 9, 64), np.nan, np.float32), np.full((tokens, 8, 64), 7, np.float32)
    wide[:, 1:7] = case.query
    found = attention(wide[:, 1:7], case.keys, case.values, case.plan(), scale=0.2, out=out[:, 2:])
    assert found.base is out
    np.testing.assert_array_equal(found, case.run())
    assert (out[:, :2] == 7).all()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"query": np.zeros((2, 6, 64), np.float64)}, "query"),
        ({"query": np.zeros((2, 6, 32), np.float32)}, "query"),
        ({"query": np.zeros((2, 64, 6), np.float32).transpose(0, 2, 1)}, "query"),
        ({"key_pool": np.zeros((9, 2, 64), np.float16)}, "key_pool"),
        ({"key_pool": np.zeros((9, 2, 32), np.float32)}, "key_pool"),
        ({"value_pool": np.zeros((8, 2, 64), np.float32)}, "value_pool"),
        ({"key_pool": np.zeros((9, 2, 128), np.float32)[..., ::2]}, "key_pool"),
        ({"key_pool": np.zeros((9, 2, 64), np.int8), "value_pool": np.zeros((9, 2, 64), np.int8)}, "key_scales"),
        ({"key_scales": np.zeros((9, 2), np.float32)}, "key_scales"),
        ({"softcap": -1.0}, "softcap"),
        ({"scale": float("nan")}, "scale"),
        ({"instruction_set": 7}, "instruction_set"),
        ({"out": np.zeros((2, 6, 63), np.float32)}, "out"),
    ],
)
def test_bad_operands_are_named(change: dict[str, Any], word: str) -> None:
    plan = plan_attention(np.array([0, 2]), [np.array([8, 3, 1], np.int32)], 2, heads=6, head_dim=64)
    pool = np.zeros((9, 2, 64), np.float32)
    operands = {"query": np.zeros((2, 6, 64), np.float32), "key_pool": pool, "value_pool": pool, "scale": 1.0}
    attention(plan=plan, **operands)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=word):
        attention(plan=plan, **{**operands, **change})


@pytest.mark.parametrize(
    ("starts", "slots", "word"),
    [
        ([0, 2], [[1]], "context_slots"),
        ([0, 1], [[1], [2]], "query_start"),
        ([0, 2, 1], [[1, 2], [2]], "query_start"),
        ([1, 2], [[1, 2]], "query_start"),
        ([0, 1], [[1, -1]], "slot -1"),
    ],
)
def test_bad_rows_are_named(starts: list[int], slots: list[list[int]], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        plan_attention(np.array(starts), [np.array(row, np.int32) for row in slots], 1, heads=1, head_dim=8)


@pytest.mark.parametrize(
    ("shape", "word"),
    [((5, 2, 64), "heads"), ((4, 2, 12), "head_dim"), ((4, 2, 264), "head_dim"), ((4, 0, 64), "heads")],
)
def test_bad_shapes_are_named(shape: tuple[int, int, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        AttentionPlan(*shape)
    with pytest.raises(ValueError, match="window"):
        AttentionPlan(4, 2, 64, window=0)


def test_a_pool_larger_than_planned_for_is_refused() -> None:
    case = make(RAGGED)
    with pytest.raises(ValueError, match="threads"):
        case.run(pool=ThreadPool(2))
