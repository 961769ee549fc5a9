"""Prefix sharing inside a batch: do not compute twice what a neighbour is computing now.

When a running prompt will soon have computed more of a waiting sequence's prefix than the tree holds, the
waiting one is left for a later step. That is decided anew in every step from what runs at that moment, so a
leader that is cancelled or retracted holds nobody up. Nothing is remembered here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from radixrt.cache.radix import RadixTree
from radixrt.cache.uses import common_prefix
from radixrt.scheduler.sequence import SequenceState

__all__ = ["MIN_SHARED_TOKENS", "has_leader"]

MIN_SHARED_TOKENS = 4
"""Tokens that must be saved for a wait of a step or more; a lone BOS or role marker is not worth one."""


def has_leader(sequence: SequenceState, matched: int, prefilling: Iterable[SequenceState], tree: RadixTree) -> bool:
    """Whether one of ``prefilling`` will bring the cached prefix of ``sequence`` well beyond ``matched`` tokens."""
    limit = sequence.match_limit
    page = tree.pool.page_size
    wanted = max(MIN_SHARED_TOKENS, page)
    if limit < matched + wanted:
        return False
    ids = sequence.ids[:limit]
    probe = ids[matched : matched + wanted]
    for leader in prefilling:
        if leader.length < matched + wanted or leader.request.namespace != sequence.request.namespace:
            continue
        if not np.array_equal(leader.ids[matched : matched + wanted], probe):
            continue
        common = common_prefix(leader.ids, ids)
        common -= common % page
        if common >= matched + wanted and common > leader.computed_len and tree.reaches(common, limit):
            return True
    return False
