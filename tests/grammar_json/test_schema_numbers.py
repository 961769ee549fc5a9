"""Numbers of every size and spelling: multiples, bounds and given values, held against exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from radixrt.errors import UnsupportedConstraint

LONG = "123456789012345678901234567890.12345678901234567890123456789"  # more digits than a Decimal context keeps


def texts_around(step: Fraction, rng: Random) -> list[str]:
    """Numbers without exponent, multiples of ``step`` and others, spelled with up to 14 places."""
    values = [step * rng.randrange(-200, 200) for _ in range(30)]
    values += [Fraction(rng.randrange(-(10**6), 10**6), 10 ** rng.randrange(0, 8)) for _ in range(60)]
    values += [value + Fraction(1, 10 ** rng.randrange(0, 8)) for value in values[:20]]
    found = []
    for value in values:
        scaled = value * 10**14
        if scaled.denominator == 1:
            text = format(Decimal(scaled.numerator).scaleb(-14), "f").rstrip("0").rstrip(".")
            found.append("0" if text in ("-0", "") else text)
    return found


@pytest.mark.parametrize(
    "step",
    [
        "1e-7",
        "5e-7",
        "0.01",
        "0.0625",
        "0.07",
        "1.5",
        "17",
        "29",
        "37",
        "64",
        "91",
        "99",
        "360",
        "1024",
        "1e6",
        "2.5e3",
    ],
)
def test_multiples_are_exactly_those_of_arithmetic(compiled: Callable[..., Any], step: str) -> None:
    exact = Fraction(step)
    numbers = compiled(f'{{"type":"number","multipleOf":{step}}}')
    others = compiled(f'{{"type":"number","not":{{"multipleOf":{step}}}}}')
    integers = compiled(f'{{"type":"integer","multipleOf":{step}}}')
    for text in texts_around(exact, Random(step)):
        inside = (Fraction(text) / exact).denominator == 1
        assert numbers.takes(text) is inside, text
        assert others.takes(text) is not inside, text
        assert integers.takes(text) is (inside and "." not in text), text


@pytest.mark.parametrize("step", ["73", "1e-7", "99991"])
def test_multiples_within_narrow_bounds_are_listed(compiled: Callable[..., Any], step: str) -> None:
    language = compiled(f'{{"type":"integer","multipleOf":{step},"minimum":99000,"maximum":100000}}')
    for value in (99000, 99061, 99062, 99991, 100000, 100010):
        inside = (value / Fraction(step)).denominator == 1 and 99000 <= value <= 100000
        assert language.takes(str(value)) is inside, value


def test_multiples_of_a_large_prime_are_refused_by_name(compiled: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled({"properties": {"a": {"multipleOf": 1000003}}})
    assert (caught.value.keyword, caught.value.location) == ("multipleOf", "/properties/a/multipleOf")


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("kind", ["number", "integer"])
def test_bounds_are_exact_beyond_28_digits(compiled: Callable[..., Any], sign: str, kind: str) -> None:
    bound = Fraction(sign + LONG)
    low = compiled(f'{{"type":"{kind}","minimum":{sign}{LONG}}}')
    high = compiled(f'{{"type":"{kind}","exclusiveMaximum":{sign}{LONG}}}')
    last = [LONG[:-1] + digit for digit in "8"] + [LONG, LONG + "1", LONG.partition(".")[0]]
    for text in [sign + text for text in (*last, str(int(bound) + 1), "123456789012345678901234567891")]:
        text = text.replace("--", "-")
        if kind == "integer" and "." in text:
            continue
        assert low.takes(text) is (Fraction(text) >= bound), text
        assert high.takes(text) is (Fraction(text) < bound), text


@pytest.mark.parametrize(
    ("given", "spelled", "not_spelled"),
    [
        ("1.0", ["1", "1.0"], ["1.00", "1e0"]),
        ("-0", ["0"], ["-0"]),
        ("-0.0", ["0", "-0.0"], ["-0"]),
        ("1e2", ["100", "100.0"], ["1e2", "1E2"]),
        ("1e400", ["1e400"], ["1e401", "1e40"]),
        ("-1.5e-300", ["-1.5e-300"], ["1.5e-300"]),
        (LONG, [LONG], [LONG[:-1], LONG + "1"]),
        ("0." + "0123456789" * 6, ["0." + "0123456789" * 6], ["0." + "0123456789" * 5]),
        ("9" * 60, ["9" * 60], ["9" * 59]),
    ],
)
def test_given_numbers_have_the_stated_spellings(
    compiled: Callable[..., Any], given: str, spelled: list[str], not_spelled: list[str]
) -> None:
    for schema in (f'{{"const":{given}}}', f'{{"enum":["x",{given}]}}'):
        language = compiled(schema)
        assert [text for text in spelled if not language.takes(text)] == []
        assert [text for text in not_spelled if language.takes(text)] == []


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ('{"type":"integer","const":1.0}', "1", "1.0"),
        ('{"type":"integer","enum":[2.0,2.5]}', "2", "2.0"),
        ('{"type":"integer","const":1e2}', "100", "100.0"),
        ('{"items":{"type":"integer"},"const":[1.0]}', "[1]", "[1.0]"),
        ('{"properties":{"a":{"type":"integer"}},"const":{"a":1.0}}', '{"a":1}', '{"a":1.0}'),
    ],
)
def test_where_integers_are_asked_for_given_ones_have_no_fraction(
    compiled: Callable[..., Any], schema: str, taken: str, refused: str
) -> None:
    language = compiled(schema)
    assert language.takes(taken)
    assert not language.takes(refused)


def test_one_is_an_integer_however_it_is_written(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "number", "not": {"type": "integer"}})
    assert language.takes("1.5")
    assert not language.takes("1.0")
    assert not language.takes("1")


@pytest.mark.parametrize("keyword", ["maxLength", "maxItems"])
@pytest.mark.parametrize("count", ["1" + "0" * 300, "1e300"])
def test_counts_of_any_size(compiled: Callable[..., Any], keyword: str, count: str) -> None:
    language = compiled(f'{{"{keyword}":{count},"type":["string","array"]}}')
    assert language.takes('"a"')
    assert language.takes("[1]")
