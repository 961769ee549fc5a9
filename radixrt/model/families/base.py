"""What the families of the Llama kind have in common: how their fields are read and their weights are named.

A family is a value of ``Family``. Its two readers turn a checkpoint's configuration into a ``DecoderConfig``; they
start from ``hf_config`` and ``gguf_config`` below and change what differs. Whatever would change the numbers and
is not understood is refused by name. This module does not know how tensors are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from radixrt.model.config import DecoderConfig
from radixrt.model.families.rope import MAX_POSITION, gguf_rope, hf_rope
from radixrt.model.fields import REQUIRED, Fields

__all__ = [
    "GGUF_NAMES",
    "HF_NAMES",
    "Family",
    "WeightNames",
    "gguf_config",
    "hf_config",
    "hf_layer_windows",
]


class WeightNames(msgspec.Struct, frozen=True):
    """Where a checkpoint keeps each part: part -> name without ``.weight`` / ``.bias``; ``{}`` is the layer.

    ``ignored`` lists the endings of names that carry nothing the decoder needs.
    """

    parts: Mapping[str, str]
    ignored: tuple[str, ...] = ()


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One model family.

    ``architectures`` are the class names in ``config.json``, ``gguf_architectures`` the values of
    ``general.architecture``. ``gguf_interleaved`` says that its GGUF files hold query and key rows in the order
    of the interleaved rotation. ``read_gguf`` also gets the names of the file's tensors, which say which biases
    there are.
    """

    name: str
    architectures: tuple[str, ...]
    read_hf: Callable[[Fields], DecoderConfig]
    hf_names: WeightNames
    gguf_architectures: tuple[str, ...] = ()
    read_gguf: Callable[[Fields, Collection[str]], DecoderConfig] | None = None
    gguf_names: WeightNames | None = None
    gguf_interleaved: bool = False


HF_NAMES = WeightNames(
    parts=MappingProxyType(
        {
            "embedding": "model.embed_tokens",
            "final_norm": "model.norm",
            "head": "lm_head",
            "input_norm": "model.layers.{}.input_layernorm",
            "q": "model.layers.{}.self_attn.q_proj",
            "k": "model.layers.{}.self_attn.k_proj",
            "v": "model.layers.{}.self_attn.v_proj",
            "q_norm": "model.layers.{}.self_attn.q_norm",
            "k_norm": "model.layers.{}.self_attn.k_norm",
            "output": "model.layers.{}.self_attn.o_proj",
            "post_norm": "model.layers.{}.post_attention_layernorm",
            "gate": "model.layers.{}.mlp.gate_proj",
            "up": "model.layers.{}.mlp.up_proj",
            "down": "model.layers.{}.mlp.down_proj",
        }
    ),
    ignored=(".rotary_emb.inv_freq",),
)

GGUF_NAMES = WeightNames(
    parts=MappingProxyType(
        {
            "embedding": "token_embd",
            "final_norm": "output_norm",
            "head": "output",
            "rope_factors": "rope_freqs",
            "input_norm": "blk.{}.attn_norm",
            "q": "blk.{}.attn_q",
            "k": "blk.{}.attn_k",
            "v": "blk.{}.attn_v",
            "q_norm": "blk.{}.attn_q_norm",
            "k_norm": "blk.{}.attn_k_norm",
            "output": "blk.{}.attn_output",
            "post_norm": "blk.{}.ffn_norm",
            "gate": "blk.{}.ffn_gate",
            "up": "blk.{}.ffn_up",
            "down": "blk.{}.ffn_down",
        }
    ),
    ignored=(".attn_rot_embd.weight",),
)

# Fields that change the numbers, with the values that do not. Absent and null are always fine.
_HF_NEUTRAL: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "auto_map": ({},),  # the checkpoint wants to run its own code
        "quantization_config": ({},),
        "compression_config": ({},),
        "hidden_act": ("silu", "swish"),
        "partial_rotary_factor": (1, 1.0),
        "rotary_pct": (1, 1.0),
        "rope_interleaved": (False,),
        "rope_interleave": (False,),
        "attn_logit_softcapping": (),
        "final_logit_softcapping": (),
        "logit_scale": (1, 1.0),
        "logits_scaling": (1, 1.0),
        "attention_multiplier": (),
        "query_pre_attn_scalar": (),
        "embedding_multiplier": (1, 1.0),
        "residual_multiplier": (1, 1.0),
        "attention_chunk_size": (),
        "no_rope_layers": ([],),
        "no_rope_layer_interval": (0,),
        "use_qk_norm": (False,),
        "clip_qkv": (),
        "alibi": (False,),
        "is_causal": (True,),
        "use_bidirectional_attention": (False,),
        "is_encoder_decoder": (False,),
        "num_experts": (0,),
        "num_local_experts": (0,),
        "n_routed_experts": (0,),
    }
)

_GGUF_NEUTRAL: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "expert_count": (0,),
        "use_parallel_residual": (False,),
        "logit_scale": (1.0,),
        "embedding_scale": (1.0,),
        "residual_scale": (1.0,),
        "attn_logit_softcapping": (0.0,),
        "final_logit_softcapping": (0.0,),
        "attention.causal": (True,),
        "attention.scale": (0.0,),
        "attention.clamp_kqv": (0.0,),
        "attention.max_alibi_bias": (0.0,),
        "attention.temperature_scale": (),
        "attention.sliding_window_pattern": (),
        "rope.scaling.alpha": (0.0,),
        "rope.scaling.yarn_ext_factor": (1.0, -1.0),
    }
)


def hf_config(
    fields: Fields,
    *,
    architecture: str,
    default_kv_heads: int | None = None,
    default_head_dim: int | None = None,
    default_context: int | None = None,
    default_eps: float = 1e-6,
    has_attention_bias: bool = False,
    has_mlp_bias: bool = False,
) -> DecoderConfig:
    """Read ``config.json``. The defaults are those its architecture gives to absent fields."""
    fields.refuse(_HF_NEUTRAL)
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads", high=1 << 16)
    layers = fields.integer("num_hidden_layers", high=1 << 12)
    attention_bias = has_attention_bias and fields.flag("attention_bias", False)
    context = fields.integer(
        "max_position_embeddings", REQUIRED if default_context is None else default_context, high=MAX_POSITION
    )
    if default_kv_heads is None or fields.is_null("num_key_value_heads"):
        default_kv_heads = heads
    config = DecoderConfig(
        architecture=architecture,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        layers=layers,
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", default_kv_heads, high=1 << 16),
        head_dim=fields.integer("head_dim", default_head_dim or max(1, hidden // heads), high=1 << 12),
        context_length=context,
        norm_eps=fields.number("rms_norm_eps", default_eps, low=0.0, high=1.0),
        rope=hf_rope(fields, context),
        windows=(None,) * layers,
        qkv_bias=attention_bias,
        output_bias=attention_bias,
        mlp_bias=has_mlp_bias and fields.flag("mlp_bias", False),
        tied_embeddings=fields.flag("tie_word_embeddings", False),
        checkpoint_dtype=_hf_dtype(fields),
    )
    return _checked(fields, config, heads_name="num_key_value_heads", head_dim_name="head_dim")


def gguf_config(fields: Fields, tensors: Collection[str], *, architecture: str) -> DecoderConfig:
    """Read GGUF metadata under the prefix of ``fields``. ``vocab_size`` is 0: the embedding has it."""
    fields.refuse(_GGUF_NEUTRAL)
    hidden, heads = fields.integer("embedding_length"), fields.integer("attention.head_count", high=1 << 16)
    layers = fields.integer("block_count", high=1 << 12)
    head_dim = fields.integer("attention.key_length", max(1, hidden // heads), high=1 << 12)
    for name in ("attention.value_length", "rope.dimension_count"):
        if fields.integer(name, head_dim) != head_dim:
            raise fields.error(name, f"must be the length of a key, {head_dim}")
    window = fields.integer("attention.sliding_window", 0, low=0, high=MAX_POSITION)
    config = DecoderConfig(
        architecture=architecture,
        vocab_size=0,
        hidden_size=hidden,
        intermediate_size=fields.integer("feed_forward_length"),
        layers=layers,
        heads=heads,
        kv_heads=fields.integer("attention.head_count_kv", heads, high=1 << 16),
        head_dim=head_dim,
        context_length=fields.integer("context_length", high=MAX_POSITION),
        norm_eps=fields.number("attention.layer_norm_rms_epsilon", low=0.0, high=1.0),
        rope=gguf_rope(fields),
        windows=(window or None,) * layers,
        qkv_bias="blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        mlp_bias="blk.0.ffn_gate.bias" in tensors,
        tied_embeddings="output.weight" not in tensors,
        rope_factors="rope_freqs.weight" in tensors,
    )
    return _checked(fields, config, heads_name="attention.head_count_kv", head_dim_name="attention.key_length")


def _checked(fields: Fields, config: DecoderConfig, *, heads_name: str, head_dim_name: str) -> DecoderConfig:
    if config.heads % config.kv_heads:
        raise fields.error(heads_name, f"({config.kv_heads}) must divide the number of heads ({config.heads})")
    if config.head_dim % 2:
        raise fields.error(head_dim_name, f"({config.head_dim}) must be even: the rotation pairs its dimensions")
    return config


def hf_layer_windows(
    fields: Fields, layers: int, window: int | None, first_windowed: int
) -> tuple[int | None, ...]:
    """The window of each layer: by ``layer_types`` where given, else from layer ``first_windowed`` on."""
    kinds = fields.raw("layer_types")
    if kinds is None:
        return tuple(window if layer >= first_windowed else None for layer in range(layers))
    known = ("full_attention", "sliding_attention")
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in known for kind in kinds):
        raise fields.error("layer_types", f"must be a list of {layers} items, each one of {', '.join(known)}")
    if window is None and "sliding_attention" in kinds:
        raise fields.error("layer_types", "asks for sliding_attention, but no sliding window is in use")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _hf_dtype(fields: Fields) -> str:
    name = fields.text("dtype", fields.text("torch_dtype", "float32")).removeprefix("torch.")
    if name not in ("float32", "float16", "bfloat16", "float64"):
        raise fields.error("dtype" if fields.raw("dtype") else "torch_dtype", f"= {name!r} is not supported")
    return name
