"""What the scheduler is asked to run, and the words it answers with.

A sequence is token ids in, token ids out. The scheduler knows nothing about text, programs or branches: an
``OutputSink`` belongs to each sequence and hears its tokens.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from radixrt.api import FinishReason, SamplingParams
from radixrt.errors import ErrorInfo

__all__ = ["MatcherProtocol", "OutputSink", "ScoredToken", "SequenceRequest", "SequenceResult"]


class MatcherProtocol(Protocol):
    """The part of ``radixrt.grammar`` matchers that a step needs (see design of the grammar room)."""

    @property
    def is_accepting(self) -> bool: ...

    @property
    def is_complete(self) -> bool:
        """Accepting, and nothing but an end token may follow: the sequence can finish at once."""

    @property
    def failed(self) -> bool:
        """Whether it can say nothing any more: nothing is legal, or something went wrong inside, see ``error``."""

    @property
    def error(self) -> Exception | None:
        """What went wrong inside, or None. One that is a ``RadixrtError`` is a limit that the constraint met."""

    def accept(self, token: int, /) -> bool: ...

    def forced_tokens(self) -> list[int]: ...


class ScoredToken(msgspec.Struct, frozen=True):
    """A token with its log-probability (None for the first of a prompt) and alternatives (id, logprob)."""

    id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] = ()


class SequenceResult(msgspec.Struct, frozen=True):
    """The terminal word about a sequence, given to its sink exactly once.

    ``output_ids`` holds every accepted token; an end-of-sequence or stop token that ended it is in
    ``stop_token`` and not in ``output_ids``. ``prompt_scores`` covers ``ids[logprob_start:]`` when asked for.
    """

    finish_reason: FinishReason
    output_ids: list[int]
    stop_token: int | None = None
    cached_tokens: int = 0
    computed_tokens: int = 0
    forced_tokens: int = 0
    decode_steps: int = 0
    output_scores: list[ScoredToken] | None = None
    prompt_scores: list[ScoredToken] | None = None
    error: ErrorInfo | None = None


class OutputSink(Protocol):
    """Hears the tokens of one sequence, on the step loop's thread."""

    def push(self, tokens: list[int], /) -> bool:
        """Take newly accepted tokens (never the end token). True ends the sequence with ``stop``."""

    def finish(self, result: SequenceResult, /) -> None:
        """Take the terminal result. Called exactly once, also after cancel and error."""


class SequenceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to run.

    ``ids`` is the whole context. ``params.max_tokens`` 0 only computes (and scores) it. ``end_ids`` end it
    when sampled, unless ``params.ignore_eos``; ``params.stop_token_ids`` always do. ``key`` is the 64-bit
    random stream. ``namespace`` is the cache namespace. ``logprob_start``: report the scores of
    ``ids[logprob_start:]``, so the context is matched in the tree only up to token ``logprob_start - 1``.
    ``top`` is how many alternatives those scores carry.
    """

    id: int
    ids: list[int]
    params: SamplingParams
    sink: OutputSink
    end_ids: tuple[int, ...] = ()
    key: int = 0
    namespace: tuple[str, ...] = ()
    matcher: MatcherProtocol | None = None
    logprob_start: int | None = None
    top: int = 0
    priority: int = 0
