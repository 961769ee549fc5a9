"""The same weights as a GGUF file, written by the ``gguf`` package as converters write them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from radixrt.errors import ModelLoadError

NAMES = [
    "llama",
    "llama-tied",
    "llama-mha",
    "llama-mqa",
    "llama-head-dim",
    "llama-biases",
    "llama-llama3",
    "llama-linear",
    "llama-yarn",
    "mistral-window",
    "qwen2",
    "qwen3",
]


def interleave(values: np.ndarray, heads: int) -> np.ndarray:
    """The row order converters give to query and key of the llama architecture: pairs side by side."""
    half = values.shape[0] // heads // 2
    first_and_second = values.reshape(heads, 2, half, *values.shape[1:])
    return np.ascontiguousarray(np.swapaxes(first_and_second, 1, 2)).reshape(values.shape)


def add_rope(writer: gguf.GGUFWriter, config: Any, head_dim: int) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = config.rope_parameters
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(rope["rope_theta"])
    kind = rope["rope_type"]
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    elif kind == "llama3":
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
        plain = 1.0 / rope["rope_theta"] ** (torch.arange(0, head_dim, 2) / head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / scaled).to(torch.float32).numpy())


def write_gguf(path: Path, architecture: str, reference: Any, **changes: Any) -> Path:
    config = reference.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    add_rope(writer, config, head_dim)
    for key, value in changes.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add[type(value)](f"{architecture}.{key}", value)
    arch = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}
    name_map = gguf.get_tensor_name_map(arch[architecture], config.num_hidden_layers)
    for name, tensor in reference.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        if architecture == "llama" and ".q_proj." in name:
            values = interleave(values, config.num_attention_heads)
        if architecture == "llama" and ".k_proj." in name:
            values = interleave(values, config.num_key_value_heads)
        writer.add_tensor(name_map.get_name(name, (".weight", ".bias")), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", NAMES)
def test_same_logits_from_gguf(
    name: str, make_checkpoint: Any, load: Any, run_chunks: Any, expected_logits: Any, tmp_path: Path
) -> None:
    _, reference = make_checkpoint(name)
    architecture = name.split("-")[0].replace("mistral", "llama")
    loaded = load(write_gguf(tmp_path / "model.gguf", architecture, reference))
    assert loaded.architecture == architecture
    assert loaded.parameters == sum(p.numel() for p in reference.parameters())
    ids = np.random.default_rng(1).integers(0, loaded.model.vocab_size, 53).tolist()
    logits = run_chunks(loaded.model, ids, [50, 1, 2], range(53))
    np.testing.assert_allclose(logits, expected_logits(reference, ids), atol=1e-4, rtol=0)


def test_older_linear_scaling_key(
    make_checkpoint: Any, load: Any, run_chunks: Any, expected_logits: Any, tmp_path: Path
) -> None:
    _, reference = make_checkpoint("llama-linear")
    path = tmp_path / "model.gguf"
    parameters = reference.config.rope_parameters
    try:
        reference.config.rope_parameters = parameters | {"rope_type": "default"}
        write_gguf(path, "llama", reference, **{"rope.scale_linear": parameters["factor"]})
    finally:
        reference.config.rope_parameters = parameters
    ids = list(range(30))
    logits = run_chunks(load(path).model, ids, [30], range(30))
    np.testing.assert_allclose(logits, expected_logits(reference, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expert_count", 8),
        ("attention.causal", False),
        ("attention.scale", 0.3),
        ("attn_logit_softcapping", 30.0),
        ("final_logit_softcapping", 30.0),
        ("logit_scale", 0.5),
        ("attention.sliding_window_pattern", 2),
        ("rope.scaling.type", "longrope"),
        ("rope.scaling.type", "surprise"),
        ("attention.max_alibi_bias", 8.0),
        ("use_parallel_residual", True),
    ],
)
def test_features_that_change_the_numbers_are_refused_by_name(
    key: str, value: Any, make_checkpoint: Any, load: Any, tmp_path: Path
) -> None:
    _, reference = make_checkpoint("llama")
    path = write_gguf(tmp_path / "model.gguf", "llama", reference, **{key: value})
    with pytest.raises(ModelLoadError, match=rf"llama\.{key}"):
        load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.head_count", 0),
        ("attention.head_count", 1 << 30),
        ("attention.head_count_kv", 3),
        ("attention.layer_norm_rms_epsilon", math.nan),
        ("rope.freq_base", math.inf),
        ("rope.dimension_count", 6),
        ("block_count", "three"),
        ("context_length", 0),
        ("attention.value_length", 16),
        ("attention.key_length", 7),
    ],
)
def test_bad_metadata_names_the_key(key: str, value: Any, make_checkpoint: Any, load: Any, tmp_path: Path) -> None:
    _, reference = make_checkpoint("llama")
    path = tmp_path / "model.gguf"
    replace_key(write_gguf(path, "llama", reference), f"llama.{key}", value)
    with pytest.raises(ModelLoadError, match=r"model\.gguf: .*llama\."):
        load(path)


def replace_key(path: Path, key: str, value: Any) -> None:
    """Rewrite a GGUF file with one value changed."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(path.with_suffix(".new"), "llama")
    add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        content = value if name == key else field.contents()
        add[type(content)](name, content)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".new").replace(path)


def test_unknown_architecture_lists_the_known(tmp_path: Path, load: Any) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "mamba")
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelLoadError, match=r"general\.architecture is mamba.*llama, qwen2, qwen3"):
        load(tmp_path / "model.gguf")
