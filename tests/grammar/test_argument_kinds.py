"""Arguments of the wrong kind: each is a bad request that names it, never an error of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar import Compiler, Vocabulary, fill_masks

WRONG: dict[str, list[Callable[[Compiler], Any]]] = {
    "constraint": [lambda c, v=v: c.compile(v) for v in (None, {}, "x", 1)],
    "resources": [lambda c, v=v: c.json_schema(True, resources=v) for v in (1, [1], [], "", "x", "[]", {1: True})],
    "text": [lambda c, v=v: c.regex("a").matches(v) for v in (None, 1, (1, 2), [], {}, bytearray(b"a"))],
    "end_ids": [
        lambda c, v=v: c.regex("a").matcher(end_ids=v)
        for v in (5, "", "a", b"x", {1: 2}, ["a"], [True], [1.0], [-1], [257], np.array(["a"]))
    ],
    "prefix_ids": [
        lambda c, v=v: c.regex("a").matcher(prefix=b"a", prefix_ids=v)
        for v in (None, 97, "a", b"a", ["a"], {97}, {97: 0}, [97.0], [98], [300])
    ],
    "prefix": [lambda c, v=v: c.regex("a").matcher(prefix=v) for v in (None, "a", 1, bytearray(b"a"))],
    "count": [lambda c, v=v: c.regex("a").matcher().rollback(v) for v in (None, "x", 1.0, True, -1, 1)],
    "row": [
        lambda c, v=v: c.regex("a").matcher().fill_mask(v)
        for v in (
            *(None, [], np.zeros(9), np.zeros(8, np.int32)),
            *(np.zeros((1, 9), np.int32), np.zeros(18, np.int32)[::2]),
        )
    ],
    "bitmask": [
        lambda c, v=v: fill_masks([c.regex("a").matcher()], v)
        for v in (None, [], np.zeros((1, 9)), np.zeros(9, np.int32), np.zeros((0, 9), np.int32))
    ],
    "matchers": [lambda c, v=v: fill_masks(v, np.zeros((2, 9), np.int32)) for v in (None, 1, "ab", {}, [1], ["a"])],
    "size": [lambda c, v=v: fill_masks([], np.zeros((2, 9), np.int32), size=v) for v in ("x", True, 0, -1, 1.0)],
    "vocab": [lambda c, v=v: Compiler(v) for v in (None, [], "x")],
    "limits": [lambda c, v=v: Compiler(c.vocab, v) for v in (1, {}, "x")],
    "encode": [lambda c, v=v: Compiler(c.vocab, encode=v) for v in (1, "x")],
    "max_entries": [lambda c, v=v: Compiler(c.vocab, max_entries=v) for v in ("x", None, -1, True, 1.0)],
    "max_bytes": [lambda c, v=v: Compiler(c.vocab, max_bytes=v) for v in ("x", None, -1, True, 1.0)],
    "cache_dir": [lambda c, v=v: Compiler(c.vocab, cache_dir=v) for v in (1, b"x", [])],
    "tokenizer": [lambda c, v=v: Vocabulary.from_tokenizer(v) for v in (None, 1, "x")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("param", "call"),
    [
        pytest.param(param, call, id=f"{param}-{i}")
        for param, calls in WRONG.items()
        for i, call in enumerate(calls)
    ],
)
def test_a_wrong_argument_is_named(param: str, call: Callable[[Compiler], Any], bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(bytes_compiler)
    assert caught.value.param == param
    assert str(caught.value)


def test_arrays_that_cannot_be_written_are_refused(bytes_compiler: Compiler) -> None:
    matcher = bytes_compiler.regex("a").matcher()
    rows = np.zeros((1, bytes_compiler.vocab.words), np.int32)
    rows.flags.writeable = False
    with pytest.raises(InvalidRequest, match="row"):
        matcher.fill_mask(rows[0])
    with pytest.raises(InvalidRequest, match="writeable"):
        fill_masks([matcher], rows)


def test_ids_of_numpy_are_ids(bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.regex("a*")
    matcher = grammar.matcher(np.array([256]), b"a", np.array([97]))
    assert [matcher.accept(token) for token in np.array([97, 97, 256])] == [True] * 3
    matcher.rollback(np.int64(2))
    assert not matcher.is_complete
    assert matcher.is_accepting
