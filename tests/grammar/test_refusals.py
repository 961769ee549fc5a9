"""What is refused is refused in the engine's own words: one class for one cause, the argument, and where in it."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar import Compiler, GrammarLimits, Vocabulary, fill_masks

Read = Callable[[Compiler, str], Any]

NOTATIONS: dict[str, tuple[str, Read]] = {
    "ebnf": ('root ::= "a"{}', lambda compiler, text: compiler.ebnf(text)),
    "lark": ('start: "a"{}', lambda compiler, text: compiler.lark(text)),
    "lark pattern": ("start: /a{}/", lambda compiler, text: compiler.lark(text)),
    "regex": ("a{}", lambda compiler, text: compiler.regex(text)),
    "schema": ("a{}", lambda compiler, text: compiler.json_schema({"pattern": text})),
    "tag": ("a{}", lambda compiler, text: compiler.structural_tag({"format": {"type": "regex", "pattern": text}})),
}
SURROGATES: dict[str, Callable[[Compiler, str], Any]] = {
    "ebnf": lambda compiler, text: compiler.ebnf(f'root ::= "{text}"'),
    "ebnf class": lambda compiler, text: compiler.ebnf(f"root ::= [a{text}]"),
    "lark": lambda compiler, text: compiler.lark(f'start: "{text}"'),
    "lark pattern": lambda compiler, text: compiler.lark(f"start: /{text}/"),
    "regex": lambda compiler, text: compiler.regex(text),
    "regex class": lambda compiler, text: compiler.regex(f"[{text}]"),
    "schema": lambda compiler, text: compiler.json_schema({"const": text}),
    "name": lambda compiler, text: compiler.json_schema({"properties": {text: True}}),
    "pattern": lambda compiler, text: compiler.json_schema({"pattern": text}),
    "choices": lambda compiler, text: compiler.choices(["a", text]),
    "tag": lambda compiler, text: compiler.structural_tag({"format": {"type": "const_string", "value": text}}),
}
ESCAPED = ("ebnf", "ebnf class", "lark", "lark pattern", "regex", "regex class", "pattern")


@pytest.mark.parametrize("digits", ["9" * 5000, "99999999999", "4294967296"], ids=len)
@pytest.mark.parametrize("bounds", ["{%s}", "{1,%s}", "{%s,}"])
@pytest.mark.parametrize("notation", NOTATIONS)
def test_counts_of_any_length_are_refused_by_name(
    notation: str, bounds: str, digits: str, bytes_compiler: Compiler
) -> None:
    text, read = NOTATIONS[notation]
    with pytest.raises(UnsupportedConstraint) as caught:
        read(bytes_compiler, text.replace("{}", bounds % digits))
    assert caught.value.keyword == "repetition"
    assert caught.value.location
    assert caught.value.param
    assert "set_int_max_str_digits" not in caught.value.message


@pytest.mark.parametrize("notation", ["ebnf", "lark"])
def test_zeros_before_a_count_are_nothing(notation: str, bytes_compiler: Compiler) -> None:
    text, read = NOTATIONS[notation]
    grammar = read(bytes_compiler, text.replace("{}", "{%s}" % ("0" * 5000 + "3")))
    assert grammar.matches("aaa")
    assert not grammar.matches("aa")


@pytest.mark.parametrize(
    ("kind", "text"),
    [(kind, "\udc00") for kind in SURROGATES] + [(kind, r"\udc00") for kind in ESCAPED],
)
def test_lone_surrogates_are_refused_alike_everywhere(kind: str, text: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        SURROGATES[kind](bytes_compiler, text)
    assert caught.value.keyword == "surrogate"
    assert caught.value.location
    assert caught.value.param


@pytest.mark.parametrize(
    "number", [10**5000, -(10**5000), 10**14_000, Decimal(10) ** 5000], ids=["a", "b", "c", "d"]
)
def test_long_integers_are_numbers_as_in_text(number: int | Decimal, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.json_schema({"properties": {"a": {"minimum": number}}})
    assert (caught.value.keyword, caught.value.location) == ("minimum", "/properties/a/minimum")
    assert bytes_compiler.json_schema({"type": "null", "maxItems": abs(number)}).matches("null")


def test_the_size_of_long_integers_is_bounded(bytes_compiler: Compiler) -> None:
    for enum in ([1 << 10**7], [1 << 40_000] * 1000):
        with pytest.raises(UnsupportedConstraint) as caught:
            bytes_compiler.json_schema({"enum": enum})
        assert caught.value.keyword == "size"


@pytest.mark.parametrize("wrap", [dict, MappingProxyType, UserDict])
def test_a_schema_may_be_any_mapping(wrap: Callable[[Any], Any], bytes_compiler: Compiler) -> None:
    schema = wrap({"properties": wrap({"a": wrap({"$ref": "x:y"})}), "required": ["a"], "type": "object"})
    grammar = bytes_compiler.json_schema(schema, resources=wrap({"x:y": wrap({"const": wrap({"b": 1})})}))
    assert grammar.matches('{"a": {"b": 1}}')
    assert not grammar.matches('{"a": {"b": 2}}')
    assert bytes_compiler.structural_tag(wrap({"format": wrap({"type": "const_string", "value": "x"})})).matches(
        "x"
    )


@pytest.mark.parametrize(
    ("read", "param"),
    [
        (lambda compiler: compiler.json_schema(3), "schema"),
        (lambda compiler: compiler.json_schema(None), "schema"),
        (lambda compiler: compiler.json_schema([{}]), "schema"),
        (lambda compiler: compiler.json_schema({}, resources=3), "resources"),
        (lambda compiler: compiler.json_schema({}, resources=["a"]), "resources"),
        (lambda compiler: compiler.json_schema({}, whitespace=["compact"]), "whitespace"),
        (lambda compiler: compiler.json_schema({}, key_order=1), "key_order"),
        (lambda compiler: compiler.json_schema({}, unknown_format={}), "unknown_format"),
        (lambda compiler: compiler.structural_tag(3), "grammar"),
        (lambda compiler: compiler.regex(b"a"), "regex"),
        (lambda compiler: compiler.ebnf(None), "grammar"),
        (lambda compiler: compiler.lark(1), "grammar"),
        (lambda compiler: compiler.choices("ab"), "choices"),
        (lambda compiler: compiler.choices({"a"}), "choices"),
        (lambda compiler: compiler.choices([["a"]]), "choices"),
        (lambda compiler: compiler.regex("a").matches(3), "text"),
        (lambda compiler: compiler.regex("a").matcher(end_ids=3), "end_ids"),
        (lambda compiler: compiler.regex("a").matcher(end_ids=["a"]), "end_ids"),
        (lambda compiler: compiler.regex("a").matcher(prefix="a"), "prefix"),
        (lambda compiler: compiler.regex("a").matcher(prefix=b"a", prefix_ids=["a"]), "prefix_ids"),
        (lambda compiler: compiler.regex("a").matcher(prefix=b"a", prefix_ids=5), "prefix_ids"),
        (lambda compiler: compiler.regex("a").matcher().rollback("x"), "count"),
        (lambda compiler: compiler.regex("a").matcher().rollback(None), "count"),
        (lambda compiler: compiler.regex("a").matcher().rollback(True), "count"),
        (lambda compiler: compiler.regex("a").matcher().fill_mask([0]), "row"),
        (lambda compiler: compiler.regex("a").matcher().fill_mask(None), "row"),
        (lambda compiler: compiler.regex("a").matcher().fill_mask(np.zeros(3)), "row"),
        (lambda compiler: compiler.regex("a").matcher().fill_mask(read_only((9,))), "row"),
        (lambda compiler: fill_masks([compiler.regex("a").matcher()], [[0]]), "bitmask"),
        (lambda compiler: fill_masks([compiler.regex("a").matcher()], read_only((1, 9))), "bitmask"),
        (lambda compiler: fill_masks(3, np.zeros((1, 9), np.int32)), "matchers"),
        (lambda compiler: fill_masks([3], np.zeros((1, 9), np.int32)), "matchers"),
        (lambda compiler: fill_masks([None], np.zeros((1, 9), np.int32), size="a"), "size"),
    ],
)
def test_arguments_of_the_wrong_kind_are_bad_requests(
    read: Callable[[Compiler], Any], param: str, bytes_compiler: Compiler
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(bytes_compiler)
    assert caught.value.param == param


def read_only(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int32]]:
    array = np.zeros(shape, np.int32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "read",
    [
        lambda compiler, text: compiler.json_schema(f'{{"description": "{text}"}}'),
        lambda compiler, text: compiler.json_schema({"description": text}),
        lambda compiler, text: compiler.json_schema({}, resources={"x:y": {"description": text}}),
        lambda compiler, text: compiler.structural_tag({"format": {"type": "const_string", "value": text}}),
        lambda compiler, text: compiler.structural_tag(
            json.dumps({"format": {"type": "const_string", "value": text}})
        ),
        lambda compiler, text: compiler.ebnf(f'root ::= "{text}"'),
        lambda compiler, text: compiler.lark(f'start: "{text}"'),
        lambda compiler, text: compiler.regex(text),
        lambda compiler, text: compiler.choices([text]),
    ],
)
def test_every_source_has_the_same_limit(read: Read, byte_vocab: Vocabulary) -> None:
    compiler = Compiler(byte_vocab, GrammarLimits(source_chars=500))
    read(compiler, "x" * 400)
    with pytest.raises(UnsupportedConstraint) as caught:
        read(compiler, "x" * 501)
    assert caught.value.keyword == "source_chars"


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda compiler: compiler.structural_tag("{"), "structural tag"),
        (lambda compiler: compiler.structural_tag({"type": "structural_tag"}), "'format'"),
        (lambda compiler: compiler.structural_tag({"format": {"type": "const_string", "value": b"x"}}), "bytes"),
        (lambda compiler: compiler.json_schema({"minimum": float("inf")}), "the number Infinity"),
        (lambda compiler: compiler.ebnf('\ufeffroot ::= "a"'), "byte order mark"),
        (lambda compiler: compiler.lark('\ufeffstart: "a"'), "byte order mark"),
    ],
)
def test_errors_speak_of_what_was_given(
    read: Callable[[Compiler], Any], words: str, bytes_compiler: Compiler
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(bytes_compiler)
    assert words in caught.value.message
    assert "schema" not in caught.value.message or caught.value.param == "schema"


def test_deep_python_objects_are_refused_as_deep_text_is(bytes_compiler: Compiler) -> None:
    deep: Any = True
    for _ in range(100_000):
        deep = {"not": deep}
    for schema in (deep, '{"not":' * 100_000 + "true" + "}" * 100_000):
        with pytest.raises(UnsupportedConstraint) as caught:
            bytes_compiler.json_schema(schema)
        assert caught.value.keyword == "nesting"
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.structural_tag(deep)
    assert (caught.value.keyword, caught.value.param) == ("nesting", "grammar")
