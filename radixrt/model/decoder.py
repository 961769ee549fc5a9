"""The forward pass: token ids in, logits out, in terms of the ops of ``radixrt.kernels``.

It does not know about sequences, slots' owners, sampling or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from radixrt.kernels.ref import AttentionPlan, attention, linear, rms_norm, rope, silu_mul, write_kv
from radixrt.model.config import DecoderConfig
from radixrt.model.rotary import angles, inverse_frequencies
from radixrt.model.weights import DecoderWeights, LayerWeights

__all__ = ["Decoder"]


class Decoder:
    """A decoder with its weights. It holds no state of sequences: keys and values are in the pools it is given."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights) -> None:
        self.config = config
        self.weights = weights
        frequencies = inverse_frequencies(config.rope, config.head_dim).to(weights.embedding.device)
        if weights.rope_factors is not None:
            frequencies = frequencies / weights.rope_factors
        self._frequencies = frequencies
        self._scale = config.head_dim**-0.5

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        write_slots: Tensor,
        pools: Sequence[tuple[Tensor, Tensor]],
        plans: Mapping[int | None, AttentionPlan],
        logit_index: Tensor,
    ) -> Tensor:
        """Run T tokens and return the logits [L, vocab_size] of those at ``logit_index``.

        ``token_ids``, ``positions`` and ``write_slots`` are int64 [T]; ``pools`` has the keys and values
        [slots, kv_heads, head_dim] of each layer and is written to; ``plans`` has the attention layout for
        every window size of the configuration.
        """
        eps = self.config.norm_eps
        rotation = angles(positions, self._frequencies, self.config.rope.attention_factor)
        residual = self.weights.embedding[token_ids]
        update = torch.zeros_like(residual)
        for layer, (weights, pool) in enumerate(zip(self.weights.layers, pools, strict=True)):
            x = rms_norm(update, weights.input_norm, eps, residual)
            plan = plans[self.config.windows[layer]]
            update = self._attend(x, weights, rotation, write_slots, pool, plan)
            x = rms_norm(update, weights.post_norm, eps, residual)
            hidden = silu_mul(linear(x, weights.gate_up, weights.gate_up_bias))
            update = linear(hidden, weights.down, weights.down_bias)
        last = (residual + update)[logit_index]
        return linear(rms_norm(last, self.weights.final_norm, eps), self.weights.head)

    def _attend(
        self,
        x: Tensor,
        weights: LayerWeights,
        rotation: tuple[Tensor, Tensor],
        write_slots: Tensor,
        pool: tuple[Tensor, Tensor],
        plan: AttentionPlan,
    ) -> Tensor:
        config = self.config
        qkv = linear(x, weights.qkv, weights.qkv_bias).view(len(x), -1, config.head_dim)
        query, key, value = qkv.tensor_split((config.heads, config.heads + config.kv_heads), dim=1)
        if weights.q_norm is not None and weights.k_norm is not None:
            query = rms_norm(query, weights.q_norm, config.norm_eps)
            key = rms_norm(key, weights.k_norm, config.norm_eps)
        query, key = rope(query, *rotation), rope(key, *rotation)
        write_kv(key, value, *pool, write_slots)
        mixed = attention(query, *pool, plan, scale=self._scale)
        return linear(mixed.view(len(x), -1), weights.output, weights.output_bias)
