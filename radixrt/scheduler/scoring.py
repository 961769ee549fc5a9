"""Log-probabilities of given tokens, for prompts: numpy, float32, row by row independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.scheduler.request import ScoredToken

__all__ = ["log_softmax", "score_tokens"]

_BLOCK = 16  # rows worked on at a time, so that the temporaries stay small beside the logits themselves


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Natural log-probabilities along the last axis; ``-inf`` logits stay ``-inf``."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float64)
    result: NDArray[np.float32] = shifted - np.log(total).astype(np.float32)
    return result


def score_tokens(logits: NDArray[np.float32], tokens: Sequence[int], top: int) -> list[ScoredToken]:
    """Score ``tokens[i]`` under ``logits[i]`` (float32 ``[len(tokens), V]``), with the ``top`` best alternatives.

    Ties among alternatives go to the lower id. Raises ``ValueError`` where the logits are not numbers.
    """
    scored: list[ScoredToken] = []
    for start in range(0, len(tokens), _BLOCK):
        block = logits[start : start + _BLOCK]
        if not np.isfinite(block.max(axis=-1)).all():
            raise ValueError("the model returned logits that are not finite")
        logprobs = log_softmax(block)
        for row, token in zip(logprobs, tokens[start : start + _BLOCK], strict=True):
            scored.append(ScoredToken(int(token), float(row[token]), _best(row, top)))
    return scored


def _best(row: NDArray[np.float32], top: int) -> tuple[tuple[int, float], ...]:
    if top <= 0:
        return ()
    if top >= len(row):
        ids = np.arange(len(row))
    else:
        least = np.partition(row, len(row) - top)[len(row) - top]
        ids = np.flatnonzero(row >= least)  # more than ``top`` where values tie
    ids = ids[np.lexsort((ids, -row[ids]))][:top]
    return tuple(zip(ids.tolist(), row[ids].tolist(), strict=True))
