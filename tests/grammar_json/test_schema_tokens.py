"""A schema over a vocabulary: masks follow the language, the end is allowed exactly when the text is complete."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from radixrt.api import Constraint
from radixrt.grammar.compiler import Compiler
from radixrt.grammar.vocab import Vocabulary

PIECES = [
    b'{"',
    b'"}',
    b'":',
    b'": ',
    b', "',
    b',"',
    b"name",
    b"age",
    b'"name": "',
    b"true",
    b"null",
    b"12",
    b"-1",
    b"\xc3",
    b"\n  ",
]
END = 256 + len(PIECES)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 4}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture
def compiler() -> Compiler:
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    return Compiler(Vocabulary([*tokens, *PIECES, None], (END,), frozenset({END}), END + 1))


def allowed(matcher: object, size: int = END + 1) -> list[int]:
    row = np.zeros((size + 31) // 32, np.int32)
    matcher.fill_mask(row)  # type: ignore[attr-defined]
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


@pytest.mark.parametrize("seed", range(8))
def test_random_tokens_make_a_valid_document(compiler: Compiler, seed: int) -> None:
    rng = random.Random(seed)
    grammar = compiler.compile(Constraint(kind="json_schema", source=json.dumps(SCHEMA)))
    matcher, text = grammar.matcher(), b""
    for _ in range(300):
        tokens = allowed(matcher)
        assert tokens, text
        assert (END in tokens) == matcher.is_accepting
        token = END if END in tokens else rng.choice(tokens)
        assert matcher.accept(token)
        if token == END:
            break
        text += bytes([token]) if token < 256 else PIECES[token - 256]
    assert grammar.matches(text)
    value = json.loads(text)
    assert list(value) == ["name", "age"]
    assert len(value["name"]) <= 4
    assert value["age"] >= 0


def test_options_reach_the_front_end(compiler: Compiler) -> None:
    compact = compiler.compile(Constraint(kind="json_schema", source=json.dumps(SCHEMA), whitespace="compact"))
    assert compact.matches('{"name":"x","age":1}')
    assert not compact.matches('{"name": "x", "age": 1}')
