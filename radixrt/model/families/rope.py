"""Reading how a checkpoint stretches its rotary embedding, in both forms that checkpoints come in.

Kinds whose frequencies depend on the length of the sequence (dynamic, longrope) are refused: keys that are cached
would have been rotated by other angles. This module does not know what the frequencies become.
"""

from __future__ import annotations

import math

from radixrt.model.config import RopeConfig
from radixrt.model.fields import REQUIRED, Fields

__all__ = ["MAX_POSITION", "gguf_rope", "hf_rope"]

MAX_POSITION = 1 << 28

_ROPE_TYPES = ("default", "linear", "llama3", "yarn")


def hf_rope(fields: Fields, context: int) -> RopeConfig:
    """Read ``rope_parameters`` (or ``rope_scaling`` and ``rope_theta``, as older files have it)."""
    scaling = fields.table("rope_parameters" if fields.raw("rope_parameters") else "rope_scaling")
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if kind not in _ROPE_TYPES:
        raise scaling.error("rope_type", f"= {kind!r} is not supported (known: {', '.join(_ROPE_TYPES)})")
    theta = scaling.number("rope_theta", fields.number("rope_theta", 10000.0, low=1.001), low=1.001)
    _refuse_unknown_rope_fields(scaling, kind)
    if kind == "default":
        return RopeConfig(theta=theta)
    factor = scaling.number("factor", REQUIRED if kind != "yarn" else 0.0, low=1e-3, high=1e6)
    if kind == "linear":
        return RopeConfig(theta=theta, scaling="linear", factor=factor)
    # A field of the same name outside the table wins where both are given, as transformers has it.
    original = fields.integer(
        "original_max_position_embeddings",
        scaling.integer("original_max_position_embeddings", context, high=MAX_POSITION),
        high=MAX_POSITION,
    )
    if kind == "llama3":
        low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
        if low >= high:
            raise scaling.error("low_freq_factor", "must be less than high_freq_factor")
        return RopeConfig(
            theta=theta,
            scaling="llama3",
            factor=factor,
            original_context=original,
            low_freq_factor=low,
            high_freq_factor=high,
        )
    factor = factor or context / original
    return _yarn(
        scaling,
        theta,
        factor,
        original,
        attention_factor=scaling.number("attention_factor", _hf_yarn_attention(scaling, factor), low=1e-6),
        truncate=scaling.flag("truncate", True),
    )


def _refuse_unknown_rope_fields(scaling: Fields, kind: str) -> None:
    scaling.refuse({"partial_rotary_factor": (1, 1.0), "mrope_section": (), "short_factor": (), "long_factor": ()})
    by_kind: dict[str, tuple[str, ...]] = {
        "default": (),
        "linear": ("factor", "original_max_position_embeddings"),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
        "yarn": (
            *("factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow"),
            *("mscale", "mscale_all_dim", "truncate"),
        ),
    }
    known = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "finetuned", *by_kind[kind]}
    unknown = sorted(set(scaling.names()) - known)
    if unknown:
        raise scaling.error(unknown[0], f"is not understood for rope type {kind!r}")


def _hf_yarn_attention(scaling: Fields, factor: float) -> float:
    mscale = scaling.number("mscale", 0.0, low=0.0)
    all_dim = scaling.number("mscale_all_dim", 0.0, low=0.0)
    if mscale and all_dim:
        return _yarn_attention(factor, mscale) / _yarn_attention(factor, all_dim)
    return _yarn_attention(factor, 1.0)


def _yarn_attention(factor: float, mscale: float) -> float:
    """How much longer contexts sharpen attention, after the YaRN paper."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _yarn(
    fields: Fields,
    theta: float,
    factor: float,
    original: int,
    *,
    attention_factor: float,
    truncate: bool = True,
    names: tuple[str, str] = ("beta_fast", "beta_slow"),
) -> RopeConfig:
    fast, slow = fields.number(names[0], 32.0, low=1e-3), fields.number(names[1], 1.0, low=1e-3)
    if fast <= slow:
        raise fields.error(names[0], f"must be greater than {names[1]}")
    return RopeConfig(
        theta=theta,
        scaling="yarn",
        factor=factor,
        original_context=original,
        beta_fast=fast,
        beta_slow=slow,
        truncate=truncate,
        attention_factor=attention_factor,
    )


def gguf_rope(fields: Fields) -> RopeConfig:
    """Read the ``rope.*`` keys of GGUF metadata, below the prefix of ``fields``."""
    theta = fields.number("rope.freq_base", 10000.0, low=1.001)
    # A file that states a factor and no type means linear; scale_linear is the field's older name.
    kind = fields.text("rope.scaling.type", "linear")
    factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1.0, low=0.0), low=0.0) or 1.0
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return RopeConfig(theta=theta)
    if kind == "linear":
        return RopeConfig(theta=theta, scaling="linear", factor=factor)
    if kind != "yarn":
        raise fields.error("rope.scaling.type", f"= {kind!r} is not supported (known: none, linear, yarn)")
    fields.refuse({"rope.scaling.yarn_log_multiplier": (0.0,)})
    # The stored factor multiplies the one that follows from the paper.
    given = fields.number("rope.scaling.yarn_attn_factor", fields.number("rope.scaling.attn_factor", 1.0))
    return _yarn(
        fields,
        theta,
        factor,
        fields.integer("rope.scaling.original_context_length", fields.integer("context_length", high=MAX_POSITION)),
        attention_factor=given * _yarn_attention(factor, 1.0),
        names=("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"),
    )
