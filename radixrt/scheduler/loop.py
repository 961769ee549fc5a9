"""The step loop: who runs, one forward, one sample, and what follows from it.

A step takes new sequences in the policy's order while there is room, divides the token budget, runs the model
once, fills the grammar masks, samples, and advances every sequence. One thread calls the scheduler; sinks are
called on it and may call back ``submit``, ``cancel`` and ``note_future_use``.

Everything done for one sequence is done under one guard: what raises there ends that sequence alone. An error of
the model's forward, or of the books themselves, is nobody's own and leaves ``step``; ``close`` then tells
everybody. Text, programs and sockets are unknown here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from radixrt.api import FinishReason
from radixrt.cache.namespaces import Namespace
from radixrt.cache.pages import PagePool
from radixrt.cache.radix import RadixTree
from radixrt.config import EngineConfig
from radixrt.errors import Cancelled, ErrorInfo, InvalidRequest, RadixrtError
from radixrt.model.batch import Model
from radixrt.model.scoring import score_rows
from radixrt.scheduler.admission import Admission, check_request
from radixrt.scheduler.batching import Row, build_batch, plan_rows
from radixrt.scheduler.generation import begin, take_sampled
from radixrt.scheduler.kv import KVCache
from radixrt.scheduler.request import ScoredToken, SequenceRequest
from radixrt.scheduler.roster import Roster
from radixrt.scheduler.sampling import FillMasks, SamplingStage
from radixrt.scheduler.sequence import Phase, SequenceState
from radixrt.scheduler.stats import Counters

__all__ = ["Scheduler"]

logger = logging.getLogger(__name__)

Logits = NDArray[np.float32]


class Scheduler:
    """Runs sequences on a model whose KV pool of ``total_slots`` it allocates and owns.

    ``fill_masks`` defaults to ``radixrt.grammar.fill_masks``. ``clock`` returns seconds; only the timers of
    ``stats`` use it. Raises ``InvalidRequest`` when the pool does not hold one page.
    """

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        *,
        total_slots: int,
        clock: Callable[[], float] = time.perf_counter,
        fill_masks: FillMasks | None = None,
    ) -> None:
        if total_slots < config.page_size:
            raise InvalidRequest(
                f"a pool of {total_slots} tokens holds no page of {config.page_size}", param="max_total_tokens"
            )
        model.allocate(total_slots)
        pool = PagePool(total_slots, config.page_size)
        tree = RadixTree(pool, mode=config.radix, eviction=config.eviction)
        self._model = model
        self._config = config
        self._clock = clock
        self._kv = KVCache(pool, tree)
        self._counters = Counters()
        self._admission = Admission(self._kv, model.context_length)
        self._roster = Roster(self._kv, self._admission, config, self._counters)
        self._sequences: dict[int, SequenceState] = {}  # by request id, everything not finished
        self._sampling = SamplingStage(model, fill_masks)
        self._forced = config.forced_tokens == "on"
        self._serial = 0
        self._in_step = False
        self._closed = False
        self._cancels: set[SequenceState] = set()

    # --- from outside ------------------------------------------------------------------------------------------

    def check_fits(self, prompt_len: int, max_tokens: int) -> None:
        """Raise ``ContextLengthExceeded`` (with both numbers) for what can never run here."""
        self._admission.check_fits(prompt_len, max_tokens)

    def submit(self, request: SequenceRequest) -> None:
        """Queue a sequence; its sink will hear exactly one ``finish``.

        Raises ``InvalidRequest`` naming the field, ``ContextLengthExceeded``, or ``Cancelled`` after ``close``;
        the sink then hears nothing. How many sequences may wait is for the caller to decide.
        """
        if self._closed:
            raise Cancelled("the scheduler is closed")
        if request.id in self._sequences:
            raise InvalidRequest(f"a sequence with id {request.id} is already in flight", param="id")
        check_request(request, self._model.vocab_size)
        self._admission.check_fits(len(request.ids), request.params.max_tokens)
        self._serial += 1
        sequence = SequenceState(request, self._serial, self._counters.steps)
        self._sequences[request.id] = sequence
        self._roster.add(sequence)

    def cancel(self, request_id: int) -> bool:
        """End a sequence with ``cancelled``: now, or when called from a sink at the end of the present step.

        Returns False when no such sequence is in flight.
        """
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return False
        if self._in_step:
            self._cancels.add(sequence)
        else:
            self._finish(sequence, FinishReason.CANCELLED)
        return True

    def has_work(self) -> bool:
        return bool(self._sequences)

    def step(self) -> bool:
        """Do one round of work. Returns False when there was none to do."""
        if not self._sequences:
            return False
        self._in_step = True
        try:
            self._step()
        finally:
            self._in_step = False
        self._apply_cancels()
        return True

    def close(self, error: ErrorInfo | None = None) -> None:
        """End everything in flight, with ``error`` where there is one, as cancelled otherwise. Nothing follows."""
        self._closed = True
        reason = FinishReason.CANCELLED if error is None else FinishReason.ERROR
        for sequence in list(self._sequences.values()):
            self._finish(sequence, reason, error)

    def flush_cache(self) -> int:
        """Drop every prefix that nobody has locked; return how many tokens that were."""
        return self._kv.tree.flush()

    def note_future_use(self, namespace: Namespace, ids: Sequence[int], delta: int) -> None:
        """Say that ``delta`` more (fewer, if negative) later sequences will begin with ``ids``.

        A hint for eviction only: it holds no slots. Without effect under ``frontend_hint`` off. Raises
        ``RuntimeError`` when more is taken back than was noted.
        """
        if self._config.frontend_hint == "on":
            self._kv.tree.note_future_use(namespace, np.array(ids, np.int32), delta)

    def stats(self) -> dict[str, float]:
        """Gauges of this moment and totals since the start (see ``Counters``); slots are counted in tokens."""
        pool, tree = self._kv.pool, self._kv.tree
        return {
            **self._counters.as_dict(),
            "running": float(len(self._roster.running)),
            "waiting": float(len(self._sequences) - len(self._roster.running)),
            "total_slots": float(pool.total),
            "free_slots": float(pool.free_slots),
            "cached_slots": float(tree.cached_slots),
            "evictable_slots": float(tree.evictable_slots),
            "held_slots": float(self._kv.held_slots),
            "evicted_tokens": float(tree.evicted_total),
        }

    def check_invariants(self) -> None:
        """Raise ``InvariantError`` or ``RuntimeError`` if the books are wrong. Walks everything: for tests."""
        self._kv.check(self._roster.running)
        self._roster.check(self._sequences.values())

    # --- a step ------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        counters, clock = self._counters, self._clock
        began = clock()
        counters.steps += 1
        self._admission.note_step()
        self._roster.retract_on_schedule()
        self._roster.admit(self._begin)
        rows = self._roster.allocate(plan_rows(self._roster.running, self._config.chunk))
        if not rows:
            counters.schedule_s += clock() - began
            return
        batch = build_batch(rows)
        scheduled = clock()
        logits = self._model.forward(batch)
        forwarded = clock()
        sampling, index = self._note_computed(rows, logits)
        noted = clock()
        bitmask = self._sampling.masks(sampling, self._fail)
        masked = clock()
        sampled = self._sampling.sample(logits, index, sampling, bitmask)
        drawn = clock()
        for sequence, token in zip(sampling, sampled, strict=True):
            if sequence.phase is Phase.RUNNING and sequence not in self._cancels:
                self._generate(sequence, partial(take_sampled, sequence, token, forced=self._forced))
        done = clock()
        counters.schedule_s += scheduled - began
        counters.forward_s += forwarded - scheduled
        counters.masks_s += masked - noted
        counters.sample_s += drawn - masked
        counters.advance_s += (noted - forwarded) + (done - drawn)

    def _begin(self, sequence: SequenceState) -> bool:
        """Give the grammar its first word, once. False when the sequence ended with it."""
        if not sequence.begun:
            sequence.begun = True
            self._generate(sequence, partial(begin, sequence, forced=self._forced))
            sequence.match_version = -1  # forced tokens may have been added
        return sequence.phase is not Phase.FINISHED

    def _note_computed(self, rows: list[Row], logits: Logits) -> tuple[list[SequenceState], list[int]]:
        """After a forward: share what was computed, score prompts, end what only wanted that.

        Returns the sequences to sample for and the row of ``logits`` of each.
        """
        counters = self._counters
        sampling: list[SequenceState] = []
        index: list[int] = []
        at = 0
        for row in rows:
            sequence = row.sequence
            sequence.computed_len = row.stop
            before = sequence.high_water
            counters.forward_tokens += row.stop - row.start
            counters.recomputed_tokens += max(0, min(row.stop, before) - row.start)
            if row.stop > before:
                sequence.high_water = row.stop
                counters.computed_tokens += max(0, min(row.stop, sequence.prompt_len) - before)
            if row.was_prefilling:
                self._kv.publish(sequence)
            if row.n_scores:
                self._score_prompt(row, logits[at : at + row.n_scores])
                at += row.n_scores
            if row.samples:
                if sequence.phase is Phase.RUNNING:
                    sampling.append(sequence)
                    index.append(at)
                at += 1
            elif row.stop == sequence.length and sequence.phase is Phase.RUNNING:
                self._finish(sequence, FinishReason.LENGTH)
        return sampling, index

    def _score_prompt(self, row: Row, logits: Logits) -> None:
        sequence, stop = row.sequence, row.score_start + row.n_scores

        def score() -> None:
            tokens = sequence.request.ids[row.score_start : stop]
            scored = []
            for token, score in zip(tokens, score_rows(logits, tokens, sequence.request.top), strict=True):
                if score.error is not None:
                    raise RuntimeError(score.error)
                scored.append(ScoredToken(token, score.logprob, score.top))
            sequence.scored_len = stop
            if sequence.prompt_scores is not None:
                sequence.prompt_scores.extend(scored)

        self._guarded(sequence, score)

    def _generate(self, sequence: SequenceState, action: Callable[[], FinishReason | None]) -> None:
        """Do something that may add output, under the guard, and count it."""
        steps, forced = sequence.decode_steps, sequence.forced_tokens
        self._guarded(sequence, action)
        self._counters.sampled_tokens += sequence.decode_steps - steps
        self._counters.forced_tokens += sequence.forced_tokens - forced

    # --- the end of a sequence ---------------------------------------------------------------------------------

    def _guarded(self, sequence: SequenceState, action: Callable[[], FinishReason | None]) -> None:
        """Do something for one sequence: a reason that it returns, or an error that it raises, ends it."""
        try:
            reason = action()
        except Exception as error:
            logger.exception("sequence %d failed", sequence.request.id)
            self._fail(sequence, error)
        else:
            if reason is not None:
                self._finish(sequence, reason)

    def _fail(self, sequence: SequenceState, error: Exception) -> None:
        if isinstance(error, RadixrtError):
            self._counters.refused += 1
            info = error.to_info()
        else:
            self._counters.internal_errors += 1
            info = ErrorInfo(code=RadixrtError.code, message=f"{type(error).__name__}: {error}")
        self._finish(sequence, FinishReason.ERROR, info)

    def _finish(self, sequence: SequenceState, reason: FinishReason, error: ErrorInfo | None = None) -> None:
        """Take a sequence out of wherever it is, free what it holds, and tell its sink: once."""
        if sequence.phase is Phase.FINISHED:
            return
        self._roster.remove(sequence)
        del self._sequences[sequence.request.id]
        self._counters.finished += 1
        self._counters.no_legal_token += reason is FinishReason.NO_LEGAL_TOKEN
        try:
            sequence.request.sink.finish(sequence.result(reason, error))
        except Exception:
            logger.exception("the sink of sequence %d failed in finish", sequence.request.id)

    def _apply_cancels(self) -> None:
        while self._cancels:  # a sink that is told may cancel others
            self._finish(self._cancels.pop(), FinishReason.CANCELLED)
