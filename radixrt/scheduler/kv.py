"""The keys and values of sequences: who owns which slots, from the first match to the last free.

The one place where slots change hands between the pool, the tree and a sequence. Each method says which
interval goes from whom to whom. It does not decide who runs or who gives way.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from radixrt.cache.invariants import check_cache
from radixrt.cache.pages import PagePool
from radixrt.cache.radix import RadixTree
from radixrt.scheduler.sequence import SequenceState

__all__ = ["KVCache"]


class KVCache:
    """Pool and tree, seen by sequences. ``held_slots`` counts what sequences own."""

    def __init__(self, pool: PagePool, tree: RadixTree) -> None:
        self.pool = pool
        self.tree = tree
        self.held_slots = 0

    @property
    def available_slots(self) -> int:
        """Slots that are free or can be made free without taking anything from a sequence."""
        return self.pool.free_slots + self.tree.evictable_slots

    def padded(self, n_tokens: int) -> int:
        """Slots of the whole pages that ``n_tokens`` tokens need."""
        return self.pool.pages_for(n_tokens) * self.pool.page_size

    def match_length(self, sequence: SequenceState) -> int:
        """How much of the sequence ``attach`` would find now; remembered until the tree changes."""
        if sequence.match_version != self.tree.version:
            sequence.match_length = self.tree.match_length(
                sequence.request.namespace, sequence.ids, sequence.match_limit
            )
            sequence.match_version = self.tree.version
        return sequence.match_length

    def want(self, sequence: SequenceState) -> None:
        """A waiting sequence is a known future use of its tokens: evict others' first."""
        sequence.wanted_len = sequence.length
        self.tree.note_future_use(sequence.request.namespace, sequence.ids, 1)

    def unwant(self, sequence: SequenceState) -> None:
        """It waits no more."""
        self.tree.note_future_use(sequence.request.namespace, sequence.ids[: sequence.wanted_len], -1)

    def attach(self, sequence: SequenceState) -> None:
        """Start from the longest cached prefix: the tree keeps ``[0, cached_len)``, locked for the sequence."""
        found = self.tree.match(sequence.request.namespace, sequence.ids, sequence.match_limit)
        self.tree.lock(found.tip)
        sequence.tip = found.tip
        sequence.allocated_len = 0
        sequence.add_slots(found.slots)
        sequence.computed_len = found.length

    def detach(self, sequence: SequenceState) -> None:
        """Undo ``attach`` for a sequence that owns nothing yet."""
        if sequence.tip is not None:
            self.tree.unlock(sequence.tip)
        sequence.tip = None
        sequence.allocated_len = sequence.computed_len = 0

    def missing(self, sequence: SequenceState, stop: int) -> int:
        """Slots that have to be allocated before tokens up to ``stop`` can be computed."""
        return max(0, self.padded(stop) - sequence.allocated_len)

    def take(self, n_slots: int) -> NDArray[np.int32] | None:
        """Allocate, evicting where needed: from the pool (or the tree, through it) to the caller, or None."""
        if n_slots > self.pool.free_slots:
            if n_slots > self.available_slots:
                return None
            self.tree.evict(n_slots - self.pool.free_slots)
        return self.pool.alloc(n_slots)

    def give(self, sequence: SequenceState, slots: NDArray[np.int32]) -> None:
        """Slots that ``take`` returned go to the sequence, as ``[allocated_len, + len(slots))``."""
        sequence.add_slots(slots)
        self.held_slots += len(slots)

    def publish(self, sequence: SequenceState) -> None:
        """Let others share what is computed: ``[cached_len, whole pages of computed_len)`` goes to the tree.

        Where another sequence was first, the row is pointed at the tree's slots and only then are the own
        copies freed: until the remap a forward may still read them.
        """
        tip = sequence.tip
        if tip is None:
            raise RuntimeError("publishing a sequence that is not attached")
        before = tip.end
        result = self.tree.insert(tip, sequence.ids[: sequence.computed_len], sequence.slots)
        if result.tip is tip and tip.end == before:
            return
        self.tree.move_lock(tip, result.tip)
        sequence.tip = result.tip
        self.held_slots -= result.tip.end - before
        for twin in result.duplicates:
            own = sequence.slots[twin.start : twin.stop].copy()
            sequence.slots[twin.start : twin.stop] = twin.canonical
            self.pool.free(own)

    def release(self, sequence: SequenceState) -> None:
        """The end of a run: publish, give ``[cached_len, allocated_len)`` to the pool and the lock back.

        Harmless for a sequence that holds nothing.
        """
        if sequence.tip is None:
            return
        self.publish(sequence)
        private = sequence.private_slots
        self.held_slots -= len(private)
        self.pool.free(private)
        self.tree.unlock(sequence.tip)
        sequence.tip = None
        sequence.allocated_len = sequence.computed_len = 0

    def check(self, running: Iterable[SequenceState]) -> None:
        """Raise ``InvariantError`` unless every slot has one owner and every lock a sequence."""
        sequences = list(running)
        private = [sequence.private_slots for sequence in sequences]
        if sum(map(len, private)) != self.held_slots:
            raise RuntimeError("held_slots does not count what the sequences hold")
        check_cache(self.pool, self.tree, private, [s.tip for s in sequences if s.tip is not None])
