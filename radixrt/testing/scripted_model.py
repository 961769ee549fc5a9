"""A model without weights that notices every mistake of the cache above it.

``ScriptedModel`` implements ``radixrt.model.batch.Model`` in numpy. Like a two-layer decoder it stores, for
each token, what it saw when the token was computed, and reads the whole context back through
``context_slots``. A wrong slot, a slot that was freed and reused, a wrong position or a token computed under
another context therefore changes the logits: equal outputs mean equal caches. With a *script* it says chosen
tokens instead, and raises on such a mistake. It knows nothing about text or scheduling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.model.batch import ForwardBatch, RowSampling, Sampled

__all__ = ["Sampler", "Script", "ScriptedModel", "reply_after", "say"]

Script = Callable[[Sequence[int]], int]
"""The whole context as token ids in, the most probable next token out."""

Sampler = Callable[[NDArray[np.float32], Sequence[RowSampling], "NDArray[np.int32] | None"], list[Sampled]]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SPREAD = 12.0  # logits lie in [0, 12): peaked enough to have a clear argmax, flat enough to sample from


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finalizer of SplitMix64); wraps around by design."""
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


class ScriptedModel:
    """Deterministic logits as a function of the context read through the KV slots.

    ``script`` chooses the most probable next token; without one the logits are pseudo-random per context and
    ``seed``. ``step_delay_s`` is slept in every forward through ``sleep``. ``hook`` sees each batch before it
    runs and may raise. ``sampler`` replaces ``radixrt.model.sampler.sample_rows``.

    ``forwards`` and ``tokens_computed`` count work; ``total_slots`` is 0 until ``allocate``.
    """

    def __init__(
        self,
        vocab_size: int = 288,
        context_length: int = 4096,
        *,
        script: Script | None = None,
        seed: int = 0,
        step_delay_s: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
        hook: Callable[[ForwardBatch], None] | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self._vocab_size = vocab_size
        self._context_length = context_length
        self.script = script
        self.hook = hook
        self.step_delay_s = step_delay_s
        self._sleep = sleep
        self._sampler = sampler
        self._columns = (np.arange(1, vocab_size + 1, dtype=np.uint64) * _GOLDEN)[None, :]
        self._seed = np.uint64(seed)
        self.forwards = 0
        self.tokens_computed = 0
        self.total_slots = 0
        self._tokens = np.empty(0, np.int64)
        self._positions = np.empty(0, np.int64)
        self._states = np.empty(0, np.uint64)

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def context_length(self) -> int:
        return self._context_length

    def allocate(self, total_slots: int) -> None:
        """Reserve the pool. Raises ``RuntimeError`` when called twice."""
        if self.total_slots:
            raise RuntimeError("the KV pool is allocated once")
        self.total_slots = total_slots
        self._tokens = np.full(total_slots, -1, np.int64)
        self._positions = np.full(total_slots, -1, np.int64)
        self._states = np.zeros(total_slots, np.uint64)

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        """Run the batch: logits float32 [L, vocab_size]. Raises ``RuntimeError`` for a malformed batch."""
        if self.hook is not None:
            self.hook(batch)
        if self.step_delay_s:
            self._sleep(self.step_delay_s)
        self._check(batch)
        self.forwards += 1
        self.tokens_computed += len(batch.token_ids)
        self._tokens[batch.write_slots] = batch.token_ids
        self._positions[batch.write_slots] = batch.positions
        wanted = np.zeros(len(batch.token_ids), bool)
        wanted[batch.logit_index] = True
        rows: list[NDArray[np.float32]] = []
        for row in range(len(batch.context_slots)):
            rows.append(self._forward_row(batch, row, wanted))
        return np.concatenate(rows) if rows else np.empty((0, self._vocab_size), np.float32)

    def sample(
        self,
        logits: NDArray[np.float32],
        rows: Sequence[RowSampling],
        bitmask: NDArray[np.int32] | None,
    ) -> list[Sampled]:
        """Sample one token per row, by the engine's own sampler unless another was given."""
        if self._sampler is None:
            from radixrt.model.sampler import sample_rows  # late: it may be slow to import

            self._sampler = sample_rows
        return self._sampler(logits, rows, bitmask)

    def _forward_row(self, batch: ForwardBatch, row: int, wanted: NDArray[np.bool_]) -> NDArray[np.float32]:
        begin, end = int(batch.query_start[row]), int(batch.query_start[row + 1])
        slots = batch.context_slots[row]
        cached = len(slots) - (end - begin)
        # Where a slot stands in the list counts too: attention reads it in position order.
        place = 2 * np.arange(len(slots), dtype=np.uint64) + np.uint64(1)
        with np.errstate(over="ignore"):
            # Layer 1: a token's state is a digest of the (token, position) pairs at and before it.
            words = self._tokens[slots].astype(np.uint64) << np.uint64(32)
            words ^= self._positions[slots].astype(np.uint64)
            digests = np.cumsum(_mix(words * _GOLDEN) * place, dtype=np.uint64)
            self._states[slots[cached:]] = _mix(digests[cached:])
            # Layer 2: what is predicted is a digest of the states at and before the position, as stored.
            seeds = _mix(np.cumsum(self._states[slots] * place, dtype=np.uint64) + self._seed)
        need = np.flatnonzero(wanted[begin:end]) + cached
        if self.script is not None:
            self._check_context(slots, digests)
            return self._scripted_logits(slots, need)
        with np.errstate(over="ignore"):
            noise = _mix(seeds[need][:, None] + self._columns)
        return (noise >> np.uint64(40)).astype(np.float32) * np.float32(_SPREAD / 2**24)

    def _scripted_logits(self, slots: NDArray[np.int32], need: NDArray[np.intp]) -> NDArray[np.float32]:
        logits = np.zeros((len(need), self._vocab_size), np.float32)
        if self.script is not None and len(need):
            context = self._tokens[slots].tolist()
            for i, position in enumerate(need.tolist()):
                logits[i, self.script(context[: position + 1])] = 40.0
        return logits

    def _check_context(self, slots: NDArray[np.int32], digests: NDArray[np.uint64]) -> None:
        """A script sees tokens only, so stale positions and states have to be caught apart."""
        if not np.array_equal(self._positions[slots], np.arange(len(slots))):
            raise RuntimeError("a context slot holds a token of another position")
        if not np.array_equal(self._states[slots], _mix(digests)):
            raise RuntimeError("a context slot was computed under another context")

    def _check(self, batch: ForwardBatch) -> None:
        lens = np.fromiter((len(slots) for slots in batch.context_slots), np.int64, len(batch.context_slots))
        if not np.array_equal(lens, batch.context_lens):
            raise RuntimeError("context_lens does not describe context_slots")
        if int(batch.query_start[-1]) != len(batch.token_ids) or np.any(np.diff(batch.query_start) <= 0):
            raise RuntimeError("query_start does not cover the tokens")
        if len(np.unique(batch.write_slots)) != len(batch.write_slots):
            raise RuntimeError("two tokens of one batch write the same slot")
        if np.any(np.diff(batch.logit_index) <= 0):
            raise RuntimeError("logit_index is not ascending")
        for row, slots in enumerate(batch.context_slots):
            begin, end = int(batch.query_start[row]), int(batch.query_start[row + 1])
            if not np.array_equal(slots[len(slots) - (end - begin) :], batch.write_slots[begin:end]):
                raise RuntimeError(f"the context of row {row} does not end in its write_slots")
        if (
            len(batch.write_slots)
            and not 0 <= batch.write_slots.min() <= batch.write_slots.max() < self.total_slots
        ):
            raise RuntimeError("a write slot lies outside the pool")


def say(reply: Sequence[int], end: int) -> Script:
    """Return a script that says ``reply`` and then ``end``, whatever the prompt.

    How far it has come is read from the context: the longest prefix of the reply that the context ends in.
    A prompt that itself ends in the beginning of the reply is therefore continued, not answered.
    """
    target = list(reply)

    def script(context: Sequence[int]) -> int:
        tail = list(context[-len(target) :]) if target else []
        for said in range(len(tail), 0, -1):
            if tail[len(tail) - said :] == target[:said]:
                return target[said] if said < len(target) else end
        return target[0] if target else end

    return script


def reply_after(replies: Mapping[tuple[int, ...], Sequence[int]], end: int) -> Script:
    """Return a script that answers the marker occurring last in the context with its reply, then ``end``.

    A context that does not continue ``marker + reply`` (or holds no marker) gets ``end`` at once.
    """

    def script(context: Sequence[int]) -> int:
        best_stop, best = -1, None
        for marker, reply in replies.items():
            for start in range(len(context) - len(marker), -1, -1):
                if tuple(context[start : start + len(marker)]) == marker:
                    if start + len(marker) > best_stop:
                        best_stop, best = start + len(marker), reply
                    break
        if best is None:
            return end
        said = list(context[best_stop:])
        return best[len(said)] if len(said) < len(best) and said == list(best[: len(said)]) else end

    return script
