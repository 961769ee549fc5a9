"""Root-mean-square normalisation. Knows nothing about layers or models."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
    """Return ``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension.

    ``x`` [..., N], ``weight`` [N], the result in the type of ``x``; the mean is taken in float32 or better.
    With ``residual`` (shaped like ``x``) the sum ``residual + x`` is normalised instead, and ``residual`` is
    updated in place to that sum: the two steps around every residual connection are one op.
    """
    if residual is not None:
        residual += x
        x = residual
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight
