"""Who may ever run, and who may start now.

``check_fits`` is the one formula for "can this run at all": the edge of the system and the scheduler both call
it, so that whatever was let in is admitted in the end. Starting is more careful than that formula, because
running sequences still grow: some of their future output is set aside.
"""

from __future__ import annotations

from collections.abc import Iterable

from radixrt.errors import ContextLengthExceeded, InvalidRequest
from radixrt.scheduler.kv import KVCache
from radixrt.scheduler.request import SequenceRequest
from radixrt.scheduler.sequence import SequenceState

__all__ = ["Admission", "check_request"]

_RESERVE_CAP = 4096  # output tokens of one sequence that are planned for at most
_RESERVE_START = 0.3
_RESERVE_FLOOR = 0.1
_RESERVE_DECAY = 0.99  # per step
_RESERVE_PENALTY = 0.2  # per retraction


def check_request(request: SequenceRequest, vocab_size: int) -> None:
    """Raise ``InvalidRequest``, naming the field, for what no model could run."""
    params = request.params.validated()
    if not request.ids:
        raise InvalidRequest("a sequence needs at least one token of context", param="prompt")
    if min(request.ids) < 0 or max(request.ids) >= vocab_size:
        raise InvalidRequest(f"token ids must be between 0 and {vocab_size - 1}", param="prompt")
    if params.n != 1:
        raise InvalidRequest("a sequence is one sample: n must be 1 here", param="n")
    if any(token >= vocab_size for token in params.logit_bias or ()):
        raise InvalidRequest(f"logit_bias names a token beyond the vocabulary of {vocab_size}", param="logit_bias")
    if any(token >= vocab_size for token in params.stop_token_ids):
        raise InvalidRequest(
            f"stop_token_ids names a token beyond the vocabulary of {vocab_size}", param="stop_token_ids"
        )
    if request.logprob_start is not None and not 0 <= request.logprob_start <= len(request.ids):
        raise InvalidRequest("logprob_start lies outside the context", param="logprob_start")
    if not 0 <= request.top <= vocab_size:
        raise InvalidRequest(f"top must be between 0 and {vocab_size}", param="top")


class Admission:
    """The two questions, over one pool and one context length."""

    def __init__(self, kv: KVCache, context_length: int) -> None:
        self._kv = kv
        self._reserve = _RESERVE_START
        self.context_length = context_length
        # Whole pages: a sequence that fits this limit fits the pool's pages too.
        self.limit = min(context_length, kv.pool.total)

    def check_fits(self, prompt_len: int, max_tokens: int) -> None:
        """Raise ``ContextLengthExceeded`` unless prompt and output together fit context and pool."""
        needed = prompt_len + max_tokens
        if needed > self.limit:
            of = "the context length" if self.limit == self.context_length else "the size of the KV pool"
            raise ContextLengthExceeded(
                f"prompt and output together need {needed} tokens, more than {of}, {self.limit}",
                needed=needed,
                limit=self.limit,
                param="prompt" if prompt_len >= self.limit else "max_tokens",
            )

    def note_step(self) -> None:
        """Another step without trouble: plan with a little less output."""
        self._reserve = max(_RESERVE_FLOOR, self._reserve * _RESERVE_DECAY)

    def note_retraction(self) -> None:
        """Too much was admitted: plan with more output from now on."""
        self._reserve = min(1.0, self._reserve + _RESERVE_PENALTY)

    def reserved(self, running: Iterable[SequenceState]) -> int:
        """Slots that the running sequences do not have yet but will probably need."""
        return sum(self.growth(sequence) for sequence in running)

    def growth(self, sequence: SequenceState) -> int:
        """Slots one attached sequence will probably still need."""
        output = int(self._reserve * min(sequence.remaining_tokens, _RESERVE_CAP))
        return self._kv.missing(sequence, sequence.length + max(output, min(1, sequence.remaining_tokens)))

    def may_start(self, sequence: SequenceState, reserved: int) -> bool:
        """Whether an attached sequence may run beside others that need ``reserved`` more slots."""
        return reserved + self.growth(sequence) <= self._kv.available_slots
