"""What does not depend on the schema, made once: the spellings of strings, and the formats it names.

A compilation starts from a copy of a pool that has them, which costs about as much as copying the memory. The pool
that is copied is never changed, and few of them are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from radixrt.grammar.json_schema.formats import FORMATS
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.rx import new_pool

__all__ = ["prepared_languages"]

FUEL: Final = 2_000_000  # all formats together take a tenth of it
KEPT: Final = 32  # sets of formats whose pools are kept


def prepared_languages(formats: Iterable[str], unknown_format: str, compile_fuel: int) -> Languages:
    """Languages for one compilation in a pool of its own, with ``compile_fuel`` left in it."""
    found = _prepared(frozenset(formats).intersection(FORMATS)).copied(unknown_format)
    found.pool.refill(compile_fuel, "compile_fuel")
    return found


@functools.lru_cache(maxsize=KEPT)
def _prepared(formats: frozenset[str]) -> Languages:
    languages = Languages(new_pool(FUEL, "compile_fuel"), "ignore")
    languages.prepared(sorted(formats))
    return languages
