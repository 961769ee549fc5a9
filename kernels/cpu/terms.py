"""The native pool of terms: regular expressions over bytes, interned, with derivatives (``term_pool.h``).

``NativePool`` has the methods of ``grammar/rx.py``'s ``Pool`` and the meaning of ``grammar/python_pool.py``; the
ids of terms differ from those of the Python pool, the languages do not. It knows no patterns, grammars or tokens.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, NoReturn

from radixrt.errors import UnsupportedConstraint
from radixrt.kernels.cpu.library import native

__all__ = ["MAX_TERMS", "OPERATIONS", "NativePool"]

MAX_TERMS: Final = 700_000
"""Terms of one pool, about 100 bytes each."""
OPERATIONS: Final = 16
"""Operations of native code for a unit of fuel, which is the time of one operation in Python, about."""
_CREDIT: Final = 256  # fuel owed for work outside of a pool: a call for every unit would cost more than the work
_ABI = 3
_NONE, _EMPTY = 0, 1
_INFINITE = 1 << 62
_FUEL, _TERMS, _SENSITIVE, _ARGUMENT, _MEMORY, _WATCHED = range(-1, -7, -1)
_ARC = struct.Struct("=32si")

_p, _i32, _i64, _u64, _bytes = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_char_p
# name: (arguments after the pool, result, whether it may take long and should run without the interpreter's lock)
_FUNCTIONS: Final[dict[str, tuple[tuple[Any, ...], Any, bool]]] = {
    "copy": ((_i32,), _p, False),
    "free": ((), None, False),
    "size": ((), _i32, False),
    "nbytes": ((), _i64, False),
    "fuel": ((), _i64, False),
    "refill": ((_i64,), None, False),
    "spend": ((_i64,), _i32, False),
    "any_byte": ((), _i32, False),
    "all": ((), _i32, False),
    "byte_set": ((_bytes,), _i32, False),
    "each_byte": ((_p,), _i32, False),
    "literal": ((_bytes, _i64), _i32, False),
    "chars": ((_bytes, _i64), _i32, False),
    "one_of": ((_bytes, _bytes, _i64), _i32, True),
    "concat2": ((_i32, _i32), _i32, False),
    "alt2": ((_i32, _i32), _i32, False),
    "and2": ((_i32, _i32), _i32, False),
    "concat": ((_bytes, _i64), _i32, False),
    "alt": ((_bytes, _i64), _i32, False),
    "and": ((_bytes, _i64), _i32, False),
    "not": ((_i32,), _i32, False),
    "repeat": ((_i32, _i64, _i64), _i32, False),
    "ahead": ((_i32,), _i32, False),
    "behind": ((_i32, _i32), _i32, False),
    "closed": ((_i32, _bytes, _i64), _i32, False),
    "before_end": ((_i32, _i32), _i32, False),
    "zero_width": ((_i32,), _i32, True),
    "consuming": ((_i32,), _i32, True),
    "substitute": ((_i32, _bytes), _i32, True),
    "clamped": ((_i32, _i32), _i32, True),
    "nullable": ((_i32, _u64), _i32, False),
    "sensitive": ((_i32,), _i32, False),
    "shortest": ((_i32,), _i64, False),
    "longest": ((_i32,), _i64, False),
    "arcs": ((_i32, _u64, _p), _i32, True),
    "matches": ((_i32, _bytes, _i64), _i32, True),
    "is_empty": ((_i32,), _i32, True),
    "proved_empty": ((_i32, _i64), _i32, True),
    "first_bytes": ((_i32,), _i32, True),
    "fingerprint": ((_i32, _p), _i32, True),
    "byte_classes": ((_bytes, _i64, _p), _i32, True),
}


class _Functions:
    """The entry points ``radixrt_pool_*`` as attributes. Tiny ones keep the interpreter's lock: letting it go would
    cost more than they do."""

    def __init__(self, library: ctypes.CDLL) -> None:
        if library.radixrt_pool_abi() != _ABI:
            raise RuntimeError("the native library is from another version of radixrt: build it again")
        brief = ctypes.PyDLL(library._name)
        for name, (arguments, result, long) in _FUNCTIONS.items():
            function = getattr(library if long else brief, f"radixrt_pool_{name}")
            function.argtypes, function.restype = (_p, *arguments), result
            setattr(self, name, function)
        self.new = brief.radixrt_pool_new
        self.new.argtypes, self.new.restype = (_i64, _i32), _p

    def __getattr__(self, name: str) -> Any:  # for type checkers: what __init__ did not set is not there
        raise AttributeError(name)


@functools.cache
def _functions() -> _Functions:
    library = native()
    if library is None:
        raise RuntimeError("there is no native library")
    return _Functions(library)


_PACK: Final = tuple(struct.Struct(f"={count}i").pack for count in range(16))


def _packed(terms: Sequence[int]) -> bytes:
    return _PACK[len(terms)](*terms) if len(terms) < 16 else array("i", terms).tobytes()


class NativePool:
    """Interned terms over bytes. Not thread-safe: its owner holds a lock.

    Args:
        amount: fuel in units.
        limit: the name that a refusal gives when it runs out.
        max_terms: how many terms it may hold.
        operations: how many elementary operations of native code a unit of fuel is. What is spent from outside is
            in units.

    Raises ``RuntimeError`` without a native library; every method may raise ``UnsupportedConstraint`` (``keyword``:
    the limit) and ``ValueError`` for misuse.
    """

    def __init__(self, amount: int, limit: str, *, max_terms: int = MAX_TERMS, operations: int = 1) -> None:
        functions = _functions()
        self._adopt(functions.new(amount * operations, max_terms), limit, max_terms, operations)

    def _adopt(self, handle: int | None, limit: str, max_terms: int, operations: int) -> None:
        if not handle:
            raise MemoryError("no memory for a pool of terms")
        self._c = _functions()
        self.handle: int = handle
        """The address of the ``radixrt::Pool``, for other native code; it lives as long as this object."""
        self.operations = operations
        self._limit = limit
        self._max_terms = max_terms
        self.any_byte: int = self._c.any_byte(handle)
        """One byte, whichever."""
        self.all: int = self._c.all(handle)
        """Every string of bytes."""
        self._owed = 0  # fuel for work outside of the pool that is not taken yet
        self._chars: dict[tuple[tuple[int, int], ...], int] = {}
        self._text = _NONE
        self._room: ctypes.Array[ctypes.c_char] | None = None

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", 0), 0
        if handle:
            self._c.free(handle)

    def __len__(self) -> int:
        return int(self._c.size(self.handle))

    def _got(self, result: int) -> int:
        """A result that was checked, or the exception it stands for."""
        if result < 0:
            self.refuse(result)
        return result

    def refuse(self, code: int) -> NoReturn:
        """Raise what a negative result of a native call on this pool stands for."""
        if code == _FUEL:
            raise UnsupportedConstraint(
                f"the constraint needs more work than the limit {self._limit} allows", keyword=self._limit
            )
        if code == _TERMS:
            raise UnsupportedConstraint(f"the constraint needs more than {self._max_terms} terms", keyword="terms")
        if code == _WATCHED:
            raise UnsupportedConstraint("more than 64 different lookbehinds", keyword="lookbehind")
        if code == _MEMORY:
            raise MemoryError("no memory for more terms")
        if code == _SENSITIVE:
            raise ValueError("a sensitive term was used as an ordinary one before it was closed")
        raise ValueError("an argument is no term of this pool, or out of range")

    # --- work ----------------------------------------------------------------------------------------------------

    @property
    def fuel_left(self) -> int:
        """Units that are left; negative once some were refused."""
        return int(self._c.fuel(self.handle)) // self.operations - self._owed

    @property
    def limit(self) -> str:
        """The name that a refusal gives."""
        return self._limit

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return int(self._c.nbytes(self.handle))

    def spend(self, amount: int) -> None:
        """Take fuel for work done outside of the pool; small amounts are taken a few at a time."""
        self._owed += amount
        if self._owed >= _CREDIT:
            owed, self._owed = self._owed, 0
            if self._c.spend(self.handle, owed * self.operations) < 0:
                self.refuse(_FUEL)

    def refill(self, amount: int, limit: str) -> None:
        """Allow ``amount`` units from now on; ``limit`` is the name that a refusal gives."""
        self._c.refill(self.handle, amount * self.operations)
        self._owed = 0
        self._limit = limit

    def truncated(self, count: int) -> NativePool:
        """A pool with the first ``count`` terms, same ids and fuel; of all terms it also has what is known."""
        if not 2 <= count <= len(self):
            raise ValueError(f"{count} is no number of terms of a pool with {len(self)}")
        twin = object.__new__(NativePool)
        twin._adopt(self._c.copy(self.handle, count), self._limit, self._max_terms, self.operations)
        return twin

    # --- constructors --------------------------------------------------------------------------------------------

    def byte_set(self, mask: int) -> int:
        """One byte out of a set: bit ``b`` of ``mask`` stands for byte ``b``."""
        return self._got(self._c.byte_set(self.handle, mask.to_bytes(32, "little")))

    def each_byte(self) -> list[int]:
        """The 256 terms of single bytes."""
        room = (ctypes.c_int32 * 256)()
        self._got(self._c.each_byte(self.handle, room))
        return list(room)

    def literal(self, data: bytes) -> int:
        """Exactly these bytes."""
        found: int = self._c.literal(self.handle, data, len(data))
        return found if found >= 0 else self.refuse(found)

    def one_of(self, strings: Sequence[bytes]) -> int:
        """Exactly one of these strings, shaped like a trie, so that thousands cost no more than their bytes."""
        starts = array("q", accumulate(map(len, strings), initial=0)).tobytes()
        return self._got(self._c.one_of(self.handle, b"".join(strings), starts, len(strings)))

    def chars(self, ranges: Sequence[tuple[int, int]]) -> int:
        """One character out of inclusive ranges of code points, in UTF-8. Surrogates are left out."""
        key = tuple(ranges)
        known = self._chars.get(key)
        if known is None:
            flat = _packed([min(max(bound, -1), 0x110000) for pair in key for bound in pair])
            known = self._chars[key] = self._got(self._c.chars(self.handle, flat, len(key)))
        return known

    @property
    def text(self) -> int:
        """Every valid UTF-8 text."""
        if self._text == _NONE:
            self._text = self.star(self.chars(((0, 0x10FFFF),)))
        return self._text

    def concat(self, *terms: int) -> int:
        """One after the other."""
        found: int
        if len(terms) == 2:
            found = self._c.concat2(self.handle, *terms)
        else:
            found = self._c.concat(self.handle, _packed(terms), len(terms))
        return found if found >= 0 else self.refuse(found)

    def alt(self, *terms: int) -> int:
        """Any of them."""
        found: int
        if len(terms) == 2:
            found = self._c.alt2(self.handle, *terms)
        else:
            found = self._c.alt(self.handle, _packed(terms), len(terms))
        return found if found >= 0 else self.refuse(found)

    def and_(self, *terms: int) -> int:
        """All of them."""
        if len(terms) == 2:
            return self._got(self._c.and2(self.handle, *terms))
        return self._got(getattr(self._c, "and")(self.handle, _packed(terms), len(terms)))

    def not_(self, term: int) -> int:
        """Every string of *bytes* that is not in ``term``; ``and_(text, not_(x))`` stays within valid text."""
        return self._got(getattr(self._c, "not")(self.handle, term))

    def repeat(self, term: int, low: int, high: int | None) -> int:
        """``term`` at least ``low`` and at most ``high`` times (None: no upper end)."""
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"a repetition from {low} to {high} times")
        # No text is so long that a count beyond the end of the scale could matter.
        top = _INFINITE if high is None else min(high, _INFINITE)
        return self._got(self._c.repeat(self.handle, term, min(low, _INFINITE - 1), top))

    def star(self, term: int) -> int:
        """Any number of times."""
        return self._got(self._c.repeat(self.handle, term, 0, _INFINITE))

    def plus(self, term: int) -> int:
        """At least once."""
        return self._got(self._c.repeat(self.handle, term, 1, _INFINITE))

    def opt(self, term: int) -> int:
        """Once or not at all."""
        return self._got(self._c.alt2(self.handle, _EMPTY, term))

    def ahead(self, rest: int) -> int:
        """Zero-width: all that follows, up to the end of the closed term, is in ``rest``."""
        return self._got(self._c.ahead(self.handle, rest))

    def behind(self, index: int, yes: bool) -> int:
        """Zero-width: whether what was read since the closed term began is in watched language ``index``."""
        return self._got(self._c.behind(self.handle, index, yes))

    def closed(self, term: int, watched: Sequence[int] = ()) -> int:
        """Make a sensitive term an ordinary one; ``watched[i]`` is what ``behind(i, ...)`` in it speaks of.

        A watched language may itself be sensitive, but only to watched languages before it.
        """
        return self._got(self._c.closed(self.handle, term, _packed(watched), len(watched)))

    def before_end(self, term: int, rest: int) -> int:
        """``term`` and then ``rest``, which reaches the end of the closed term."""
        return self._got(self._c.before_end(self.handle, term, rest))

    def zero_width(self, term: int) -> int:
        """The conditions under which ``term`` matches without reading anything (0: never)."""
        return self._got(self._c.zero_width(self.handle, term))

    def consuming(self, term: int) -> int:
        """The part of ``term`` that reads at least one byte."""
        return self._got(self._c.consuming(self.handle, term))

    def substitute(self, term: int, images: Sequence[int]) -> int:
        """Replace every byte ``b`` of every string by the strings of ``images[b]``, which are spellings."""
        if len(images) != 256:
            raise ValueError(f"256 images are needed, not {len(images)}")
        return self._got(self._c.substitute(self.handle, term, _packed(images)))

    def clamped(self, term: int, depth: int) -> int:
        """A term that allows the same next ``depth`` bytes and is complete after the same of them."""
        return self._got(self._c.clamped(self.handle, term, depth))

    # --- questions -----------------------------------------------------------------------------------------------

    def nullable(self, term: int, flags: int = 0) -> bool:
        """Whether ``term`` matches when nothing more is read."""
        found: int = self._c.nullable(self.handle, term, flags)
        return found > 0 if found >= 0 else self.refuse(found)

    def is_sensitive(self, term: int) -> bool:
        """Whether what it matches depends on what stands around it; ``closed`` makes it ordinary."""
        found: int = self._c.sensitive(self.handle, term)
        return found > 0 if found >= 0 else self.refuse(found)

    def shortest(self, term: int) -> int:
        """A lower bound on the length of its strings in bytes."""
        return self._got(self._c.shortest(self.handle, term))

    def longest(self, term: int) -> int:
        """An upper bound on the length of its strings in bytes."""
        found: int = self._c.longest(self.handle, term)
        return found if found >= 0 else self.refuse(found)

    def arcs(self, term: int, flags: int = 0) -> tuple[tuple[int, int], ...]:
        """The derivatives of ``term``: disjoint sets of bytes (256-bit masks), each with the term that remains."""
        if self._room is None:
            self._room = ctypes.create_string_buffer(256 * _ARC.size)
        count = self._got(self._c.arcs(self.handle, term, flags, self._room))
        found = _ARC.iter_unpack(ctypes.string_at(self._room, count * _ARC.size))
        return tuple((int.from_bytes(mask, "little"), rest) for mask, rest in found)

    def matches(self, term: int, data: bytes) -> bool:
        """Whether ``data`` is in ``term``."""
        return self._got(self._c.matches(self.handle, term, data, len(data))) != 0

    def is_empty(self, term: int) -> bool:
        """Whether no string at all is in ``term`` (not sensitive)."""
        return self._got(self._c.is_empty(self.handle, term)) != 0

    def proved_empty(self, term: int, amount: int) -> bool:
        """Whether ``term`` is shown to be empty with ``amount`` of the fuel; False if that does not suffice."""
        return self._got(self._c.proved_empty(self.handle, term, amount * self.operations)) != 0

    def first_bytes(self, term: int) -> int:
        """How many different bytes may come next."""
        return self._got(self._c.first_bytes(self.handle, term))

    def byte_classes(self, terms: Iterable[int]) -> list[int]:
        """The coarsest partition of the 256 bytes (as masks) that no derivative of ``terms`` can tell apart."""
        listed = _packed(list(terms))
        room = ctypes.create_string_buffer(256 * 32)
        count = self._got(self._c.byte_classes(self.handle, listed, len(listed) // 4, room))
        found = room.raw
        return [int.from_bytes(found[32 * i : 32 * i + 32], "little") for i in range(count)]

    def fingerprint(self, term: int) -> bytes:
        """16 bytes that tell how a term is built: equal for equal terms of the native pools of this process."""
        room = ctypes.create_string_buffer(16)
        self._got(self._c.fingerprint(self.handle, term, room))
        return room.raw
