"""Mistral: Llama with a sliding window in every layer. Its GGUF files call themselves ``llama``."""

from __future__ import annotations

import msgspec

from radixrt.model.config import DecoderConfig
from radixrt.model.families.base import HF_NAMES, Family, hf_config, hf_layer_windows
from radixrt.model.fields import Fields

__all__ = ["MISTRAL"]

_DEFAULT_WINDOW = 4096


def _read_hf(fields: Fields) -> DecoderConfig:
    config = hf_config(fields, architecture="mistral", default_kv_heads=8, default_context=4096 * 32)
    # Null switches the window off; only an absent field means the default.
    window: int | None = None
    if not fields.is_null("sliding_window"):
        window = fields.integer("sliding_window", _DEFAULT_WINDOW, high=1 << 28)
    return msgspec.structs.replace(config, windows=hf_layer_windows(fields, config.layers, window, 0))


MISTRAL = Family(name="mistral", architectures=("MistralForCausalLM",), read_hf=_read_hf, hf_names=HF_NAMES)
