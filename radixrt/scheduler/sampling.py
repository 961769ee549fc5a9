"""Masks and draws for the rows of a step, so that one bad row ends its own sequence and no other.

The normal path is one call for all masks and one for all draws. Only when one of these raises are the rows
taken one by one, to find out whose fault it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.model.batch import Model, RowSampling, Sampled
from radixrt.scheduler.batching import Row, build_batch
from radixrt.scheduler.generation import row_sampling
from radixrt.scheduler.request import MatcherProtocol
from radixrt.scheduler.sequence import Phase, SequenceState

__all__ = ["FillMasks", "SamplingStage"]

logger = logging.getLogger(__name__)

FillMasks = Callable[[Sequence[MatcherProtocol | None], NDArray[np.int32]], None]
"""Fill a bitmask int32 ``[rows, words]`` for the matchers; a row of ones, up to the vocabulary, for None."""

Fail = Callable[[SequenceState, Exception], None]


class SamplingStage:
    """Samples for ``model``. ``fill_masks`` None means the grammar's own, imported when first needed."""

    def __init__(self, model: Model, fill_masks: FillMasks | None) -> None:
        self._model = model
        self._fill_masks = fill_masks
        self._words = -(-model.vocab_size // 32)
        self._buffer = np.zeros((0, self._words), np.int32)

    def masks(self, sequences: Sequence[SequenceState], fail: Fail) -> NDArray[np.int32] | None:
        """The allowed tokens of each row, int32 ``[rows, words]`` (a buffer of this stage), or None for all.

        A matcher that raises ends its sequence through ``fail``; its row allows nothing.
        """
        matchers = [sequence.request.matcher for sequence in sequences]
        if not any(matcher is not None for matcher in matchers):
            return None
        if len(self._buffer) < len(matchers):
            self._buffer = np.zeros((len(matchers), self._words), np.int32)
        bitmask = self._buffer[: len(matchers)]
        fill = self._filler()
        try:
            fill(matchers, bitmask)
        except Exception:
            logger.exception("filling the masks of a batch failed; filling its rows one by one")
            for i, sequence in enumerate(sequences):
                bitmask[i] = 0
                try:
                    fill(matchers[i : i + 1], bitmask[i : i + 1])
                except Exception as error:
                    logger.exception("sequence %d has no mask", sequence.request.id)
                    bitmask[i] = 0
                    fail(sequence, error)
        return bitmask

    def sample(
        self,
        logits: NDArray[np.float32],
        index: Sequence[int],
        sequences: Sequence[SequenceState],
        bitmask: NDArray[np.int32] | None,
    ) -> list[Sampled]:
        """Sample one token per sequence, from the ``logits`` rows ``index``.

        A row that cannot be sampled has an ``error``.
        """
        if not sequences:
            return []
        vocab_size = self._model.vocab_size
        rows = [
            row_sampling(
                sequence, None if bitmask is None or sequence.request.matcher is None else bitmask[i], vocab_size
            )
            for i, sequence in enumerate(sequences)
        ]
        wanted = logits if len(index) == len(logits) else logits[index]
        try:
            sampled = self._model.sample(wanted, rows, bitmask)
        except Exception:
            logger.exception("sampling a batch failed; sampling its rows one by one")
        else:
            if len(sampled) != len(rows):
                raise RuntimeError(f"the model sampled {len(sampled)} tokens for {len(rows)} rows")
            return sampled
        return [
            self._sample_alone(sequence, row, None if bitmask is None else bitmask[i : i + 1])
            for i, (sequence, row) in enumerate(zip(sequences, rows, strict=True))
        ]

    def _sample_alone(self, sequence: SequenceState, row: RowSampling, mask: NDArray[np.int32] | None) -> Sampled:
        """Sample one row after a failure, which may have overwritten the logits.

        They come from feeding the last token again: the same values into the same slot.
        """
        if sequence.phase is Phase.FINISHED:
            return Sampled(token=-1)  # its matcher failed: nobody will look at this
        logits = self._model.forward(build_batch([Row(sequence, sequence.length - 1, sequence.length)]))
        try:
            (sampled,) = self._model.sample(logits, [row], mask)
        except Exception as error:
            logger.exception("sequence %d cannot be sampled", sequence.request.id)
            return Sampled(token=-1, error=f"{type(error).__name__}: {error}")
        return sampled

    def _filler(self) -> FillMasks:
        if self._fill_masks is None:
            from radixrt.grammar import fill_masks  # late: most batches have no grammar

            self._fill_masks = fill_masks
        return self._fill_masks
