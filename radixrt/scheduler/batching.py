"""From running sequences to one ragged forward: who feeds how many tokens, and whose logits are wanted.

Decodes always get their one token. Everything else that is pending (prompts, recomputed contexts, tokens a
grammar forced) shares the token budget ``chunk``, oldest sequence first. No slots are allocated here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.model.batch import ForwardBatch
from radixrt.scheduler.sequence import SequenceState

__all__ = ["Row", "build_batch", "plan_rows", "prefill_budget"]


class Row:
    """Tokens ``[start, stop)`` of a sequence in one forward.

    Of its logits, the first ``n_scores`` (for the tokens at and after ``score_start``) score the prompt; one
    more is sampled from when ``samples``.
    """

    __slots__ = ("n_scores", "samples", "score_start", "sequence", "start", "stop", "was_prefilling")

    def __init__(self, sequence: SequenceState, start: int, stop: int) -> None:
        self.sequence = sequence
        self.start = start
        self.stop = stop
        self.was_prefilling = sequence.is_prefilling
        self.samples = stop == sequence.length and sequence.remaining_tokens > 0
        # The logits of position p score token p + 1; those of the last prompt token are for sampling.
        self.score_start = sequence.scored_len
        self.n_scores = max(0, min(stop, sequence.prompt_len - 1) - (sequence.scored_len - 1))


def prefill_budget(running: Sequence[SequenceState], chunk: int) -> int:
    """What is left of ``chunk`` for sequences not yet running."""
    return chunk - sum(row.stop - row.start - (not row.was_prefilling) for row in plan_rows(running, chunk))


def plan_rows(running: Sequence[SequenceState], chunk: int) -> list[Row]:
    """Divide the budget over ``running``, oldest first. The oldest prefill gets a token whatever happens."""
    rows: list[Row] = []
    budget = chunk
    prefills = 0
    for sequence in running:
        pending = sequence.pending_len
        if sequence.is_prefilling:
            tokens = min(pending, max(budget, 0 if prefills else 1))
            budget -= tokens
            prefills += 1
        else:
            tokens = min(pending, 1 + max(budget, 0))
            budget -= tokens - 1
        if tokens:
            rows.append(Row(sequence, sequence.computed_len, sequence.computed_len + tokens))
    return rows


def build_batch(rows: Sequence[Row]) -> ForwardBatch:
    """Write down the forward of ``rows``, whose slots are allocated up to ``stop``."""
    n_rows = len(rows)
    query_start = np.zeros(n_rows + 1, np.int64)
    np.cumsum([row.stop - row.start for row in rows], out=query_start[1:])
    total = int(query_start[-1])
    token_ids = np.empty(total, np.int64)
    positions = np.arange(total, dtype=np.int64)
    write_slots = np.empty(total, np.int64)
    context_slots: list[NDArray[np.int32]] = []
    logit_index: list[int] = []
    begin = 0
    for row in rows:
        sequence, start, stop = row.sequence, row.start, row.stop
        end = begin + stop - start
        token_ids[begin:end] = sequence.ids[start:stop]
        positions[begin:end] += start - begin
        write_slots[begin:end] = sequence.slots[start:stop]
        context_slots.append(sequence.slots[:stop])
        if row.n_scores:
            first = begin + row.score_start - 1 - start
            logit_index.extend(range(first, first + row.n_scores))
        if row.samples:
            logit_index.append(end - 1)
        begin = end
    return ForwardBatch(
        token_ids=token_ids,
        positions=positions,
        write_slots=write_slots,
        query_start=query_start,
        context_slots=context_slots,
        context_lens=np.array([row.stop for row in rows], np.int64),
        logit_index=np.array(logit_index, np.int64),
    )
