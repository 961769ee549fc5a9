"""The page pool: whole pages out, the same pages in, and every misuse found."""

from __future__ import annotations

import random

import numpy as np
import pytest

from radixrt.cache.pages import PagePool


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_every_slot_is_handed_out_once(page_size: int) -> None:
    pool = PagePool(100, page_size)
    taken = []
    while (slots := pool.alloc(page_size)) is not None:
        assert slots.dtype == np.int32
        taken.append(slots)
    everything = np.sort(np.concatenate(taken))
    assert everything.tolist() == list(range(100 // page_size * page_size))
    assert pool.free_slots == 0
    for slots in taken:
        pool.free(slots)
    assert pool.free_slots == pool.total


def test_sizes_are_rounded_up_to_pages() -> None:
    pool = PagePool(64, 16)
    slots = pool.alloc(17)
    assert slots is not None
    assert len(slots) == 32
    assert pool.free_slots == 32


def test_a_refused_allocation_takes_nothing() -> None:
    pool = PagePool(8)
    assert pool.alloc(9) is None
    assert pool.free_slots == 8
    nothing = pool.alloc(0)
    assert nothing is not None
    assert len(nothing) == 0


@pytest.mark.parametrize("page_size", [1, 4])
def test_double_free_is_found_and_changes_nothing(page_size: int) -> None:
    pool = PagePool(32, page_size)
    slots = pool.alloc(8)
    assert slots is not None
    with pytest.raises(RuntimeError, match="twice"):
        pool.free(np.concatenate((slots, slots)))
    pool.free(slots)
    with pytest.raises(RuntimeError, match="double free"):
        pool.free(slots)
    assert pool.free_slots == 32
    assert len(set(pool.free_pages().tolist())) == pool.total_pages


def test_foreign_and_partial_pages_are_refused() -> None:
    pool = PagePool(32, 4)
    slots = pool.alloc(8)
    assert slots is not None
    for wrong in (slots[:3], slots[1:5], slots[::-1], slots + 1000, slots - 1000):
        with pytest.raises(RuntimeError):
            pool.free(np.ascontiguousarray(wrong))
    assert pool.free_slots == 24


def test_a_pool_without_a_page_is_refused() -> None:
    with pytest.raises(ValueError, match="no page"):
        PagePool(3, 4)


def test_random_traffic_keeps_the_books() -> None:
    rng = random.Random(5)
    pool = PagePool(256, 4)
    held: list[np.ndarray] = []
    for _ in range(3000):
        if held and rng.random() < 0.5:
            pool.free(held.pop(rng.randrange(len(held))))
        elif (slots := pool.alloc(rng.randrange(1, 40))) is not None:
            held.append(slots)
        in_use = sum(map(len, held))
        assert pool.free_slots + in_use == 256
    everything = np.concatenate([*held, (pool.free_pages()[:, None] * 4 + np.arange(4)).ravel()])
    assert np.sort(everything).tolist() == list(range(256))
