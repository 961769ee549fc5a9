"""A list of strings as one terminal, shaped like a trie so that thousands cost no more than their text."""

from __future__ import annotations

from collections.abc import Sequence

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.rules import Grammar
from radixrt.grammar.rx import Pool

__all__ = ["choices_grammar"]


def _spelling(index: int, choice: str) -> bytes:
    try:
        return choice.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedConstraint(
            f"choice {index} holds a lone surrogate, which no text does",
            keyword="surrogate",
            location=f"/{index}",
            param="choices",
        ) from error


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
    spellings = [_spelling(index, choice) for index, choice in enumerate(choices)]
    # The work is in proportion to the text, which has a limit of its own; the usual fuel serves 100,000 bytes.
    pool.refill(limits.compile_fuel * (1 + sum(map(len, spellings)) // 100_000), "compile_fuel")
    builder = GrammarBuilder(pool)
    return builder.build(builder.terminal(pool.one_of(spellings)))
