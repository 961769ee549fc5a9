"""What the tests of packed matrices share: random blocks of every GGML type, and what a product should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from radixrt.formats.dequant import dequantize
from radixrt.formats.ggml import TYPES
from radixrt.kernels.cpu.matmul import FORMATS, PackedMatrix

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

BLOCKS = {kind.name: kind for kind in TYPES.values() if kind.name in FORMATS}
FLOATS = ("F32", "F16", "BF16")
QUANTIZED = tuple(name for name in FORMATS if name not in FLOATS)


def step(name: str) -> int:
    """Columns must be a multiple of this."""
    return BLOCKS[name].block


def random_blocks(name: str, rows: int, cols: int, rng: np.random.Generator) -> U8:
    """The flat bytes of a tensor whose values are about as large as those of a trained one."""
    kind = BLOCKS[name]
    if name in FLOATS:
        values = rng.normal(0, 0.5, rows * cols).astype(np.float32)
        if name == "BF16":
            return np.ascontiguousarray(values.view("<u2")[1::2]).view(np.uint8)
        return values.astype("<f2" if name == "F16" else "<f4").view(np.uint8)
    blocks = rng.integers(0, 256, (rows * cols // kind.block, kind.size), np.uint8)
    halves = rng.uniform(-0.02, 0.02, (len(blocks), 2)).astype("<f2").view(np.uint8).reshape(-1, 4)
    if name == "Q6_K":
        blocks[:, 208:210] = halves[:, :2]
    else:
        count = 4 if name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else 2
        blocks[:, :count] = halves[:, :count]
    return blocks.reshape(-1)


def values_of(name: str, blocks: U8, rows: int, cols: int) -> F32:
    weights: npt.NDArray[Any] = dequantize(blocks, name)
    return weights.reshape(rows, cols)


def quantized_rows(x: F32) -> F64:
    """What the kernels make of rows: codes of 8 bits per group of 32 times a scale, in float32 arithmetic."""
    filled = np.zeros((len(x), -(-x.shape[1] // 32), 32), np.float32)
    filled.reshape(len(x), -1)[:, : x.shape[1]] = x
    largest = np.abs(filled).max(axis=2, keepdims=True)
    largest[largest < 2.0**-100] = np.inf
    codes = np.rint(filled * (np.float32(127) / largest))
    scales = np.where(np.isinf(largest), 0, largest / np.float32(127)).astype(np.float64)
    return np.asarray((codes * scales).reshape(len(x), -1)[:, : x.shape[1]], np.float64)


def expected(packed: PackedMatrix, weights: F32, x: F32) -> tuple[F64, F64]:
    """The product in float64, and how far float32 sums in any order may be from it."""
    rows = x.astype(np.float64) if packed.format in FLOATS else quantized_rows(x)
    wide = weights.astype(np.float64)
    groups = -(-packed.cols // 32)
    # A group's product is exact up to three roundings; every later group adds one. Codes and minima cancel, so the
    # size of the terms is what counts; formats with a minimum add two terms a group.
    reach = np.abs(rows) @ (np.abs(wide) + _spread(packed.format, wide)).T
    return rows @ wide.T, (groups + 8) * 2.0**-23 * reach + 1e-38


def _spread(format_name: str, weights: F64) -> F64:
    """For formats with a minimum: the largest value of the row, as scale times code may be that much larger."""
    if format_name not in ("Q4_1", "Q5_1", "Q4_K", "Q5_K"):
        return np.zeros_like(weights)
    return np.broadcast_to(2 * np.abs(weights).max(axis=1, keepdims=True), weights.shape)
