"""What the worker's loop works with: tokenizer, grammar compiler, scheduler; as it sees them.

The protocols list exactly what the interpreter uses of the other rooms, so that tests and ablations can bring
their own. ``load_runtime`` builds the real thing from the name of a model. Nothing here runs a program.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from radixrt.api import Constraint
from radixrt.config import EngineConfig
from radixrt.scheduler.request import MatcherProtocol, SequenceRequest
from radixrt.text.pieces import Message, Piece
from radixrt.worker.messages import ModelInfo

__all__ = [
    "ChatTemplateProtocol",
    "CompiledProtocol",
    "CompilerProtocol",
    "MatcherHandle",
    "Runtime",
    "SchedulerProtocol",
    "TokenizerProtocol",
    "load_runtime",
]


class ChatTemplateProtocol(Protocol):
    """``radixrt.text.chat_template.ChatTemplate``."""

    def render(
        self,
        messages: Sequence[Message],
        *,
        open_role: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Piece]: ...


class TokenizerProtocol(Protocol):
    """``radixrt.text.tokenizer.Tokenizer``. Called from several threads at once."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def eos_ids(self) -> tuple[int, ...]: ...
    @property
    def prefix_ids(self) -> tuple[int, ...]: ...
    @property
    def chat(self) -> ChatTemplateProtocol | None: ...
    def encode(self, pieces: Sequence[Piece], *, at_start: bool) -> list[int]: ...
    def encode_text(self, text: str, *, at_start: bool = False) -> list[int]: ...
    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str: ...
    @property
    def has_dummy_prefix(self) -> bool: ...
    def visible_bytes(self, index: int, *, skip_special: bool = True) -> bytes: ...
    def token_bytes(self, token: int, /) -> bytes | None: ...
    def token_text(self, token: int, /) -> str: ...
    def tokens(self) -> list[bytes | None]: ...
    def id_of(self, spelling: str, /) -> int | None: ...
    def stable_prefix(self, text: str, *, at_start: bool) -> int: ...
    def heal(self, ids: Sequence[int], floor: int) -> tuple[int, bytes]: ...


class MatcherHandle(MatcherProtocol, Protocol):
    """``radixrt.grammar.Matcher``."""

    @property
    def is_complete(self) -> bool: ...


class CompiledProtocol(Protocol):
    """``radixrt.grammar.CompiledGrammar``."""

    def matches(self, text: str | bytes, /) -> bool: ...
    def matcher(
        self, end_ids: Sequence[int] | None = None, prefix: bytes = b"", prefix_ids: Sequence[int] = ()
    ) -> MatcherHandle: ...


class CompilerProtocol(Protocol):
    """``radixrt.grammar.Compiler``. Called from several threads at once."""

    def compile(self, constraint: Constraint, /) -> CompiledProtocol: ...
    def any_text(self) -> CompiledProtocol: ...


class SchedulerProtocol(Protocol):
    """``radixrt.scheduler.loop.Scheduler``. One thread calls it."""

    def submit(self, request: SequenceRequest, /) -> None: ...
    def cancel(self, request_id: int, /) -> Any: ...
    def step(self) -> bool: ...
    def has_work(self) -> bool: ...
    def stats(self) -> dict[str, float]: ...
    def flush_cache(self) -> Any: ...
    def note_future_use(self, namespace: tuple[str, ...], ids: Any, delta: int, /) -> Any: ...


class Runtime(msgspec.Struct, frozen=True, dict=True):
    """All that a loaded worker needs."""

    info: ModelInfo
    config: EngineConfig
    tokenizer: TokenizerProtocol
    compiler: CompilerProtocol
    scheduler: SchedulerProtocol

    @functools.cached_property
    def longest_token(self) -> int:
        """Bytes of the longest token: a text of B bytes has at least B / longest_token tokens."""
        return max((len(token) for token in self.tokenizer.tokens() if token), default=1)


def load_runtime(model: str, config: EngineConfig) -> Runtime:
    """Resolve, read and allocate the model named ``model``. Raises the errors of loading."""
    # Imported here: this module is read by clients too, which must not wait for torch.
    from radixrt.grammar import Compiler, Vocabulary
    from radixrt.model.load import load_model
    from radixrt.model.sources import resolve_model
    from radixrt.scheduler.loop import Scheduler
    from radixrt.text.tokenizer import load_tokenizer

    source = resolve_model(model)
    tokenizer = load_tokenizer(source.path)
    loaded = load_model(source, config)
    tokens, special = tokenizer.tokens(), tokenizer.special_ids
    named = {i for i, token in enumerate(tokens) if token is not None} | special
    loaded.model.forbid([i for i in range(loaded.model.vocab_size) if i not in named])
    total_slots = config.max_total_tokens or loaded.default_total_slots
    scheduler = Scheduler(loaded.model, config, total_slots=total_slots)
    names = {name: i for i in special if (name := tokenizer.token_text(i))}
    vocabulary = Vocabulary(
        tokens, tokenizer.eos_ids, tuple(sorted(special)), loaded.model.vocab_size, special_names=names
    )
    info = ModelInfo(
        name=source.name,
        architecture=loaded.architecture,
        vocab_size=loaded.model.vocab_size,
        context_length=loaded.model.context_length,
        total_slots=total_slots,
        eos_ids=tokenizer.eos_ids,
        bos_id=tokenizer.bos_id,
        has_chat_template=tokenizer.chat is not None,
        parameters=loaded.parameters,
    )
    compiler = Compiler(vocabulary, encode=tokenizer.encode_text)
    return Runtime(info=info, config=config, tokenizer=tokenizer, compiler=compiler, scheduler=scheduler)
