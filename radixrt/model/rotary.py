"""Rotary frequencies and angles.

Everything is float32 in the order of operations that models were trained with: in float64 the angles of long
contexts would be other numbers. This module does not know how angles are applied.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from radixrt.model.config import RopeConfig

__all__ = ["angles", "inverse_frequencies"]


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """Return the angle per position of every pair: float32 [head_dim / 2], scaling included."""
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    period: Tensor = rope.theta**exponent
    plain = 1.0 / period
    if rope.scaling == "linear":
        return plain / rope.factor
    if rope.scaling == "llama3":
        return _llama3(rope, plain)
    if rope.scaling == "yarn":
        return _yarn(rope, period, head_dim)
    return plain


def angles(positions: Tensor, frequencies: Tensor, attention_factor: float) -> tuple[Tensor, Tensor]:
    """Return cos and sin of ``positions`` [T] times ``frequencies`` [D/2], float32 [T, D/2] each."""
    angle = positions.to(torch.float32)[:, None] * frequencies[None, :]
    return angle.cos() * attention_factor, angle.sin() * attention_factor


def _llama3(rope: RopeConfig, plain: Tensor) -> Tensor:
    """Long wavelengths are divided by the factor, short ones kept, the ones between blended."""
    wavelength = 2 * math.pi / plain
    longest = rope.original_context / rope.low_freq_factor
    shortest = rope.original_context / rope.high_freq_factor
    keep = (rope.original_context / wavelength - rope.low_freq_factor) / (
        rope.high_freq_factor - rope.low_freq_factor
    )
    blended = (1 - keep) * plain / rope.factor + keep * plain
    stretched = torch.where(wavelength > longest, plain / rope.factor, plain)
    between = (wavelength >= shortest) & (wavelength <= longest)
    return torch.where(between, blended, stretched)


def _yarn(rope: RopeConfig, period: Tensor, head_dim: int) -> Tensor:
    """Between the pairs that turn ``beta_fast`` and ``beta_slow`` times in the original context, blend."""

    def pair_that_turns(times: float) -> float:
        return head_dim * math.log(rope.original_context / (times * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = pair_that_turns(rope.beta_fast), pair_that_turns(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001
    interpolated = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    keep = 1 - interpolated
    return 1.0 / (rope.factor * period) * (1 - keep) + 1.0 / period * keep
