"""A user of pool and tree that behaves like the scheduler: it owns slots, locks tips and remaps duplicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from radixrt.cache.pages import PagePool
from radixrt.cache.radix import Node, RadixTree

NAMESPACE = ("model", "m")


class Holder:
    """One sequence: private slots beyond ``tip.end``, everything before it the tree's."""

    def __init__(self, user: User, ids: np.ndarray, namespace: tuple[str, ...], limit: int | None = None) -> None:
        self.user = user
        self.ids = ids
        found = user.tree.match(namespace, ids, len(ids) - 1 if limit is None else limit)
        self.matched = found.length
        self.tip: Node = found.tip
        self.slots = found.slots.copy()
        self.computed = found.length
        user.tree.lock(self.tip)
        user.verify(ids[: found.length], found.slots, namespace)
        user.holders.append(self)
        self.namespace = namespace

    def compute(self, n_tokens: int) -> bool:
        """Allocate and 'compute' more tokens; False when the pool is exhausted."""
        tree, pool = self.user.tree, self.user.pool
        stop = min(len(self.ids), self.computed + n_tokens)
        need = pool.pages_for(stop) * pool.page_size - len(self.slots)
        if need > 0:
            if need > pool.free_slots:
                tree.evict(need - pool.free_slots)
            got = pool.alloc(need)
            if got is None:
                return False
            self.slots = np.concatenate((self.slots, got))
        self.user.write(self.ids[:stop], self.slots[:stop], self.computed, self.namespace)
        self.computed = stop
        return True

    def publish(self) -> None:
        """Insert what is computed; remap, then free the duplicates."""
        result = self.user.tree.insert(self.tip, self.ids[: self.computed], self.slots)
        for twin in result.duplicates:
            mine = self.slots[twin.start : twin.stop].copy()
            self.slots[twin.start : twin.stop] = twin.canonical
            self.user.pool.free(mine)
        self.user.tree.move_lock(self.tip, result.tip)
        self.tip = result.tip
        self.user.verify(self.ids[: self.tip.end], self.slots[: self.tip.end], self.namespace)

    @property
    def private(self) -> np.ndarray:
        return self.slots[self.tip.end :]

    def drop(self) -> None:
        self.user.pool.free(self.private)
        self.user.tree.unlock(self.tip)
        self.user.holders.remove(self)


class User:
    """Pool, tree, holders, and what each slot was computed from (a digest of its whole prefix)."""

    def __init__(self, total: int = 128, page_size: int = 1, **options: str) -> None:
        self.pool = PagePool(total, page_size)
        self.tree = RadixTree(self.pool, **options)  # type: ignore[arg-type]
        self.holders: list[Holder] = []
        self.content: list[object] = [None] * total

    def open(self, ids: list[int], namespace: tuple[str, ...] = NAMESPACE, limit: int | None = None) -> Holder:
        return Holder(self, np.array(ids, np.int32), namespace, limit)

    def run(self, ids: list[int], namespace: tuple[str, ...] = NAMESPACE) -> Holder:
        """Open, compute everything and publish; still locked."""
        holder = self.open(ids, namespace)
        assert holder.compute(len(ids))
        holder.publish()
        return holder

    def cache(self, ids: list[int], namespace: tuple[str, ...] = NAMESPACE) -> int:
        """Run and drop; return the match length it began with."""
        holder = self.run(ids, namespace)
        holder.drop()
        return holder.matched

    def write(self, ids: np.ndarray, slots: np.ndarray, start: int, namespace: tuple[str, ...]) -> None:
        for position in range(start, len(ids)):
            self.content[int(slots[position])] = (namespace, ids[: position + 1].tobytes())

    def verify(self, ids: np.ndarray, slots: np.ndarray, namespace: tuple[str, ...]) -> None:
        assert len(slots) == len(ids)
        for position in range(len(ids)):
            assert self.content[int(slots[position])] == (namespace, ids[: position + 1].tobytes())


@pytest.fixture
def make_user() -> Callable[..., User]:
    return User
