"""What the scheduler gives a model and what it gets back: the only thing the two rooms share.

Plain numpy, no torch: the scheduler and the scripted test model live without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from radixrt.api import SamplingParams

__all__ = ["ForwardBatch", "Model", "RowSampling", "Sampled"]


class ForwardBatch(msgspec.Struct, frozen=True):
    """One ragged forward over R rows with T new tokens in all.

    Row r owns tokens ``query_start[r]:query_start[r+1]`` of the flat arrays. Its new tokens stand at
    ``positions`` and write their keys and values to ``write_slots``. It attends (causally) to the slots
    ``context_slots[r]``, an int32 array of length ``context_lens[r]`` = cached + new tokens in position order;
    its last entries are the row's own ``write_slots``. Logits are wanted for the flat token indices
    ``logit_index`` (ascending; every decode row wants its last token, a prefill chunk none or many).
    """

    token_ids: NDArray[np.int64]  # [T]
    positions: NDArray[np.int64]  # [T]
    write_slots: NDArray[np.int64]  # [T]
    query_start: NDArray[np.int64]  # [R + 1]
    context_slots: Sequence[NDArray[np.int32]]  # R arrays
    context_lens: NDArray[np.int64]  # [R]
    logit_index: NDArray[np.int64]  # [L]


class RowSampling(msgspec.Struct, frozen=True):
    """How to sample one logits row.

    ``key`` (64 bit) and ``position`` address the random number; equal addresses give equal numbers whatever
    else is in the batch. ``prompt_ids`` and ``output_ids`` are what the penalties look at (empty when no
    penalty is on). ``banned_ids`` are masked besides the bitmask (end tokens under ``min_tokens``).
    """

    params: SamplingParams
    key: int
    position: int
    prompt_ids: Sequence[int] = ()
    output_ids: Sequence[int] = ()
    banned_ids: Sequence[int] = ()


class Sampled(msgspec.Struct, frozen=True):
    """The chosen token of a row. ``token`` is -1 when the mask leaves none, or when there is an ``error``.

    ``error`` says why this row cannot be sampled (its logits are NaN, a biased token is outside the vocabulary);
    other rows are not touched by it.

    ``logprob`` and ``top`` (id, logprob; best first) are present when ``params.logprobs`` is set.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    error: str | None = None


class Model(Protocol):
    """A decoder with a KV pool. One thread calls it."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits, padding columns included."""

    @property
    def context_length(self) -> int: ...

    def allocate(self, total_slots: int) -> None:
        """Reserve the KV pool: every layer gets ``total_slots`` slots. Called once."""

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        """Run the batch and return the logits, float32 [L, vocab_size], owned by the caller until the next call."""

    def sample(
        self,
        logits: NDArray[np.float32],
        rows: Sequence[RowSampling],
        bitmask: NDArray[np.int32] | None,
    ) -> list[Sampled]:
        """Sample one token per row. ``logits`` [B, vocab_size] may be overwritten.

        ``bitmask`` int32 [B, ceil(vocab_size/32)], bit i%32 of word i//32 set where token i is allowed; None
        allows all. A row's result does not depend on the other rows.
        """
