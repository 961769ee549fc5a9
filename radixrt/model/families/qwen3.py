"""Qwen3 (dense): every query and key head is normalised before the rotation."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from radixrt.model.config import DecoderConfig
from radixrt.model.families.base import GGUF_NAMES, HF_NAMES, Family, gguf_config, hf_config
from radixrt.model.families.qwen2 import qwen_windows
from radixrt.model.fields import Fields

__all__ = ["QWEN3"]


def _read_hf(fields: Fields) -> DecoderConfig:
    config = hf_config(
        fields,
        architecture="qwen3",
        default_kv_heads=32,
        default_head_dim=128,
        default_context=32768,
        has_attention_bias=True,
    )
    return msgspec.structs.replace(config, qk_norm=True, windows=qwen_windows(fields, config.layers))


def _read_gguf(fields: Fields, tensors: Collection[str]) -> DecoderConfig:
    return msgspec.structs.replace(gguf_config(fields, tensors, architecture="qwen3"), qk_norm=True)


QWEN3 = Family(
    name="qwen3",
    architectures=("Qwen3ForCausalLM",),
    read_hf=_read_hf,
    hf_names=HF_NAMES,
    gguf_architectures=("qwen3",),
    read_gguf=_read_gguf,
    gguf_names=GGUF_NAMES,
)
