"""The real model behind the scheduler's ``Model``: KV pools, batches to tensors, logits back to numpy.

It does not know about requests, the prefix tree or constraints: rows and slots are what it sees.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixrt.errors import InvalidRequest
from radixrt.kernels.ref import plan_attention
from radixrt.model.batch import ForwardBatch, RowSampling, Sampled
from radixrt.model.config import DecoderConfig
from radixrt.model.decoder import Decoder
from radixrt.model.machine import available_memory, cpu_quota
from radixrt.model.sampler import sample_rows
from radixrt.model.weights import DecoderWeights

__all__ = ["TorchRunner", "free_memory", "resolve_device", "resolve_dtype"]

# What the pool may take by default, when nothing else limits it.
DEFAULT_SLOTS = 1 << 16
POOL_SHARE = 0.25


class TorchRunner:
    """A decoder with its KV pool on one device. Satisfies ``radixrt.model.batch.Model``; one thread calls it."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, *, threads: int = 0) -> None:
        self._decoder = Decoder(config, weights)
        self._device = weights.embedding.device
        self._dtype = weights.embedding.dtype
        self._threads = threads or cpu_quota()
        self._thread: int | None = None
        self._slots = 0
        self._pools: list[tuple[Tensor, Tensor]] = []
        self._absent: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def config(self) -> DecoderConfig:
        return self._decoder.config

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def bytes_per_slot(self) -> int:
        """Bytes that one token takes in the pool, all layers together."""
        return self.config.layers * 2 * self.config.kv_size * self._dtype.itemsize

    def default_total_slots(self) -> int:
        """Slots that fit a quarter of the free memory, at most 65,536."""
        return max(1, min(DEFAULT_SLOTS, int(free_memory(self._device) * POOL_SHARE) // self.bytes_per_slot))

    def forbid(self, ids: Sequence[int]) -> None:
        """From now on the ids that stand for no token (padding of the vocabulary, gaps) get the logit -inf."""
        self._absent = np.array(ids, np.int64)

    def allocate(self, total_slots: int) -> None:
        """Reserve the pool and run once, so that the first batch finds everything set up.

        Raises ``InvalidRequest`` that names ``max_total_tokens`` when the memory is not there.
        """
        if self._slots:
            raise RuntimeError("the KV pool is already allocated")
        needed, free = total_slots * self.bytes_per_slot, free_memory(self._device)
        if needed > free:
            raise InvalidRequest(
                f"max_total_tokens={total_slots} takes {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
                param="max_total_tokens",
            )
        shape = (total_slots, self.config.kv_heads, self.config.head_dim)
        self._pools = [
            (
                torch.empty(shape, dtype=self._dtype, device=self._device),
                torch.empty(shape, dtype=self._dtype, device=self._device),
            )
            for _ in range(self.config.layers)
        ]
        self._slots = total_slots
        self.forward(_one_token_batch())

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        """Run the batch; see ``Model.forward``. Only the rows of ``logit_index`` go through the head."""
        self._check(batch)
        self._use_threads()
        plans = {
            window: plan_attention(
                batch.query_start,
                batch.context_slots,
                self.config.kv_heads,
                window=window,
                device=self._device,
            )
            for window in set(self.config.windows)
        }
        with torch.inference_mode():
            logits = self._decoder.forward(
                self._tensor(batch.token_ids),
                self._tensor(batch.positions),
                self._tensor(batch.write_slots),
                self._pools,
                plans,
                self._tensor(batch.logit_index),
            )
            result: NDArray[np.float32] = logits.to("cpu", torch.float32).numpy()
        if len(self._absent):
            result[:, self._absent] = -np.inf
        return result

    def sample(
        self,
        logits: NDArray[np.float32],
        rows: Sequence[RowSampling],
        bitmask: NDArray[np.int32] | None,
    ) -> list[Sampled]:
        """Sample one token per row; see ``Model.sample``."""
        return sample_rows(logits, rows, bitmask)

    def _tensor(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(self._device)

    def _use_threads(self) -> None:
        """Set the thread count where it counts: in the thread that runs the products."""
        if self._device.type == "cpu" and self._thread != threading.get_ident():
            torch.set_num_threads(self._threads)
            self._thread = threading.get_ident()

    def _check(self, batch: ForwardBatch) -> None:
        """Refuse what would index outside a tensor: on a GPU that would end the process."""
        tokens = len(batch.token_ids)
        if not len(batch.positions) == len(batch.write_slots) == tokens == batch.query_start[-1]:
            raise ValueError("token_ids, positions, write_slots and query_start disagree about the tokens")
        for name, array, limit in (
            ("token_ids", batch.token_ids, self.vocab_size),
            ("write_slots", batch.write_slots, self._slots),
            ("positions", batch.positions, self.context_length),
            ("logit_index", batch.logit_index, tokens),
        ):
            if len(array) and not (array.min() >= 0 and array.max() < limit):
                raise ValueError(f"{name} must be within 0..{limit - 1}")
        if len(batch.query_start) != len(batch.context_slots) + 1:
            raise ValueError("query_start and context_slots disagree about the rows")
        for row, slots in enumerate(batch.context_slots):
            if len(slots) < batch.query_start[row + 1] - batch.query_start[row]:
                raise ValueError(f"the context of row {row} is shorter than its new tokens")
            if len(slots) and not (slots.min() >= 0 and slots.max() < self._slots):
                raise ValueError(f"context_slots of row {row} must be within 0..{self._slots - 1}")


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated on ``device``."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_memory()


def resolve_device(name: str) -> torch.device:
    """The device of flag ``device``. Raises ``InvalidRequest`` when it is asked for and absent."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidRequest("--device cuda: this installation of torch sees no CUDA device", param="device")
    return torch.device(name)


def resolve_dtype(name: str, device: torch.device, checkpoint: str) -> torch.dtype:
    """The type of flag ``dtype``: auto is float32 on a CPU and the checkpoint's own type elsewhere."""
    if name == "auto":
        name = "float32" if device.type == "cpu" else checkpoint
    return _DTYPES[name]


_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def _one_token_batch() -> ForwardBatch:
    """Token 0 at slot 0, which whoever gets the slot overwrites."""
    zero = np.zeros(1, np.int64)
    return ForwardBatch(
        token_ids=zero,
        positions=zero,
        write_slots=zero,
        query_start=np.array([0, 1]),
        context_slots=[np.zeros(1, np.int32)],
        context_lens=np.ones(1, np.int64),
        logit_index=zero,
    )
