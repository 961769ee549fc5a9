"""Regular expressions (ECMA-262) for texts of digits that compare with a bound as the numbers or dates they spell.

Two kinds are enough. *Fixed* texts have one digit per place, as in ``2024-02-29``, and compare from the left.
*Decimals* have any number of digits before and after the point. Nothing here knows about types or JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

__all__ = ["any_of", "decimal_bound", "fixed_bound", "fraction_bound", "literal"]


def any_of(choices: Iterator[str] | list[str]) -> str:
    """One group of alternatives."""
    return f"(?:{'|'.join(choices)})"


def literal(text: str) -> str:
    """A pattern for exactly this text."""
    return "".join(f"\\{char}" if char in r"^$\.*+?()[]{}|/" else char for char in text)


def _others(digit: str, above: bool) -> str | None:
    """The class of the digits above (below) one; None where there is none."""
    low, high = (int(digit) + 1, 9) if above else (0, int(digit) - 1)
    if low > high:
        return None
    return str(low) if low == high else f"[{low}-{high}]"


def _differing(text: str, above: bool, first_is_positive: bool = False) -> Iterator[str]:
    """Texts of the same shape that are above (below) ``text``: equal up to a digit that differs."""
    for index, char in enumerate(text):
        if not char.isdigit():
            continue
        others = _others(char, above)
        if index == 0 and first_is_positive and not above:
            others = None if char == "1" else f"[1-{int(char) - 1}]"
        if others is not None:
            rest = "".join("[0-9]" if later.isdigit() else literal(later) for later in text[index + 1 :])
            yield literal(text[:index]) + others + rest


def fixed_bound(text: str, *, above: bool, tail: str = "", equal: str | None = "") -> str:
    """Texts of the shape of ``text`` above (below) it followed by ``tail``, or equal to it followed by ``equal``.

    ``equal=None`` leaves equality out. No text at all is the pattern of a class without members.
    """
    choices = [choice + tail for choice in _differing(text, above)]
    if equal is not None:
        choices.append(literal(text) + equal)
    return any_of(choices or ["[]"])


def fraction_bound(digits: str, *, above: bool, strictly: bool) -> str | None:
    """What may follow a whole part that equals the bound's: nothing, or a point and digits.

    ``digits`` are those of the bound after its point. None where nothing may follow and not even the end.
    """
    digits = digits.rstrip("0")
    differing = [(index, _others(digit, above)) for index, digit in enumerate(digits)]
    choices = [rf"\.{digits[:index]}{others}[0-9]*" for index, others in differing if others is not None]
    if above:
        choices.append(rf"\.{digits}0*[1-9][0-9]*" if strictly else rf"\.{digits}[0-9]*")
        if not digits and not strictly:
            choices.append("")
    else:
        choices += [rf"\.{digits[:i]}" for i in range(1, len(digits))]
        if digits:
            choices.append("")
        if not strictly:
            choices.append(rf"\.{digits}0*")
            choices.append("")
    return any_of(choices) if choices else None


def decimal_bound(bound: Decimal, *, above: bool, strictly: bool) -> str:
    """Decimals without exponent, without needless zeros in front, that are above (below) ``bound``."""
    unsigned = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
    size = abs(bound)
    if above:
        if bound > 0 or (bound == 0 and strictly):
            return any_of(_magnitudes(size, above=True, strictly=strictly))
        small = any_of(_magnitudes(size, above=False, strictly=strictly) or ["[]"])
        return rf"(?:{unsigned}|-{small})"
    if bound < 0 or (bound == 0 and strictly):
        return "-" + any_of(_magnitudes(size, above=True, strictly=strictly))
    small = any_of(_magnitudes(size, above=False, strictly=strictly) or ["[]"])
    return rf"(?:-{unsigned}|{small})"


def _magnitudes(bound: Decimal, *, above: bool, strictly: bool) -> list[str]:
    """Unsigned decimals above (below) ``bound``, which is not negative."""
    whole, _, fraction = format(bound, "f").partition(".")
    any_fraction = r"(?:\.[0-9]+)?"
    choices = [choice + any_fraction for choice in _differing(whole, above, first_is_positive=whole != "0")]
    if above:
        choices.append(rf"[1-9][0-9]{{{len(whole)},}}{any_fraction}")
        if whole == "0":
            choices.append(rf"[1-9]{any_fraction}")
    elif whole != "0":
        choices.append(f"0{any_fraction}")
        if len(whole) > 1:
            choices.append(rf"[1-9][0-9]{{0,{len(whole) - 2}}}{any_fraction}")
    rest = fraction_bound(fraction, above=above, strictly=strictly)
    if rest is not None:
        choices.append(whole + rest)
    return choices
