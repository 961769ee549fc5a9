"""Quantized and float matrices packed for the native kernels, and their products with rows of float32.

``PackedMatrix.from_ggml`` takes the blocks of a GGUF tensor, ``from_float`` an array, which it may quantize. The
result is one buffer (see ``quant_layout.h``) that takes about the memory of the blocks, can be written to disk as
it is and mapped back with ``from_buffer``. ``matmul`` quantizes the rows per group of 32 columns (scale = largest
magnitude / 127) and sums integer products, so that beside float rounding nothing is lost but what that
quantization of the rows loses; with float weights the rows stay float32.

A row of the result depends on that row alone: not on the batch, its place in it or the number of threads. Every
instruction set gives one answer of its own, AVX2 and AVX-512 the same. What this does not know: what a matrix is
for, files, and how many threads to use.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from radixrt.kernels.cpu.instruction_sets import InstructionSet
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.quantize import QUANTIZATIONS, quantize_blocks
from radixrt.kernels.cpu.thread_pool import ThreadPool

__all__ = ["FORMATS", "InstructionSet", "PackedMatrix", "available_instruction_sets", "matmul"]

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

_ABI = 1
_ALIGNMENT = 64
_HEADER = struct.Struct("<4sIiIqq")
_MAGIC = b"RXPM"
_MOST = 1 << 31  # rows or columns; products of the two stay far inside 64 bits

FORMATS: Mapping[str, int] = MappingProxyType(
    {
        "F32": 0,
        "F16": 1,
        "Q4_0": 2,
        "Q4_1": 3,
        "Q5_0": 6,
        "Q5_1": 7,
        "Q8_0": 8,
        "Q4_K": 12,
        "Q5_K": 13,
        "Q6_K": 14,
        "BF16": 30,
    }
)
"""The GGML types that can be packed, with their numbers."""
_NAMES = {number: name for name, number in FORMATS.items()}


@functools.cache
def _library() -> ctypes.CDLL:
    """The native library with the types of its calls set; ``RuntimeError`` without one."""
    library = native()
    if library is None:
        raise RuntimeError("packed matrices need the native kernels")
    p, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    if library.radixrt_matmul_abi() != _ABI:
        raise RuntimeError("the native kernels are of another version; reinstall radixrt")
    calls: dict[str, tuple[tuple[Any, ...], Any]] = {
        "radixrt_matmul_available": ((i32,), i32),
        "radixrt_matmul_row_kind": ((i32,), i32),
        "radixrt_matmul_prepared_bytes": ((i32, i64, i64), i64),
        "radixrt_block_row_bytes": ((i32, i64), i64),
        "radixrt_packed_bytes": ((i32, i64, i64), i64),
        "radixrt_pack": ((p, i32, i64, i64, p, p), i32),
        "radixrt_unpack_rows": ((p, i32, i64, i64, p, p, i64, p), i32),
        "radixrt_prepare_rows": ((p, i32, i32, p, i64, i64, i64, p), i32),
        "radixrt_multiply": ((p, i32, i32, i64, i64, p, p, i64, p, i64), i32),
    }
    for name, (arguments, result) in calls.items():
        call = getattr(library, name)
        call.argtypes, call.restype = arguments, result
    return library


@functools.cache
def available_instruction_sets() -> tuple[InstructionSet, ...]:
    """Those that the library and this machine have, the best one last."""
    available = _library().radixrt_matmul_available
    return tuple(s for s in InstructionSet if available(int(s)))


def _aligned(size: int) -> U8:
    """``size`` bytes that begin at a multiple of 64, not initialised."""
    room = np.empty(size + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size]


def _done(result: int) -> None:
    if not result:
        raise RuntimeError("the thread pool refused the work")


class PackedMatrix:
    """A matrix [rows, cols] of ``format`` (a name in ``FORMATS``), ready to be multiplied with. Immutable.

    ``buffer`` is a header of 64 bytes and the tiles, contiguous uint8 at an address that is a multiple of 64.
    Made by the class methods.
    """

    def __init__(self, format_name: str, rows: int, cols: int, buffer: U8) -> None:
        self.format = format_name
        self.rows = rows
        self.cols = cols
        self.buffer = buffer
        self.number = FORMATS[format_name]
        self.address = buffer.ctypes.data + _ALIGNMENT
        """Where the tiles begin."""

    @property
    def bits_per_weight(self) -> float:
        """Bits of the packed tiles for each of rows * cols weights."""
        return 8 * (self.buffer.size - _ALIGNMENT) / max(self.rows * self.cols, 1)

    @classmethod
    def from_ggml(
        cls, format_name: str, blocks: U8, rows: int, cols: int, pool: ThreadPool | None = None
    ) -> PackedMatrix:
        """Pack ``blocks``, the flat uint8 bytes of a tensor of ``rows`` rows of ``cols`` values.

        Raises ``ValueError`` for a format that cannot be packed, for columns that are no multiple of its blocks
        and for a wrong number of bytes.
        """
        _packed_size(format_name, rows, cols)
        row_bytes = _library().radixrt_block_row_bytes(FORMATS[format_name], cols)
        if blocks.dtype != np.uint8 or blocks.ndim != 1 or not blocks.flags.c_contiguous:
            raise ValueError("blocks must be flat contiguous uint8")
        if blocks.size != rows * row_bytes:
            raise ValueError(
                f"blocks: {rows} x {cols} values of {format_name} are {rows * row_bytes} bytes, not {blocks.size}"
            )
        return cls._pack(format_name, blocks, rows, cols, cols, pool)

    @classmethod
    def _pack(
        cls, format_name: str, blocks: U8, rows: int, stored: int, cols: int, pool: ThreadPool | None
    ) -> PackedMatrix:
        """Pack checked blocks of ``stored`` columns, of which ``cols`` count and the rest are zeros."""
        buffer = _aligned(_ALIGNMENT + _packed_size(format_name, rows, stored))
        buffer[:_ALIGNMENT] = np.frombuffer(_header(format_name, rows, cols), np.uint8)
        packed = cls(format_name, rows, cols, buffer)
        handle = (pool or _single()).require()
        _done(_library().radixrt_pack(handle, packed.number, rows, stored, blocks.ctypes.data, packed.address))
        buffer.flags.writeable = False
        return packed

    @classmethod
    def from_float(
        cls, array: npt.NDArray[np.floating[Any]], quantization: str = "none", pool: ThreadPool | None = None
    ) -> PackedMatrix:
        """Pack a float array [rows, cols], as ``none`` (float32), ``q8_0`` or ``q4_0``.

        To be quantized it must be finite; columns are filled up with zeros to whole groups of 32, which the
        result does not show. Raises ``ValueError`` for anything else. bfloat16 bytes go through ``from_ggml``.
        """
        if array.ndim != 2 or array.dtype.kind != "f":
            raise ValueError("array must be float [rows, cols]")
        rows, cols = array.shape
        if quantization == "none":
            plain = np.ascontiguousarray(array, np.float32)
            return cls.from_ggml("F32", plain.reshape(-1).view(np.uint8), rows, cols, pool)
        if quantization not in QUANTIZATIONS:
            raise ValueError(f"quantization must be one of none, {', '.join(QUANTIZATIONS)}, not {quantization!r}")
        _packed_size(quantization.upper(), rows, cols, filled=True)
        blocks, stored = quantize_blocks(array, quantization)
        return cls._pack(quantization.upper(), blocks, rows, stored, cols, pool)

    @classmethod
    def from_buffer(cls, buffer: U8) -> PackedMatrix:
        """Use a buffer that an earlier ``buffer`` was written to, for example a mapped file, without a copy.

        Raises ``ValueError`` if it is not aligned to 64 bytes, not such a buffer, or of another layout.
        """
        if buffer.dtype != np.uint8 or buffer.ndim != 1 or not buffer.flags.c_contiguous:
            raise ValueError("buffer must be flat contiguous uint8")
        if buffer.ctypes.data % _ALIGNMENT:
            raise ValueError(f"buffer must begin at a multiple of {_ALIGNMENT} bytes")
        if buffer.size < _ALIGNMENT:
            raise ValueError("buffer is shorter than its header")
        magic, version, number, _, rows, cols = _HEADER.unpack_from(buffer[:_ALIGNMENT].tobytes())
        if magic != _MAGIC or version != _ABI or number not in _NAMES:
            raise ValueError("buffer holds no packed matrix of this version")
        size = _packed_size(_NAMES[number], rows, cols, filled=True)
        if buffer.size != _ALIGNMENT + size:
            raise ValueError(f"buffer has {buffer.size} bytes, its header says {_ALIGNMENT + size}")
        return cls(_NAMES[number], rows, cols, buffer)

    def rows_as_float(self, indices: npt.NDArray[np.int64], pool: ThreadPool | None = None) -> F32:
        """The rows ``indices`` (int64 [n]) as float32 [n, cols]: the embeddings of tokens.

        Raises ``ValueError`` for an index outside the matrix.
        """
        if indices.dtype != np.int64 or indices.ndim != 1:
            raise ValueError("indices must be int64 [n]")
        if len(indices) and not (indices.min() >= 0 and indices.max() < self.rows):
            raise ValueError(f"indices must be in 0..{self.rows - 1}")
        wanted = np.ascontiguousarray(indices)
        out = np.empty((len(wanted), self.cols), np.float32)
        _done(
            _library().radixrt_unpack_rows(
                (pool or _single()).require(),
                self.number,
                self.rows,
                self.cols,
                self.address,
                wanted.ctypes.data,
                len(wanted),
                out.ctypes.data,
            )
        )
        return out


def _header(format_name: str, rows: int, cols: int) -> bytes:
    return _HEADER.pack(_MAGIC, _ABI, FORMATS[format_name], 0, rows, cols).ljust(_ALIGNMENT, b"\0")


def _packed_size(format_name: str, rows: int, cols: int, *, filled: bool = False) -> int:
    """Bytes of the tiles; ``filled``: the columns may have been filled up to a whole block."""
    if format_name not in FORMATS:
        raise ValueError(f"format: {format_name} cannot be packed; can: {', '.join(FORMATS)}")
    if not (0 < rows < _MOST and 0 < cols < _MOST):
        raise ValueError(f"rows and cols must be between 1 and {_MOST - 1}, not {rows} and {cols}")
    library, number = _library(), FORMATS[format_name]
    if library.radixrt_block_row_bytes(number, cols) < 0 and not filled:
        raise ValueError(f"cols: {cols} is no multiple of the blocks of {format_name}")
    return int(library.radixrt_packed_bytes(number, rows, cols))


@functools.cache
def _single() -> ThreadPool:
    return ThreadPool(1)


def _chosen(instruction_set: InstructionSet | None) -> InstructionSet:
    available = available_instruction_sets()
    if instruction_set is not None and instruction_set not in available:
        raise ValueError(f"instruction_set: no kernels for {instruction_set.name} here")
    return available[-1] if instruction_set is None else instruction_set


def matmul(
    packed: PackedMatrix,
    x: F32,
    out: F32 | None = None,
    *,
    pool: ThreadPool | None = None,
    instruction_set: InstructionSet | None = None,
) -> F32:
    """``x @ matrix.T``: float32 [n, cols] -> [n, rows], into ``out`` where given; rows of both may be strided.

    Without ``pool`` the calling thread works alone; without ``instruction_set`` the best one is used. A row that
    holds a NaN or an infinity comes out as NaNs, others are not touched by it (float weights follow IEEE 754).
    Raises ``ValueError`` for a wrong shape or type.
    """
    if x.dtype != np.float32 or x.ndim != 2 or x.shape[1] != packed.cols:
        raise ValueError(f"x must be float32 [n, {packed.cols}], not {x.dtype} {list(x.shape)}")
    if out is None:
        out = np.empty((len(x), packed.rows), np.float32)
    elif out.dtype != np.float32 or out.shape != (len(x), packed.rows) or not out.flags.writeable:
        raise ValueError(f"out must be writable float32 {[len(x), packed.rows]}")
    elif np.may_share_memory(x, out):
        raise ValueError("out must not overlap x")
    if len(x) == 0:
        return out
    stride, out_stride = _row_stride(x, "x"), _row_stride(out, "out")
    library, handle = _library(), (pool or _single()).require()
    chosen = int(_chosen(instruction_set))
    kind = library.radixrt_matmul_row_kind(packed.number)
    prepared = _aligned(library.radixrt_matmul_prepared_bytes(kind, len(x), packed.cols))
    _done(
        library.radixrt_prepare_rows(
            handle, chosen, kind, x.ctypes.data, stride, len(x), packed.cols, prepared.ctypes.data
        )
    )
    _done(
        library.radixrt_multiply(
            handle,
            chosen,
            packed.number,
            packed.rows,
            packed.cols,
            packed.address,
            prepared.ctypes.data,
            len(x),
            out.ctypes.data,
            out_stride,
        )
    )
    return out


def _row_stride(array: F32, name: str) -> int:
    """Floats from one row to the next; ``ValueError`` if the values of a row do not lie side by side."""
    if array.shape[1] > 1 and array.strides[1] != 4:
        raise ValueError(f"{name}: the values of a row must be contiguous")
    if len(array) == 1:
        return int(array.shape[1])
    if array.strides[0] % 4 or array.strides[0] < 4 * array.shape[1]:
        raise ValueError(f"{name}: rows must not overlap and begin at whole floats")
    return int(array.strides[0]) // 4
