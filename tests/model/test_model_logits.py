"""Every family computes what transformers computes, whichever way the tokens arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

LENGTH = 61
TOLERANCE = 1e-4  # of logits around ten: float32 rounding through three layers, and nothing more


@pytest.fixture(scope="module")
def case(checkpoint_name: str, make_checkpoint: Any, load: Any, expected_logits: Any) -> Any:
    """(model, ids, their logits by transformers, a function for more)."""
    folder, reference = make_checkpoint(checkpoint_name)
    model = load(folder).model
    ids = np.random.default_rng(7).integers(0, model.vocab_size, LENGTH).tolist()
    return model, ids, expected_logits(reference, ids), lambda more: expected_logits(reference, more)


@pytest.mark.parametrize(
    "chunks",
    [[LENGTH], [7] * 8 + [5], [1] * LENGTH, [40, 1, 1, 1, 18]],
    ids=["whole", "chunks-of-7", "one-by-one", "prefill-decode-prefill"],
)
def test_same_logits_as_transformers(case: Any, run_chunks: Any, chunks: list[int]) -> None:
    model, ids, expected, _ = case
    slots = np.random.default_rng(1).permutation(512)[:LENGTH]
    np.testing.assert_allclose(run_chunks(model, ids, chunks, slots), expected, atol=TOLERANCE, rtol=0)


def test_ragged_batch_with_shared_slots_out_of_order(
    case: Any, make_batch: Callable[..., Any], run_chunks: Any
) -> None:
    """Rows that share a cached prefix, a decode row, chunks of several sizes and a fresh row, in one forward."""
    model, ids, _, expect = case
    rng = np.random.default_rng(3)
    slots = rng.permutation(512).tolist()
    prefix, taken = ids[:13], 13
    run_chunks(model, prefix, [13], slots)
    rows = []
    for new in (20, 1, 5, 1, 2):
        own = slots[:13] + slots[taken : taken + new]
        taken += new
        rows.append((prefix + rng.integers(0, model.vocab_size, new).tolist(), 13, own))
    rows.append((rng.integers(0, model.vocab_size, 33).tolist(), 0, slots[taken : taken + 33]))
    logits = model.forward(make_batch(rows))
    start = 0
    for row_ids, cached, _ in rows:
        count = len(row_ids) - cached
        np.testing.assert_allclose(logits[start : start + count], expect(row_ids)[cached:], atol=TOLERANCE, rtol=0)
        start += count
    assert start == len(logits)


def test_only_wanted_rows_are_returned(case: Any, make_batch: Any) -> None:
    model, ids, expected, _ = case
    batch = make_batch([(ids, 0, range(LENGTH))], logit_index=np.array([3, LENGTH - 1]))
    logits = model.forward(batch)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected[[3, LENGTH - 1]], atol=TOLERANCE, rtol=0)
    nothing = msgspec.structs.replace(batch, logit_index=np.array([], np.int64))
    assert model.forward(nothing).shape == (0, model.vocab_size)


def test_float64_cached_equals_recomputed(
    checkpoint_name: str, make_checkpoint: Any, load: Any, run_chunks: Any
) -> None:
    """In float64 the paths agree to rounding, so no path leaves anything out."""
    folder, _ = make_checkpoint(checkpoint_name)
    model = load(folder, dtype="float64").model
    ids = np.random.default_rng(11).integers(0, model.vocab_size, 50).tolist()
    whole = run_chunks(model, ids, [50], list(range(50)))
    pieces = run_chunks(model, ids, [17, 1, 1, 30, 1], np.random.default_rng(5).permutation(512)[:50])
    # The logits come back as float32: one unit in the last place of values around ten.
    np.testing.assert_allclose(pieces, whole, atol=2e-6, rtol=0)
