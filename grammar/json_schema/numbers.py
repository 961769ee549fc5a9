"""Numbers: which texts spell a number inside a shape, and whether a given number is inside.

The spelling policy, stated once. A number is a JSON number with an exponent of at most ±400; once it is bounded
by anything but zero, or must (not) be a multiple or a given value, it is spelled without exponent. What must be
an integer is spelled without fraction and exponent; ``-0`` is spelled ``0`` as soon as anything bounds the
number. By value the rules are JSON Schema's: 1.0 is an integer. Nothing here knows about schemas' places or
other types.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.divisible import Divisible, UnsupportedDivisor, is_small_divisor
from radixrt.grammar.json_schema.shapes import NumberShape
from radixrt.grammar.json_schema.values import Number, is_integral
from radixrt.grammar.rx import EMPTY, NONE, Pool, Rx

__all__ = ["NumberLanguage", "admits_number", "is_empty_number", "spellings"]

PLAIN_DIGITS: Final = 40  # longer fixed values are spelled with an exponent,
PLAIN_ZEROS: Final = 8  # unless it would save fewer zeros than these
MAX_LISTED: Final = 5_000  # multiples that are listed one by one where they are no small automaton


def spellings(value: Number) -> list[str]:
    """The spellings of one given number: without exponent where that is short, and as Python writes it."""
    if isinstance(value, int):
        return [str(value)]
    found: dict[str, None] = {}
    # Trimmed by hand: Decimal.normalize rounds to the precision of the context.
    sign, digits, exponent = _trimmed(value)
    places = max(len(digits) + exponent, 1) + max(-exponent, 0)
    if places <= max(PLAIN_DIGITS, len(digits) + PLAIN_ZEROS):
        found[format(Decimal((sign, digits, exponent)), "f")] = None
    as_float = repr(float(value))
    if "n" not in as_float and Decimal(as_float) == value:  # neither inf nor nan
        found[as_float] = None
    if not found:
        text = "".join(map(str, digits))
        point = f".{text[1:]}" if len(text) > 1 else ""
        found[f"{'-' if sign else ''}{text[0]}{point}e{exponent + len(text) - 1}"] = None
    return list(found)


def _trimmed(value: Decimal) -> tuple[int, tuple[int, ...], int]:
    """Sign, digits and exponent without zeros at the end; zero has no sign."""
    if not value:
        return 0, (0,), 0
    sign, digits, exponent = value.as_tuple()
    count = len(digits)
    while digits[count - 1] == 0:
        count -= 1
    return sign, digits[:count], int(exponent) + len(digits) - count


def admits_number(shape: NumberShape, value: Number) -> bool:
    """Whether a number is inside, by value."""
    if shape.integral is not None and is_integral(value) is not shape.integral:
        return False
    if shape.low is not None and (value < shape.low or (value == shape.low and shape.low_open)):
        return False
    if shape.high is not None and (value > shape.high or (value == shape.high and shape.high_open)):
        return False
    exact = Fraction(value)
    return (
        Decimal(value) not in shape.excluded
        and all((exact / Fraction(step)).denominator == 1 for step in shape.multiples)
        and all((exact / Fraction(step)).denominator != 1 for step in shape.non_multiples)
    )


def is_empty_number(shape: NumberShape) -> bool:
    """Whether the bounds leave nothing (multiples are not looked at)."""
    if shape.low is None or shape.high is None:
        return False
    if shape.low > shape.high:
        return True
    if shape.integral:
        return _floor(shape.high, shape.high_open) < _ceiling(shape.low, shape.low_open)
    return shape.low == shape.high and (
        shape.low_open or shape.high_open or (shape.integral is False and is_integral(shape.low))
    )


def _ceiling(value: Number, strictly: bool) -> int:
    """The least integer that is at least (more than) ``value``."""
    exact = Fraction(value)
    ceiling = -(-exact.numerator // exact.denominator)
    return ceiling + 1 if strictly and ceiling == exact else ceiling


def _floor(value: Number, strictly: bool) -> int:
    exact = Fraction(value)
    floor = exact.numerator // exact.denominator
    return floor - 1 if strictly and floor == exact else floor


class NumberLanguage:
    """Shapes of numbers to regular expressions over their JSON text."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        digits = self._set("0123456789")
        self._digits = pool.star(digits)
        self._some_digits = pool.plus(digits)
        self._integer = pool.alt(self._text("0"), pool.concat(self._set("123456789"), self._digits))
        self._point = self._text(".")
        self._zeros = pool.star(self._text("0"))
        nonzero = self._set("123456789")
        self._nonzero_fraction = pool.concat(self._point, self._zeros, nonzero, self._digits)
        self._fraction = pool.concat(self._point, self._some_digits)
        self._minus = self._text("-")
        self._multiples_of = Divisible(pool, self._integer)

    def of(self, shape: NumberShape) -> Rx:
        """The language of the spellings of the numbers in ``shape``; ``NONE`` if there is none."""
        try:
            return self._of(shape)
        except UnsupportedDivisor:
            steps = ", ".join(map(str, sorted(shape.multiples | shape.non_multiples)))
            why = f"multiples of {steps} within these bounds need an automaton that is too large"
            if shape.origin is None:
                raise UnsupportedConstraint(why, keyword="multipleOf", param="schema") from None
            raise shape.origin.refuse("multipleOf", why) from None

    def _of(self, shape: NumberShape) -> Rx:
        pool = self._pool
        if shape == NumberShape():
            return pool.concat(
                pool.opt(self._minus), self._integer, pool.opt(self._fraction), pool.opt(self._exponent())
            )
        if shape.integral:
            return self._integers(shape)
        parts = [self._between(shape)]
        if shape.integral is False:
            parts.append(pool.concat(pool.opt(self._minus), self._integer, self._nonzero_fraction))
        one_zero = self._text("0")
        parts.extend(self._multiples(step, zeros=one_zero, longer=EMPTY) for step in sorted(shape.multiples))
        for step in sorted(shape.non_multiples):
            parts.append(pool.not_(self._multiples(step, zeros=pool.plus(one_zero), longer=self._zeros)))
        parts.extend(pool.not_(self._any_spelling(value)) for value in sorted(shape.excluded))
        plain = pool.and_(*parts)
        if shape.integral is None and not (shape.multiples or shape.non_multiples or shape.excluded):
            return pool.alt(plain, self._scientific(shape))
        return plain

    # --- leaves ---------------------------------------------------------------------------------------------

    def _text(self, text: str) -> Rx:
        return self._pool.literal(text.encode())

    def _set(self, characters: str) -> Rx:
        return self._pool.byte_set(sum(1 << ord(character) for character in characters))

    def _exponent(self) -> Rx:
        pool = self._pool
        digits = pool.alt(
            pool.repeat(self._set("0123456789"), 1, 2),
            pool.concat(self._set("0123"), pool.repeat(self._set("0123456789"), 2, 2)),
            self._text("400"),
        )
        return pool.concat(self._set("eE"), pool.opt(self._set("+-")), digits)

    # --- integers -------------------------------------------------------------------------------------------

    def _integers(self, shape: NumberShape) -> Rx:
        pool = self._pool
        low = None if shape.low is None else _ceiling(shape.low, shape.low_open)
        high = None if shape.high is None else _floor(shape.high, shape.high_open)
        if low is not None and high is not None and low > high:
            return NONE
        listed = self._listed_multiples(shape, low, high)
        if listed is not None:
            return listed
        parts = [self._integers_from(low), self._integers_to(high)]
        parts.extend(self._multiples_as_integers(step) for step in sorted(shape.multiples))
        for step in sorted(shape.non_multiples):
            parts.append(pool.not_(self._multiples_as_integers(step)))
        parts.extend(
            pool.not_(self._text(str(int(value)))) for value in sorted(shape.excluded) if is_integral(value)
        )
        return pool.and_(*parts)

    def _listed_multiples(self, shape: NumberShape, low: int | None, high: int | None) -> Rx | None:
        """All integers inside, one by one, where their multiples are no small automaton but few."""
        steps = [Fraction(step).numerator for step in shape.multiples]
        if low is None or high is None or all(map(is_small_divisor, steps)):
            return None
        step = lcm(*steps)
        values = range(-(-low // step) * step, high + 1, step)
        if len(values) > MAX_LISTED:
            return None
        inside = (value for value in values if admits_number(shape, value))
        return self._pool.alt(*(self._text(str(value)) for value in inside))

    def _integers_from(self, low: int | None) -> Rx:
        """Integers of at least ``low``, without fraction, never ``-0``."""
        pool = self._pool
        positive = pool.concat(self._set("123456789"), self._digits)
        if low is None:
            return pool.alt(self._text("0"), positive, pool.concat(self._minus, positive))
        if low > 0:
            return self._at_least(str(low))
        negative = pool.and_(positive, self._at_most(str(-low)))
        return pool.alt(self._text("0"), positive, pool.concat(self._minus, negative))

    def _integers_to(self, high: int | None) -> Rx:
        pool = self._pool
        if high is None:
            return self._integers_from(None)
        positive = pool.concat(self._set("123456789"), self._digits)
        if high < 0:
            return pool.concat(self._minus, self._at_least(str(-high)))
        return pool.alt(self._at_most(str(high)), pool.concat(self._minus, positive))

    def _at_least(self, digits: str, strictly: bool = False) -> Rx:
        """Unsigned integers of at least (more than) the one with these digits."""
        pool = self._pool
        longer = pool.concat(self._set("123456789"), pool.repeat(self._set("0123456789"), len(digits), None))
        equal = NONE if strictly else self._text(digits)
        if digits == "0":
            return pool.alt(pool.concat(self._set("123456789"), self._digits), equal)
        return pool.alt(longer, self._compared(digits, above=True, equal=equal), equal)

    def _at_most(self, digits: str, strictly: bool = False) -> Rx:
        """Unsigned integers of at most (less than) the one with these digits."""
        pool = self._pool
        equal = NONE if strictly else self._text(digits)
        if digits == "0":
            return equal
        shorter = pool.alt(
            self._text("0"),
            pool.concat(self._set("123456789"), pool.repeat(self._set("0123456789"), 0, len(digits) - 2))
            if len(digits) > 1
            else NONE,
        )
        return pool.alt(shorter, self._compared(digits, above=False, equal=equal), equal)

    def _compared(self, digits: str, *, above: bool, equal: Rx, tail: Rx | None = None) -> Rx:
        """Digit strings as long as ``digits`` (``tail``: then anything there) that are above or below it.

        Built from the back, so that equal beginnings are shared.
        """
        pool = self._pool
        digit = self._set("0123456789")
        result = equal if tail is not None else NONE
        for index in range(len(digits) - 1, -1, -1):
            rest = pool.repeat(digit, len(digits) - index - 1, len(digits) - index - 1) if tail is None else tail
            first = "1" if tail is None and index == 0 else "0"
            others = [c for c in "0123456789" if c >= first and (c > digits[index] if above else c < digits[index])]
            different = pool.concat(self._set("".join(others)), rest) if others else NONE
            result = pool.alt(different, pool.concat(self._text(digits[index]), result))
        return result

    # --- decimals -------------------------------------------------------------------------------------------

    def _between(self, shape: NumberShape) -> Rx:
        """Numbers without exponent within the bounds."""
        pool = self._pool
        unsigned = pool.concat(self._integer, pool.opt(self._fraction))
        below_zero = pool.alt(
            pool.concat(self._set("123456789"), self._digits, pool.opt(self._fraction)),
            pool.concat(self._text("0"), self._nonzero_fraction),
        )
        either = pool.alt(unsigned, pool.concat(self._minus, below_zero))
        parts = [either]
        if shape.low is not None:
            parts.append(self._decimals_from(Decimal(shape.low), shape.low_open, unsigned))
        if shape.high is not None:
            parts.append(self._decimals_to(Decimal(shape.high), shape.high_open, unsigned))
        return pool.and_(*parts)

    def _decimals_from(self, low: Decimal, strictly: bool, unsigned: Rx) -> Rx:
        pool = self._pool
        if low > 0 or (low == 0 and strictly):
            return self._decimal_at_least(low, strictly)
        if low == 0:
            return unsigned
        return pool.alt(unsigned, pool.concat(self._minus, self._decimal_at_most(low.copy_negate(), strictly)))

    def _decimals_to(self, high: Decimal, strictly: bool, unsigned: Rx) -> Rx:
        pool = self._pool
        negative = pool.concat(self._minus, unsigned)
        if high > 0 or (high == 0 and not strictly):
            return pool.alt(negative, self._decimal_at_most(high, strictly))
        if high == 0:
            return pool.concat(self._minus, self._decimal_at_least(high, strictly))
        return pool.concat(self._minus, self._decimal_at_least(high.copy_negate(), strictly))

    def _decimal_at_least(self, bound: Decimal, strictly: bool) -> Rx:
        pool = self._pool
        whole, fraction = _halves(bound)
        larger = pool.concat(self._at_least(whole, strictly=True), pool.opt(self._fraction))
        if not fraction:
            rest = self._nonzero_fraction if strictly else pool.opt(self._fraction)
        else:
            beyond = pool.concat(self._zeros, self._set("123456789"), self._digits) if strictly else self._digits
            rest = pool.concat(self._point, self._compared(fraction, above=True, equal=beyond, tail=self._digits))
        return pool.alt(larger, pool.concat(self._text(whole), rest))

    def _decimal_at_most(self, bound: Decimal, strictly: bool) -> Rx:
        pool = self._pool
        whole, fraction = _halves(bound)
        smaller = pool.concat(self._at_most(whole, strictly=True), pool.opt(self._fraction))
        exact = NONE if strictly else pool.alt(self._text(fraction), pool.concat(self._text(fraction), self._zeros))
        if not fraction:
            zeros = pool.opt(pool.concat(self._point, pool.plus(self._text("0"))))
            rest = NONE if strictly else zeros
        else:
            # A fraction that stops within the bound's digits is below it, for their last one is not zero.
            early = [self._text(fraction[:end]) for end in range(1, len(fraction))]
            below = self._compared(fraction, above=False, equal=NONE, tail=self._digits)
            rest = pool.opt(pool.concat(self._point, pool.alt(*early, below, exact)))
        return pool.alt(smaller, pool.concat(self._text(whole), rest))

    def _scientific(self, shape: NumberShape) -> Rx:
        """Spellings with exponent, where the bounds speak of the sign alone."""
        pool = self._pool
        if any(bound is not None and bound != 0 for bound in (shape.low, shape.high)):
            return NONE
        nonzero = pool.alt(
            pool.concat(self._set("123456789"), self._digits, pool.opt(self._fraction)),
            pool.concat(self._text("0"), self._nonzero_fraction),
        )
        positive = NONE if shape.high is not None else pool.concat(nonzero, self._exponent())
        negative = NONE if shape.low is not None else pool.concat(self._minus, nonzero, self._exponent())
        return pool.alt(positive, negative)

    # --- given values and multiples -------------------------------------------------------------------------

    def _any_spelling(self, value: Decimal) -> Rx:
        """Every spelling without exponent of one number."""
        pool = self._pool
        whole, fraction = _halves(value.copy_abs())
        more = pool.concat(self._point, pool.plus(self._text("0")))
        rest = pool.concat(self._text("." + fraction), self._zeros) if fraction else pool.opt(more)
        sign = pool.opt(self._minus) if value == 0 else self._minus if value < 0 else EMPTY
        return pool.concat(sign, self._text(whole), rest)

    def _multiples_as_integers(self, step: Decimal) -> Rx:
        """Signed integers that are multiples of ``step``."""
        exact = Fraction(step)
        return self._pool.concat(self._pool.opt(self._minus), self._multiples_of.digits(exact.numerator, 0))

    def _multiples(self, step: Decimal, *, zeros: Rx, longer: Rx) -> Rx:
        """Signed numbers without exponent that are multiples of ``step``.

        ``zeros`` may be the fraction of an integer, ``longer`` zeros may follow any other fraction.
        """
        pool = self._pool
        places = max(0, -_trimmed(step)[2])
        factor = int(Fraction(step) * 10**places)
        choices = []
        for taken in range(places + 1):
            divisor = factor // gcd(factor, 10 ** (places - taken))
            tail = longer if taken else pool.opt(pool.concat(self._point, zeros))
            choices.append(pool.concat(self._multiples_of.digits(divisor, taken), tail))
        return pool.concat(pool.opt(self._minus), pool.alt(*choices))


def _halves(value: Decimal) -> tuple[str, str]:
    """The digits before and after the point, without trailing zeros; ``value`` is not negative."""
    text = format(Decimal(_trimmed(value)), "f")
    whole, _, fraction = text.partition(".")
    return whole, fraction
