"""Stored tensor blocks in, numbers out: the GGML types that a checkpoint may hold.

Every quantised type keeps, per block, a scale and perhaps a minimum beside the packed integers. Its function
below writes ``[n, block]`` float32 values for ``[n, size]`` bytes, with the operations in the order of GGML's
reference, so that the results agree to the bit. Work goes in chunks that stay in the CPU's cache: memory is that
of the result.
This module knows nothing about files or shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radixrt.errors import ModelLoadError
from radixrt.formats.ggml import TYPES

__all__ = ["bfloat16_to_float32", "dequantize"]

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]

CHUNK = 1 << 16  # values made at a time: 256 KiB of float32


def dequantize(data: U8, kind: str) -> NDArray[Any]:
    """Return the values that ``data`` (flat uint8, whole blocks) holds in storage type ``kind``, flat.

    Float and quantised types give float32, integer types their own. F32 and integers are views of ``data`` where
    its address is aligned for them.
    Raises ``ModelLoadError`` for a type that is not read or a size that is not whole blocks.
    """
    if kind in _PLAIN:
        plain = np.dtype(_PLAIN[kind])
        if data.size % plain.itemsize:
            raise ModelLoadError(f"{data.size} bytes are no whole number of {kind} values", param=kind)
        values = np.require(data.view(plain), requirements="A")
        return values if plain.kind == "i" or plain == np.float32 else _narrow(values)
    if kind == "BF16":
        return bfloat16_to_float32(data)
    unpack = _QUANTISED.get(kind)
    if unpack is None:
        raise ModelLoadError(f"tensors of type {kind} cannot be read", param=kind)
    block, size = _BLOCKS[kind]
    if data.size % size:
        raise ModelLoadError(f"{data.size} bytes are no whole number of {kind} blocks", param=kind)
    blocks = data.reshape(-1, size)
    out = np.empty((len(blocks), block), np.float32)
    step = CHUNK // block
    # Damaged scales may be infinite or NaN; the numbers they give are the caller's to judge.
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(blocks), step):
            unpack(blocks[start : start + step], out[start : start + step])
    return out.reshape(-1)


def bfloat16_to_float32(data: U8) -> F32:
    """Return the float32 values of flat bfloat16 bytes (exact: bfloat16 is the upper half of float32)."""
    if data.size % 2:
        raise ModelLoadError(f"{data.size} bytes are no whole number of BF16 values", param="BF16")
    bits = data.view("<u2").astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def _narrow(values: NDArray[Any]) -> F32:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def _half(blocks: U8, at: int) -> F32:
    """The float16 at byte ``at`` of each block, as float32 ``[n, 1]``."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: U8, out: F32, width: int) -> None:
    """Spread the low, then the high halves of every ``width`` bytes over twice as many values."""
    source = packed.reshape(len(packed), -1, width)
    target = out.reshape(len(packed), -1, 2, width)
    target[:, :, 0] = source & 15
    target[:, :, 1] = source >> 4


def _fields(packed: U8, width: int, bits: int, count: int) -> U8:
    """Split every ``width`` bytes into ``count`` runs of ``width`` fields of ``bits`` bits, lowest first.

    ``[n, k * width]`` becomes ``[n, k, count, width]``.
    """
    shifts = np.arange(count, dtype=np.uint8)[:, None] * np.uint8(bits)
    return (packed.reshape(len(packed), -1, 1, width) >> shifts) & np.uint8((1 << bits) - 1)


def _q4_0(blocks: U8, out: F32) -> None:
    _nibbles(np.ascontiguousarray(blocks[:, 2:]), out, 16)
    out -= 8
    out *= _half(blocks, 0)


def _q4_1(blocks: U8, out: F32) -> None:
    _nibbles(np.ascontiguousarray(blocks[:, 4:]), out, 16)
    out *= _half(blocks, 0)
    out += _half(blocks, 2)


def _fifth_bits(packed: U8, out: F32) -> None:
    """Add 16 to every value whose bit is set in the block's 32-bit word."""
    high = np.unpackbits(packed, axis=1, bitorder="little")
    high <<= 4
    out += high


def _q5_0(blocks: U8, out: F32) -> None:
    _nibbles(np.ascontiguousarray(blocks[:, 6:]), out, 16)
    _fifth_bits(blocks[:, 2:6], out)
    out -= 16
    out *= _half(blocks, 0)


def _q5_1(blocks: U8, out: F32) -> None:
    _nibbles(np.ascontiguousarray(blocks[:, 8:]), out, 16)
    _fifth_bits(blocks[:, 4:8], out)
    out *= _half(blocks, 0)
    out += _half(blocks, 2)


def _q8_0(blocks: U8, out: F32) -> None:
    np.multiply(blocks[:, 2:].view(np.int8), _half(blocks, 0), out=out)


def _q8_k(blocks: U8, out: F32) -> None:
    scale = np.ascontiguousarray(blocks[:, :4]).view("<f4")
    np.multiply(blocks[:, 4:260].view(np.int8), scale, out=out)


def _q2_k(blocks: U8, out: F32) -> None:
    scales = blocks[:, :16]
    values = out.reshape(-1, 16, 16)
    values[...] = _fields(np.ascontiguousarray(blocks[:, 16:80]), 32, 2, 4).reshape(values.shape)
    values *= (_half(blocks, 80) * (scales & 15).astype(np.float32))[:, :, None]
    values -= (_half(blocks, 82) * (scales >> 4).astype(np.float32))[:, :, None]


def _q3_k(blocks: U8, out: F32) -> None:
    # Sixteen 6-bit scales: eight bytes of low halves, then four bytes whose bit pairs are the upper two bits.
    low = _fields(np.ascontiguousarray(blocks[:, 96:104]), 8, 4, 2).reshape(-1, 16)
    high = _fields(np.ascontiguousarray(blocks[:, 104:108]), 4, 2, 4).reshape(-1, 16)
    scales = (low | high << 4).astype(np.float32) - 32
    values = out.reshape(-1, 16, 16)
    values[...] = _fields(np.ascontiguousarray(blocks[:, 32:96]), 32, 2, 4).reshape(values.shape)
    # A cleared bit of the mask stands for minus four.
    clear = _fields(np.ascontiguousarray(blocks[:, :32]), 32, 1, 8).reshape(values.shape) ^ np.uint8(1)
    values -= clear << 2
    values *= (_half(blocks, 108) * scales)[:, :, None]


def _scales_and_minima(packed: U8) -> tuple[F32, F32]:
    """Unpack the twelve bytes that hold eight 6-bit scales and eight 6-bit minima, each ``[n, 8]``.

    Bytes 0-3 and 4-7 hold the first four of each in their low six bits and, in the two bits above, the top of the
    last four; bytes 8-11 hold the low halves of the last four scales and, above, of the last four minima.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 2 & 48)], axis=1)
    minima = np.concatenate([second & 63, third >> 4 | (second >> 2 & 48)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _q4_k(blocks: U8, out: F32) -> None:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    _nibbles(np.ascontiguousarray(blocks[:, 16:]), out, 32)
    values = out.reshape(-1, 8, 32)
    values *= (_half(blocks, 0) * scales)[:, :, None]
    values -= (_half(blocks, 2) * minima)[:, :, None]


def _q5_k(blocks: U8, out: F32) -> None:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    _nibbles(np.ascontiguousarray(blocks[:, 48:]), out, 32)
    values = out.reshape(-1, 8, 32)
    values += _fields(np.ascontiguousarray(blocks[:, 16:48]), 32, 1, 8).reshape(values.shape) << 4
    values *= (_half(blocks, 0) * scales)[:, :, None]
    values -= (_half(blocks, 2) * minima)[:, :, None]


def _q6_k(blocks: U8, out: F32) -> None:
    _nibbles(np.ascontiguousarray(blocks[:, :128]), out, 64)
    out += _fields(np.ascontiguousarray(blocks[:, 128:192]), 32, 2, 4).reshape(out.shape) << 4
    out -= 32
    values = out.reshape(-1, 16, 16)
    values *= (_half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32))[:, :, None]


_PLAIN: Mapping[str, str] = MappingProxyType(
    {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
)
_QUANTISED: Mapping[str, Callable[[U8, F32], None]] = MappingProxyType(
    {
        "Q4_0": _q4_0,
        "Q4_1": _q4_1,
        "Q5_0": _q5_0,
        "Q5_1": _q5_1,
        "Q8_0": _q8_0,
        "Q2_K": _q2_k,
        "Q3_K": _q3_k,
        "Q4_K": _q4_k,
        "Q5_K": _q5_k,
        "Q6_K": _q6_k,
        "Q8_K": _q8_k,
    }
)
_BLOCKS: Mapping[str, tuple[int, int]] = MappingProxyType({t.name: (t.block, t.size) for t in TYPES.values()})
