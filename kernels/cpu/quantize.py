"""Float arrays into the Q8_0 and Q4_0 blocks of GGML, with numpy. Knows nothing of how blocks are packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["QUANTIZATIONS", "quantize_blocks"]

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

_GROUP = 32
_CHUNK = 1 << 13  # groups at a time: 1 MiB of float32


def quantize_blocks(array: npt.NDArray[np.floating[Any]], quantization: str) -> tuple[U8, int]:
    """Return the blocks of ``array`` [rows, cols] as flat uint8, and the columns filled up to whole blocks.

    ``quantization`` is a key of ``QUANTIZATIONS``. Raises ``ValueError`` for values that are not finite or too
    large for a float16 scale.
    """
    pack, size = QUANTIZATIONS[quantization]
    rows, cols = array.shape
    filled = -(-cols // _GROUP) * _GROUP
    out = np.empty((rows, filled // _GROUP, size), np.uint8)
    step = max(1, _CHUNK * _GROUP // max(filled, 1))
    for first in range(0, rows, step):
        part = np.zeros((min(step, rows - first), filled), np.float32)
        part[:, :cols] = array[first : first + step]
        if not np.isfinite(part).all():
            raise ValueError("array: values that are not finite cannot be quantized")
        pack(part.reshape(-1, _GROUP), out[first : first + step].reshape(-1, size))
    return out.reshape(-1), filled


def _scales(values: F32, steps: float) -> tuple[U8, F32]:
    """``values / steps`` as the bytes of float16 [n, 2], and one over what those say (0 where that is 0)."""
    with np.errstate(over="ignore"):
        half = (values / np.float32(steps)).astype(np.float16)
    if not np.isfinite(half).all():
        raise ValueError("array: values are too large for a float16 scale")
    wide = half.astype(np.float32)[:, None]
    inverse = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=wide != 0)
    return half[:, None].view(np.uint8), inverse


def _q8_0(groups: F32, out: U8) -> None:
    """Codes -127..127 of the largest magnitude / 127, rounded after the scale has become a float16."""
    out[:, :2], inverse = _scales(np.abs(groups).max(axis=1), 127)
    codes = np.clip(np.rint(groups * inverse), -127, 127).astype(np.int8)
    out[:, 2:] = codes.view(np.uint8)


def _q4_0(groups: F32, out: U8) -> None:
    """Codes 0..15 about 8; the value of largest magnitude gets the code 0, whose distance from 8 is the largest."""
    largest = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)[:, 0]
    out[:, :2], inverse = _scales(largest, -8)
    codes = np.clip(np.rint(groups * inverse) + 8, 0, 15).astype(np.uint8)
    out[:, 2:] = codes[:, :16] | codes[:, 16:] << 4


QUANTIZATIONS: Mapping[str, tuple[Callable[[F32, U8], None], int]] = MappingProxyType(
    {"q8_0": (_q8_0, 34), "q4_0": (_q4_0, 18)}
)
"""Name -> what packs groups [n, 32] into blocks, and the bytes of a block."""
