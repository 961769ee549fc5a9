"""Llama 2 and 3, SmolLM2, and everything else saved as ``LlamaForCausalLM``."""

from __future__ import annotations

from collections.abc import Collection

from radixrt.model.config import DecoderConfig
from radixrt.model.families.base import GGUF_NAMES, HF_NAMES, Family, gguf_config, hf_config
from radixrt.model.fields import Fields

__all__ = ["LLAMA"]


def _read_hf(fields: Fields) -> DecoderConfig:
    return hf_config(fields, architecture="llama", default_context=2048, has_attention_bias=True, has_mlp_bias=True)


def _read_gguf(fields: Fields, tensors: Collection[str]) -> DecoderConfig:
    return gguf_config(fields, tensors, architecture="llama")


LLAMA = Family(
    name="llama",
    architectures=("LlamaForCausalLM",),
    read_hf=_read_hf,
    hf_names=HF_NAMES,
    gguf_architectures=("llama",),
    read_gguf=_read_gguf,
    gguf_names=GGUF_NAMES,
    gguf_interleaved=True,
)
