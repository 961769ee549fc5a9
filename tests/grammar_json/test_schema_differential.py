"""Random schemas and documents against ``jsonschema``: nothing invalid is taken, and what is valid and not taken
has a writing that is (its members in another order, a number in another spelling).

Texts are followed token by token under masks, too: a walk never comes to a place with no legal token, and where it
ends the document is valid.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import jsonschema
import numpy as np
from hypothesis import assume, given, settings

from radixrt.bench.structured_causes import cause_of_refusal
from radixrt.errors import InvalidRequest, UnsatisfiableConstraint
from radixrt.grammar import CompiledGrammar, Compiler, Vocabulary

WORDS = [b'{"', b'":', b'": ', b'", "', b'"}', b'"a"', b"true", b"null", b"12", b", ", b"[[", b"]]", b'\\"', b" 1"]
VOCAB = Vocabulary([*(bytes([i]) for i in range(256)), *WORDS, None], [256 + len(WORDS)])
COMPILER = Compiler(VOCAB)

NAMES = st.sampled_from(["a", "b", "ab", "c", "é"])
SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 2, 12, 0.5, 1.5, 2.0, "", "a", "ab", "aab", "é", "1"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
PATTERNS = st.sampled_from(["^a", "b$", "^[ab]+$", "a", "é", r"\d", "^.{2}$"])
SMALL = st.integers(0, 3)
BOUNDS = st.sampled_from([-1, 0, 0.5, 1, 1.5, 2, 10])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """One or two groups of keywords, merged."""
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    optional: list[dict[str, st.SearchStrategy[Any]]] = [
        {"type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True)},
        {"enum": st.lists(VALUES, min_size=1, max_size=4)},
        {"const": VALUES},
        {"minimum": BOUNDS, "exclusiveMaximum": BOUNDS},
        {"multipleOf": st.sampled_from([1, 2, 0.5, 3])},
        {"minLength": SMALL, "maxLength": SMALL},
        {"pattern": PATTERNS},
        {"items": inner, "minItems": SMALL},
        {"prefixItems": several, "items": inner | st.booleans()},
        {"contains": inner, "maxItems": SMALL},
        {"uniqueItems": st.just(True), "items": st.just({"enum": [1, "a", None]})},
        {"properties": named, "required": st.lists(NAMES, max_size=2, unique=True)},
        {"properties": named, "additionalProperties": inner | st.booleans()},
        {"patternProperties": st.dictionaries(PATTERNS, inner, min_size=1, max_size=2), "properties": named},
        {"propertyNames": st.builds(lambda p: {"pattern": p}, PATTERNS), "properties": named},
        {"dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2)},
        {"properties": named, "maxProperties": SMALL},
        {"allOf": several},
        {"anyOf": several},
        {"oneOf": several},
        {"not": inner},
        {"if": inner, "then": inner, "else": inner},
    ]
    groups = st.one_of([st.fixed_dictionaries(group) for group in optional])
    return st.lists(groups, min_size=1, max_size=2).map(lambda held: {k: v for g in held for k, v in g.items()})


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | keywords(st.booleans()), lambda inner: keywords(inner), max_leaves=4
)


def exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def compiled(schema: Any) -> CompiledGrammar | None:
    """None for a schema that no value satisfies; refused ones are no example."""
    try:
        return COMPILER.json_schema(schema)
    except UnsatisfiableConstraint:
        return None
    except InvalidRequest:
        assume(False)
        raise


@settings(max_examples=300)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_documents_are_judged_as_jsonschema_judges_them(schema: Any, values: list[Any]) -> None:
    validator = jsonschema.Draft202012Validator(exact(json.dumps(schema)))
    grammar = compiled(schema)
    for value in values:
        text = json.dumps(value, ensure_ascii=False)
        valid = validator.is_valid(exact(text))
        taken = grammar is not None and grammar.matches(text)
        if taken != valid:
            assert valid, f"{text} is taken"
            assert grammar is not None, f"{text} is valid, the schema has no value"
            assert cause_of_refusal(grammar, None, schema, value) != "rejected", text


@settings(max_examples=150)
@given(SCHEMAS, st.integers(0, 2**32))
def test_masked_texts_are_valid_where_they_end(schema: Any, seed: int) -> None:
    grammar = compiled(schema)
    if grammar is None:
        return
    validator = jsonschema.Draft202012Validator(exact(json.dumps(schema)))
    rng = random.Random(seed)
    matcher, text, row = grammar.matcher(), b"", np.zeros(VOCAB.words, np.int32)
    for step in range(150):
        matcher.fill_mask(row)
        tokens = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        assert tokens, f"no legal token after {text!r}"
        if VOCAB.eos_ids[0] in tokens and (len(tokens) == 1 or rng.random() < 0.4 or step > 60):
            value = exact(text.decode())  # of a name that stands twice the last value counts
            assert [error.message for error in validator.iter_errors(value)] == [], text
            return
        tokens = [token for token in tokens if token not in VOCAB.eos_ids]
        usual = [token for token in tokens if (VOCAB.token_bytes(token) or b"")[0] in b'{}[]",:ab1 ntf']
        token = rng.choice(usual if usual and rng.random() < 0.9 else tokens)
        assert matcher.accept(token)
        text += VOCAB.token_bytes(token) or b""
