"""A grammar as bytes, and a grammar again: the rules as they were built, their terms as records of the native pool.

Bytes may come from anywhere: every number is checked before the native machine sees it, and what is no grammar
raises ``ValueError``. That it is the grammar of a certain constraint is not known here, nor where bytes are kept.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from radixrt.grammar.rules import Grammar, RuleTable, Tracks, is_terminal, term_of
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
    terms = np.array(restored_terms(pool, parts[2]), np.int32)
    rules = _symbols(np.frombuffer(parts[0], np.int32), terms)
    repeats = np.frombuffer(parts[1], np.int64).reshape(-1, _REPEAT).copy()
    repeats[:, 1] = _symbols(repeats[:, 1], terms)
    start = int(_symbols(np.array([root], np.int64), terms)[0])
    used = np.concatenate([rules, repeats[:, 1], [start]])
    if any(pool.is_sensitive(~symbol) for symbol in np.unique(used[used < 0]).tolist()):
        raise ValueError("a terminal that depends on what is around it")
    flat, counted = array("i", rules.astype(np.int32).tobytes()), array("q", repeats.tobytes())
    native = NativeRules.of_numbers(pool, flat, count, counted, start, "compile_fuel")
    return Grammar(RuleTable(pool), start, _tracks_of(bits), native)


def _symbols(written: npt.NDArray[np.integer[Any]], terms: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Symbols from how they were written. What is not negative (rules, lengths) is for the native side to check."""
    numbers = written.astype(np.int64)
    terminals = numbers < 0
    named = ~numbers[terminals]
    if named.size and int(named.max()) >= len(terms):
        raise ValueError("a terminal that is not there")
    numbers[terminals] = ~terms[named].astype(np.int64)
    return numbers


def _bits_of(tracks: Tracks | None) -> int:
    return 0 if tracks is None else _TRACKED | sum(1 << place for place, flag in enumerate(tracks) if flag)


def _tracks_of(bits: int) -> Tracks | None:
    if bits == 0:
        return None
    if not _TRACKED <= bits < 2 * _TRACKED:
        raise ValueError("a grammar tracks what is known to be tracked")
    return Tracks(*(bool(bits >> place & 1) for place in range(len(Tracks._fields))))
