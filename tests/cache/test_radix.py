"""The radix tree, one behaviour at a time: match, share, split, lock, evict, modes, future uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radixrt.cache.invariants import check_cache
from radixrt.cache.namespaces import namespace

NAMESPACE = ("model", "m")
PAGES = pytest.mark.parametrize("page_size", [1, 4, 16])


def _check(user: Any) -> None:
    check_cache(user.pool, user.tree, [h.private for h in user.holders], [h.tip for h in user.holders])


def _length(user: Any, ids: list[int], space: tuple[str, ...] = NAMESPACE) -> int:
    return int(user.tree.match_length(space, np.array(ids, np.int32), len(ids)))


def _note(user: Any, ids: list[int], delta: int) -> None:
    user.tree.note_future_use(NAMESPACE, np.array(ids, np.int32), delta)


@PAGES
def test_a_cached_prefix_is_matched_in_whole_pages(make_user: Any, page_size: int) -> None:
    user = make_user(256, page_size)
    user.cache(list(range(50)))
    assert _length(user, list(range(50))) == 50 // page_size * page_size
    diverging = [*range(21), 999, *range(22, 50)]
    assert _length(user, diverging) == 21 // page_size * page_size
    assert user.cache(diverging) == 21 // page_size * page_size
    assert _length(user, list(range(50))) == 50 // page_size * page_size
    _check(user)


@PAGES
def test_match_stays_below_the_limit(make_user: Any, page_size: int) -> None:
    user = make_user(256, page_size)
    user.cache(list(range(48)))
    for limit in (0, 1, 15, 16, 47):
        holder = user.open(list(range(48)), limit=limit)
        assert holder.matched == limit // page_size * page_size
        holder.drop()
    _check(user)


@PAGES
def test_keys_shorter_than_a_page_stay_private(make_user: Any, page_size: int) -> None:
    user = make_user(256, page_size)
    for n in range(1, 20):
        user.cache(list(range(n)))
        _check(user)
    assert user.tree.cached_slots == 19 // page_size * page_size


@PAGES
def test_twins_computed_together_are_remapped_before_the_copy_is_freed(make_user: Any, page_size: int) -> None:
    user = make_user(80, page_size)
    twins = [user.open(list(range(32))) for _ in range(2)]
    for twin in twins:
        assert twin.compute(32)
    for twin in twins:
        twin.publish()
    assert twins[0].slots[:32].tolist() == twins[1].slots[:32].tolist()
    assert user.tree.cached_slots == 32
    # A third, unrelated one may now overwrite what was freed, and nothing of the twins.
    other = user.run(list(range(100, 148)))
    for twin in twins:
        user.verify(twin.ids, twin.slots[:32], NAMESPACE)
    other.drop()
    _check(user)


def test_a_partly_cached_insert_keeps_its_own_tail(make_user: Any) -> None:
    user = make_user(64)
    slow = user.open([1, 2, 3, 4, 5, 6])
    assert slow.compute(6)
    user.cache([1, 2, 3, 9])
    slow.publish()
    assert _length(user, [1, 2, 3, 4, 5, 6]) == 6
    assert _length(user, [1, 2, 3, 9]) == 4
    slow.drop()
    _check(user)


def test_chunks_of_one_prompt_become_one_node(make_user: Any) -> None:
    user = make_user(512)
    holder = user.open(list(range(300)))
    while holder.computed < 300:
        assert holder.compute(7)
        holder.publish()
    assert user.tree.n_nodes == 1
    # Somebody else's lock ends here, so a longer sequence must not lengthen the node under it.
    longer = user.run(list(range(310)))
    assert holder.tip.end == 300
    holder.drop()
    longer.drop()
    _check(user)


def test_another_holders_leaf_is_never_lengthened(make_user: Any) -> None:
    user = make_user(64)
    late = user.open([1, 2, 3, 4, 5])
    early = user.run([1, 2, 3])
    assert late.compute(5)
    late.publish()
    assert early.tip.end == 3
    early.drop()
    late.drop()
    _check(user)


@pytest.mark.parametrize("eviction", ["lru", "uses-lru"])
def test_least_recently_used_goes_first_and_locked_never(make_user: Any, eviction: str) -> None:
    user = make_user(64, eviction=eviction)
    locked = user.run([1] * 10)
    user.cache([2] * 10)
    user.cache([3] * 10)
    user.open([2] * 10, limit=10).drop()  # used again
    assert user.tree.evict(10) == 10
    assert [_length(user, [k] * 10) for k in (1, 2, 3)] == [10, 10, 0]
    assert user.tree.evict(1000) == 10
    assert _length(user, [1] * 10) == 10
    locked.drop()
    assert user.tree.evict(1000) == 10
    _check(user)


@PAGES
def test_eviction_cuts_only_what_is_needed_off_the_end(make_user: Any, page_size: int) -> None:
    user = make_user(128, page_size)
    user.cache(list(range(64)))
    freed = user.tree.evict(5)
    assert freed == -(-5 // page_size) * page_size
    assert _length(user, list(range(64))) == 64 - freed
    _check(user)


def test_a_parent_is_evicted_after_its_children(make_user: Any) -> None:
    user = make_user(64)
    user.cache([1, 2, 3, 4, 5])
    user.cache([1, 2, 3, 6, 7])
    assert user.tree.evict(4) == 4
    assert _length(user, [1, 2, 3, 4, 5]) == 3
    assert user.tree.evict(3) == 3
    assert user.tree.n_nodes == 0
    _check(user)


def test_what_is_still_wanted_outlives_what_was_used_later(make_user: Any) -> None:
    user = make_user(64)
    _note(user, [1] * 10, 1)  # noted before it is cached
    user.cache([1] * 10)
    user.cache([2] * 10)
    _note(user, [2] * 10, 2)
    _note(user, [2] * 10, -2)  # and no more
    user.cache([3] * 10)
    user.tree.evict(20)
    assert [_length(user, [k] * 10) for k in (1, 2, 3)] == [10, 0, 0]
    user.tree.evict(1)  # wanted is not locked
    assert _length(user, [1] * 10) == 9
    _note(user, [1] * 10, -1)
    _check(user)


def test_lru_ignores_future_uses(make_user: Any) -> None:
    user = make_user(64, eviction="lru")
    user.cache([1] * 10)
    _note(user, [1] * 10, 5)
    user.cache([2] * 10)
    user.tree.evict(10)
    assert [_length(user, [k] * 10) for k in (1, 2)] == [0, 10]
    _check(user)


@pytest.mark.parametrize("cached_first", [True, False])
def test_a_mark_protects_its_prefix_not_the_continuation(make_user: Any, cached_first: bool) -> None:
    user = make_user(64)
    if cached_first:
        user.cache([1, 2, 3, 4, 5, 6, 7, 8])
        _note(user, [1, 2, 3], 1)
    else:
        user.cache([1, 2, 3])
        _note(user, [1, 2, 3], 1)
        user.cache([1, 2, 3, 4, 5, 6, 7, 8])
    user.cache([9] * 5)
    user.tree.evict(5)
    assert _length(user, [1, 2, 3, 4]) == 3
    assert _length(user, [9] * 5) == 5
    _check(user)


def test_marks_that_come_and_go_leave_no_chain_of_nodes(make_user: Any) -> None:
    user = make_user(64)
    long = list(range(50))
    _note(user, long, 1)
    for k in range(1, 50):
        _note(user, long[:k], 1)
    for k in range(1, 50):
        _note(user, long[:k], -1)
    (root,) = user.tree.uses._roots.values()
    (only,) = root.children.values()
    assert not only.children
    assert only.key.tolist() == long
    _note(user, long, -1)


def test_future_uses_survive_split_and_eviction_without_leaking(make_user: Any) -> None:
    user = make_user(64)
    prefix = [1, 2, 3, 4, 5, 6]
    for _ in range(3):
        user.cache([*prefix, 7, 8])
        _note(user, prefix, 2)
        user.cache([1, 2, 3, 9])  # splits inside the mark
        _check(user)
        user.tree.flush()
        user.cache(prefix)  # counted again when it comes back
        _check(user)
        _note(user, prefix, -2)
        _check(user)
    assert not user.tree.uses


def test_taking_back_what_was_never_noted_is_a_bug(make_user: Any) -> None:
    user = make_user(64)
    _note(user, [1, 2, 3], 1)
    for ids, delta in (([1, 2], -1), ([1, 2, 3, 4], -1), ([1, 2, 3], -2), ([], -1), ([5], -1)):
        with pytest.raises(RuntimeError, match="never noted"):
            _note(user, ids, delta)
    _note(user, [1, 2, 3], -1)
    assert not user.tree.uses


def test_the_empty_prefix_can_be_noted(make_user: Any) -> None:
    user = make_user(64)
    _note(user, [], 3)
    user.cache([1, 2])
    _check(user)
    _note(user, [], -3)
    assert not user.tree.uses


def test_namespaces_share_nothing(make_user: Any) -> None:
    user = make_user(256)
    spaces = [
        namespace("m"),
        namespace("m", adapter="x"),
        namespace("m", salt="x"),
        namespace("m", adapter="x", salt="x"),
        namespace("m", adapter="salt", salt="x"),
        namespace("n"),
        ("model", "m", "adapter"),
        (),
    ]
    assert len(set(spaces)) == len(spaces)
    for i, space in enumerate(spaces):
        assert user.cache(list(range(20)), space) == 0
        assert user.tree.cached_slots == 20 * (i + 1)
    for space in spaces:
        assert _length(user, list(range(20)), space) == 20
    user.tree.flush()
    assert not user.tree.roots  # a million salts leave nothing behind
    _check(user)


def test_mode_off_keeps_nothing(make_user: Any) -> None:
    user = make_user(64, mode="off")
    assert [user.cache([1, 2, 3, 4]) for _ in range(2)] == [0, 0]
    assert user.pool.free_slots == 64
    assert not user.tree.roots


def test_mode_force_miss_takes_the_path_and_never_hits(make_user: Any) -> None:
    user = make_user(64, mode="force-miss")
    assert [user.cache([1, 2, 3, 4]) for _ in range(2)] == [0, 0]
    assert user.tree.cached_slots == 4
    assert not user.tree.reaches(3, 3)
    _check(user)


@PAGES
def test_mode_table_hits_on_whole_prompts_only(make_user: Any, page_size: int) -> None:
    user = make_user(256, page_size, mode="table")
    user.cache(list(range(64)))
    assert user.cache([*range(63), 999]) == 63 // page_size * page_size  # all that may be matched is there
    assert user.cache([*range(40), *range(500, 540)]) == 0
    assert user.cache(list(range(64))) == 63 // page_size * page_size
    _check(user)


def test_lock_bookkeeping_errors_are_found(make_user: Any) -> None:
    user = make_user(64)
    holder = user.run([1, 2, 3])
    other = user.run([4, 5])
    with pytest.raises(RuntimeError, match="below"):
        user.tree.move_lock(holder.tip, other.tip)
    user.tree.unlock(holder.tip)
    with pytest.raises(RuntimeError, match="not locked"):
        user.tree.unlock(holder.tip)


def test_eviction_does_not_walk_the_tree(make_user: Any) -> None:
    user = make_user(6000)
    for k in range(1000):
        user.cache([k, k, k, k, k])
    pushes = user.tree._serial
    for _ in range(100):
        user.tree.evict(5)
    assert user.tree._serial - pushes <= 200
    _check(user)
