"""How many: the strings of a finite language, counted and not listed.

Where names or unique items come from a finite language, a text can hold only so many of them.
"""

from __future__ import annotations

from typing import Final

from radixrt.grammar.rx import Pool, Rx
from radixrt.grammar.terms import INFINITE

__all__ = ["count_strings"]

MAX_LENGTH: Final = 4096  # bytes; languages with longer strings have more of them than any text has room for
MAX_TERMS: Final = 20_000  # derivatives that one count may look at


def count_strings(pool: Pool, language: Rx) -> int | None:
    """The number of strings in a language; None: infinitely many, or too many to count in bounded work."""
    if pool.longest(language) == INFINITE or pool.longest(language) > MAX_LENGTH:
        return None
    counts: dict[Rx, int] = {}
    todo = [language]
    while todo:
        term = todo[-1]
        if term in counts:
            todo.pop()
            continue
        if len(todo) + len(counts) > MAX_TERMS:
            return None
        arcs = pool.arcs(term)
        missing = [target for _, target in arcs if target not in counts]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        counts[term] = pool.nullable(term) + sum(mask.bit_count() * counts[target] for mask, target in arcs)
    return counts[language]
