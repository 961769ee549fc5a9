"""The native automaton of a grammar and its mask rows (``grammar_machine.h``, ``token_rows.h``).

States are ints, odd where the text may end; ``DEAD`` is -1. Whatever may take long runs without the interpreter's
lock. Work is counted: each call gets so much fuel, a unit for each operation, and one that runs out raises
``UnsupportedConstraint``, whose keyword is the name of the limit. None of the classes is thread-safe but
``NativeSharedRows``. What they do not know: how grammars are written, where texts end.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.terms import MAX_TERMS, NativePool
from radixrt.kernels.cpu.token_tries import NativeTries

__all__ = [
    "Bounds",
    "LeftRecursion",
    "NativeMachine",
    "NativeRules",
    "NativeSharedRows",
    "RowJob",
    "RowRoom",
    "address_of",
    "fill_rows",
]

DEAD: Final = -1
_UNKNOWN = -2
_ABI = 2
_FUEL, _TERMS, _ARGUMENT, _MEMORY = 1, 2, 4, 5
_STATES, _CONFIGURATIONS = 17, 18
_UNSATISFIABLE, _LEFT_RECURSIVE = 33, 34
_MAX_FORCED_BYTES = 4096
_DIGEST_BYTES = 16
_p, _i32, _i64, _bytes = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_char_p
# name: (arguments, result, whether it may take long and should run without the interpreter's lock)
_FUNCTIONS: Final[dict[str, tuple[tuple[Any, ...], Any, bool]]] = {
    "shared_rows_new": ((_i64,), _p, False),
    "shared_rows_delete": ((_p,), None, False),
    "shared_rows_nbytes": ((_p,), _i64, True),
    "shared_rows_count": ((_p,), _i64, True),
    "rules_new": ((_p, _bytes, _i64, _i32, _bytes, _i64, _i32, _p), _i32, True),
    "rules_delete": ((_p,), None, False),
    "rules_size": ((_p,), _i32, False),
    "machine_new": ((_p, _p, _i64, _i64, _i64, _p), _i32, True),
    "machine_fresh": ((_p, _i64, _p), _i32, True),
    "machine_delete": ((_p,), None, False),
    "machine_start": ((_p,), _i32, False),
    "machine_size": ((_p,), _i32, False),
    "machine_nbytes": ((_p,), _i64, False),
    "machine_try_run": ((_p, _i32, _bytes, _i64), _i32, False),
    "machine_run": ((_p, _i64, _i32, _bytes, _i64, _p), _i32, True),
    "machine_run_many": ((_p, _i64, _i32, _bytes, _bytes, _i32, _p), _i32, True),
    "machine_exits": ((_p, _i64, _i32, _p), _i32, True),
    "machine_forced": ((_p, _i64, _p, _p, _i64, _p), _i32, True),
    "machine_below": ((_p, _p, _i64, _i32, _i32, _p), _i32, True),
    "machine_row": ((_p, _p, _p, _i64, _i32, _p, _p), _i32, True),
    "machine_rows": ((_p, _i32), None, True),
}

Row = npt.NDArray[np.uint32]


class Bounds(NamedTuple):
    """How large a machine may become."""

    states: int
    configurations: int
    table_bytes: int


class LeftRecursion(Exception):
    """Some rule reaches itself without reading anything: the rules must be rewritten first."""


class _Functions:
    """The entry points as attributes. Brief ones keep the interpreter's lock: letting it go would cost more."""

    def __init__(self, library: ctypes.CDLL) -> None:
        if library.radixrt_machine_abi() != _ABI:
            raise RuntimeError("the native library is from another version of radixrt: build it again")
        brief = ctypes.PyDLL(library._name)
        for name, (arguments, result, long) in _FUNCTIONS.items():
            function = getattr(library if long else brief, f"radixrt_{name}")
            function.argtypes, function.restype = arguments, result
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for type checkers: what __init__ did not set is not there
        raise AttributeError(name)


@functools.cache
def _functions() -> _Functions:
    library = native()
    if library is None:
        raise RuntimeError("there is no native library")
    return _Functions(library)


def _check(status: int, limit: str, bounds: Bounds | None = None) -> None:
    """Raise what a status stands for."""
    if status == 0:
        return
    if status == _FUEL:
        raise UnsupportedConstraint(f"the constraint needs more work than the limit {limit} allows", keyword=limit)
    if status == _TERMS:
        raise UnsupportedConstraint(f"the constraint needs more than {MAX_TERMS} terms", keyword="terms")
    if status == _STATES:
        raise UnsupportedConstraint("the constraint needs too many states", keyword="states")
    if status == _CONFIGURATIONS:
        most = "so many" if bounds is None else bounds.configurations
        raise UnsupportedConstraint(f"more than {most} terminals can be open at once", keyword="configurations")
    if status == _UNSATISFIABLE:
        raise UnsatisfiableConstraint("no text satisfies the constraint")
    if status == _LEFT_RECURSIVE:
        raise LeftRecursion
    if status == _MEMORY:
        raise MemoryError("no memory for the automaton of a grammar")
    raise ValueError("a state, a symbol or a trie node that is not there")


class NativeSharedRows:
    """Rows of the terminals of one vocabulary that its grammars share, bounded in bytes. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._c = _functions()
        handle = self._c.shared_rows_new(max_bytes)
        if not handle:
            raise MemoryError("no memory for shared mask rows")
        self.handle: int = handle
        weakref.finalize(self, self._c.shared_rows_delete, handle)

    def __len__(self) -> int:
        return int(self._c.shared_rows_count(self.handle))

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return int(self._c.shared_rows_nbytes(self.handle))


class NativeRules:
    """The rules of a grammar, normalised: all can produce something and be reached, none is left-recursive.

    Args:
        pool: the pool of the terminals.
        rules: by rule, its alternatives: sequences of symbols (``~term`` or the number of a rule).
        repeats: (rule, symbol, low, high) of each counted repetition.
        root: the symbol to start from.
        limit: the name of the limit of the fuel that the pool has left.

    Raises ``LeftRecursion``; ``UnsatisfiableConstraint`` where the root produces nothing.
    """

    def __init__(
        self,
        pool: NativePool,
        rules: Sequence[Sequence[Sequence[int]]],
        repeats: Sequence[tuple[int, int, int, int]],
        root: int,
        limit: str,
    ) -> None:
        flat: list[int] = []
        for alternatives in rules:
            flat.append(len(alternatives))
            for symbols in alternatives:
                flat.append(len(symbols))
                flat += symbols
        counted = array("q")
        for repeat in repeats:
            counted.extend(repeat)
        self._read(pool, array("i", flat), len(rules), counted, root, limit)

    @classmethod
    def of_numbers(
        cls, pool: NativePool, flat: array[int], rules: int, counted: array[int], root: int, limit: str
    ) -> NativeRules:
        """The same from numbers in a row: by rule its count of alternatives, for each its length and symbols.

        Raises ``ValueError`` for what is no such row, or names a rule or a term that is not there.
        """
        made = object.__new__(cls)
        made._read(pool, flat, rules, counted, root, limit)
        return made

    def _read(
        self, pool: NativePool, flat: array[int], rules: int, counted: array[int], root: int, limit: str
    ) -> None:
        self._c = _functions()
        out = _p()
        status = self._c.rules_new(
            pool.handle,
            flat.tobytes(),
            len(flat),
            rules,
            counted.tobytes(),
            len(counted) // 4,
            root,
            ctypes.byref(out),
        )
        _check(status, limit)
        self.handle: int = out.value or 0
        self.pool = pool
        """The pool of the terminals."""
        weakref.finalize(self, self._c.rules_delete, self.handle)

    def __len__(self) -> int:
        return int(self._c.rules_size(self.handle))


class NativeMachine:
    """Runs one grammar. ``start`` is the state before the first byte.

    Raises ``UnsupportedConstraint`` for a grammar whose first step is too hard already; ``limit`` names the fuel
    that the pool has left.
    """

    def __init__(self, pool: NativePool, rules: NativeRules, bounds: Bounds, limit: str) -> None:
        out = _p()
        status = _functions().machine_new(pool.handle, rules.handle, *bounds, ctypes.byref(out))
        _check(status, limit, bounds)
        self._adopt(out.value or 0, bounds, pool)

    def _adopt(self, handle: int, bounds: Bounds, pool: NativePool | None) -> None:
        self._c = _functions()
        self.handle = handle
        self._bounds = bounds
        self._pool = pool  # what the machine works on; None: it has one of its own
        self._try_run = self._c.machine_try_run
        self._write_row = self._c.machine_row
        self.start: int = self._c.machine_start(handle)
        weakref.finalize(self, self._c.machine_delete, handle)

    def fresh(self, fuel: int, limit: str) -> NativeMachine:
        """A machine for the same grammar that has not read anything; shares nothing with this one."""
        out = _p()
        _check(self._c.machine_fresh(self.handle, fuel, ctypes.byref(out)), limit, self._bounds)
        twin = NativeMachine.__new__(NativeMachine)
        twin._adopt(out.value or 0, self._bounds, None)
        return twin

    def __len__(self) -> int:
        return int(self._c.machine_size(self.handle))

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return int(self._c.machine_nbytes(self.handle))

    def run(self, state: int, data: bytes, fuel: int, limit: str) -> int:
        """The state after ``data``, or ``DEAD``."""
        found: int = self._try_run(self.handle, state, data, len(data))
        if found != _UNKNOWN:
            return found
        out = _i32()
        status = self._c.machine_run(self.handle, fuel, state, data, len(data), ctypes.byref(out))
        _check(status, limit, self._bounds)
        return out.value

    def run_many(self, state: int, paths: Sequence[bytes], fuel: int, limit: str) -> list[int]:
        """The states after each of ``paths`` from one state."""
        starts = array("i", [0])
        for path in paths:
            starts.append(starts[-1] + len(path))
        out = (_i32 * len(paths))()
        status = self._c.machine_run_many(
            self.handle, fuel, state, b"".join(paths), starts.tobytes(), len(paths), out
        )
        _check(status, limit, self._bounds)
        return list(out)

    def exits(self, state: int, fuel: int, limit: str) -> int:
        """The bytes that ``state`` allows, as a 256-bit mask."""
        out = (ctypes.c_uint64 * 4)()
        _check(self._c.machine_exits(self.handle, fuel, state, out), limit, self._bounds)
        return int.from_bytes(bytes(out), "little")

    def forced(self, state: int, fuel: int, limit: str) -> tuple[bytes, int]:
        """The bytes that follow with certainty, and the state after them. Stops where the text may end, and before
        bytes that no text holds."""
        out = ctypes.create_string_buffer(_MAX_FORCED_BYTES)
        size, after = _i64(), _i32(state)
        status = self._c.machine_forced(
            self.handle, fuel, ctypes.byref(after), out, _MAX_FORCED_BYTES, ctypes.byref(size)
        )
        _check(status, limit, self._bounds)
        return out.raw[: size.value], after.value

    def add_below(self, tries: NativeTries, state: int, node: int, row: Row, fuel: int, limit: str) -> None:
        """Add to ``row`` the tokens below a node of the trie (itself excluded, -1: the root) whose further bytes
        ``state`` allows."""
        address = address_of(row, tries)
        _check(self._c.machine_below(self.handle, tries.handle, fuel, state, node, address), limit, self._bounds)

    def write_row(self, room: RowRoom, shared: NativeSharedRows, state: int, fuel: int, limit: str) -> bytes:
        """Write the tokens that ``state`` allows into ``room``; return the digest of that row, the same for equal
        rows of this process and for no others."""
        status = self._write_row(
            self.handle, room.tries.handle, shared.handle, fuel, state, room.address, room.digest_address
        )
        if status:
            _check(status, limit, self._bounds)
        return room.digest.raw


class RowRoom:
    """Room for one mask row and its digest, whose addresses are known: that is half of what a call costs."""

    def __init__(self, tries: NativeTries, words: int) -> None:
        self.tries = tries
        self.row: Row = np.zeros(words, np.uint32)  # what is beyond the tokens of the tries stays zero
        self.digest = ctypes.create_string_buffer(_DIGEST_BYTES)
        self.address = address_of(self.row, tries)
        self.digest_address = ctypes.addressof(self.digest)


def address_of(row: Row, tries: NativeTries) -> int:
    """Where a mask row is in memory; it must be contiguous uint32 of at least ``tries.words`` words."""
    if row.dtype != np.uint32 or row.ndim != 1 or not row.flags.c_contiguous or len(row) < tries.words:
        raise ValueError(f"a mask row must be contiguous uint32 of at least {tries.words} words")
    address: int = row.ctypes.data
    return address


class RowJob(NamedTuple):
    """One row to write, of any machine; ``row`` has the room."""

    machine: NativeMachine
    tries: NativeTries
    shared: NativeSharedRows
    state: int
    row: Row
    fuel: int


class _Job(ctypes.Structure):
    _fields_ = (
        ("machine", _p),
        ("tries", _p),
        ("shared", _p),
        ("row", _p),
        ("fuel", _i64),
        ("digest", ctypes.c_uint64 * 2),
        ("state", _i32),
        ("status", _i32),
    )


def fill_rows(jobs: Sequence[RowJob]) -> list[bytes | None]:
    """Do all in one native call. The digests of the rows; None for those that cost too much: whoever does one alone
    learns why.
    """
    table = (_Job * len(jobs))()
    for entry, (machine, tries, shared, state, row, fuel) in zip(table, jobs, strict=True):
        entry.machine, entry.tries, entry.shared = machine.handle, tries.handle, shared.handle
        entry.row, entry.fuel, entry.state = address_of(row, tries), fuel, state
    _functions().machine_rows(table, len(jobs))
    return [None if done.status else bytes(done.digest) for done in table]
