"""A list of strings as one terminal, shaped like a trie so that thousands cost no more than their text."""

from __future__ import annotations

from collections.abc import Sequence

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.rules import Grammar
from radixrt.grammar.rx import EMPTY, Pool, Rx
from radixrt.kernels.cpu.trie_walk import common_prefix

__all__ = ["choices_grammar", "one_of"]


def choices_grammar(pool: Pool, choices: Sequence[str], limits: GrammarLimits) -> Grammar:
    """Exactly one of ``choices``; raises ``InvalidRequest`` (param ``choices``) for a list that makes no sense."""
    if not choices:
        raise InvalidRequest("choices must not be empty", param="choices")
    seen: set[str] = set()
    for index, choice in enumerate(choices):
        if not isinstance(choice, str):
            raise InvalidRequest(
                f"choices must be strings, but choice {index} is a {type(choice).__name__}", param="choices"
            )
        if not choice:
            raise InvalidRequest(f"choice {index} is empty", param="choices")
        if choice in seen:
            raise InvalidRequest(f"choice {index} is there twice: {choice[:80]!r}", param="choices")
        seen.add(choice)
    if sum(map(len, choices)) > limits.source_chars:
        raise UnsupportedConstraint(
            f"the choices have more than {limits.source_chars} characters", keyword="source_chars", param="choices"
        )
    try:
        spellings = [choice.encode() for choice in choices]
    except UnicodeEncodeError as error:
        raise InvalidRequest("a choice holds a lone surrogate, which is no text", param="choices") from error
    builder = GrammarBuilder(pool)
    return builder.build(builder.terminal(one_of(pool, spellings)))


def one_of(pool: Pool, strings: Sequence[bytes]) -> Rx:
    """The union of some byte strings, with common beginnings (and, by interning, equal endings) shared."""
    # The trie of the sorted strings, of which only the path to the latest string is kept: for each of its nodes the
    # terms that lead away from it, first bytes included.
    path: list[list[Rx]] = [[]]
    previous = b""

    def close(depth: int) -> None:
        """Turn the nodes of the path below ``depth`` into terms of their parents."""
        pool.fuel.spend(len(path) - depth)
        while len(path) > depth + 1:
            branches = path.pop()
            tail = branches[0] if len(branches) == 1 else pool.alt(*branches)
            path[-1].append(pool.concat(pool.byte_set(1 << previous[len(path) - 1]), tail))

    for string in sorted(set(strings)):
        shared = common_prefix(previous, string)
        close(shared)
        previous = string
        path.extend([] for _ in range(len(string) - shared))
        path[-1].append(EMPTY)
    close(0)
    return pool.alt(*path[0])
