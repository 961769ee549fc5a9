"""One sequence on its way through the scheduler: its tokens, its slots, its output, and the lengths of all three.

The lengths, once and for all (``cached_len <= computed_len <= length``, and ``computed_len <= allocated_len``)::

    tokens   [0, prompt_len) prompt          [prompt_len, length) output
    KV       [0, computed_len) computed      [computed_len, length) pending: what the next steps feed
    slots    [0, cached_len) the tree's      [cached_len, allocated_len) this sequence's own

State only: who moves these borders is the affair of ``kv``, ``batching`` and ``generation``.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from radixrt.api import FinishReason
from radixrt.cache.radix import Node
from radixrt.errors import ErrorInfo
from radixrt.scheduler.request import ScoredToken, SequenceRequest, SequenceResult

__all__ = ["Phase", "SequenceState"]

_EMPTY = np.empty(0, np.int32)


class Phase(enum.Enum):
    """Where a sequence is. Retracted ones wait too, but ahead of everybody who has not run yet."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    RETRACTED = enum.auto()
    FINISHED = enum.auto()


class SequenceState:
    """A submitted sequence. ``serial`` numbers arrivals; ``arrival_step`` is the step count at arrival."""

    __slots__ = (
        "_ids",
        "allocated_len",
        "arrival_step",
        "begun",
        "cached_tokens",
        "computed_len",
        "decode_steps",
        "end_ids",
        "forced_tokens",
        "high_water",
        "length",
        "match_length",
        "match_version",
        "output",
        "output_scores",
        "overtaken",
        "phase",
        "prefill_target",
        "prompt_len",
        "prompt_scores",
        "request",
        "scored_len",
        "serial",
        "slots",
        "sort_key",
        "stop_ids",
        "stop_token",
        "tip",
        "wanted_len",
    )

    def __init__(self, request: SequenceRequest, serial: int, arrival_step: int) -> None:
        self.request = request
        self.serial = serial
        self.arrival_step = arrival_step
        self._ids = np.array(request.ids, np.int32)
        self.length = self.prompt_len = len(request.ids)
        self.end_ids = frozenset(request.end_ids)
        self.stop_ids = frozenset(request.params.stop_token_ids)

        # KV: slots are int32 in position order, see the module docstring for who owns which.
        self.slots: NDArray[np.int32] = _EMPTY
        self.allocated_len = 0
        self.computed_len = 0
        self.tip: Node | None = None
        self.prefill_target = 0  # tokens that were pending as a block when it was last admitted end here
        self.high_water = 0  # the most tokens that were ever computed: below it is recomputation

        # Output.
        self.output: list[int] = []
        self.output_scores: list[ScoredToken] | None = None if request.params.logprobs is None else []
        self.prompt_scores: list[ScoredToken] | None = None
        self.scored_len = self.prompt_len  # scores are wanted of prompt tokens from here on
        if request.logprob_start is not None:
            self.prompt_scores = []
            self.scored_len = request.logprob_start
            if request.logprob_start == 0:
                self.prompt_scores.append(ScoredToken(request.ids[0], None))
                self.scored_len = 1
        self.stop_token: int | None = None
        self.cached_tokens: int | None = None  # matched at the first admission; None before it
        self.forced_tokens = 0
        self.decode_steps = 0
        self.begun = False  # the grammar has had its first word
        self.phase = Phase.WAITING

        # Waiting.
        self.overtaken = 0
        self.wanted_len = 0  # how much of it the tree knows as a future use while it waits
        self.match_version = -1
        self.match_length = 0
        big_endian = self._ids.astype(">i4").tobytes()  # sorts like the ids
        self.sort_key = (request.namespace, big_endian, serial)

    # --- lengths -----------------------------------------------------------------------------------------------

    @property
    def cached_len(self) -> int:
        """Tokens whose slots the tree owns and this sequence has locked."""
        return 0 if self.tip is None else self.tip.end

    @property
    def pending_len(self) -> int:
        return self.length - self.computed_len

    @property
    def is_prefilling(self) -> bool:
        return self.computed_len < self.prefill_target

    @property
    def remaining_tokens(self) -> int:
        """Output tokens that may still come."""
        return self.request.params.max_tokens - len(self.output)

    @property
    def match_limit(self) -> int:
        """The longest prefix that may come from the cache: one token at least has to give logits.

        The score of the token at ``scored_len`` needs the logits of the one before it.
        """
        last = self.length if self.scored_len >= self.prompt_len else self.scored_len
        return max(0, last - 1)

    # --- tokens and slots --------------------------------------------------------------------------------------

    @property
    def ids(self) -> NDArray[np.int32]:
        """All tokens so far, int32 ``[length]``: a view."""
        return self._ids[: self.length]

    @property
    def private_slots(self) -> NDArray[np.int32]:
        """The slots this sequence owns: a view."""
        return self.slots[self.cached_len : self.allocated_len]

    def result(self, reason: FinishReason, error: ErrorInfo | None) -> SequenceResult:
        """The terminal word: every prompt token counts as cached or as computed, if it got that far."""
        cached = self.cached_tokens or 0
        return SequenceResult(
            finish_reason=reason,
            output_ids=self.output,
            stop_token=self.stop_token,
            cached_tokens=cached,
            computed_tokens=max(0, min(self.high_water, self.prompt_len) - cached),
            forced_tokens=self.forced_tokens,
            decode_steps=self.decode_steps,
            output_scores=self.output_scores,
            prompt_scores=self.prompt_scores,
            error=error,
        )

    def append(self, token: int) -> None:
        """Add an output token."""
        if self.length == len(self._ids):
            self._ids = _grown(self._ids, self.length + 1)
        self._ids[self.length] = token
        self.length += 1
        self.output.append(token)

    def add_slots(self, slots: NDArray[np.int32]) -> None:
        """Append slots for the next tokens."""
        stop = self.allocated_len + len(slots)
        if stop > len(self.slots):
            self.slots = _grown(self.slots, max(stop, self.length))
        self.slots[self.allocated_len : stop] = slots
        self.allocated_len = stop


def _grown(buffer: NDArray[np.int32], needed: int) -> NDArray[np.int32]:
    """A copy with room for ``needed`` entries and as much again as there was, so that appending is O(1)."""
    larger = np.empty(max(needed, 2 * len(buffer), 16), np.int32)
    larger[: len(buffer)] = buffer
    return larger
