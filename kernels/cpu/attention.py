"""Attention of ragged rows over the paged KV pool: the native kernel. See ``attention_plan.h`` for how it works.

``plan_attention`` lays out a batch once per forward, ``attention`` runs one layer. The meaning is that of
``radixrt.kernels.ref.paged_attention``; the result of a query is the same bits whatever else is in the batch,
however much of its row was cached and however many threads there are, per instruction set. Rows that share leading
slots are found by the slots themselves, and what they share is read once.

Knows nothing about layers, positions beyond their order, or who owns a slot.
"""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixrt.kernels.cpu.instruction_sets import InstructionSet
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.thread_pool import ThreadPool

__all__ = ["MAX_HEAD_DIM", "AttentionPlan", "attention", "available_instruction_sets", "plan_attention"]

MAX_HEAD_DIM = 256
"""Head sizes are multiples of 8 up to this."""
_ABI = 1
_KINDS = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int8): 2}
_p, _i32, _i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64

_Floats = npt.NDArray[np.float32]
_Pool = npt.NDArray[np.float32] | npt.NDArray[np.float16] | npt.NDArray[np.int8]


class _Shape(ctypes.Structure):
    _fields_ = tuple((name, _i32) for name in ("heads", "kv_heads", "head_dim", "window"))


class _Rows(ctypes.Structure):
    _fields_ = (("query_start", _p), ("slots", _p), ("lengths", _p), ("rows", _i64))


class _Call(ctypes.Structure):
    _fields_ = (
        *((name, _p) for name in ("query", "out", "keys", "values", "key_scales", "value_scales")),
        ("query_stride", _i64),
        ("out_stride", _i64),
        ("kind", _i32),
        ("scale", ctypes.c_float),
        ("softcap", ctypes.c_float),
        ("kernel", _p),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    library = native()
    if library is None:
        raise RuntimeError("native attention needs the native kernels")
    if library.radixrt_attention_abi() != _ABI:
        raise RuntimeError("the native kernels are of another version than this package; build them again")
    library.radixrt_attention_plan_new.argtypes = (_p,)
    library.radixrt_attention_plan_new.restype = _p
    library.radixrt_attention_plan_delete.argtypes = (_p,)
    library.radixrt_attention_plan_delete.restype = None
    library.radixrt_attention_plan_make.argtypes = (_p, _p, _i32, _p)
    library.radixrt_attention_run.argtypes = (_p, _p, _i32, _p)
    return library


@functools.cache
def available_instruction_sets() -> tuple[InstructionSet, ...]:
    """Those that the library and this machine have, the best one last."""
    return tuple(s for s in InstructionSet if _library().radixrt_attention_has(int(s)))


class AttentionPlan:
    """Layouts of batches for layers of one shape; one batch at a time, in the same memory.

    ``window`` W: a query sees itself and the W - 1 positions before it; None: all before it. Not for use by two
    threads of Python at a time.
    """

    def __init__(
        self, heads: int, kv_heads: int, head_dim: int, *, window: int | None = None, threads: int = 1
    ) -> None:
        if kv_heads < 1 or heads < 1 or heads % kv_heads:
            raise ValueError(f"heads ({heads}) must be a multiple of kv_heads ({kv_heads})")
        if not 8 <= head_dim <= MAX_HEAD_DIM or head_dim % 8:
            raise ValueError(f"head_dim must be a multiple of 8 up to {MAX_HEAD_DIM}, not {head_dim}")
        if window is not None and not 1 <= window < 2**31:
            raise ValueError(f"window must be at least 1, not {window}")
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self._native = _library()
        handle = self._native.radixrt_attention_plan_new(
            ctypes.byref(_Shape(heads, kv_heads, head_dim, window or 0))
        )
        if not handle:
            raise MemoryError("no memory for a plan of attention")
        self.handle: int = handle
        """The address of the ``radixrt::AttentionPlan``; it lives as long as this object."""
        weakref.finalize(self, self._native.radixrt_attention_plan_delete, handle)
        self.heads, self.kv_heads, self.head_dim, self.threads = heads, kv_heads, head_dim, threads
        self.tokens = 0
        """Tokens of the batch at hand."""
        self.slot_count = 0
        """How many slots a pool must have for it."""
        self.tiles = 0
        """Tiles of 64 positions that are read per kv head: shared ones count once."""
        self._read: list[npt.NDArray[np.int32]] = []

    def make(self, query_start: npt.NDArray[np.int64], context_slots: Sequence[npt.NDArray[np.int32]]) -> None:
        """Lay out R rows.

        Row r owns the flat tokens ``query_start[r]:query_start[r + 1]`` (none is allowed) and sees
        ``context_slots[r]``, the slots of its cached and new tokens in position order (its last entries are those
        of its new tokens). These arrays are not copied: they must not change while the plan is used.
        """
        starts = np.ascontiguousarray(query_start, np.int64)
        if starts.shape != (len(context_slots) + 1,):
            raise ValueError(f"query_start has shape {starts.shape} for {len(context_slots)} rows of context_slots")
        read = [np.ascontiguousarray(slots, np.int32) for slots in context_slots]
        lengths = np.fromiter((len(slots) for slots in read), np.int64, len(read))
        queries = np.diff(starts)
        if starts[0] != 0 or (queries < 0).any():
            raise ValueError("query_start must begin with 0 and not descend")
        if (lengths < queries).any():
            row = int(np.argmax(lengths < queries))
            raise ValueError(f"context_slots[{row}] has {lengths[row]} slots for {queries[row]} new tokens")
        if any(slots.ndim != 1 for slots in read) or (lengths >= 2**31).any():
            raise ValueError("context_slots must be one-dimensional and shorter than 2^31")
        self.tokens = 0  # until all has gone well
        addresses = np.fromiter((slots.ctypes.data for slots in read), np.uintp, len(read))
        rows = _Rows(starts.ctypes.data, addresses.ctypes.data, lengths.ctypes.data, len(read))
        limits = (_i64 * 3)()
        if not self._native.radixrt_attention_plan_make(self.handle, ctypes.byref(rows), self.threads, limits):
            raise MemoryError("no memory for a plan of attention")
        least, greatest, self.tiles = limits
        if least < 0:
            raise ValueError(f"context_slots holds the slot {least}")
        self._read = read
        self.slot_count = int(greatest) + 1
        self.tokens = int(starts[-1])


def plan_attention(
    query_start: npt.NDArray[np.int64],
    context_slots: Sequence[npt.NDArray[np.int32]],
    kv_heads: int,
    *,
    heads: int,
    head_dim: int,
    window: int | None = None,
    threads: int = 1,
) -> AttentionPlan:
    """A new plan with one batch laid out in it, see ``AttentionPlan.make``."""
    plan = AttentionPlan(heads, kv_heads, head_dim, window=window, threads=threads)
    plan.make(query_start, context_slots)
    return plan


def attention(
    query: _Floats,
    key_pool: _Pool,
    value_pool: _Pool,
    plan: AttentionPlan,
    *,
    scale: float,
    softcap: float | None = None,
    key_scales: _Floats | None = None,
    value_scales: _Floats | None = None,
    out: _Floats | None = None,
    pool: ThreadPool | None = None,
    instruction_set: InstructionSet | None = None,
) -> _Floats:
    """Return ``softmax(scale * query @ keys.T) @ values`` for every token: float32 [T, heads, D] like ``query``.

    ``query`` is float32; tokens may stand any distance apart, what belongs to one is contiguous; ``out`` likewise.
    Pools are contiguous [slots, kv_heads, D] in float32, float16 or int8, the new tokens already written. int8
    needs ``key_scales`` and ``value_scales``, float32 [slots, kv_heads]: a value is its integer times its scale.
    Query head h reads kv head ``h // (heads / kv_heads)``. ``softcap`` c bounds the scores:
    ``c * tanh(score / c)``. All sums are float32. ``pool`` shares the work among threads, at most as many as the
    plan was made for. ``instruction_set`` is one of ``available_instruction_sets()``, the best by default. What is
    NaN or infinite in a query, or in a position it sees, shows in its result. Raises ``ValueError`` for operands
    that do not fit.
    """
    call = _Call(scale=scale, softcap=softcap or 0.0)
    shape = (plan.tokens, plan.heads, plan.head_dim)
    if out is None:
        out = np.empty(shape, np.float32)
    call.query, call.query_stride = _tokens("query", query, shape)
    call.out, call.out_stride = _tokens("out", out, shape)
    if not out.flags.writeable:
        raise ValueError("out cannot be written to")
    _set_pools(call, plan, key_pool, value_pool, key_scales, value_scales)
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, not {scale}")
    if softcap is not None and not (math.isfinite(softcap) and softcap > 0):
        raise ValueError(f"softcap must be positive, not {softcap}")
    if pool is not None and pool.threads > plan.threads:
        raise ValueError(f"a pool of {pool.threads} threads for a plan for {plan.threads}")
    available = available_instruction_sets()
    chosen = available[-1] if instruction_set is None else instruction_set
    if chosen not in available:
        raise ValueError(f"instruction_set must be one of {available}, not {instruction_set!r}")
    handle = None if pool is None else pool.require()
    if not plan._native.radixrt_attention_run(plan.handle, ctypes.byref(call), int(chosen), handle):
        raise RuntimeError("the thread pool refused the work")
    return out


def _tokens(name: str, array: _Floats, shape: tuple[int, ...]) -> tuple[int, int]:
    """Where the tokens begin and how many floats lie from one to the next."""
    if array.dtype != np.float32 or array.shape != shape:
        raise ValueError(f"{name} must be float32 of shape {shape}, not {array.dtype} of shape {array.shape}")
    if array.size and (array.strides[1:] != (4 * shape[2], 4) or array.strides[0] % 4):
        raise ValueError(f"{name} must be contiguous within a token")
    return array.ctypes.data, array.strides[0] // 4


def _set_pools(
    call: _Call,
    plan: AttentionPlan,
    key_pool: _Pool,
    value_pool: _Pool,
    key_scales: _Floats | None,
    value_scales: _Floats | None,
) -> None:
    kind = _KINDS.get(key_pool.dtype)
    if kind is None or value_pool.dtype != key_pool.dtype:
        raise ValueError(
            f"key_pool and value_pool must both be float32, float16 or int8, not {key_pool.dtype} "
            f"and {value_pool.dtype}"
        )
    for name, array in (("key_pool", key_pool), ("value_pool", value_pool)):
        if array.ndim != 3 or array.shape[1:] != (plan.kv_heads, plan.head_dim) or not array.flags.c_contiguous:
            raise ValueError(
                f"{name} must be contiguous [slots, {plan.kv_heads}, {plan.head_dim}], not of shape {array.shape}"
            )
        if len(array) < plan.slot_count:
            raise ValueError(f"{name} has {len(array)} slots, but the plan reads slot {plan.slot_count - 1}")
    call.kind, call.keys, call.values = kind, key_pool.ctypes.data, value_pool.ctypes.data
    if key_pool.dtype != np.int8:
        if key_scales is not None or value_scales is not None:
            raise ValueError("key_scales and value_scales are for int8 pools only")
        return
    call.key_scales = _scales("key_scales", key_scales, key_pool)
    call.value_scales = _scales("value_scales", value_scales, value_pool)


def _scales(name: str, scales: _Floats | None, owner: _Pool) -> int:
    """Where the scales begin."""
    if scales is None or scales.dtype != np.float32 or scales.shape != owner.shape[:2]:
        raise ValueError(f"{name} must be float32 of shape {owner.shape[:2]} for int8 pools")
    if not scales.flags.c_contiguous:
        raise ValueError(f"{name} must be contiguous")
    return scales.ctypes.data
