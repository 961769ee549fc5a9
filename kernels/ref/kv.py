"""Writing keys and values into the paged pool. Who owns a slot is the scheduler's business."""

from __future__ import annotations

from torch import Tensor

__all__ = ["write_kv"]


def write_kv(key: Tensor, value: Tensor, key_pool: Tensor, value_pool: Tensor, slots: Tensor) -> None:
    """Store token t's ``key[t]`` and ``value[t]`` at ``slots[t]`` of the pools, in place.

    ``key``, ``value`` [T, kv_heads, D]; pools [slots, kv_heads, D] of the same type; ``slots`` int64 [T], all
    different.
    """
    key_pool.index_copy_(0, slots, key)
    value_pool.index_copy_(0, slots, value)
