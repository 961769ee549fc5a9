"""Log-probabilities: what a model thought of given tokens and which it liked best.

The one formula for the scores of prompts, of choices and of output. Plain numpy, row by row independent: a score
never depends on its neighbours in the batch. This module does not know what the tokens are for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.model.batch import Sampled

__all__ = ["broken", "greatest", "score_rows", "scored"]

_Floats = NDArray[np.float32]
_Ids = NDArray[np.intp]


def score_rows(logits: _Floats, tokens: Sequence[int], top: int = 0) -> list[Sampled]:
    """Score given tokens: ``tokens[i]`` under ``logits[i]`` [V], with the ``top`` best alternatives.

    Returns ``Sampled`` with ``logprob`` and ``top`` (natural logarithm, the model's own distribution), or with
    ``error`` where the logits are not finite. ``logits`` is left as it is.
    """
    results = []
    for row, token in zip(logits, tokens, strict=True):
        error = broken(float(row.max()))
        results.append(Sampled(token=-1, error=error) if error else scored(row, token, top))
    return results


def scored(row: _Floats, token: int, top: int) -> Sampled:
    """The token with its natural log-probability under ``row`` [V] and the ``top`` best alternatives."""
    peak = row.max()
    norm = float(peak) + float(np.log(np.exp(row - peak).sum(dtype=np.float64)))
    ids = greatest(row, top)
    ids = ids[row[ids] > -np.inf]
    alternatives = zip(ids.tolist(), (row[ids].astype(np.float64) - norm).tolist(), strict=True)
    return Sampled(token=token, logprob=float(row[token]) - norm, top=tuple(alternatives))


def broken(peak: float) -> str | None:
    """What is wrong with a row of logits whose greatest value is ``peak``, if anything."""
    if np.isfinite(peak):
        return None
    what = "NaN" if np.isnan(peak) else ("+inf" if peak > 0 else "nothing but -inf")
    return f"the model returned {what} as logits"


def greatest(values: _Floats, count: int) -> _Ids:
    """Indices of the ``count`` greatest values, best first, ties in order of index."""
    count = min(count, len(values))
    if count == 0:
        return np.empty(0, np.intp)
    least = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > least)
    ids = np.concatenate((above, np.flatnonzero(values == least)[: count - len(above)]))
    order: _Ids = ids[np.lexsort((ids, -values[ids]))]
    return order
