"""A real engine over a model without weights: worker thread, scheduler, interpreter and client are the real ones.

Only the model and the tokenizer are replaced, so that a test of a program or a call takes milliseconds.
"""

from __future__ import annotations

import functools
from typing import Any

from radixrt.client.engine import Engine
from radixrt.config import EngineConfig, resolve
from radixrt.grammar import Compiler, Vocabulary
from radixrt.scheduler.loop import Scheduler
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import Script, ScriptedModel
from radixrt.text.tokenizer import Tokenizer
from radixrt.worker.messages import ModelInfo
from radixrt.worker.runtime import Runtime
from radixrt.worker.supervisor import Patience, ThreadLauncher

__all__ = ["scripted_engine", "scripted_runtime"]


def scripted_engine(
    *,
    script: Script | None = None,
    model: ScriptedModel | None = None,
    tokenizer: Tokenizer | None = None,
    context_length: int = 4096,
    total_slots: int = 16384,
    patience: Patience | None = None,
    **flags: Any,
) -> Engine:
    """An ``Engine`` in thread mode. ``script`` is the model's (see ``ScriptedModel``); ``flags`` are the engine's.

    A ``model`` of your own replaces ``script`` and ``context_length``. Close the engine, or use ``with``.
    """
    config = resolve({"worker": "thread", "heartbeat_s": 0.2, **flags}, environ={})
    load = functools.partial(
        scripted_runtime,
        config,
        script=script,
        model=model,
        tokenizer=tokenizer,
        context_length=context_length,
        total_slots=total_slots,
    )
    return Engine.from_launcher(ThreadLauncher(load, config), config, patience=patience)


def scripted_runtime(
    config: EngineConfig,
    *,
    script: Script | None = None,
    model: ScriptedModel | None = None,
    tokenizer: Tokenizer | None = None,
    context_length: int = 4096,
    total_slots: int = 16384,
) -> Runtime:
    """What a worker loads for ``scripted_engine``."""
    tokenizer = tokenizer or ByteTokenizer()
    model = model or ScriptedModel(tokenizer.vocab_size, context_length, script=script)
    slots = config.max_total_tokens or total_slots
    special = sorted(tokenizer.special_ids)
    vocabulary = Vocabulary(
        tokenizer.tokens(),
        tokenizer.eos_ids,
        special,
        model.vocab_size,
        special_names={name: i for i in special if (name := tokenizer.token_text(i))},
    )
    info = ModelInfo(
        name="scripted",
        architecture="scripted",
        vocab_size=model.vocab_size,
        context_length=model.context_length,
        total_slots=slots,
        eos_ids=tokenizer.eos_ids,
        bos_id=tokenizer.bos_id,
        has_chat_template=tokenizer.chat is not None,
        parameters=0,
    )
    return Runtime(
        info=info,
        config=config,
        tokenizer=tokenizer,
        compiler=Compiler(vocabulary, encode=tokenizer.encode_text),
        scheduler=Scheduler(model, config, total_slots=slots),
    )
