"""A query's attention is the same bits alone, in any batch, shared, cut, from any slots and on any threads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from radixrt.kernels.cpu.attention import AttentionPlan, attention, available_instruction_sets, plan_attention
from radixrt.kernels.cpu.instruction_sets import InstructionSet
from radixrt.kernels.cpu.thread_pool import ThreadPool

SETS = available_instruction_sets()
Floats = npt.NDArray[np.float32]
Slots = npt.NDArray[np.int32]
HEADS, KV_HEADS, DIM, POOL = 6, 2, 64, 6000


class Row:
    """A sequence with the query, key and value of each of its positions, and where they are stored."""

    def __init__(self, rng: np.random.Generator, length: int, slots: Slots, parent: Row | None = None) -> None:
        self.query, key, value = (
            rng.standard_normal((length, heads, DIM)).astype(np.float32) for heads in (HEADS, KV_HEADS, KV_HEADS)
        )
        shared = 0 if parent is None else len(parent.slots)
        self.slots = slots[:length].copy()
        self.key, self.value = key, value
        if parent is not None:
            self.slots[:shared], self.key[:shared], self.value[:shared] = parent.slots, parent.key, parent.value
            self.query[:shared] = parent.query


class Pools:
    def __init__(self, dtype: Any) -> None:
        self.keys, self.values = (np.full((POOL, KV_HEADS, DIM), np.nan, dtype) for _ in range(2))

    def run(
        self,
        parts: list[tuple[Row, int, int]],
        window: int | None = None,
        threads: ThreadPool | None = None,
        instruction_set: InstructionSet | None = None,
    ) -> list[Floats]:
        """Attention of the positions first..last of rows, everything up to there being cached."""
        for row, _, _ in parts:
            self.keys[row.slots], self.values[row.slots] = row.key, row.value
        starts = np.concatenate(([0], np.cumsum([last - first for _, first, last in parts]))).astype(np.int64)
        plan = plan_attention(
            starts,
            [row.slots[:last] for row, _, last in parts],
            KV_HEADS,
            heads=HEADS,
            head_dim=DIM,
            window=window,
            threads=threads.threads if threads else 1,
        )
        query = np.concatenate([row.query[first:last] for row, first, last in parts])
        found = attention(
            query,
            self.keys,
            self.values,
            plan,
            scale=0.17,
            pool=threads,
            instruction_set=instruction_set,
        )
        return np.split(found, starts[1:-1])


def family(lengths: list[int], shared: int, seed: int = 0) -> list[Row]:
    """Rows of these lengths that share their first ``shared`` positions, slots in random order."""
    rng = np.random.default_rng(seed)
    free = rng.permutation(POOL).astype(np.int32)
    parent = Row(rng, shared, free)
    free = free[shared:]
    rows = []
    for length in lengths:
        rows.append(Row(rng, length, np.concatenate((parent.slots, free[: length - shared])), parent))
        free = free[length - shared :]
    return rows


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("window", [None, 90])
def test_prefilled_chunked_and_decoded(window: int | None, dtype: Any, instruction_set: InstructionSet) -> None:
    """One row of 600 in one piece, in uneven pieces and token by token. All scores are below zero, so that a span
    which a query does not see could not pass for one of zeros."""
    (row,) = family([600], 0)
    row.query, row.key = np.abs(row.query), -np.abs(row.key)
    options = {"window": window, "instruction_set": instruction_set}
    pools = Pools(dtype)
    (whole,) = pools.run([(row, 0, 600)], **options)
    cuts = [0, 1, 64, 65, 200, 256, 257, 511, 599, 600]
    for first, last in itertools.pairwise(cuts):
        (piece,) = pools.run([(row, first, last)], **options)
        np.testing.assert_array_equal(piece, whole[first:last])
    for position in [*range(0, 600, 37), 63, 255, 256, 599]:
        (token,) = pools.run([(row, position, position + 1)], **options)
        np.testing.assert_array_equal(token[0], whole[position])


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 31, 67])
@pytest.mark.parametrize("shared", [0, 30, 64, 100, 256, 300])
def test_any_batch_and_any_place_in_it(shared: int, size: int, instruction_set: InstructionSet) -> None:
    """Siblings with a common prefix beside each other, in any order, against each of them alone."""
    rng = np.random.default_rng(size)
    lengths = (shared + rng.integers(1, 60, size)).tolist()
    rows = family(lengths, shared, seed=size)
    pools = Pools(np.float32)
    new = [min(int(rng.integers(1, 4)), len(row.slots)) for row in rows]
    parts = [(row, len(row.slots) - count, len(row.slots)) for row, count in zip(rows, new, strict=True)]
    together = pools.run(parts, instruction_set=instruction_set)
    order = rng.permutation(size).tolist()
    shuffled = pools.run([parts[i] for i in order], instruction_set=instruction_set)
    for place, i in enumerate(order):
        np.testing.assert_array_equal(shuffled[place], together[i])
    for i in range(0, size, 1 + size // 8):
        (alone,) = pools.run([parts[i]], instruction_set=instruction_set)
        np.testing.assert_array_equal(alone, together[i])


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads(threads: int, instruction_set: InstructionSet) -> None:
    rows = family([700, 320, 301, 900, 450], 300)
    parts = [(row, first, len(row.slots)) for row, first in zip(rows, (699, 300, 300, 400, 445), strict=True)]
    pools = Pools(np.float32)
    alone = pools.run(parts, instruction_set=instruction_set)
    pool = ThreadPool(threads)
    for _ in range(3):
        for one, other in zip(alone, pools.run(parts, threads=pool, instruction_set=instruction_set), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("instruction_set", SETS)
def test_a_long_prefill_beside_others(instruction_set: InstructionSet) -> None:
    """So much at once that members merge as they go, against the same in small pieces."""
    row, other = family([2600, 5], 0)
    pools = Pools(np.float32)
    whole, _ = pools.run([(row, 0, 2600), (other, 4, 5)], instruction_set=instruction_set)
    for first in (0, 255, 1000, 2590):
        (piece,) = pools.run([(row, first, first + 10)], instruction_set=instruction_set)
        np.testing.assert_array_equal(piece, whole[first : first + 10])


def test_recomputed_into_other_slots() -> None:
    """The same sequence after a retraction: other slots, no sibling any more."""
    rows = family([500, 520], 300)
    pools = Pools(np.float32)
    before = pools.run([(rows[0], 498, 500), (rows[1], 519, 520)])
    rows[0].slots = np.random.default_rng(5).permutation(POOL)[:500].astype(np.int32)
    (after,) = pools.run([(rows[0], 498, 500)])
    np.testing.assert_array_equal(before[0], after)


def tiles(slots: list[Slots], new: int = 1) -> int:
    starts = np.arange(len(slots) + 1) * new
    return plan_attention(starts, slots, KV_HEADS, heads=HEADS, head_dim=DIM).tiles


def test_what_is_shared_is_read_once() -> None:
    """A fork of 16 over 4,096 slots reads 64 tiles and one or two for each branch, wherever the branches part."""
    base = np.arange(4096, dtype=np.int32)
    branch = [np.arange(5000 + i * 100, 5064 + i * 100, dtype=np.int32) for i in range(16)]
    assert tiles([np.concatenate((base, part)) for part in branch]) == 64 + 16
    assert tiles([np.concatenate((base[:4000], part)) for part in branch]) == 62 + 32
    assert tiles([base] * 16) == 64
    assert tiles([base + 4096 * i for i in range(3)]) == 3 * 64
    nested = [np.concatenate((base[: 64 * i], branch[i])) for i in range(1, 16)]
    assert tiles(nested) == 14 + 15 + 1
    assert tiles([base[:10], base[:70], base[:64]]) == 2


def test_rows_that_agree_beyond_the_end_of_one() -> None:
    """Rows of one prefix and different lengths, among them one that ends inside a tile two others differ in."""
    base = np.arange(70, dtype=np.int32)
    fork = base.copy()
    fork[69] = 99
    assert tiles([base, fork, base[:68]]) == 3
    rows = family([70, 70, 69], 69)
    rows[2].slots = rows[0].slots[:69]
    pools = Pools(np.float32)
    parts = [(rows[0], 66, 70), (rows[1], 60, 70), (rows[2], 68, 69)]
    for part, together in zip(parts, pools.run(parts), strict=True):
        np.testing.assert_array_equal(pools.run([part])[0], together)


def test_a_plan_is_made_again_in_place() -> None:
    rows = family([300, 40, 700], 20)
    pools = Pools(np.float32)
    wanted = [pools.run([(row, len(row.slots) - 1, len(row.slots))])[0] for row in rows]
    plan = AttentionPlan(HEADS, KV_HEADS, DIM)
    for row, want in list(zip(rows, wanted, strict=True)) * 2:
        plan.make(np.array([0, 1]), [row.slots])
        np.testing.assert_array_equal(attention(row.query[-1:], pools.keys, pools.values, plan, scale=0.17), want)
