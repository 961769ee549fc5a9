"""Whether the end tokens of a text leave it a way on.

An end token is allowed where a text is complete and nowhere else, whatever it spells. A request may name one that
spells a text; if no other token is that text's first byte, there can be places where only the end token would lead
on, and generation would stop in the middle. ``stranded`` looks for such a place. Where every such byte is a token
of its own there is none, which is seen at once. Otherwise the states near the start are searched. What is found is
certain; that nothing is found is not: a place farther away shows only when a mask there allows nothing. What that
means to a request is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.automaton import Automaton
from radixrt.grammar.json_tracker import DUPLICATE
from radixrt.grammar.machine import DEAD
from radixrt.grammar.matcher import Matcher
from radixrt.grammar.vocab import Vocabulary

__all__ = ["stranded"]

_MAX_STATES: Final = 400
_MAX_ARRIVALS: Final = 8


def stranded(automaton: Automaton, end_ids: Sequence[int], new_matcher: Callable[[], Matcher]) -> bytes | None:
    """A beginning after which only end tokens could follow, though the text is not complete; None: none was found.

    ``new_matcher`` makes matchers of ``automaton`` with these ``end_ids``, of texts without a prefix.
    """
    lost = _lost_bytes(automaton.vocab, end_ids)
    if not lost:
        return None
    steps = {byte: token for byte in range(256) if (token := _single(automaton.vocab, byte, end_ids)) is not None}
    try:
        beginnings = _suspects(automaton, lost, list(steps))
    except UnsupportedConstraint:  # out of fuel: the search has its end where masks would have theirs
        return None
    for beginning in beginnings:
        if _is_stranded(new_matcher(), [steps[byte] for byte in beginning]):
            return beginning
    return None


def _lost_bytes(vocab: Vocabulary, end_ids: Sequence[int]) -> int:
    """The bytes, as a mask, that begin the spelling of an end token and are no token of their own."""
    lost = 0
    for token in end_ids:
        # No grammar can name the special tokens that end texts anyway.
        data = None if token in vocab.special_ids and token in vocab.eos_ids else vocab.spelling(token)
        if data is not None and _single(vocab, data[0], end_ids) is None:
            lost |= 1 << data[0]
    return lost


def _single(vocab: Vocabulary, byte: int, end_ids: Sequence[int]) -> int | None:
    """A token that is this byte and ends nothing."""
    node = vocab.trie.child(-1, byte)
    tokens = vocab.trie.tokens_at(node) if node >= 0 else []
    return next((token for token in tokens if token not in end_ids), None)


def _suspects(automaton: Automaton, lost: int, steps: Sequence[int]) -> list[bytes]:
    """Beginnings of states with no way on but by lost bytes: some for each state, as a tracker may bar one."""
    no_way = lost | 1 << DUPLICATE[0]  # what only a tracker puts there
    arrivals = {automaton.start: [b""]}
    found: list[int] = []
    todo = deque(arrivals)
    while todo and len(arrivals) < _MAX_STATES:
        state = todo.popleft()
        exits = automaton.exits(state)
        if exits and not exits & ~no_way and not automaton.is_accepting(state):
            found.append(state)
        ways = [bytes((byte,)) for byte in steps if exits >> byte & 1]
        for way, target in zip(ways, automaton.run_many(state, ways), strict=True):
            if target == DEAD:
                continue
            if target not in arrivals:
                todo.append(target)
            paths = arrivals.setdefault(target, [])
            if len(paths) < _MAX_ARRIVALS:
                paths.append(arrivals[state][0] + way)
    return [path for state in found for path in arrivals[state]]


def _is_stranded(matcher: Matcher, tokens: Sequence[int]) -> bool:
    """Whether the masks say so too: longer tokens may lead on, and a tracker may bar the way there."""
    row = np.zeros((matcher.vocab_size + 31) // 32, np.int32)
    if not all(map(matcher.accept, tokens)):
        return False
    matcher.fill_mask(row)
    return not matcher.failed and not row.any()
