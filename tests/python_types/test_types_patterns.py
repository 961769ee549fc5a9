"""Patterns in the dialects of pydantic's two engines, and bounds on digits, against the engines and numbers."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from typing import Annotated, Any

import hypothesis
import hypothesis.strategies as st
import pydantic
import pytest

from radixrt.grammar import Compiler
from radixrt.python_types.patterns import ecma_pattern
from radixrt.python_types.ranges import decimal_bound, fixed_bound

SAMPLES = [
    "",
    "a",
    "abc",
    "ABC",
    "123-abc",
    "123-\u00e9",
    "\u0661\u0662\u0663-x",
    "foo",
    "a foo b",
    "afoo",
    "\u00e9foo",
]
SAMPLES += [
    "\u00c9a",
    "a\u00e9",
    "x@y.de",
    "x y",
    "2020-12",
    "A b-c",
    "1",
    "\u200d",
    "\u2028",
    "a\nc",
    "abc\n",
    "b",
    "a\nb",
]
SAMPLES += [
    "a\nb\nc",
    "]a",
    "ab",
    "aaa",
    "aaaa",
    "1.2",
    ".",
    "-_#",
    "x/y",
    "a+b.c",
    '"a"',
    "\u017f",
    "\u212a",
    "\u0085",
]
SAMPLES += ["\u00a0", "_", "a b", "\u24b6", "aab", "!?x", "\x1c", "no", "\u0301", "a{b", "|"]
PATTERNS = [
    r"^\d{3}-\w+$",
    r"\bfoo\b",
    r"\Bfoo",
    r"^[^\W\d_]+$",
    r"^[\W\d]+$",
    r"^\S+@\S+\.[a-z]{2,}$",
    r"(?i)^abc$",
    r"^a(?i:b)c|K$",
    r"^(?P<y>\d{4})-(?P<m>\d\d)$",
    r"^[A-Z][\w\s-]*$",
    r"a.c",
    r"^[^\s]+$",
    r"^[]a]+$",
    r"\Aab",
    r"^(?s:.+)$",
    r"(?m)^b$",
    r"^\x41\u00e9$",
    r"^[\d.]+$",
    r"^\D\W\S$",
    r"^a*?b+?$",
    r"^\-\_\#$",
    r'^"[^"\\]*"$',
    "(?x)^ a  b # a comment\n $",
    r"^[a-c\]\-]+$",
    r"^(?:|a|bc)$",
]
RUST_ONLY = [
    r"^\p{Lu}\p{Ll}+$",
    r"^\PL$",
    r"^[\p{Lu}_]+$",
    r"^\pL$",
    r"^ab\z",
    r"^\x{41}\u{e9}$",
    r"(?U)^a+$",
]
PYTHON_ONLY = [
    r"^ab\Z",
    r"^(?!a|no)\w+$",
    r"^(?=a)\w(?<!b)",
    r"^a{,3}$",
    r"^a{b$",
    r"(?a)^\w+$",
    r"^(?#nothing)a$",
    r"^(?!a$)",
]


@pytest.mark.parametrize(
    ("pattern", "engine"),
    [(p, e) for p in PATTERNS for e in ("rust-regex", "python-re")]
    + [(p, "rust-regex") for p in RUST_ONLY]
    + [(p, "python-re") for p in PYTHON_ONLY],
)
def test_a_rewritten_pattern_takes_what_its_engine_takes(pattern: str, engine: Any, compiler: Compiler) -> None:
    kind = Annotated[str, pydantic.Field(pattern=pattern)]
    parser = pydantic.TypeAdapter(kind, config=pydantic.ConfigDict(regex_engine=engine))
    source = ecma_pattern(pattern, python=engine == "python-re")
    grammar = compiler.json_schema({"type": "string", "pattern": source})
    for text in SAMPLES:
        try:
            parser.validate_python(text)
            wanted = True
        except pydantic.ValidationError:
            wanted = False
        if engine == "python-re" and text.endswith("\n") and pattern.endswith("$"):
            continue  # Python's $ also stands before the last line break; here it is the end
        assert grammar.matches(json.dumps(text, ensure_ascii=False)) is wanted, (source, text)


@pytest.mark.parametrize(
    ("pattern", "python", "named"),
    [
        (r"(a)\1", True, "back-reference"),
        (r"(?P<n>a)(?P=n)", True, "group"),
        (r"(a)?(?(1)b)", True, "group"),
        (r"(?>a)", True, "group"),
        (r"a*+", True, "possessive"),
        (r"[a&&b]", False, "operation on classes"),
        (r"[[:alpha:]]", False, "operation on classes"),
        (r"\p{Greek}", False, "property"),
        (r"a(?i)b|c", False, "middle of a group"),
        (r"(?R)a", False, "flag R"),
        (r"\N{BULLET}", True, "escape"),
        (r"(?!\bfoo)", False, "word boundary"),
    ],
)
def test_what_cannot_be_rewritten_is_named(pattern: Any, python: bool, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ecma_pattern(pattern, python=python)


@pytest.mark.parametrize("flags", [re.IGNORECASE, re.DOTALL, re.MULTILINE, re.VERBOSE, re.ASCII])
def test_flags_of_a_compiled_pattern_count(flags: re.RegexFlag, compiler: Compiler) -> None:
    pattern = re.compile(r"^A . \w$", flags)
    grammar = compiler.json_schema({"type": "string", "pattern": ecma_pattern(pattern)})
    for text in ("A x y", "a x y", "A \n y", "A x \u00e9", "Axy", "A x y\nb", "b\nA x y"):
        assert grammar.matches(json.dumps(text, ensure_ascii=False)) is (pattern.search(text) is not None), text


@hypothesis.given(
    bound=st.decimals(allow_nan=False, allow_infinity=False, min_value=-2000, max_value=2000, places=3),
    above=st.booleans(),
    strictly=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_bound_on_decimals_compares_them_as_numbers(
    bound: Decimal, above: bool, strictly: bool, seed: int
) -> None:
    pattern = re.compile(decimal_bound(bound, above=above, strictly=strictly).replace("[]", "(?!)"))
    choose = random.Random(seed)
    near = [bound, bound + Decimal("0.001"), bound - Decimal("0.0001"), -bound, bound * 10, bound / 10]
    values = near + [
        Decimal(choose.randint(-3_000_000, 3_000_000)).scaleb(-choose.randint(0, 4)) for _ in range(20)
    ]
    for value in values:
        text = format(value, "f")
        wanted = value > bound if above else value < bound
        if value == bound:
            wanted = not strictly
        assert (pattern.fullmatch(text) is not None) is wanted, (pattern.pattern, text)


@hypothesis.given(bound=st.dates(), other=st.dates(), above=st.booleans(), equal=st.sampled_from(["", None]))
def test_a_bound_on_dates_compares_them_as_dates(bound: Any, other: Any, above: bool, equal: str | None) -> None:
    pattern = fixed_bound(bound.isoformat(), above=above, equal=equal).replace("[]", "(?!)")
    for date in (other, bound, bound.replace(day=1), bound.replace(month=12)):
        wanted = date > bound if above else date < bound
        if date == bound:
            wanted = equal is not None
        assert (re.fullmatch(pattern, date.isoformat()) is not None) is wanted
