"""The products and the gate of a decoder layer. Knows nothing about what the matrices stand for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["linear", "silu_mul"]

ROW_STEP = 4


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``: ``x`` [T, K], ``weight`` [N, K], ``bias`` [N] -> [T, N].

    On a CPU the rows are padded to a whole step for every thread. Matrix libraries take other paths for a few
    rows, or for what is left over of them, so that otherwise a row's last bits would depend on the batch.
    """
    odd = -len(x) % (ROW_STEP * torch.get_num_threads()) if x.device.type == "cpu" else 0
    if odd:
        return F.linear(F.pad(x, (0, 0, 0, odd)), weight, bias)[: len(x)]
    return F.linear(x, weight, bias)


def silu_mul(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of ``gate_up`` [T, 2 * N] (gate first, then up) -> [T, N]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up
