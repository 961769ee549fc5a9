"""Plain torch: what each op means. Other backends are measured against these."""

from __future__ import annotations

from radixrt.kernels.ref.dense import linear, silu_mul
from radixrt.kernels.ref.kv import write_kv
from radixrt.kernels.ref.norm import rms_norm
from radixrt.kernels.ref.paged_attention import AttentionPlan, attention, plan_attention
from radixrt.kernels.ref.rotary import rope

__all__ = [
    "AttentionPlan",
    "attention",
    "linear",
    "plan_attention",
    "rms_norm",
    "rope",
    "silu_mul",
    "write_kv",
]
