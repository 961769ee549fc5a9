"""In which order waiting sequences are tried.

``fcfs`` by arrival; ``random`` a seeded draw; ``lpm`` longest cached prefix first; ``dfs`` depth first through
the tree of what is waiting, so that everything below a prefix runs before that prefix is given up.

Looking at every waiting sequence in every step would cost more than the order gains. The queue is kept sorted
by arrival and by token ids; in the second order neighbours share the longest prefixes. A step looks at the
oldest ones and at the neighbours of what was admitted last: at most ``WINDOW`` sequences per priority.

Nobody starves. A sequence among the ``WINDOW`` oldest of its priority is *aged* when later arrivals have overtaken
it in ``AGING_STEPS`` steps. Of the steps that admit somebody, every ``AGED_TURN``-th belongs to the oldest aged
one: nobody is admitted before it, however long it takes until it fits. So a sequence with ``k`` older ones waiting
is overtaken in at most ``AGING_STEPS + AGED_TURN * (k + 1)`` steps; and a burst of new programs does not push the
next calls of those that run to the end of the line. This module does not know whether there is room.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

from radixrt.scheduler.sequence import SequenceState

__all__ = ["AGED_TURN", "AGING_STEPS", "WINDOW", "PolicyName", "WaitingQueue"]

AGING_STEPS = 32
AGED_TURN = 4
WINDOW = 128

PolicyName = Literal["fcfs", "random", "lpm", "dfs"]
SortKey = tuple[tuple[str, ...], bytes, int]


class _Group:
    """The waiting sequences of one priority: by arrival, and sorted by namespace and token ids."""

    def __init__(self) -> None:
        self.by_arrival: dict[int, SequenceState] = {}
        self._keys: list[SortKey] = []
        self._last_admitted: SortKey | None = None
        self._sweep_from: SortKey | None = None

    def add(self, sequence: SequenceState) -> None:
        self.by_arrival[sequence.serial] = sequence
        insort(self._keys, sequence.sort_key)

    def remove(self, sequence: SequenceState, *, admitted: bool) -> None:
        del self.by_arrival[sequence.serial]
        del self._keys[bisect_left(self._keys, sequence.sort_key)]
        if admitted:
            self._last_admitted = sequence.sort_key

    def oldest(self, count: int) -> list[SequenceState]:
        return list(islice(self.by_arrival.values(), count))

    def sweep(self, count: int) -> list[SequenceState]:
        """The next ``count`` in sorted order, around the end once.

        A sweep begins with the first one that the sweep before left over, so that nobody who was passed over
        (to wait for a prefix that is being computed) is left behind until the next round.
        """
        size = len(self._keys)
        start = self._position(self._sweep_from) % size if size else 0
        found = [self._at((start + i) % size) for i in range(min(count, size))]
        if found:
            self._sweep_from = found[0].sort_key
        return found

    def neighbours(self, count: int) -> list[SequenceState]:
        """``count`` on either side of what was admitted last, in sorted order."""
        at = self._position(self._last_admitted)
        return [self._at(i) for i in range(max(0, at - count), min(len(self._keys), at + count))]

    def draw(self, count: int, rng: random.Random) -> list[SequenceState]:
        """``count`` of them at random, in random order."""
        return [self._at(i) for i in rng.sample(range(len(self._keys)), min(count, len(self._keys)))]

    def _position(self, key: SortKey | None) -> int:
        return 0 if key is None else bisect_left(self._keys, key)

    def _at(self, index: int) -> SequenceState:
        return self.by_arrival[self._keys[index][2]]


class WaitingQueue:
    """New sequences that wait for admission. ``match_length`` says how much of one is cached now."""

    def __init__(self, policy: PolicyName, match_length: Callable[[SequenceState], int], seed: int = 0) -> None:
        self._policy = policy
        self._match_length = match_length
        self._rng = random.Random(seed)
        self._groups: dict[int, _Group] = {}
        self._order = {"fcfs": self._fcfs, "random": self._random, "lpm": self._lpm, "dfs": self._dfs}[policy]
        self._size = 0
        self._admitting_steps = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[SequenceState]:
        for group in self._groups.values():
            yield from group.by_arrival.values()

    def add(self, sequence: SequenceState) -> None:
        self._groups.setdefault(sequence.request.priority, _Group()).add(sequence)
        self._size += 1

    def remove(self, sequence: SequenceState, *, admitted: bool = False) -> None:
        """Take a sequence out; ``admitted`` when it goes on to run."""
        priority = sequence.request.priority
        group = self._groups[priority]
        group.remove(sequence, admitted=admitted)
        self._size -= 1
        if not group.by_arrival and len(self._groups) > 1:
            del self._groups[priority]

    def candidates(self) -> list[SequenceState]:
        """Sequences in the order in which to try them: a bounded number, at least one if any waits."""
        groups = [self._groups[priority] for priority in sorted(self._groups, reverse=True)]
        found: list[SequenceState] = []
        if self._admitting_steps % AGED_TURN == 0:
            aged = [s for group in groups for s in group.oldest(WINDOW) if self.is_aged(s)]
            found = sorted(aged, key=lambda sequence: sequence.serial)[:1]
        seen = {sequence.serial for sequence in found}
        for group in groups:
            found.extend(sequence for sequence in self._order(group) if sequence.serial not in seen)
            if len(found) >= WINDOW:
                break
        return found

    def note_admitted(self, latest_arrival: int) -> None:
        """A step admitted sequences of which the last arrived in step ``latest_arrival``: age the overtaken."""
        self._admitting_steps += 1
        for group in self._groups.values():
            for sequence in islice(group.by_arrival.values(), WINDOW):
                if sequence.arrival_step >= latest_arrival:
                    break
                sequence.overtaken += 1

    @staticmethod
    def is_aged(sequence: SequenceState) -> bool:
        return sequence.overtaken >= AGING_STEPS

    # --- the policies ------------------------------------------------------------------------------------------

    def _fcfs(self, group: _Group) -> list[SequenceState]:
        return group.oldest(WINDOW)

    def _random(self, group: _Group) -> list[SequenceState]:
        return group.draw(WINDOW, self._rng)

    def _dfs(self, group: _Group) -> list[SequenceState]:
        return group.sweep(WINDOW)

    def _lpm(self, group: _Group) -> list[SequenceState]:
        chosen = {s.serial: s for s in group.oldest(WINDOW // 2)}
        chosen.update((s.serial, s) for s in group.neighbours(WINDOW // 4))
        return sorted(chosen.values(), key=lambda s: (-self._match_length(s), s.serial))
