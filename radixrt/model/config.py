"""What a decoder of this package can be: sizes, biases, norms, windows, rotary embedding.

A ``DecoderConfig`` is complete and consistent; ``radixrt.model.families`` makes it from a checkpoint. This module
does not know where it came from, how weights are named, or how the forward pass goes.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["DecoderConfig", "RopeConfig"]


class RopeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The rotary embedding: base frequency and how it is stretched to longer contexts.

    ``linear`` divides every frequency by ``factor``; ``llama3`` and ``yarn`` only the low ones, seen from
    ``original_context``. ``attention_factor`` scales cos and sin (yarn).
    """

    theta: float
    scaling: Literal["none", "linear", "llama3", "yarn"] = "none"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0


class DecoderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A pre-norm decoder with grouped-query attention, rotary embedding and a gated MLP.

    ``windows`` has one entry per layer: how many tokens it looks back on (itself included), None for all.
    ``vocab_size`` is the number of rows of the embedding, padding included. ``qk_norm`` normalises every query
    and key head before the rotation. ``checkpoint_dtype`` is the type the weights are stored in, as torch names
    it; block-quantized weights count as bfloat16.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    norm_eps: float
    rope: RopeConfig
    windows: tuple[int | None, ...]
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tied_embeddings: bool = False
    rope_factors: bool = False  # the checkpoint brings a divisor for every rotary frequency
    checkpoint_dtype: str = "float32"

    @property
    def query_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim
