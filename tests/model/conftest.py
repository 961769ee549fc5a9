"""Tiny random checkpoints of every family, and drivers that feed a model the ways a scheduler can."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from radixrt.config import EngineConfig
from radixrt.model.batch import ForwardBatch, Model
from radixrt.model.load import LoadedModel, load_model
from radixrt.model.sources import ModelSource

Checkpoint = tuple[Path, Any]
SLOTS = 512

_COMMON = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 160,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 40,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}

# name -> (class, what differs from the common sizes)
CHECKPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-mha": ("Llama", {"num_key_value_heads": 4}),
    "llama-mqa": ("Llama", {"num_key_value_heads": 1, "rms_norm_eps": 1e-3}),
    "llama-head-dim": ("Llama", {"head_dim": 24}),
    "llama-biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-llama3": ("Llama", {"rope_parameters": _LLAMA3}),
    "llama-linear": (
        "Llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.5}},
    ),
    "llama-yarn": ("Llama", {"head_dim": 32, "rope_parameters": _YARN}),
    "llama-yarn-all": (
        "Llama",
        {
            "head_dim": 32,
            "rope_parameters": _YARN
            | {
                "original_max_position_embeddings": 2048,
                "beta_fast": 16.0,
                "beta_slow": 2.0,
                "mscale": 0.7,
                "mscale_all_dim": 1.3,
                "truncate": False,
            },
        },
    ),
    "mistral-window": ("Mistral", {"sliding_window": 9}),
    "mistral-full": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("Qwen2", {}),
    "qwen2-window": (
        "Qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 7,
            "max_window_layers": 1,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": ("Qwen3", {"head_dim": 20}),
    "qwen3-layers": (
        "Qwen3",
        {
            "head_dim": 16,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
    ),
}


@pytest.fixture(scope="session", params=list(CHECKPOINTS))
def checkpoint_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Checkpoint]]:
    """name -> (folder as transformers saves it, the transformers model). Biases and norms are random too."""
    import transformers

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    made: dict[str, Checkpoint] = {}

    def make(name: str) -> Checkpoint:
        if name not in made:
            kind, changes = CHECKPOINTS[name]
            config = getattr(transformers, f"{kind}Config")(**(_COMMON | changes))
            config._attn_implementation = "eager"
            torch.manual_seed(len(made))
            reference = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
            with torch.no_grad():
                for parameter_name, parameter in reference.named_parameters():
                    center = 1.0 if "norm" in parameter_name else 0.0
                    parameter.copy_(center + 0.3 * torch.randn(parameter.shape))
            folder = tmp_path_factory.mktemp(name)
            reference.save_pretrained(folder)
            made[name] = (folder, reference)
        return made[name]

    yield make
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def load() -> Callable[..., LoadedModel]:
    """Load a folder or a GGUF file and allocate a small pool."""

    def load_path(path: Path, **flags: Any) -> LoadedModel:
        source = ModelSource(name="test", path=path, kind="folder" if path.is_dir() else "gguf")
        loaded = load_model(source, EngineConfig(threads=1, device="cpu", **flags))
        loaded.model.allocate(SLOTS)
        return loaded

    return load_path


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., ForwardBatch]:
    """Rows of (ids, how many of them are cached, slots) -> a batch that wants the logits of all new tokens."""

    def build(rows: Sequence[tuple[Sequence[int], int, Sequence[int]]], **changes: Any) -> ForwardBatch:
        lengths = [len(ids) - cached for ids, cached, _ in rows]
        new = [(ids[at], at, slots[at]) for ids, cached, slots in rows for at in range(cached, len(ids))]
        batch = ForwardBatch(
            token_ids=np.array([token for token, _, _ in new], np.int64),
            positions=np.array([at for _, at, _ in new], np.int64),
            write_slots=np.array([slot for _, _, slot in new], np.int64),
            query_start=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            context_slots=[np.array(slots[: len(ids)], np.int32) for ids, _, slots in rows],
            context_lens=np.array([len(ids) for ids, _, _ in rows], np.int64),
            logit_index=np.arange(len(new), dtype=np.int64),
        )
        return msgspec.structs.replace(batch, **changes)

    return build


@pytest.fixture(scope="session")
def run_chunks(make_batch: Callable[..., ForwardBatch]) -> Callable[..., NDArray[np.float32]]:
    """Feed one sequence in chunks and return the logits of every position, [len(ids), vocab]."""

    def run(model: Model, ids: Sequence[int], chunks: Sequence[int], slots: Sequence[int]) -> NDArray[np.float32]:
        logits, done = [], 0
        for size in chunks:
            batch = make_batch([(ids[: done + size], done, slots)])
            logits.append(model.forward(batch).copy())
            done += size
        if done != len(ids):
            raise ValueError("the chunks do not add up to the sequence")
        return np.concatenate(logits)

    return run


@pytest.fixture(scope="session")
def expected_logits() -> Callable[[Any, Sequence[int]], NDArray[np.float32]]:
    """What transformers computes: one whole sequence, no cache."""

    def compute(reference: Any, ids: Sequence[int]) -> NDArray[np.float32]:
        with torch.inference_mode():
            logits: NDArray[np.float32] = reference(torch.tensor([list(ids)]), use_cache=False).logits[0].numpy()
        return logits

    return compute


@pytest.fixture
def edit_config() -> Callable[[Path, dict[str, Any]], None]:
    """Change fields of a folder's ``config.json``."""

    def edit(folder: Path, changes: dict[str, Any]) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit
