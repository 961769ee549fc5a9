"""A grammar as bytes, and a grammar again: the rules as they were built, their terms as records of the native pool.

Bytes may come from anywhere: every number is checked before the native machine sees it, and what is no grammar
raises ``ValueError``. That it is the grammar of a certain constraint is not known here, nor where bytes are kept.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final

from radixrt.grammar.rules import Alternative, Grammar, Repeat, RuleTable, Symbol, Tracks, is_terminal, term_of
from radixrt.kernels.cpu.machine import NativeRules
from radixrt.kernels.cpu.term_archive import archived_terms, restored_terms
from radixrt.kernels.cpu.terms import NativePool

__all__ = ["FORMAT", "read_grammar", "written_grammar"]

FORMAT: Final = 1
"""To be raised whenever the same bytes would mean something else."""
_HEAD: Final = struct.Struct("=iiiqqq")  # root, tracks, rules, numbers of rules, of repetitions, bytes of records
_TRACKED: Final = 8  # beside the bits of ``Tracks``
_REPEAT: Final = 4  # numbers of a repetition: its rule, what is repeated, bounds


def written_grammar(grammar: Grammar) -> bytes | None:
    """The bytes of a grammar; None where its pool is not native. Terminals are written as ``~`` their number."""
    pool, table = grammar.pool, grammar.table
    if grammar.native is None or not isinstance(pool, NativePool):
        return None
    symbols = {symbol for alternatives in table.rules for parts in alternatives for symbol in parts}
    symbols.update(repeat.symbol for repeat in table.repeats.values())
    symbols.add(grammar.root)
    terms = sorted(term_of(symbol) for symbol in symbols if is_terminal(symbol))
    records, numbers = archived_terms(pool, terms)
    written = {~term: ~number for term, number in zip(terms, numbers, strict=True)}
    rules = array("i")
    for alternatives in table.rules:
        rules.append(len(alternatives))
        for parts in alternatives:
            rules.append(len(parts))
            rules.extend([written.get(symbol, symbol) for symbol in parts])
    repeats = array("q")
    for rule, (symbol, low, high) in table.repeats.items():
        repeats.extend((rule, written.get(symbol, symbol), low, high))
    root = written.get(grammar.root, grammar.root)
    head = _HEAD.pack(root, _bits_of(grammar.tracks), len(table.rules), len(rules), len(repeats), len(records))
    return head + rules.tobytes() + repeats.tobytes() + records


def read_grammar(data: bytes, pool: NativePool) -> Grammar:
    """The grammar over terms that are made in ``pool``, ready to be run; its rule table stays empty.

    Raises ``ValueError`` for what is no grammar; ``UnsupportedConstraint``, ``UnsatisfiableConstraint`` and
    ``LeftRecursion`` for one that no compiler would have written.
    """
    if len(data) < _HEAD.size:
        raise ValueError("a grammar is longer than that")
    root, bits, count, rule_numbers, repeat_numbers, record_bytes = _HEAD.unpack_from(data)
    sizes = (4 * rule_numbers, 8 * repeat_numbers, record_bytes)
    if min(*sizes, count) < 0 or _HEAD.size + sum(sizes) != len(data) or repeat_numbers % _REPEAT:
        raise ValueError("the parts of a grammar are as long as its head says")
    parts = []
    begin = _HEAD.size
    for size in sizes:
        parts.append(data[begin : begin + size])
        begin += size
    reader = _Reader(pool, restored_terms(pool, parts[2]), count)
    rules = reader.rules(array("i", parts[0]))
    repeats = reader.repeats(array("q", parts[1]))
    native = NativeRules(pool, rules, repeats, reader.symbol(root), "compile_fuel")
    return Grammar(RuleTable(pool), reader.symbol(root), _tracks_of(bits), native)


class _Reader:
    def __init__(self, pool: NativePool, terms: Sequence[int], count: int) -> None:
        self._pool = pool
        self._terms = terms
        self._count = count
        self._symbols: dict[int, Symbol] = {}

    def symbol(self, written: int) -> Symbol:
        """A symbol from how it was written; terms that depend on what is around them are no terminals."""
        known = self._symbols.get(written)
        if known is None:
            known = written
            if is_terminal(written):
                if ~written >= len(self._terms) or self._pool.is_sensitive(self._terms[~written]):
                    raise ValueError("a terminal that is not there")
                known = ~self._terms[~written]
            elif written >= self._count:
                raise ValueError("a rule that is not there")
            self._symbols[written] = known
        return known

    def rules(self, numbers: Sequence[int]) -> list[list[Alternative]]:
        found: list[list[Alternative]] = []
        at = 0
        for _ in range(self._count):
            if at >= len(numbers) or not 0 <= numbers[at] <= len(numbers):
                raise ValueError("a rule has a number of alternatives")
            alternatives: list[Alternative] = []
            for _ in range(numbers[at]):
                at += 1
                if at >= len(numbers) or not 0 <= numbers[at] < len(numbers) - at:
                    raise ValueError("an alternative has a number of symbols")
                alternatives.append(tuple(map(self.symbol, numbers[at + 1 : at + 1 + numbers[at]])))
                at += numbers[at]
            found.append(alternatives)
            at += 1
        if at != len(numbers):
            raise ValueError("more than so many rules")
        return found

    def repeats(self, numbers: Sequence[int]) -> list[tuple[Symbol, Symbol, int, int]]:
        """Repetitions, with bounds as ``NativeRules`` checks them."""
        found = []
        for at in range(0, len(numbers), _REPEAT):
            rule, symbol, low, high = numbers[at : at + _REPEAT]
            if not 0 <= rule < self._count or not -(2**31) < symbol < 2**31:
                raise ValueError("a repetition that is no rule")
            found.append((rule, *Repeat(self.symbol(symbol), low, high)))
        return found


def _bits_of(tracks: Tracks | None) -> int:
    return 0 if tracks is None else _TRACKED | sum(1 << place for place, flag in enumerate(tracks) if flag)


def _tracks_of(bits: int) -> Tracks | None:
    if bits == 0:
        return None
    if not _TRACKED <= bits < 2 * _TRACKED:
        raise ValueError("a grammar tracks what is known to be tracked")
    return Tracks(*(bool(bits >> place & 1) for place in range(len(Tracks._fields))))
