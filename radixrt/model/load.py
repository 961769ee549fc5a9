"""From a resolved checkpoint to a model that runs.

Configuration files are read by this package itself: nothing that came with the checkpoint is ever imported. This
module does not know where checkpoints come from or what text is.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from radixrt.config import EngineConfig
from radixrt.errors import ModelLoadError
from radixrt.formats.gguf import GGUFFile
from radixrt.formats.jsonfile import read_object
from radixrt.formats.safetensors import SafetensorsFolder
from radixrt.model.config import DecoderConfig
from radixrt.model.families import family_of_gguf, family_of_hf
from radixrt.model.families.base import WeightNames
from radixrt.model.fields import Fields
from radixrt.model.runner import TorchRunner, free_memory, resolve_device, resolve_dtype
from radixrt.model.sources import ModelSource
from radixrt.model.weights import TensorSource, load_weights, parameter_count

__all__ = ["LoadedModel", "load_model"]


class LoadedModel(msgspec.Struct, frozen=True):
    """A model whose weights are in memory and whose KV pool is not allocated yet.

    ``parameters`` counts the checkpoint's numbers (a tied head once). ``default_total_slots`` is what the pool
    may hold when nobody says otherwise. ``device`` and ``dtype`` are what "auto" turned into.
    """

    model: TorchRunner
    architecture: str
    parameters: int
    default_total_slots: int
    device: str
    dtype: str


class _Checkpoint(NamedTuple):
    """A checkpoint whose configuration is understood and whose weights are not read yet."""

    config: DecoderConfig
    tensors: TensorSource
    names: WeightNames
    interleaved: bool


def load_model(source: ModelSource, config: EngineConfig) -> LoadedModel:
    """Load ``source`` as ``config`` asks (device, dtype, threads).

    Raises ``ModelLoadError`` that names the file and what is wrong with it, and ``InvalidRequest`` that names the
    flag when the device is not there.
    """
    device = resolve_device(config.device)
    with ExitStack() as stack:
        if source.kind == "gguf":
            checkpoint = _open_gguf(stack.enter_context(GGUFFile.open(source.path)))
        else:
            checkpoint = _open_folder(stack, source.path)
        dtype = resolve_dtype(config.dtype, device, checkpoint.config.checkpoint_dtype)
        weights = load_weights(
            checkpoint.tensors,
            checkpoint.config,
            checkpoint.names,
            dtype=dtype,
            device=device,
            interleaved=checkpoint.interleaved,
            memory_limit=free_memory(device),
        )
    runner = TorchRunner(checkpoint.config, weights, threads=config.threads)
    return LoadedModel(
        model=runner,
        architecture=checkpoint.config.architecture,
        parameters=parameter_count(weights),
        default_total_slots=runner.default_total_slots(),
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
    )


def _open_folder(stack: ExitStack, folder: Path) -> _Checkpoint:
    path = folder / "config.json"
    values = read_object(path)
    family = family_of_hf(values.get("architectures"), path)
    config = family.read_hf(Fields(values, path))
    return _Checkpoint(config, stack.enter_context(SafetensorsFolder.open(folder)), family.hf_names, False)


def _open_gguf(file: GGUFFile) -> _Checkpoint:
    architecture = file.metadata.get("general.architecture")
    family = family_of_gguf(architecture, file.path)
    if family.read_gguf is None or family.gguf_names is None:
        raise ModelLoadError(f"{file.path}: {family.name} has no GGUF form", param=str(file.path))
    fields = Fields(file.metadata, file.path, prefix=f"{architecture}.")
    config = family.read_gguf(fields, file.tensors)
    config = msgspec.structs.replace(
        config,
        vocab_size=_vocab_size(file.path, file.tensors, family.gguf_names),
        checkpoint_dtype=_stored_dtype(file.tensors, family.gguf_names),
    )
    return _Checkpoint(config, file, family.gguf_names, family.gguf_interleaved)


def _vocab_size(path: Path, tensors: Mapping[str, Any], names: WeightNames) -> int:
    """Rows of the embedding: the metadata may count the tokenizer's tokens, without padding."""
    embedding = tensors.get(names.parts["embedding"] + ".weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelLoadError(f"{path}: no embedding matrix", param=str(path))
    return int(embedding.shape[0])


def _stored_dtype(tensors: Mapping[str, Any], names: WeightNames) -> str:
    """The type of the first layer's query projection, as torch names it; blocks of integers count as bfloat16."""
    tensor = tensors.get(names.parts["q"].format(0) + ".weight")
    return {"F32": "float32", "F16": "float16", "F64": "float64"}.get(getattr(tensor, "type", ""), "bfloat16")
