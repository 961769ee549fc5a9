"""Decimal digits of the integers that a given integer divides, as regular expressions.

The divisor is split: twos and fives are decided by the last digits, the rest, coprime to 10, by the automaton
of remainders. Nothing here knows about signs, bounds or schemas.
"""

from __future__ import annotations

from typing import Final

from radixrt.grammar.rx import EMPTY, Pool, Rx

__all__ = ["Divisible", "UnsupportedDivisor", "is_small_divisor"]

MAX_RESIDUES: Final = 13  # the largest part coprime to 10: its automaton is eliminated to a regular expression
MAX_SUFFIX: Final = 4  # digits at the end that decide about the part made of twos and fives


class Divisible:
    """``integer`` is the language of unsigned integers without leading zeros."""

    def __init__(self, pool: Pool, integer: Rx) -> None:
        self._pool = pool
        self._integer = integer
        self._digits = pool.star(self._set("0123456789"))
        self._point = self._text(".")

    def _text(self, text: str) -> Rx:
        return self._pool.literal(text.encode())

    def _set(self, characters: str) -> Rx:
        return self._pool.byte_set(sum(1 << ord(character) for character in characters))

    def digits(self, divisor: int, taken: int) -> Rx:
        """Unsigned integers divisible by ``divisor``, with a point before the last ``taken`` digits."""
        smooth, rest = _split_divisor(divisor)
        if not is_small_divisor(divisor) or taken > MAX_SUFFIX:
            raise UnsupportedDivisor
        pool = self._pool
        digit = self._set("0123456789")
        shape = pool.concat(self._integer, self._with_point(pool.repeat(digit, taken, taken), taken))
        return pool.and_(shape, self._ends_divisible(smooth, taken), self._sums_divisible(rest, taken))

    def _with_point(self, digits: Rx, taken: int) -> Rx:
        return self._pool.concat(self._point, digits) if taken else EMPTY

    def _ends_divisible(self, smooth: int, taken: int) -> Rx:
        """Digit strings whose last digits make them divisible by a product of twos and fives."""
        pool = self._pool
        if smooth == 1:
            return pool.all
        width = next(width for width in range(1, MAX_SUFFIX + 1) if 10**width % smooth == 0)
        width = max(width, taken)
        ends = [str(value).zfill(width) for value in range(0, 10**width, smooth)]
        long = pool.alt(*(self._text(_pointed(end, taken)) for end in ends))
        short = [str(value) for value in range(0, 10 ** (width - 1), smooth)]
        padded = {_pointed(text.zfill(taken + 1), taken) for text in short}
        return pool.alt(pool.concat(self._digits, long), *(self._text(text) for text in sorted(padded)))

    def _sums_divisible(self, rest: int, taken: int) -> Rx:
        """Digit strings divisible by a number coprime to 10: remainders, eliminated state by state."""
        pool = self._pool
        if rest == 1:
            return pool.all
        paths = [[self._digits_of(from_, to, rest) for to in range(rest)] for from_ in range(rest)]
        for middle in range(rest - 1, 0, -1):
            loop = pool.star(paths[middle][middle])
            for from_ in range(middle):
                through = pool.concat(paths[from_][middle], loop)
                for to in range(middle):
                    paths[from_][to] = pool.alt(paths[from_][to], pool.concat(through, paths[middle][to]))
        whole = pool.star(paths[0][0])
        if not taken:
            return whole
        # A point may stand before any digit; the caller says where it does.
        images = pool.each_byte()
        for digit in b"0123456789":
            images[digit] = pool.alt(images[digit], pool.concat(self._point, images[digit]))
        return pool.substitute(whole, images)

    def _digits_of(self, from_: int, to: int, modulus: int) -> Rx:
        return self._set("".join(str(d) for d in range(10) if (10 * from_ + d) % modulus == to))


class UnsupportedDivisor(Exception):
    """A multiple that is beyond the automata built here; ``NumberLanguage.of`` turns it into a refusal."""


def is_small_divisor(divisor: int) -> bool:
    """Whether divisibility by this integer is a small automaton on decimal digits."""
    smooth, rest = _split_divisor(divisor)
    return rest <= MAX_RESIDUES and 10**MAX_SUFFIX % smooth == 0


def _split_divisor(divisor: int) -> tuple[int, int]:
    """The part made of twos and fives, and the part coprime to 10."""
    smooth, rest = 1, divisor
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
            smooth *= prime
    return smooth, rest


def _pointed(digits: str, taken: int) -> str:
    return f"{digits[:-taken]}.{digits[-taken:]}" if taken else digits
