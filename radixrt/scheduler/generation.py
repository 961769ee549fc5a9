"""What a sampled token does to its sequence: append, advance the grammar, take forced tokens, end or go on.

The grammar is the strongest voice: where there is a matcher, an end token ends the sequence exactly when the
text so far is accepted, whatever ``ignore_eos`` says, and ``min_tokens`` bans end tokens only while something
else is legal. This module does not know about slots or batches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from radixrt.api import FinishReason
from radixrt.model.batch import RowSampling, Sampled
from radixrt.scheduler.request import MatcherProtocol, ScoredToken
from radixrt.scheduler.sequence import SequenceState

__all__ = ["begin", "row_sampling", "take_sampled", "takes_forced"]


def takes_forced(sequence: SequenceState, enabled: bool) -> bool:
    """Whether forced tokens are appended unsampled: not where each output token's log-probability is wanted."""
    return enabled and sequence.request.matcher is not None and sequence.output_scores is None


def begin(sequence: SequenceState, *, forced: bool) -> FinishReason | None:
    """Before the first step: let the grammar say what it says anyway. Returns why the sequence has ended, if so."""
    matcher = sequence.request.matcher
    if matcher is None or sequence.request.params.max_tokens == 0:
        return None
    if _is_stuck(matcher):
        return FinishReason.NO_LEGAL_TOKEN
    if matcher.is_complete:
        return FinishReason.STOP
    tokens: list[int] = []
    reason = _take_forced(sequence, tokens) if takes_forced(sequence, forced) else None
    return _told(sequence, tokens, reason)


def take_sampled(sequence: SequenceState, sampled: Sampled, *, forced: bool) -> FinishReason | None:
    """Take one sampled token and what follows from it. Returns why the sequence has ended, or None.

    Raises ``RuntimeError`` when the row could not be sampled or the matcher refuses what its mask allowed, and
    what went wrong inside the matcher, if anything.
    """
    if sampled.error is not None:
        raise RuntimeError(sampled.error)
    if sampled.token < 0:
        if sequence.request.matcher is not None:
            _is_stuck(sequence.request.matcher)
        return FinishReason.NO_LEGAL_TOKEN
    sequence.decode_steps += 1
    tokens: list[int] = []
    reason = _take(sequence, sampled.token, tokens)
    if tokens and sequence.output_scores is not None:
        sequence.output_scores.append(ScoredToken(sampled.token, sampled.logprob, sampled.top))
    if reason is None and takes_forced(sequence, forced):
        reason = _take_forced(sequence, tokens)
    return _told(sequence, tokens, reason)


def _take_forced(sequence: SequenceState, tokens: list[int]) -> FinishReason | None:
    matcher = sequence.request.matcher
    if matcher is None:
        return None
    for token in matcher.forced_tokens():
        before = len(tokens)
        reason = _take(sequence, token, tokens)
        sequence.forced_tokens += len(tokens) - before
        if reason is not None:
            return reason
    return FinishReason.NO_LEGAL_TOKEN if _is_stuck(matcher) else None


def _is_stuck(matcher: MatcherProtocol) -> bool:
    """Whether the matcher has failed. Raises the error that made it fail: only a text can have no legal token."""
    if matcher.failed and matcher.error is not None:
        raise matcher.error
    return matcher.failed


def _take(sequence: SequenceState, token: int, tokens: list[int]) -> FinishReason | None:
    """Append one token (here and to ``tokens``) unless it ends the sequence."""
    params, matcher = sequence.request.params, sequence.request.matcher
    is_end = token in sequence.end_ids and (matcher is not None or not params.ignore_eos)
    if (is_end or token in sequence.stop_ids) and (matcher is None or matcher.is_accepting):
        sequence.stop_token = token
        return FinishReason.STOP
    if matcher is not None and not matcher.accept(token):
        _is_stuck(matcher)
        raise RuntimeError(f"the matcher refused token {token}, which its mask allowed")
    sequence.append(token)
    tokens.append(token)
    if matcher is not None:
        if _is_stuck(matcher):
            return FinishReason.NO_LEGAL_TOKEN
        if matcher.is_complete:
            return FinishReason.STOP
    return FinishReason.LENGTH if len(sequence.output) >= params.max_tokens else None


def _told(sequence: SequenceState, tokens: list[int], reason: FinishReason | None) -> FinishReason | None:
    """Tell the sink; it may end a sequence that would go on or is cut by length."""
    if tokens and sequence.request.sink.push(tokens) and reason in (None, FinishReason.LENGTH):
        return FinishReason.STOP
    return reason


def row_sampling(sequence: SequenceState, mask: NDArray[np.int32] | None, vocab_size: int) -> RowSampling:
    """How to sample the next token of ``sequence``; ``mask`` is its own bitmask row where it has a matcher.

    The random number is addressed by the output position, so that it is the same after a retraction.
    """
    request, output = sequence.request, sequence.output
    params = request.params
    penalised = params.repetition_penalty != 1.0 or params.presence_penalty or params.frequency_penalty
    banned: tuple[int, ...] = ()
    if len(output) < params.min_tokens:
        enders = sequence.stop_ids if params.ignore_eos else sequence.end_ids | sequence.stop_ids
        banned = tuple(token for token in enders if 0 <= token < vocab_size)
        if mask is not None and not _allows_other(mask, banned):
            banned = ()
    return RowSampling(
        params=params,
        key=request.key,
        position=len(output),
        prompt_ids=request.ids if penalised else (),
        output_ids=output if penalised else (),
        banned_ids=banned,
    )


def _allows_other(mask: NDArray[np.int32], tokens: tuple[int, ...]) -> bool:
    """Whether the mask row allows a token that is not in ``tokens``."""
    words = mask.view(np.uint32).copy()
    for token in tokens:
        words[token >> 5] &= ~np.uint32(1 << (token & 31))
    return bool(words.any())
