"""From logits to tokens: bias, penalties, masks, filters, and the draw.

Plain numpy. A row's result depends on that row alone: on its logits, its parameters and its random number, which
is a function of ``(key, position)``; never on its neighbours or on what was drawn before.

The order is: log-probabilities of the model's own distribution, ``logit_bias``, penalties, mask and banned ids
(stronger than all before), then the greatest (temperature 0) or temperature, ``top_k``, ``top_p``, ``min_p`` and a
draw by inverse distribution function in token-id order. Wherever values tie, the lower id comes first. This module
does not know what the tokens mean or when a sequence ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.api import SamplingParams
from radixrt.model.batch import RowSampling, Sampled
from radixrt.model.scoring import broken, greatest, scored

__all__ = ["sample_rows", "uniform"]

# Below this a temperature means the greatest: the division would only produce infinities.
MIN_TEMPERATURE = 1e-6
_HUGE = np.float32(1e30)

_ALLOWED = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_MASK_ADDENDS = np.where(_ALLOWED == 1, np.float32(0), np.float32(-np.inf))
_MASK_ADDENDS.flags.writeable = False

_Floats = NDArray[np.float32]
_Ids = NDArray[np.intp]


def sample_rows(
    logits: _Floats, rows: Sequence[RowSampling], bitmask: NDArray[np.int32] | None = None
) -> list[Sampled]:
    """Sample one token for each row of ``logits`` [B, V], which is overwritten.

    ``bitmask`` int32 [B, ceil(V/32)] has bit i%32 of word i//32 set where token i is allowed; None allows all.
    A row without a legal token gives token -1; a row that cannot be sampled gives -1 and an ``error``.
    """
    if logits.shape[0] != len(rows):
        raise ValueError(f"{logits.shape[0]} rows of logits for {len(rows)} rows of parameters")
    if not rows:
        return []
    errors = [broken(peak) for peak in logits.max(axis=1).tolist()]  # max hands NaN on
    raw: dict[int, _Floats] = {}
    for index, row in enumerate(rows):
        if errors[index] is not None:
            logits[index] = 0.0  # nothing below shall see what is not a number
            continue
        if row.params.logprobs is not None:
            raw[index] = logits[index].copy()
        errors[index] = _adjust(logits[index], row)
    _mask(logits, rows, bitmask)
    best = logits.argmax(axis=1).tolist()
    results = []
    for index, row in enumerate(rows):
        if errors[index] is not None:
            results.append(Sampled(token=-1, error=errors[index]))
            continue
        token = best[index]
        if logits[index, token] == -np.inf:
            results.append(Sampled(token=-1))
            continue
        if row.params.temperature > 0:
            token = _draw(logits[index], token, row.params, uniform(row.key, row.position))
        if index in raw:
            results.append(scored(raw[index], token, row.params.logprobs or 0))
        else:
            results.append(Sampled(token=token))
    return results


def uniform(key: int, position: int) -> float:
    """The random number in [0, 1) of address (``key``, ``position``), by the counter-based generator Philox."""
    raw = int(np.random.Philox(key=key & (2**64 - 1), counter=position).random_raw())
    return (raw >> 11) * 2.0**-53


def _adjust(row: _Floats, sampling: RowSampling) -> str | None:
    """Apply bias and penalties in place. Returns what is wrong, if anything."""
    params = sampling.params
    if params.logit_bias:
        ids = np.fromiter(params.logit_bias, np.int64)
        if ids.max() >= len(row):
            return f"logit_bias names token {ids.max()}, but the vocabulary has {len(row)}"
        row[ids] += np.fromiter(params.logit_bias.values(), np.float32)
    if params.repetition_penalty != 1.0:
        seen = np.unique(np.array([*sampling.prompt_ids, *sampling.output_ids], np.int64))
        values = row[seen]
        # A penalty near 0, or 0 as a float32, makes any logit huge: huge is enough.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            changed = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
        row[seen] = np.where(values > -np.inf, np.clip(changed, -_HUGE, _HUGE), values)
    if (params.presence_penalty or params.frequency_penalty) and len(sampling.output_ids):
        seen, counts = np.unique(np.array(sampling.output_ids, np.int64), return_counts=True)
        row[seen] -= (params.presence_penalty + params.frequency_penalty * counts).astype(np.float32)
    return None


def _mask(logits: _Floats, rows: Sequence[RowSampling], bitmask: NDArray[np.int32] | None) -> None:
    """Set what is not allowed to -inf. Banned ids beyond the vocabulary cannot be sampled anyway."""
    width = logits.shape[1]
    if bitmask is not None:
        if bitmask.shape != (len(rows), (width + 31) // 32):
            raise ValueError(f"a bitmask of shape {bitmask.shape} for logits of shape {logits.shape}")
        # One table row per byte of the mask, eight addends each: many times faster than a masked store.
        addends = np.take(_MASK_ADDENDS, np.ascontiguousarray(bitmask).view(np.uint8), axis=0)
        logits += addends.reshape(len(rows), -1)[:, :width]
    for index, row in enumerate(rows):
        banned = [token for token in row.banned_ids if token < width]
        if banned:
            logits[index, banned] = -np.inf


def _draw(row: _Floats, best: int, params: SamplingParams, random: float) -> int:
    """Draw a token from a masked row whose greatest value, at ``best``, is finite."""
    if params.temperature < MIN_TEMPERATURE:
        return best
    ids = np.flatnonzero(row > -np.inf)
    values = row[ids]
    if 0 < params.top_k < len(ids):
        kept = np.sort(greatest(values, params.top_k))
        ids, values = ids[kept], values[kept]
    with np.errstate(over="ignore"):  # far below the peak an exponent of -inf is right
        weights = np.exp((values - row[best]) / np.float32(params.temperature))
    if params.top_p < 1.0:
        kept = _nucleus(weights, params.top_p)
        ids, weights = ids[kept], weights[kept]
    if params.min_p > 0.0:
        kept = np.flatnonzero(weights >= params.min_p)  # the greatest weight is 1
        ids, weights = ids[kept], weights[kept]
    mass = np.cumsum(weights, dtype=np.float64)
    # random < 1, so the product stays below the total, and what has no weight ends where it begins.
    return int(ids[np.searchsorted(mass, random * mass[-1], side="right")])


def _nucleus(weights: _Floats, top_p: float) -> _Ids:
    """Indices, ascending, of the fewest greatest weights that hold ``top_p`` of the mass."""
    # Positive floats sort like their bits: the upper half of the bits makes bins of like weights. Whole bins
    # from the top are in until the mass is reached; only the bin where that happens needs sorting.
    bins = weights.view(np.int32) >> 16
    mass = np.cumsum(np.bincount(bins, weights=weights)[::-1])
    wanted = top_p * mass[-1]
    at = min(int(np.searchsorted(mass, wanted, side="left")), len(mass) - 1)
    border = len(mass) - 1 - at
    keep = bins > border
    inside = np.flatnonzero(bins == border)
    inside = inside[np.lexsort((inside, -weights[inside]))]
    before = float(mass[at - 1]) if at else 0.0
    reached = before + np.cumsum(weights[inside], dtype=np.float64)
    keep[inside[: int(np.searchsorted(reached, wanted, side="left")) + 1]] = True
    return np.flatnonzero(keep)
