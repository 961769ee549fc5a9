"""Who runs, who waits, who had to give way.

The roster moves sequences between four places: waiting (new), running, retracted (has run, waits for room,
goes before everybody new) and finished. It decides by room and order alone; tokens, logits and sinks are the
loop's affair.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

from radixrt.config import EngineConfig
from radixrt.scheduler.admission import Admission
from radixrt.scheduler.batching import Row, prefill_budget
from radixrt.scheduler.kv import KVCache
from radixrt.scheduler.policies import WaitingQueue
from radixrt.scheduler.sequence import Phase, SequenceState
from radixrt.scheduler.sharing import has_leader
from radixrt.scheduler.stats import Counters

__all__ = ["Roster"]

_RETRY_STEPS = 16


class Roster:
    """``running`` is ordered by arrival, the oldest first: the oldest is never retracted for want of room."""

    def __init__(self, kv: KVCache, admission: Admission, config: EngineConfig, counters: Counters) -> None:
        self.running: list[SequenceState] = []
        self._retracted: list[SequenceState] = []  # by arrival too
        self._waiting = WaitingQueue(config.policy, kv.match_length, config.random_seed)
        self._kv = kv
        self._admission = admission
        self._config = config
        self._counters = counters
        self._changes = 0  # grows with everything that may make room or change the queue
        self._blocked_at: tuple[int, int, int] | None = None

    def add(self, sequence: SequenceState) -> None:
        """Queue a new sequence."""
        self._kv.want(sequence)
        self._waiting.add(sequence)
        self._changes += 1

    def remove(self, sequence: SequenceState) -> None:
        """Take a sequence out of wherever it is, for good, and free what it holds."""
        if sequence.phase is Phase.RUNNING:
            self._kv.release(sequence)
            self.running.remove(sequence)
        else:
            self._leave_queue(sequence)
        sequence.phase = Phase.FINISHED
        self._changes += 1

    def check(self, in_flight: Collection[SequenceState]) -> None:
        """Raise ``RuntimeError`` unless every sequence in flight is in the one place that its phase says."""
        places = ((Phase.RUNNING, self.running), (Phase.RETRACTED, self._retracted), (Phase.WAITING, self._waiting))
        found = [sequence for _, place in places for sequence in place]
        if len(found) != len(in_flight) or {id(s) for s in found} != {id(s) for s in in_flight}:
            raise RuntimeError("a sequence in flight is nowhere, or a finished one somewhere")
        for phase, place in places:
            for sequence in place:
                if sequence.phase is not phase or (phase is Phase.RUNNING) != (sequence.tip is not None):
                    raise RuntimeError(f"sequence {sequence.request.id} is not where its phase says")
        for line in (self.running, self._retracted):
            if any(a.serial >= b.serial for a, b in pairwise(line)):
                raise RuntimeError("a line is not in order of arrival")

    def admit(self, begin: Callable[[SequenceState], bool]) -> None:
        """Start waiting sequences, in order, until slots, rows or the prefill budget are used up.

        ``begin`` is called before a sequence is looked at more closely; False means it has ended.
        """
        if not (self._retracted or self._waiting) or len(self.running) >= self._config.max_running:
            return
        budget = prefill_budget(self.running, self._config.chunk)
        if budget <= 0 or self._is_blocked():
            return
        reserved = self._admission.reserved(self.running)
        prefilling = [sequence for sequence in self.running if sequence.is_prefilling]
        latest_arrival = -1
        for sequence in self._candidates():
            if budget <= 0 or len(self.running) >= self._config.max_running:
                break
            if not begin(sequence):
                continue
            if not self._waiting.is_aged(sequence) and has_leader(
                sequence, self._kv.match_length(sequence), prefilling, self._kv.tree
            ):
                continue
            self._kv.attach(sequence)
            if self.running and not self._admission.may_start(sequence, reserved):
                self._kv.detach(sequence)
                self._blocked_at = self._situation()
                break
            self._start(sequence)
            latest_arrival = max(latest_arrival, sequence.arrival_step)
            budget -= sequence.pending_len
            reserved += self._admission.growth(sequence)
            if sequence.is_prefilling:
                prefilling.append(sequence)
        if latest_arrival >= 0:
            self._waiting.note_admitted(latest_arrival)

    def _candidates(self) -> Iterable[SequenceState]:
        """Retracted sequences first: they have run already and are older than whoever took their place."""
        yield from list(self._retracted)
        yield from self._waiting.candidates()

    def _is_blocked(self) -> bool:
        """Whether admission failed for want of room and nothing has happened since that could make room."""
        return bool(self.running) and self._blocked_at == self._situation()

    def _situation(self) -> tuple[int, int, int]:
        """What a failed admission depends on. The output set aside shrinks with time, so time counts a little."""
        return (self._kv.tree.version, self._changes, self._counters.steps // _RETRY_STEPS)

    def _start(self, sequence: SequenceState) -> None:
        """Move an attached sequence to the running ones."""
        self._leave_queue(sequence, admitted=True)
        sequence.phase = Phase.RUNNING
        sequence.prefill_target = sequence.length
        if sequence.cached_tokens is None:
            sequence.cached_tokens = min(sequence.computed_len, sequence.prompt_len)
            self._counters.cached_tokens += sequence.cached_tokens
        sequence.high_water = max(sequence.high_water, sequence.computed_len)
        insort(self.running, sequence, key=lambda other: other.serial)

    def _leave_queue(self, sequence: SequenceState, *, admitted: bool = False) -> None:
        if sequence.phase is Phase.RETRACTED:
            self._retracted.remove(sequence)
        elif sequence.phase is Phase.WAITING:
            self._waiting.remove(sequence, admitted=admitted)
        else:
            return
        self._kv.unwant(sequence)

    def allocate(self, rows: list[Row]) -> list[Row]:
        """Give every row its slots; when evicting does not make enough, retract the youngest until it does."""
        kv = self._kv
        needs = [kv.missing(row.sequence, row.stop) for row in rows]
        slots = kv.take(sum(needs))
        if slots is not None:
            begin = 0
            for row, need in zip(rows, needs, strict=True):
                if need:
                    kv.give(row.sequence, slots[begin : begin + need])
                    begin += need
            return rows
        kept = []
        for row in rows:  # oldest first, so whoever is retracted has not been given anything in this step
            while row.sequence.phase is Phase.RUNNING:
                slots = kv.take(kv.missing(row.sequence, row.stop))
                if slots is not None:
                    kv.give(row.sequence, slots)
                    kept.append(row)
                    break
                if len(self.running) == 1:
                    raise RuntimeError("a sequence that fits the pool alone found no room in it")
                self._retract(self.running[-1])
                self._admission.note_retraction()
        return kept

    def retract_on_schedule(self) -> None:
        """The ablation ``force_retract_every``. A lone sequence is spared until it has got somewhere."""
        every = self._config.force_retract_every
        if not every or self._counters.steps % every or not self.running:
            return
        youngest = self.running[-1]
        if len(self.running) > 1 or youngest.length > youngest.prefill_target:
            self._retract(youngest)

    def _retract(self, sequence: SequenceState) -> None:
        """Take its slots away. What it has computed stays cached while there is room, the rest is recomputed."""
        self._kv.release(sequence)
        self.running.remove(sequence)
        sequence.phase = Phase.RETRACTED
        self._kv.want(sequence)
        insort(self._retracted, sequence, key=lambda other: other.serial)
        self._counters.retractions += 1
        self._changes += 1
