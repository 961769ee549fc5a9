"""What a folder may hold, what it may not, and what the flags do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from radixrt.config import EngineConfig
from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.model.families import FAMILIES
from radixrt.model.fields import Fields
from radixrt.model.load import load_model
from radixrt.model.sources import ModelSource


@pytest.fixture
def folder(make_checkpoint: Any, tmp_path: Path) -> Path:
    """A private copy of the plain checkpoint."""
    original, _ = make_checkpoint("llama")
    return Path(shutil.copytree(original, tmp_path / "model"))


def rewrite_weights(folder: Path, change: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quantization_config", {"quant_method": "gptq"}),
        ("hidden_act", "gelu"),
        ("partial_rotary_factor", 0.5),
        ("rope_parameters", {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
        ("rope_parameters", {"rope_type": "longrope", "rope_theta": 1e4}),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 1e4, "warp": 3}),
        ("rope_parameters", {"full_attention": {"rope_type": "default"}}),
        ("rope_parameters", [1]),
        ("attn_logit_softcapping", 50.0),
        ("final_logit_softcapping", 30.0),
        ("logits_scaling", 8.0),
        ("num_local_experts", 8),
        ("no_rope_layers", [1, 0, 1]),
        ("auto_map", {"AutoModelForCausalLM": "evil.Model"}),
        ("is_encoder_decoder", True),
        ("vocab_size", -1),
        ("vocab_size", 1e3),
        ("vocab_size", True),
        ("hidden_size", 1 << 40),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 10**9),
        ("num_attention_heads", "four"),
        ("num_key_value_heads", 3),
        ("head_dim", 7),
        ("rms_norm_eps", "1e-5"),
        ("rms_norm_eps", -1),
        ("tie_word_embeddings", 1),
        ("dtype", "int8"),
    ],
)
def test_config_is_refused_by_field(folder: Path, load: Any, edit_config: Any, field: str, value: Any) -> None:
    edit_config(folder, {field: value})
    with pytest.raises(ModelLoadError, match=f"config.json.*{field}") as caught:
        load(folder)
    assert caught.value.param
    assert "config.json" in caught.value.param


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 1.0, "beta_slow": 2.0},
        {"rope_type": "linear"},
        {"rope_type": "linear", "factor": 0},
        {"rope_type": "linear", "factor": True},
        {"rope_type": "llama3", "factor": 8.0},
    ],
)
def test_impossible_rope_is_refused(folder: Path, load: Any, edit_config: Any, rope: Any) -> None:
    edit_config(folder, {"rope_parameters": rope})
    with pytest.raises(ModelLoadError, match=r"rope_parameters\."):
        load(folder)


def test_older_rope_fields_mean_the_same(
    make_checkpoint: Any, tmp_path: Path, load: Any, edit_config: Any, run_chunks: Any, expected_logits: Any
) -> None:
    original, reference = make_checkpoint("llama-llama3")
    folder = Path(shutil.copytree(original, tmp_path / "model"))
    rope = dict(reference.config.rope_parameters)
    theta = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    edit_config(folder, {"rope_parameters": None, "rope_theta": theta, "rope_scaling": rope})
    ids = list(range(60))
    logits = run_chunks(load(folder).model, ids, [60], range(60))
    np.testing.assert_allclose(logits, expected_logits(reference, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "architectures",
    [["GPT2LMHeadModel"], [], None, "LlamaForCausalLM", ["LlamaForCausalLM", "Other"], [3], ["LlamaModel"]],
)
def test_unknown_architecture_lists_the_known(
    folder: Path, load: Any, edit_config: Any, architectures: Any
) -> None:
    edit_config(folder, {"architectures": architectures})
    with pytest.raises(ModelLoadError, match="LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3"):
        load(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings"),
    *("rope_theta", "rope_scaling", "rope_parameters", "sliding_window", "use_sliding_window", "layer_types"),
    *("max_window_layers", "attention_bias", "mlp_bias", "dtype", "torch_dtype", "hidden_act"),
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FAMILIES), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_json_gives_a_config_or_an_error_of_ours(family: Any, changes: dict[str, Any]) -> None:
    base = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 56,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 160,
    }
    try:
        config = family.read_hf(Fields(base | changes, Path("config.json")))
    except ModelLoadError as error:
        config, problem = None, error.message
    if config is None:
        assert problem.startswith("config.json: ")
    else:
        assert config.heads % config.kv_heads == 0
        assert len(config.windows) == config.layers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), r"missing: model\.layers\.1\.mlp\.up_proj\.weight"),
        (lambda t: t.pop("lm_head.weight"), r"missing: lm_head\.weight"),
        (
            lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(32)}),
            r"does not have: model\.layers\.0\.self_attn\.q_proj\.bias",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.zeros(33)}),
            r"model\.norm\.weight has shape \(33,\).*\(32,\)",
        ),
        (
            lambda t: t.update({"model.embed_tokens.weight": torch.zeros(96, 32)}),
            r"model\.embed_tokens\.weight has shape \(96, 32\)",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.zeros(32, dtype=torch.int32)}),
            r"model\.norm\.weight holds int32",
        ),
    ],
)
def test_wrong_tensors_are_named(folder: Path, load: Any, change: Any, message: str) -> None:
    rewrite_weights(folder, change)
    with pytest.raises(ModelLoadError, match=message):
        load(folder)


def test_harmless_extras_are_fine(folder: Path, load: Any, edit_config: Any) -> None:
    rewrite_weights(folder, lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}))
    edit_config(folder, {"pretraining_tp": 1, "use_cache": False, "something_new": "text"})
    load(folder)


def test_a_tied_head_that_is_stored_does_not_count(
    make_checkpoint: Any, tmp_path: Path, load: Any, run_chunks: Any, expected_logits: Any
) -> None:
    original, reference = make_checkpoint("llama-tied")
    folder = Path(shutil.copytree(original, tmp_path / "model"))
    rewrite_weights(folder, lambda t: t.update({"lm_head.weight": torch.ones(97, 32)}))
    loaded = load(folder)
    logits = run_chunks(loaded.model, [1, 2, 3], [3], range(3))
    np.testing.assert_allclose(logits, expected_logits(reference, [1, 2, 3]), atol=1e-4, rtol=0)
    assert loaded.parameters == sum(p.numel() for p in reference.parameters())


def test_more_weights_than_memory(folder: Path, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radixrt.model.load.free_memory", lambda device: 1000)
    with pytest.raises(ModelLoadError, match=r"the weights take .* GB as float32.*--dtype"):
        load(folder)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.05), ("float16", 0.01)])
@pytest.mark.parametrize("name", ["llama", "qwen3-layers"])
def test_smaller_types_stay_close(
    name: str, dtype: str, tolerance: float, make_checkpoint: Any, load: Any, run_chunks: Any, expected_logits: Any
) -> None:
    folder, reference = make_checkpoint(name)
    ids = list(range(40))
    loaded = load(folder, dtype=dtype)
    assert loaded.dtype == dtype
    logits, expected = run_chunks(loaded.model, ids, [30, 1, 9], range(40)), expected_logits(reference, ids)
    assert logits.dtype == np.float32
    assert np.sqrt(np.mean((logits - expected) ** 2)) < tolerance * expected.std()


def test_checkpoints_in_other_types(folder: Path, load: Any, run_chunks: Any) -> None:
    """Weights stored as bfloat16 give exactly what the same numbers stored as float32 give."""

    def halve(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()})

    def widen(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: tensor.float() for name, tensor in tensors.items()})

    rewrite_weights(folder, halve)
    narrow = run_chunks(load(folder).model, [5, 6, 7], [3], range(3))
    rewrite_weights(folder, widen)
    np.testing.assert_array_equal(run_chunks(load(folder).model, [5, 6, 7], [3], range(3)), narrow)


def test_auto_follows_the_device(folder: Path) -> None:
    loaded = load_model(ModelSource(name="m", path=folder, kind="folder"), EngineConfig(device="cpu", threads=1))
    assert (loaded.device, loaded.dtype, loaded.architecture) == ("cpu", "float32", "llama")
    assert 0 < loaded.default_total_slots <= 1 << 16


@pytest.mark.skipif(torch.cuda.is_available(), reason="only where there is no GPU")
def test_an_absent_device_names_the_flag(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="--device cuda") as caught:
        load_model(ModelSource(name="m", path=folder, kind="folder"), EngineConfig(device="cuda"))
    assert caught.value.param == "device"


def test_config_must_be_an_object(folder: Path, load: Any) -> None:
    for text in ("[]", "{", json.dumps("x"), '{"a": NaN}', "[" * 100_000):
        (folder / "config.json").write_text(text)
        with pytest.raises(ModelLoadError, match=r"config\.json"):
            load(folder)
