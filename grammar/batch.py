"""Masks of a batch: one row for each text, missing rows of one grammar computed together.

Knows matchers and the buffer they write to, not how a row comes about.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixrt.errors import InvalidRequest
from radixrt.grammar.automaton import Automaton, free_row, prepare_rows
from radixrt.grammar.matcher import Matcher

__all__ = ["fill_masks"]


def fill_masks(matchers: Sequence[object], bitmask: npt.NDArray[np.int32], *, size: int | None = None) -> None:
    """Fill a batch: row i of ``bitmask`` (contiguous int32 [rows, words]) for ``matchers[i]``, ``Matcher`` or None.

    None is a row without a constraint: ones for every id below the vocabulary's size (``size`` says it where all
    rows are free; default: every bit of the row), zeros in the padding. Rows beyond ``matchers`` stay as they are.
    The missing rows are computed in one native call.
    """
    is_array = isinstance(bitmask, np.ndarray) and bitmask.dtype == np.int32 and bitmask.ndim == 2
    if not is_array or not bitmask.flags.c_contiguous or not bitmask.flags.writeable:
        raise InvalidRequest("bitmask must be a writeable contiguous int32 array [rows, words]", param="bitmask")
    if isinstance(matchers, str | bytes) or not isinstance(matchers, Sequence):
        raise InvalidRequest(f"matchers must be a list, not {type(matchers).__name__}", param="matchers")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise InvalidRequest(f"size must be a positive integer, not {size!r}", param="size")
    if len(bitmask) < len(matchers):
        raise InvalidRequest(f"bitmask has {len(bitmask)} rows for {len(matchers)} matchers", param="bitmask")
    checked = [_checked(i, matcher) for i, matcher in enumerate(matchers)]
    widths = {m.vocab_size for m in checked if m is not None}
    if size is not None:
        widths.add(size)
    if len(widths) > 1:
        raise InvalidRequest("the matchers are of vocabularies of different sizes", param="matchers")
    width = widths.pop() if widths else 32 * bitmask.shape[1]
    if (width + 31) // 32 != bitmask.shape[1]:
        raise InvalidRequest(
            f"bitmask must have {(width + 31) // 32} words, not {bitmask.shape[1]}", param="bitmask"
        )
    _prepare(checked)
    for matcher, row in zip(checked, bitmask, strict=False):
        if matcher is None:
            row[:] = free_row(width)
        else:
            matcher.fill_mask(row)


def _checked(index: int, matcher: object) -> Matcher | None:
    if matcher is not None and not isinstance(matcher, Matcher):
        raise InvalidRequest(f"row {index} is a {type(matcher).__name__} and no Matcher", param="matchers")
    return matcher


def _prepare(matchers: Sequence[Matcher | None]) -> None:
    """Compute the rows that the matchers will ask for, together."""
    states: dict[Automaton, list[int]] = {}
    for matcher in matchers:
        if matcher is not None:
            state = matcher._pending_state()
            if state is not None:
                states.setdefault(matcher._automaton, []).append(state)
    if sum(map(len, states.values())) > 1:
        prepare_rows(states)
