"""A seeded walk of 100,000 operations over two tokens: short alphabets make every collision happen."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from radixrt.cache.invariants import check_cache, check_totals


def _ids(rng: random.Random) -> list[int]:
    return [rng.randrange(2) for _ in range(rng.randrange(1, 20))]


class _Walk:
    """Random traffic of at most eight holders and some noted future uses."""

    def __init__(self, user: Any, rng: random.Random) -> None:
        self.user = user
        self.rng = rng
        self.marks: Counter[tuple[tuple[str, ...], tuple[int, ...]]] = Counter()

    def step(self) -> None:
        rng, user = self.rng, self.user
        namespace = ("model", rng.choice("ab"))
        action = rng.random()
        holder = rng.choice(user.holders) if user.holders else None
        if action < 0.30 or holder is None:
            if len(user.holders) < 8:
                user.open(_ids(rng), namespace)
        elif action < 0.60:
            if holder.compute(rng.randrange(1, 9)):
                if rng.random() < 0.8:
                    holder.publish()
            else:
                user.holders[-1].drop()
        elif action < 0.80:
            holder.drop()
        elif action < 0.84:
            user.tree.evict(rng.randrange(1, 12))
        elif action < 0.93:
            mark = (namespace, tuple(_ids(rng)))
            self.marks[mark] += 1
            user.tree.note_future_use(namespace, np.array(mark[1], np.int32), 1)
        elif action < 0.9995:
            if self.marks:
                mark = rng.choice(list(self.marks))
                self.marks[mark] -= 1
                if not self.marks[mark]:
                    del self.marks[mark]
                user.tree.note_future_use(mark[0], np.array(mark[1], np.int32), -1)
        else:
            user.tree.flush()

    def close(self) -> None:
        for holder in list(self.user.holders):
            holder.drop()
        for (namespace, ids), count in self.marks.items():
            self.user.tree.note_future_use(namespace, np.array(ids, np.int32), -count)
        self.user.tree.flush()


@pytest.mark.parametrize(
    ("page_size", "mode", "eviction", "operations"),
    [
        (1, "on", "uses-lru", 50_000),
        (4, "on", "uses-lru", 25_000),
        (1, "on", "lru", 10_000),
        (1, "table", "uses-lru", 5_000),
        (3, "force-miss", "uses-lru", 5_000),
        (1, "off", "uses-lru", 5_000),
    ],
)
def test_walk(make_user: Any, page_size: int, mode: str, eviction: str, operations: int) -> None:
    user = make_user(total=96, page_size=page_size, mode=mode, eviction=eviction)
    walk = _Walk(user, random.Random(1234 + page_size))
    for i in range(operations):
        walk.step()
        check_totals(user.pool, user.tree, sum(len(h.private) for h in user.holders))
        if i % 50 == 0:
            check_cache(user.pool, user.tree, [h.private for h in user.holders], [h.tip for h in user.holders])
    walk.close()
    check_cache(user.pool, user.tree, [])
    assert user.pool.free_slots == user.pool.total
    assert user.tree.n_nodes == 0
    assert not user.tree.roots
    assert not user.tree.uses
