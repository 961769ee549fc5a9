"""Numbers, strings and given values: what is spelled how, and which values are inside."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar.json_schema.formats import FORMATS

BOUNDS = ["-1000.5", "-100", "-1", "-0.25", "-0.1", "0", "0.05", "0.5", "1", "9.99", "10", "99.5", "110", "12345"]


def spelled_numbers(seed: int) -> list[str]:
    """Plain decimals around the bounds, their neighbours and random ones."""
    rng = random.Random(seed)
    texts = {
        str(Decimal(b) + Decimal(d)) for b in BOUNDS for d in ("0", "1", "-1", "0.01", "-0.01", "0.001", "-0.001")
    }
    texts |= {f"{rng.randint(-20000, 20000) / 10 ** rng.randint(0, 4):f}" for _ in range(200)}
    texts |= {text + "0" for text in texts if "." in text} | {text + ".0" for text in texts if "." not in text}
    return sorted(texts - {"-0", "-0.0", "-0.00"})


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("seed", range(12))
def test_bounds_agree_with_arithmetic(compiled: Callable[..., Any], kind: str, seed: int) -> None:
    rng = random.Random(seed)
    low, high = sorted(rng.sample(BOUNDS, 2), key=Decimal)
    names = rng.choice(
        [("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum"), ("minimum", "exclusiveMaximum")]
    )
    schema = {"type": kind, names[0]: Decimal(low), names[1]: Decimal(high)}
    for name in rng.sample(names, rng.choice([0, 0, 1])):
        del schema[name]
    try:
        language = compiled(schema)
    except UnsatisfiableConstraint:
        language = None
    for text in spelled_numbers(seed):
        value = Decimal(text)
        inside = (
            value >= schema.get("minimum", value)
            and value <= schema.get("maximum", value)
            and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
            and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
        )
        if kind == "integer":
            inside = inside and "." not in text
        assert (language is not None and language.takes(text)) == inside, (schema, text)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 25, 100, 1000, 37, 101])
def test_multiples_of_integers(compiled: Callable[..., Any], step: Any) -> None:
    language = compiled({"type": "integer", "multipleOf": step, "minimum": -500, "maximum": 3000})
    for value in [*range(-520, 1300, 7), *range(0, 3100, step), *range(1, 3100, step)]:
        assert language.takes(str(value)) == (value % step == 0 and -500 <= value <= 3000), value


@pytest.mark.parametrize("step", ["0.01", "0.1", "0.5", "0.25", "2.5", "1.5", "0.3", "1", "20"])
def test_multiples_of_decimals(compiled: Callable[..., Any], step: Any) -> None:
    language = compiled({"type": "number", "multipleOf": Decimal(step)})
    for text in [
        "0",
        "1",
        "1.0",
        "1.5",
        "3",
        "4.5",
        "2.5",
        "0.3",
        "0.25",
        "1.25",
        "-3.10",
        "20",
        "7",
        "60",
        "-40.0",
    ]:
        whole = (Fraction(text) / Fraction(step)).denominator == 1
        places = max(0, -Decimal(step).normalize().as_tuple().exponent)
        short = text.endswith(".0") or len(text.partition(".")[2]) <= places
        assert language.takes(text) == (whole and short), text


def test_an_integer_has_one_spelling(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "integer"})
    for text in ["0", "-1", "12345678901234567890123456789012345678901234567890"]:
        assert language.takes(text)
    for text in ["1.0", "1e2", "-0", "01", "+1", "1.", ""]:
        assert not language.takes(text)


def test_a_free_number_has_every_spelling_of_json(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "number"})
    for text in ["0", "-0", "-0.5", "1e10", "1E+2", "1e-05", "10.250", "1e400"]:
        assert language.takes(text)
    for text in ["01", ".5", "1.", "+1", "1e", "1e401", "- 1", "0x1", "NaN"]:
        assert not language.takes(text)
    positive = compiled({"exclusiveMinimum": 0, "type": "number"})
    assert positive.takes("1e-05")
    assert not positive.takes("0e5")
    assert not positive.takes("-1e5")


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ('{"minimum":1e999999999}', "minimum"),
        ('{"multipleOf":1e-999999}', "multipleOf"),
        ('{"const":[1e9999]}', "const"),
        ('{"exclusiveMaximum":' + "9" * 5000 + "}", "exclusiveMaximum"),
        ('{"type":"number","multipleOf":0.123457}', "multipleOf"),
    ],
)
def test_numbers_beyond_reason_are_refused_by_name(compiled: Callable[..., Any], schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(schema)
    assert caught.value.keyword == keyword
    assert caught.value.location == f"/{keyword}"


def test_huge_bounds_are_exact(compiled: Callable[..., Any]) -> None:
    low, high = -(10**400), 10**400
    language = compiled({"type": "integer", "minimum": low, "maximum": high})
    for value, inside in [(low, True), (low - 1, False), (high, True), (high + 1, False), (high // 7, True)]:
        assert language.takes(str(value)) == inside


# --- strings ---------------------------------------------------------------------------------------


def test_escapes(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "string"})
    for text in ['""', r'"\"\\\/\b\f\n\r\t"', r'"\u0000\u001F\u001f"', '"é😀\x7f/"', '"I\'m"']:
        assert language.takes(text), text
    for text in ['"', '"a', '"\n"', '"\x00"', r'"\x41"', r'"\'"', r'"\u0041"', r'"\uD83D\uDE00"', '"a"b"', "'a'"]:
        assert not language.takes(text), text


@pytest.mark.parametrize(("low", "high"), [(0, 0), (1, 3), (2, None), (0, 5)])
def test_length_counts_characters_of_the_value(compiled: Callable[..., Any], low: int, high: int | None) -> None:
    schema = {"type": "string", "minLength": low} | ({} if high is None else {"maxLength": high})
    language = compiled(schema)
    for value in ["", "a", "ab", "é😀", "\n\t", '"\\/', "😀" * 5, "\n" * 6, "abcdef"]:
        assert language.takes_value(value) == (low <= len(value) <= (high or low + 99 if high is None else high))


def test_pattern_searches_and_meets_length_and_format(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "string", "pattern": "a.c", "minLength": 4, "maxLength": 5})
    for value in ["xabc", "abcx", "abc", "xaéc", "abcxyz", 'xa"c', "xa\nc"]:
        inside = 4 <= len(value) <= 5 and any(
            value[i] == "a" and value[i + 2] == "c" and value[i + 1] != "\n" for i in range(len(value) - 2)
        )
        assert language.takes_value(value) == inside, value
    both = compiled({"type": "string", "format": "ipv4", "pattern": "^1"})
    assert both.takes_value("10.0.0.1")
    assert not both.takes_value("20.0.0.1")
    split = compiled({"type": "string", "pattern": "^cat$|^dog$"})
    assert split.takes('"cat"')
    assert not split.takes('"cat')
    assert not split.takes('"catdog"')


def test_nul_in_a_pattern(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "string", "pattern": "^[^\\u0000]+$"})
    assert language.takes('"a"')
    assert not language.takes(r'"a\u0000"')
    assert compiled({"type": "string", "pattern": "a\x00b"}).takes(r'"a\u0000b"')


FORMAT_CASES = {
    "date": (
        ["2024-02-29", "2000-02-29", "2023-12-31"],
        ["2023-02-29", "1900-02-29", "2023-04-31", "0000-01-01", "2023-1-01"],
    ),
    "time": (["23:59:59Z", "00:00:00.5+23:59", "23:59:60Z"], ["24:00:00Z", "12:00:60Z", "12:00:00", "12:00Z"]),
    "date-time": (
        ["2024-02-29T12:00:00Z", "1990-12-31t23:59:60z"],
        ["2023-02-29T12:00:00Z", "2024-01-01 12:00:00Z"],
    ),
    "duration": (["P1Y2M3DT4H5M6S", "P4W", "PT1S", "P1D"], ["P", "PT", "P1D4W", "PT1D", "P1Y2W", "P1Y3D1"]),
    "email": (
        ["a.b@x.test", '"a b"@x.test', "a@[127.0.0.1]"],
        ["a@", "@x", "a..b@x.test", ".a@x", "a b@x", "a@-x"],
    ),
    "hostname": (["a", "a-b.c-d", "1.a", "a" * 63], ["", "-a", "a-", "a..b", "a" * 64, "a_b", "xn--X", "a."]),
    "idn-hostname": (["실례.테스트", "a.b"], ["-a", "〮실례", "a b"]),
    "idn-email": (["실례@실례.테스트"], ["실례", "a@@b"]),
    "ipv4": (["0.0.0.0", "255.255.255.255"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"]),
    "ipv6": (
        [
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1::3:4:5:6:7:8",
            "::ffff:1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "1:2::7:8",
        ],
        ["1:2:3:4:5:6:7", "1::2::3", ":1", "12345::", "1:2:3:4:5:6:7:8:9", "::1.2.3", "1:2:3:4:5:6:7::8:9", ":::"],
    ),
    "uuid": (["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380", "2eb8-aa08"]),
    "uri": (
        ["http://a.b:80/c?d#e", "urn:a:b", "mailto:a@b", "http://[::1]/"],
        ["//a/b", "a", "http://a b", "http://[1]/", "1:a", "a:%zz"],
    ),
    "uri-reference": (["//a/b", "../c", "#x", "", "a/b:c"], ["\\a", "a b", "1:b", "#a#b"]),
    "iri": (["http://ƒøø.ßår/?∂=é"], ["http://a b", "âππ"]),
    "iri-reference": (["âππ", "//é"], ["\\é"]),
    "uri-template": (["a{b}", "{+x,y:3}{?z*}", ""], ["{", "a{b", "{a:0}", "{a:99999}", "}"]),
    "json-pointer": (["", "/a/b~0c~1", "/"], ["a", "/~2", "/~"]),
    "relative-json-pointer": (["0", "1/a", "0#", "12#"], ["", "/a", "01", "-1", "0##"]),
    "regex": (["^a[a-z_]+(d|e)*$", "\\d{2}", ""], ["(", "[a", "^(abc]", "*a", "a)", "\\Z"]),
}


def test_every_format_has_cases() -> None:
    assert FORMAT_CASES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", sorted(FORMAT_CASES))
def test_formats(compiled: Callable[..., Any], name: str) -> None:
    language = compiled({"type": "string", "format": name})
    right, wrong = FORMAT_CASES[name]
    assert [value for value in right if not language.takes_value(value)] == []
    assert [value for value in wrong if language.takes_value(value)] == []


def test_unknown_formats_follow_the_policy(compiled: Callable[..., Any]) -> None:
    schema = {"items": {"type": "string", "format": "path"}}
    assert compiled(schema).takes('["x"]')
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(schema, unknown_format="refuse")
    assert (caught.value.keyword, caught.value.location) == ("format", "/items/format")


# --- given values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -3, 1.5, 1e-05, 1e300, "", 'é"\\\n\x00😀', [], {}, [1, [None]], {"b": {"é": []}, "a": 1}],
)
def test_const_takes_its_value_alone(compiled: Callable[..., Any], value: Any) -> None:
    language = compiled({"const": value})
    for separators, indent in [((",", ":"), None), ((", ", ": "), None), ((",", ": "), 2)]:
        assert language.takes(json.dumps(value, ensure_ascii=False, separators=separators, indent=indent))
    for other in [None, False, 1, 2.5, "x", [1], {"a": 1}, {"b": {"é": []}}, [1, []]]:
        assert language.takes_value(other) == (other is value)


def test_true_is_not_one(compiled: Callable[..., Any]) -> None:
    language = compiled({"enum": [1, False, "1"]})
    assert [text for text in ["1", "0", "true", "false", '"1"'] if language.takes(text)] == ["1", "false", '"1"']


def test_enum_is_met_by_other_keywords(compiled: Callable[..., Any]) -> None:
    language = compiled(
        {"enum": ["ab", "abc", 3, 30, [1], [2], {"a": 1}], "maxLength": 2, "minimum": 5, "contains": {"const": 2}}
    )
    assert [v for v in ["ab", "abc", 3, 30, [1], [2], {"a": 1}] if language.takes_value(v)] == [
        "ab",
        30,
        [2],
        {"a": 1},
    ]


def test_not_excludes_every_spelling(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": ["number", "string", "boolean", "null"], "not": {"enum": [1, 2.5, "a/", True, 0]}})
    for text in ["1", "1.0", "1.00", "2.5", "2.50", '"a/"', r'"a\/"', "true", "0", "0.0"]:
        assert not language.takes(text), text
    for text in ["2", "1.01", "-1", "-2.5", '"a"', "false", "null"]:
        assert language.takes(text), text
    assert not compiled({"type": "number", "not": {"type": "integer"}}).takes("3.0")
    assert compiled({"type": "number", "not": {"type": "integer"}}).takes("3.01")
    assert not compiled({"type": "integer", "not": {"multipleOf": 3}}).takes("9")


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"not": {}},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 5},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^a", "format": "ipv4"},
        {"enum": ["a"], "minLength": 2},
        {"type": "boolean", "not": {"enum": [True, False]}},
        {"oneOf": [{"type": "null"}, {"const": None}], "type": "null"},
    ],
)
def test_schemas_without_any_value(compiled: Callable[..., Any], schema: Any) -> None:
    with pytest.raises(UnsatisfiableConstraint) as caught:
        compiled(schema)
    assert caught.value.param == "schema"
