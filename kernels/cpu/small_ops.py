"""The small operations of a decoder step on float32 arrays: the native kernels.

Their meaning is that of ``radixrt.kernels.ref`` (and of ``radixrt.model.sampler`` for masks). Every row's result
depends on that row alone: the same bits in any batch, at any place in it, on any number of threads, per instruction
set. Exponentials are a polynomial of our own, at most 2 units in the last place off. What is NaN in a row shows in
that row's result. All operations take ``pool``, whose threads share the rows, and ``instruction_set``, one of
``available_instruction_sets()`` and the best by default; without native kernels they raise ``RuntimeError``, for
operands that do not fit ``ValueError``.

Knows nothing about layers, positions or who owns a slot.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from radixrt.kernels.cpu.instruction_sets import InstructionSet
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.thread_pool import ThreadPool

__all__ = [
    "NONE_ALLOWED",
    "NOT_A_NUMBER",
    "apply_mask",
    "argmax",
    "available_instruction_sets",
    "exp",
    "gelu_tanh_mul",
    "log_softmax",
    "rms_norm",
    "rope_and_store",
    "scale_rows",
    "silu_mul",
    "softcap",
    "softmax",
    "tanh",
]

NONE_ALLOWED = -1
"""What ``argmax`` gives for a row whose mask has no bit."""
NOT_A_NUMBER = -2
"""What ``argmax`` gives for a row where an allowed value is NaN."""
MAX_HEAD_DIM = 256
_ABI = 1
_KINDS = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int8): 2}
_p, _i32, _i64, _f32 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "rms_norm": (_p, _i64, _p, _p, _f32, _f32, _i64, _i64, _p),
    "rope_and_store": (_p,),
    "gate": (_i32, _p, _i64, _i64, _p),
    "softcap": (_p, _f32, _i64, _i64),
    "scale": (_p, _f32, _i64, _i64),
    "argmax": (_p, _p, _i64, _i64, _i64, _p),
    "mask": (_p, _p, _i64, _i64, _i64),
    "rowwise": (_i32, _p, _i64, _i64, _p),
}

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
KvPool = npt.NDArray[np.float32] | npt.NDArray[np.float16] | npt.NDArray[np.int8]


class _Rope(ctypes.Structure):
    _fields_ = (
        *((name, _p) for name in ("query", "key", "value", "cosine", "sine", "slots", "key_pool", "value_pool")),
        ("key_scales", _p),
        ("value_scales", _p),
        *((name, _i64) for name in ("query_stride", "key_stride", "value_stride", "tokens")),
        *((name, _i32) for name in ("heads", "kv_heads", "dim", "pairs", "interleaved", "kind")),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    library = native()
    if library is None:
        raise RuntimeError("the native kernels are missing")
    if library.radixrt_small_ops_abi() != _ABI:
        raise RuntimeError("the native kernels are of another version than this package; build them again")
    for name, arguments in _SIGNATURES.items():
        getattr(library, f"radixrt_{name}").argtypes = (_i32, _p, *arguments)
    return library


@functools.cache
def available_instruction_sets() -> tuple[InstructionSet, ...]:
    """Those that the library and this machine have, the best one last."""
    return tuple(s for s in InstructionSet if _library().radixrt_small_ops_has(int(s)))


def _call(name: str, pool: ThreadPool | None, instruction_set: InstructionSet | None, *arguments: Any) -> None:
    available = available_instruction_sets()
    chosen = available[-1] if instruction_set is None else instruction_set
    if chosen not in available:
        raise ValueError(f"instruction_set must be one of {available}, not {instruction_set!r}")
    handle = None if pool is None else pool.require()
    if not getattr(_library(), f"radixrt_{name}")(int(chosen), handle, *arguments):
        raise RuntimeError("the thread pool refused the work")


def _rows(name: str, array: Floats, columns: int | None = None, *, writeable: bool = False) -> tuple[int, int]:
    """Rows and columns of a contiguous float32 array whose last dimension is a row."""
    if array.dtype != np.float32 or array.ndim < 1 or not array.flags.c_contiguous:
        raise ValueError(f"{name} must be a contiguous float32 array of rows")
    n = array.shape[-1]
    if n < 1 or (columns is not None and n != columns):
        raise ValueError(f"{name} has rows of {n}, not of {'at least 1' if columns is None else columns}")
    if writeable and not array.flags.writeable:
        raise ValueError(f"{name} cannot be written to")
    return array.size // n, n


def rms_norm(
    x: Floats,
    weight: Floats,
    eps: float,
    residual: Floats | None = None,
    *,
    offset: float = 0.0,
    pool: ThreadPool | None = None,
    instruction_set: InstructionSet | None = None,
) -> Floats:
    """Return ``x / sqrt(mean(x^2) + eps) * (weight + offset)`` over the last dimension, ``weight`` [N].

    With ``residual`` (shaped like ``x``) the sum ``residual + x`` is normalised instead, and ``residual`` is
    updated in place to that sum. ``offset`` 1 is for weights stored around zero.
    """
    rows, n = _rows("x", x)
    if _rows("weight", weight, n)[0] != 1:
        raise ValueError(f"weight has the shape {weight.shape}, not ({n},)")
    at = None
    if residual is not None:
        _rows("residual", residual, n, writeable=True)
        if residual.shape != x.shape or np.may_share_memory(residual, x):
            raise ValueError("residual must have the shape of x and memory of its own")
        at = residual.ctypes.data
    out = np.empty_like(x)
    weights = weight.ctypes.data
    _call("rms_norm", pool, instruction_set, x.ctypes.data, n, at, weights, offset, eps, rows, n, out.ctypes.data)
    return out


def silu_mul(
    gate_up: Floats, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None
) -> Floats:
    """Return ``silu(gate) * up`` of ``gate_up`` [..., 2 * N] (gate first, then up) -> [..., N]."""
    return _gate(0, gate_up, pool, instruction_set)


def gelu_tanh_mul(
    gate_up: Floats, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None
) -> Floats:
    """Return ``gelu(gate) * up``, in the tanh form of gelu, of ``gate_up`` [..., 2 * N] -> [..., N]."""
    return _gate(1, gate_up, pool, instruction_set)


def _gate(kind: int, gate_up: Floats, pool: ThreadPool | None, instruction_set: InstructionSet | None) -> Floats:
    rows, n = _rows("gate_up", gate_up)
    if n % 2:
        raise ValueError(f"gate_up has rows of {n}, which are no two halves")
    out = np.empty((*gate_up.shape[:-1], n // 2), np.float32)
    _call("gate", pool, instruction_set, kind, gate_up.ctypes.data, rows, n // 2, out.ctypes.data)
    return out


def softcap(
    x: Floats, cap: float, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None
) -> None:
    """Bound ``x`` in place: ``cap * tanh(x / cap)``, ``cap`` positive."""
    rows, n = _rows("x", x, writeable=True)
    if not 0 < cap < float("inf"):
        raise ValueError(f"cap must be positive, not {cap}")
    _call("softcap", pool, instruction_set, x.ctypes.data, cap, rows, n)


def scale_rows(
    x: Floats, factor: float, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None
) -> None:
    """Multiply ``x`` by ``factor`` in place."""
    rows, n = _rows("x", x, writeable=True)
    _call("scale", pool, instruction_set, x.ctypes.data, factor, rows, n)


def _words(mask: Words, rows: int, n: int) -> tuple[int, int]:
    """Where the words of a bit mask are, and how many a row has."""
    words = (n + 31) // 32
    if mask.dtype != np.int32 or not mask.flags.c_contiguous or mask.size != rows * words:
        raise ValueError(f"mask must be contiguous int32 of {rows} x {words} words, not of shape {mask.shape}")
    return mask.ctypes.data, words


def argmax(
    logits: Floats,
    mask: Words | None = None,
    *,
    pool: ThreadPool | None = None,
    instruction_set: InstructionSet | None = None,
) -> Ints:
    """The index of the first greatest value of every row: ``logits`` [B, V] -> int64 [B].

    ``mask`` int32 [B, ceil(V/32)] has bit i%32 of word i//32 set where value i counts; None counts all. A row is
    ``NONE_ALLOWED`` where nothing counts and ``NOT_A_NUMBER`` where something that counts is NaN.
    """
    rows, n = _rows("logits", logits)
    at, words = (None, 0) if mask is None else _words(mask, rows, n)
    out = np.empty(logits.shape[:-1], np.int64)
    _call("argmax", pool, instruction_set, logits.ctypes.data, at, words, rows, n, out.ctypes.data)
    return out


def apply_mask(
    logits: Floats,
    mask: Words,
    *,
    pool: ThreadPool | None = None,
    instruction_set: InstructionSet | None = None,
) -> None:
    """Set the values of ``logits`` [B, V] that ``mask`` (see ``argmax``) does not count to -inf, in place."""
    rows, n = _rows("logits", logits, writeable=True)
    at, words = _words(mask, rows, n)
    _call("mask", pool, instruction_set, logits.ctypes.data, at, words, rows, n)


def softmax(x: Floats, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None) -> Floats:
    """The softmax over the last dimension; all NaN where the greatest value is not finite or any is NaN."""
    return _rowwise(0, x, pool, instruction_set)


def log_softmax(
    x: Floats, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None
) -> Floats:
    """The logarithm of ``softmax``."""
    return _rowwise(1, x, pool, instruction_set)


def exp(x: Floats, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None) -> Floats:
    """e to the power of every value, at most 2 units in the last place off."""
    return _rowwise(2, x, pool, instruction_set)


def tanh(x: Floats, *, pool: ThreadPool | None = None, instruction_set: InstructionSet | None = None) -> Floats:
    """The hyperbolic tangent of every value, at most 4 units in the last place off."""
    return _rowwise(3, x, pool, instruction_set)


def _rowwise(kind: int, x: Floats, pool: ThreadPool | None, instruction_set: InstructionSet | None) -> Floats:
    rows, n = _rows("x", x)
    out = np.empty_like(x)
    _call("rowwise", pool, instruction_set, kind, x.ctypes.data, rows, n, out.ctypes.data)
    return out


def rope_and_store(
    query: Floats,
    key: Floats,
    value: Floats,
    cos: Floats,
    sin: Floats,
    key_pool: KvPool,
    value_pool: KvPool,
    slots: Ints,
    *,
    interleaved: bool = False,
    key_scales: Floats | None = None,
    value_scales: Floats | None = None,
    pool: ThreadPool | None = None,
    instruction_set: InstructionSet | None = None,
) -> None:
    """Turn ``query`` [T, heads, D] in place; store ``key``, turned, and ``value`` [T, kv_heads, D] at ``slots``.

    Pairs are ``(x[d], x[d + R/2])``, or ``(x[2d], x[2d + 1])`` if ``interleaved``, of the first R dimensions, and
    what is beyond stays; ``cos`` and ``sin`` [T, R/2] are those of angle ``position * frequency[d]``. Tokens may
    stand any distance apart. Pools are contiguous [slots, kv_heads, D] in float32, float16 or int8; int8 has
    ``key_scales`` and ``value_scales``, float32 [slots, kv_heads], which are written too: the greatest magnitude
    of a head / 127, NaN where it holds NaN. ``slots`` int64 [T], all different.
    """
    tokens, _, dim = query.shape if query.ndim == 3 else (0, 0, 0)
    if not 8 <= dim <= MAX_HEAD_DIM:
        raise ValueError(f"query must be [tokens, heads, 8 to {MAX_HEAD_DIM}], not of shape {query.shape}")
    kind = _KINDS.get(key_pool.dtype)
    if kind is None or key_pool.ndim != 3 or key_pool.shape[2] != dim:
        raise ValueError(f"key_pool must be float32, float16 or int8 [slots, kv_heads, {dim}]")
    work = _Rope(tokens=tokens, heads=query.shape[1], kv_heads=key_pool.shape[1], dim=dim, kind=kind)
    work.interleaved = int(interleaved)
    work.query, work.query_stride = _tokens("query", query, query.shape)
    if not query.flags.writeable:
        raise ValueError("query cannot be written to")
    work.key, work.key_stride = _tokens("key", key, (tokens, *key_pool.shape[1:]))
    work.value, work.value_stride = _tokens("value", value, (tokens, *key_pool.shape[1:]))
    work.pairs = _rows("cos", cos)[1]
    if cos.shape != (tokens, work.pairs) or sin.shape != cos.shape or 2 * work.pairs > dim:
        raise ValueError(f"cos and sin must be [{tokens}, at most {dim // 2}], not {cos.shape} and {sin.shape}")
    _rows("sin", sin)
    work.cosine, work.sine = cos.ctypes.data, sin.ctypes.data
    _set_pools(work, key_pool, value_pool, key_scales, value_scales)
    if slots.dtype != np.int64 or slots.shape != (tokens,) or not slots.flags.c_contiguous:
        raise ValueError(f"slots must be contiguous int64 [{tokens}]")
    if tokens and not (slots.min() >= 0 and slots.max() < len(key_pool)):
        raise ValueError(f"slots must lie in the {len(key_pool)} slots of the pools")
    work.slots = slots.ctypes.data
    _call("rope_and_store", pool, instruction_set, ctypes.byref(work))


def _tokens(name: str, array: Floats, shape: tuple[int, ...]) -> tuple[int, int]:
    """Where the tokens begin and how many floats lie from one to the next."""
    if array.dtype != np.float32 or array.shape != shape:
        raise ValueError(f"{name} must be float32 of shape {shape}, not {array.dtype} of shape {array.shape}")
    if array.size and (array.strides[1:] != (4 * shape[2], 4) or array.strides[0] % 4):
        raise ValueError(f"{name} must be contiguous within a token")
    return array.ctypes.data, array.strides[0] // 4


def _set_pools(
    work: _Rope, key_pool: KvPool, value_pool: KvPool, key_scales: Floats | None, value_scales: Floats | None
) -> None:
    for name, array in (("key_pool", key_pool), ("value_pool", value_pool)):
        if array.dtype != key_pool.dtype or array.shape != key_pool.shape:
            raise ValueError(f"{name} must be like key_pool, not {array.dtype} of shape {array.shape}")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError(f"{name} must be contiguous and writeable")
    work.key_pool, work.value_pool = key_pool.ctypes.data, value_pool.ctypes.data
    quantized = key_pool.dtype == np.int8
    for name, scales in (("key_scales", key_scales), ("value_scales", value_scales)):
        if (scales is not None) != quantized:
            raise ValueError(f"{name} belongs to int8 pools, and to no others")
        if scales is None:
            continue
        if scales.dtype != np.float32 or scales.shape != key_pool.shape[:2] or not scales.flags.c_contiguous:
            raise ValueError(f"{name} must be contiguous float32 of shape {key_pool.shape[:2]}")
        setattr(work, name, scales.ctypes.data)
