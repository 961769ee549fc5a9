"""Tree and marks against the plainest thing that does the same: sets and lists of whole prefixes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from radixrt.cache.uses import FutureUses, common_prefix


def _ids(rng: random.Random, longest: int = 16) -> tuple[int, ...]:
    return tuple(rng.randrange(2) for _ in range(rng.randrange(longest)))


def test_marks_count_like_a_list_of_prefixes() -> None:
    rng = random.Random(8)
    marks: Counter[tuple[str, tuple[int, ...]]] = Counter()
    uses = FutureUses()
    for _ in range(2000):
        space, ids = rng.choice("ab"), _ids(rng)
        delta = rng.choice((-2, -1, 1, 1, 2))
        if marks[space, ids] + delta < 0:
            with pytest.raises(RuntimeError):
                uses.add((space,), np.array(ids, np.int32), delta)
        else:
            uses.add((space,), np.array(ids, np.int32), delta)
            marks[space, ids] += delta
        if rng.random() < 0.05 and (present := [key for key, count in marks.items() if count]):
            space, ids = rng.choice(present)
            uses.add((space,), np.array(ids, np.int32), -marks.pop((space, ids)))
        space, prefix = rng.choice("ab"), _ids(rng)
        wanted = sum(n for (s, ids), n in marks.items() if s == space and ids[: len(prefix)] == prefix)
        assert uses.count((space,), np.array(prefix, np.int32)) == wanted
        assert bool(uses) == any(marks.values())


@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_matches_are_as_long_as_they_can_be(make_user: Any, page_size: int) -> None:
    rng = random.Random(page_size)
    for _ in range(20):
        user = make_user(4096, page_size)
        known: set[tuple[int, ...]] = {()}
        for _ in range(40):
            ids = (*_ids(rng), rng.randrange(2))
            if rng.random() < 0.3:
                user.tree.note_future_use(("model", "m"), np.array(_ids(rng), np.int32), 1)
            limit = rng.randrange(len(ids) + 1)
            got = user.tree.match_length(("model", "m"), np.array(ids, np.int32), limit)
            whole = [n for n in range(0, limit + 1, page_size) if ids[:n] in known]
            assert got == max(whole)
            user.cache(list(ids))
            known.update(ids[:n] for n in range(0, len(ids) + 1, page_size))
        assert user.tree.cached_slots == page_size * (len({ids for ids in known if ids}))


def test_common_prefix() -> None:
    rng = random.Random(2)
    for _ in range(500):
        a, b = _ids(rng), _ids(rng)
        naive = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        assert common_prefix(np.array(a, np.int32), np.array(b, np.int32)) == naive


@pytest.mark.parametrize("eviction", ["lru", "uses-lru"])
def test_eviction_order_is_that_of_a_sorted_list(make_user: Any, eviction: str) -> None:
    """Disjoint prompts of one length: the order is plain to say."""
    rng = random.Random(6)
    user = make_user(1000, eviction=eviction)
    used_at: dict[int, int] = {}
    marked: Counter[int] = Counter()
    for now in range(400):
        k = rng.randrange(20)
        prompt = [k] * 5
        action = rng.random()
        if action < 0.5:
            user.open(prompt, limit=5).drop() if k in used_at else user.cache(prompt)
            used_at[k] = now
        elif action < 0.7:
            user.tree.note_future_use(("model", "m"), np.array(prompt, np.int32), 1)
            marked[k] += 1
        elif action < 0.85 and marked[k]:
            user.tree.note_future_use(("model", "m"), np.array(prompt, np.int32), -1)
            marked[k] -= 1
        elif used_at:
            assert user.tree.evict(5) == 5
            gone = {
                j for j in used_at if user.tree.match_length(("model", "m"), np.array([j] * 5, np.int32), 5) == 0
            }
            expected = min(used_at, key=lambda j: (marked[j] > 0 and eviction == "uses-lru", used_at[j]))
            assert gone == {expected}
            del used_at[expected]
