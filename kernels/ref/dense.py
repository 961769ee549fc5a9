"""The products and the gate of a decoder layer. Knows nothing about what the matrices stand for."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

__all__ = ["linear", "silu_mul"]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``: ``x`` [T, K], ``weight`` [N, K], ``bias`` [N] -> [T, N]."""
    return F.linear(x, weight, bias)


def silu_mul(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of ``gate_up`` [T, 2 * N] (gate first, then up) -> [T, N]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up
