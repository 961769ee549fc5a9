"""From a checkpoint's tensors to the decoder's: checked by name and shape, fused, in one type on one device.

All names and shapes are compared with the configuration before anything is allocated. Then every destination is
allocated once and filled part by part, so that at no time more than one source tensor is held beside the result.
This module does not know how files are laid out or what the numbers are used for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixrt.errors import ModelLoadError
from radixrt.model.config import DecoderConfig
from radixrt.model.families.base import WeightNames

__all__ = ["DecoderWeights", "LayerWeights", "TensorSource", "load_weights", "parameter_count"]


class _Shaped(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


class TensorSource(Protocol):
    """An open checkpoint: what there is, and reading it. Both readers of ``radixrt.formats`` are one."""

    @property
    def path(self) -> Path: ...

    @property
    def tensors(self) -> Mapping[str, _Shaped]: ...

    def read(self, name: str, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class LayerWeights:
    """One layer. Matrices are [out, in]; query, key and value rows are stacked, gate and up rows too."""

    input_norm: Tensor
    qkv: Tensor
    output: Tensor
    post_norm: Tensor
    gate_up: Tensor
    down: Tensor
    qkv_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    output_bias: Tensor | None = None
    gate_up_bias: Tensor | None = None
    down_bias: Tensor | None = None


@dataclass(frozen=True)
class DecoderWeights:
    """All weights. ``head`` is ``embedding`` itself where they are tied; ``rope_factors`` is float32 [D/2]."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Tensor
    rope_factors: Tensor | None = None


class _Part(NamedTuple):
    """A source tensor: its name, shape, and the heads whose rows must be reordered (0: none)."""

    name: str
    shape: tuple[int, ...]
    interleaved_heads: int = 0


class _Target(NamedTuple):
    """A destination: the sources that are stacked in it, along the first dimension."""

    field: str
    parts: tuple[_Part, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])


def load_weights(
    source: TensorSource,
    config: DecoderConfig,
    names: WeightNames,
    *,
    dtype: torch.dtype,
    device: torch.device,
    interleaved: bool = False,
    memory_limit: int | None = None,
) -> DecoderWeights:
    """Read all weights of ``config`` from ``source``.

    ``interleaved`` says that query and key rows are in the order of the interleaved rotation and are to be put in
    that of the half rotation. Raises ``ModelLoadError`` that names tensors which are missing, unknown or of
    another shape, or when more than ``memory_limit`` bytes would be needed.
    """
    shared = list(_shared_targets(config, names))
    layers = [list(_layer_targets(config, names, layer, interleaved=interleaved)) for layer in range(config.layers)]
    targets = [*shared, *(target for layer in layers for target in layer)]
    _check_tensors(source, targets, names, tied=config.tied_embeddings)
    _check_memory(source, targets, dtype, memory_limit)

    def read(target: _Target) -> Tensor:
        wide = torch.float32 if target.field == "rope_factors" else dtype
        return _read(source, target, wide, device)

    found = {target.field: read(target) for target in shared}
    return DecoderWeights(
        embedding=found["embedding"],
        layers=tuple(LayerWeights(**{target.field: read(target) for target in layer}) for layer in layers),
        final_norm=found["final_norm"],
        head=found.get("head", found["embedding"]),
        rope_factors=found.get("rope_factors"),
    )


def parameter_count(weights: DecoderWeights) -> int:
    """Numbers in the checkpoint; a tied head counts once."""
    tensors = [weights.embedding, weights.final_norm]
    if weights.head is not weights.embedding:
        tensors.append(weights.head)
    for layer in weights.layers:
        tensors.extend(tensor for tensor in vars(layer).values() if tensor is not None)
    return sum(tensor.numel() for tensor in tensors)


def _shared_targets(config: DecoderConfig, names: WeightNames) -> Iterator[_Target]:
    def whole(field: str, *shape: int) -> _Target:
        return _Target(field, (_Part(names.parts[field] + ".weight", shape),))

    yield whole("embedding", config.vocab_size, config.hidden_size)
    yield whole("final_norm", config.hidden_size)
    if not config.tied_embeddings:
        yield whole("head", config.vocab_size, config.hidden_size)
    if config.rope_factors:
        yield whole("rope_factors", config.head_dim // 2)


def _layer_targets(
    config: DecoderConfig, names: WeightNames, layer: int, *, interleaved: bool
) -> Iterator[_Target]:
    heads = {"q": config.heads, "k": config.kv_heads} if interleaved else {}
    hidden, inner = config.hidden_size, config.intermediate_size
    attention_rows = {"q": config.query_size, "k": config.kv_size, "v": config.kv_size}

    def stack(field: str, rows: Mapping[str, int], columns: int, bias: bool) -> Iterator[_Target]:
        stems = [(names.parts[part].format(layer), count, heads.get(part, 0)) for part, count in rows.items()]
        yield _Target(field, tuple(_Part(f"{stem}.weight", (count, columns), h) for stem, count, h in stems))
        if bias:
            yield _Target(f"{field}_bias", tuple(_Part(f"{stem}.bias", (count,), h) for stem, count, h in stems))

    def vector(field: str, size: int) -> _Target:
        return _Target(field, (_Part(names.parts[field].format(layer) + ".weight", (size,)),))

    yield vector("input_norm", hidden)
    yield from stack("qkv", attention_rows, hidden, config.qkv_bias)
    if config.qk_norm:
        yield vector("q_norm", config.head_dim)
        yield vector("k_norm", config.head_dim)
    yield from stack("output", {"output": hidden}, config.query_size, config.output_bias)
    yield vector("post_norm", hidden)
    yield from stack("gate_up", {"gate": inner, "up": inner}, hidden, config.mlp_bias)
    yield from stack("down", {"down": hidden}, inner, config.mlp_bias)


def _check_tensors(source: TensorSource, targets: list[_Target], names: WeightNames, *, tied: bool) -> None:
    wanted = {part.name: part.shape for target in targets for part in target.parts}
    missing = [name for name in wanted if name not in source.tensors]
    if missing:
        raise _error(source, f"tensors are missing: {_few(missing)}")
    # A tied head may be stored all the same; the embedding is what counts then.
    head = {names.parts["head"] + ".weight"} if tied else set()
    extra = [
        name
        for name in source.tensors
        if name not in wanted and name not in head and not name.endswith(names.ignored)
    ]
    if extra:
        raise _error(source, f"tensors that this architecture does not have: {_few(extra)}")
    for name, shape in wanted.items():
        found = tuple(source.tensors[name].shape)
        if found != shape:
            raise _error(source, f"tensor {name} has shape {found}, the configuration needs {shape}")


def _check_memory(source: TensorSource, targets: list[_Target], dtype: torch.dtype, limit: int | None) -> None:
    needed = sum(int(np.prod(part.shape, dtype=object)) for t in targets for part in t.parts) * dtype.itemsize
    if limit is not None and needed > limit:
        raise _error(
            source,
            f"the weights take {needed / 1e9:.1f} GB as {str(dtype).removeprefix('torch.')}, "
            f"but {limit / 1e9:.1f} GB of memory are free; a smaller --dtype may help",
        )


def _read(source: TensorSource, target: _Target, dtype: torch.dtype, device: torch.device) -> Tensor:
    result = torch.empty(target.shape, dtype=dtype, device=device)
    row = 0
    for part in target.parts:
        values = source.read(part.name)
        if values.dtype.kind != "f":
            raise _error(source, f"tensor {part.name} holds {values.dtype}, not floating-point numbers")
        if part.interleaved_heads:
            values = _half_rotation_order(values, part.interleaved_heads)
        result[row : row + len(values)].copy_(torch.from_numpy(values))
        row += len(values)
    return result


def _half_rotation_order(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Within every head bring rows 0, 2, 4, ... to the first half and 1, 3, 5, ... to the second."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _error(source: TensorSource, problem: str) -> ModelLoadError:
    return ModelLoadError(f"{source.path}: {problem}", param=str(source.path))


def _few(names: list[str]) -> str:
    shown = ", ".join(name[:120] for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
