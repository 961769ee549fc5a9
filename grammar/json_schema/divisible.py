"""Decimal digits of the integers that a given integer divides, as regular expressions.

The divisor is split: twos and fives are decided by the last digits, powers of other primes by the automaton of
remainders of each. Nothing here knows about signs, bounds or schemas.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from radixrt.grammar.rx import EMPTY, NONE, Pool, Rx

__all__ = ["Divisible", "UnsupportedDivisor", "is_small_divisor"]

MAX_RESIDUES: Final = 37  # a power of a prime: its automaton is eliminated to a regular expression
MAX_REST: Final = 10_000  # the part coprime to 10 as a whole: the remainders are states, made when they are met
MAX_REMAINDERS: Final = 4096  # of the part made of twos and fives, over all lengths of an ending
MAX_TAKEN: Final = 400  # digits behind the point


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
        if not is_small_divisor(divisor) or taken > MAX_TAKEN:
            raise UnsupportedDivisor
        smooth, rest = _split_divisor(divisor)
        pool = self._pool
        digit = self._set("0123456789")
        shape = pool.concat(self._integer, self._with_point(pool.repeat(digit, taken, taken), taken))
        parts = [self._ends_divisible(smooth), *map(self._sums_divisible, _prime_powers(rest))]
        if taken:  # the point may stand before any digit here; the shape says where it does
            parts = [pool.substitute(part, self._images_with_point()) for part in parts]
        return pool.and_(shape, *parts)

    def _with_point(self, digits: Rx, taken: int) -> Rx:
        return self._pool.concat(self._point, digits) if taken else EMPTY

    def _images_with_point(self) -> list[Rx]:
        pool = self._pool
        images = [pool.byte_set(1 << byte) for byte in range(256)]
        for digit in b"0123456789":
            images[digit] = pool.alt(images[digit], pool.concat(self._point, images[digit]))
        return images

    def _ends_divisible(self, smooth: int) -> Rx:
        """Digit strings whose last digits make them divisible by a product of twos and fives."""
        pool = self._pool
        if smooth == 1:
            return pool.all
        width = _width(smooth)
        # ends[r]: digit strings of the length at hand, from the right, with a remainder r that what stands before
        # them, a multiple of the next power of ten, can still make good.
        ends: dict[int, Rx] = {0: EMPTY}
        short: list[Rx] = []
        for length in range(width):
            power = 10**length
            step = gcd(10 * power, smooth)
            longer: dict[int, list[Rx]] = {}
            for remainder, end in ends.items():
                digits: dict[int, str] = {}
                for digit in range(10):
                    whole = (digit * power + remainder) % smooth
                    if whole % step == 0:
                        digits[whole] = digits.get(whole, "") + str(digit)
                for whole, characters in digits.items():
                    longer.setdefault(whole, []).append(pool.concat(self._set(characters), end))
            ends = {remainder: pool.alt(*ways) for remainder, ways in longer.items()}
            short.append(ends.get(0, NONE))
        return pool.alt(pool.concat(self._digits, ends[0]), *short)

    def _sums_divisible(self, rest: int) -> Rx:
        """Digit strings divisible by a number coprime to 10: remainders, eliminated state by state."""
        pool = self._pool
        paths = [[self._digits_of(from_, to, rest) for to in range(rest)] for from_ in range(rest)]
        for middle in range(rest - 1, 0, -1):
            loop = pool.star(paths[middle][middle])
            for from_ in range(middle):
                through = pool.concat(paths[from_][middle], loop)
                for to in range(middle):
                    paths[from_][to] = pool.alt(paths[from_][to], pool.concat(through, paths[middle][to]))
        return pool.star(paths[0][0])

    def _digits_of(self, from_: int, to: int, modulus: int) -> Rx:
        return self._set("".join(str(d) for d in range(10) if (10 * from_ + d) % modulus == to))


class UnsupportedDivisor(Exception):
    """A multiple that is beyond the automata built here; ``NumberLanguage.of`` turns it into a refusal."""


def is_small_divisor(divisor: int) -> bool:
    """Whether divisibility by this integer is a small automaton on decimal digits."""
    smooth, rest = _split_divisor(divisor)
    remainders = sum(min(smooth, 10**n) // gcd(10**n, smooth) for n in range(1, _width(smooth) + 1))
    if remainders > MAX_REMAINDERS or rest > MAX_REST:
        return False
    return all(power <= MAX_RESIDUES for power in _prime_powers(rest))


def _split_divisor(divisor: int) -> tuple[int, int]:
    """The part made of twos and fives, and the part coprime to 10."""
    smooth, rest = 1, divisor
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
            smooth *= prime
    return smooth, rest


def _width(smooth: int) -> int:
    """How many digits at the end decide about divisibility by a product of twos and fives."""
    twos = (smooth & -smooth).bit_length() - 1
    fives = 0
    smooth >>= twos
    while smooth > 1:
        smooth //= 5
        fives += 1
    return max(twos, fives)


def _prime_powers(number: int) -> list[int]:
    """Divisors coprime to each other whose product it is, as far as small primes go."""
    powers = []
    for prime in range(3, MAX_RESIDUES + 1, 2):
        power = 1
        while number % prime == 0:
            number //= prime
            power *= prime
        if power > 1:
            powers.append(power)
    return powers if number == 1 else [*powers, number]
