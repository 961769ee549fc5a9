"""What compiling and running one grammar may cost: counted, never timed.

Every loop of this package spends *fuel*, about one unit per elementary operation (interning a term, visiting a
configuration, splitting a byte class) of Python, for which native code does sixteen. Running out refuses the
constraint and names the limit; nothing hangs. On a usual core ``compile_fuel`` lasts half a second at most, and
``step_fuel`` some ten milliseconds in native code; without it, masks are given the same and take longer.
This module does not know what the work is for.
"""

from __future__ import annotations

import msgspec

from radixrt.errors import InvalidRequest, UnsupportedConstraint

__all__ = ["Fuel", "GrammarLimits"]


class GrammarLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds for one grammar. All are counts, except the sizes in bytes."""

    source_chars: int = 2_000_000
    """Characters of a grammar text, a schema or all choices together."""
    pattern_chars: int = 150_000
    """Characters of one regular expression."""
    nesting: int = 100
    """Depth of groups in a regular expression."""
    compile_fuel: int = 700_000
    """Elementary operations while compiling, the first mask included."""
    step_fuel: int = 125_000
    """Elementary operations in one ``accept``, ``fill_mask`` or ``forced_tokens``."""
    states: int = 50_000
    """Machine states before new texts start with a fresh machine; one text may use 4 times as many."""
    configurations: int = 100_000
    """Terminals that one machine state may have open at the same time."""
    table_bytes: int = 128 * 2**20
    """Transition table of one machine."""
    mask_cache_bytes: int = 16 * 2**20
    """Mask rows that one grammar keeps."""
    shared_rows_bytes: int = 128 * 2**20
    """Mask rows of terminals that the grammars of one compiler share."""

    def validated(self) -> GrammarLimits:
        """Return self, or raise ``InvalidRequest`` naming the first limit that is not a positive integer."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidRequest(f"the limit {name} must be a positive integer, not {value!r}", param=name)
        return self


class Fuel:
    """A counter of work that refuses when it runs out. Not thread-safe; its owner holds a lock."""

    __slots__ = ("left", "limit")

    def __init__(self, amount: int, limit: str) -> None:
        self.left = amount
        self.limit = limit

    def refill(self, amount: int, limit: str) -> None:
        """Allow ``amount`` operations from now on; ``limit`` is the name that a refusal gives."""
        self.left = amount
        self.limit = limit

    def spend(self, amount: int) -> None:
        """Take ``amount``; raises ``UnsupportedConstraint`` (keyword: the limit) when nothing is left."""
        self.left -= amount
        if self.left < 0:
            raise UnsupportedConstraint(
                f"the constraint needs more work than the limit {self.limit} allows", keyword=self.limit
            )
