"""Rotary position embedding, half-rotation form. Where the angles come from is the caller's business."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["rope"]


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate every pair ``(x[d], x[d + D/2])`` by the angle of its token and frequency.

    ``x`` [T, heads, D]; ``cos`` and ``sin`` [T, D/2] are those of angle ``position * frequency[d]`` (and may
    carry an attention factor). Returns [T, heads, D] in the type of ``x``, computed in float32 or better.
    Checkpoints made for the interleaved form (pairs ``2d, 2d + 1``) have their rows reordered at load.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    first, second = x.to(wide).chunk(2, dim=-1)
    cos, sin = cos.to(wide).unsqueeze(1), sin.to(wide).unsqueeze(1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
