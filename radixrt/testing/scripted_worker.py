"""A worker process over the scripted model, for tests of what happens between processes.

``ProcessLauncher(model, config, module="radixrt.testing.scripted_worker")`` starts it. Everything is real but model
and tokenizer; sampling is greedy. The name of the model says how loading goes, and certain bytes in a prompt say
what a step does: see ``LOADS`` and the constants.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.config import EngineConfig
from radixrt.errors import ModelLoadError
from radixrt.model.batch import ForwardBatch, RowSampling, Sampled
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_engine import scripted_runtime
from radixrt.testing.scripted_model import ScriptedModel
from radixrt.worker.__main__ import leave, main
from radixrt.worker.runtime import Runtime

__all__ = ["DIE", "FAIL", "HANG", "LOADS"]

DIE, HANG, FAIL = 1, 2, 3
"""Bytes of a prompt: the process ends, the step never ends, the step raises."""

LOADS = ("scripted", "scripted-slow", "scripted-broken")
"""Models: one that loads at once, after a second, never."""


def _behave(batch: ForwardBatch) -> None:
    ids = set(batch.token_ids.tolist())
    if DIE in ids:
        os._exit(9)
    while HANG in ids:
        time.sleep(60)
    if FAIL in ids:
        raise RuntimeError("the model failed, as it was told to")


def _greedy(
    logits: NDArray[np.float32], rows: Sequence[RowSampling], bitmask: NDArray[np.int32] | None
) -> list[Sampled]:
    logits[:, :32] = -np.inf  # the model itself must not say the bytes that ``_behave`` obeys
    if bitmask is not None:
        bits = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little")[:, : logits.shape[1]]
        logits = np.where(bits == 1, logits, -np.inf)
    return [Sampled(token=int(row.argmax()) if np.isfinite(row.max()) else -1) for row in logits]


def _load(model: str, config: EngineConfig) -> Runtime:
    if model == "scripted-slow":
        time.sleep(1.0)
    if model not in LOADS or model == "scripted-broken":
        raise ModelLoadError(f"{model} cannot be loaded", param=model)
    # Steps take a moment, so that there is time to interfere.
    scripted = ScriptedModel(ByteTokenizer.SIZE, hook=_behave, sampler=_greedy, step_delay_s=0.001)
    return scripted_runtime(config, model=scripted)


if __name__ == "__main__":
    leave(main(_load))
