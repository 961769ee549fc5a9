"""From running sequences to one ragged forward: who feeds how many tokens, and whose logits are wanted.

Decodes always get their one token. Everything else that is pending shares the token budget ``chunk``: first the
tokens that grammars forced, at most half of it where a prompt waits, then prompts and recomputed contexts, by
priority and age. No slots are allocated here.
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
    """What is left of ``chunk`` for a sequence not yet running; positive if no prompt is being computed."""
    forced = prefill = 0
    for sequence in running:
        if sequence.is_prefilling:
            prefill += sequence.pending_len
        else:
            forced += sequence.pending_len - 1
    return chunk - min(forced, chunk // 2) - prefill


def plan_rows(running: Sequence[SequenceState], chunk: int) -> list[Row]:
    """Divide the budget over ``running``; the rows keep its order. Some prompt, if there is one, gets on."""
    prefills = [sequence for sequence in running if sequence.is_prefilling]
    forced_budget = chunk // 2 if prefills else chunk
    shares: dict[int, int] = {}
    budget = chunk
    for sequence in running:
        pending = sequence.pending_len
        if pending > 1 and not sequence.is_prefilling:
            extra = min(pending - 1, forced_budget)
            shares[sequence.serial] = 1 + extra
            forced_budget -= extra
            budget -= extra
    prefills.sort(key=lambda sequence: -sequence.request.priority)  # stable: by age among equals
    for sequence in prefills:
        shares[sequence.serial] = tokens = min(sequence.pending_len, budget)
        budget -= tokens
    rows: list[Row] = []
    for sequence in running:
        start = sequence.computed_len
        tokens = shares.get(sequence.serial, 1)
        if tokens:
            rows.append(Row(sequence, start, start + tokens))
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
