"""Qwen2 and Qwen2.5: biases on query, key and value; a sliding window in the upper layers on request."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from radixrt.model.config import DecoderConfig
from radixrt.model.families.base import (
    GGUF_NAMES,
    HF_NAMES,
    Family,
    gguf_config,
    hf_config,
    hf_layer_windows,
)
from radixrt.model.fields import Fields

__all__ = ["QWEN2", "qwen_windows"]


def qwen_windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """The windows as both Qwen generations state them: off unless ``use_sliding_window``."""
    window: int | None = None
    if fields.flag("use_sliding_window", False) and not fields.is_null("sliding_window"):
        window = fields.integer("sliding_window", 4096, high=1 << 28)
    return hf_layer_windows(fields, layers, window, fields.integer("max_window_layers", 28, low=0))


def _read_hf(fields: Fields) -> DecoderConfig:
    config = hf_config(fields, architecture="qwen2", default_kv_heads=32, default_context=32768)
    return msgspec.structs.replace(config, qkv_bias=True, windows=qwen_windows(fields, config.layers))


def _read_gguf(fields: Fields, tensors: Collection[str]) -> DecoderConfig:
    return msgspec.structs.replace(gguf_config(fields, tensors, architecture="qwen2"), qkv_bias=True)


QWEN2 = Family(
    name="qwen2",
    architectures=("Qwen2ForCausalLM",),
    read_hf=_read_hf,
    hf_names=HF_NAMES,
    gguf_architectures=("qwen2",),
    read_gguf=_read_gguf,
    gguf_names=GGUF_NAMES,
)
