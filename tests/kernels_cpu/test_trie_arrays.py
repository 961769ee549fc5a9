"""The arrays of a token trie against their definition, node by node; limits; what they cost."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from radixrt.kernels.cpu import trie_arrays as module
from radixrt.kernels.cpu.trie_arrays import MAX_DEPTH, trie_arrays
from radixrt.kernels.cpu.trie_walk import TokenTrie


def hard_tokens(rng: random.Random) -> list[bytes | None]:
    """Short and long ones, equal ones, some that begin others, long shared beginnings, bytes at both ends."""
    letters = rng.choice([b"a", b"ab", b"\x00\xff", bytes(range(256))])
    tokens: list[bytes | None] = [None, b""]
    for _ in range(rng.choice([1, 3, 60])):
        known = [token for token in tokens if token]
        begin = rng.choice(known) if known and rng.random() < 0.7 else b""
        begin = begin[: rng.randint(0, len(begin))]
        tokens.append(begin + bytes(rng.choice(letters) for _ in range(rng.choice([0, 1, 3, 31, 32, 33, 90]))))
    rng.shuffle(tokens)
    return tokens


@pytest.mark.parametrize("seed", range(150))
def test_arrays_are_those_of_the_definition(seed: int) -> None:
    tokens = hard_tokens(random.Random(seed))
    found = trie_arrays(tokens)
    paths = sorted({token[:n] for token in tokens if token for n in range(1, len(token) + 1)})
    order = sorted((i for i, token in enumerate(tokens) if token), key=lambda i: (tokens[i], i))
    texts = [tokens[i] or b"" for i in order]
    assert found.bytes.tolist() == [path[-1] for path in paths]
    assert found.depth.tolist() == [len(path) - 1 for path in paths]
    ends = [
        next((j for j in range(n, len(paths)) if not paths[j].startswith(p)), len(paths))
        for n, p in enumerate(paths)
    ]
    assert found.subtree_end.tolist() == ends
    starts = [next(k for k, text in enumerate(texts) if text.startswith(path)) for path in paths]
    assert found.token_start.tolist() == [*starts, len(order)]
    assert found.token_order.tolist() == order
    trie = TokenTrie(tokens)
    assert [trie.path(node) for node in range(-1, trie.nodes)] == [b"", *paths]
    assert [trie.find(path) for path in paths] == list(range(trie.nodes))


def test_the_longest_tokens() -> None:
    longest = b"a" * MAX_DEPTH
    found = trie_arrays([longest, longest, longest[:-1] + b"b"])
    assert len(found.bytes) == MAX_DEPTH + 1
    assert found.token_start[-4:].tolist() == [0, 0, 2, 3]
    assert found.subtree_end[-2:].tolist() == [MAX_DEPTH, MAX_DEPTH + 1]
    with pytest.raises(ValueError, match="more than 65536 bytes"):
        trie_arrays([longest + b"a"])


def test_beginnings_are_counted_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NODES", 6)
    assert len(trie_arrays([b"abc", b"abd", b"xy", b"x"]).bytes) == 6
    with pytest.raises(ValueError, match="7 distinct beginnings, the limit is 6"):
        trie_arrays([b"abc", b"abd", b"xyz"])


@pytest.mark.parametrize(
    "tokens",
    [
        [bytes([i]) + b"a" * 4000 for i in range(256)],
        [i.to_bytes(3, "big") for i in range(200_000)],
        [b"a" * i for i in range(1, 1500)],
    ],
    ids=["long", "short", "nested"],
)
def test_memory_is_a_few_bytes_for_each_node(tokens: list[bytes]) -> None:
    texts = sum(map(len, tokens))
    tracemalloc.start()
    try:
        found = trie_arrays(tokens)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    nodes = len(found.bytes)
    assert sum(array.nbytes for array in found) <= 13 * nodes + 4 * len(tokens) + 4
    assert held <= 14 * nodes + 8 * len(tokens) + 10_000
    assert peak <= 60 * nodes + 100 * len(tokens) + 2 * texts + 100_000
    assert np.all(found.subtree_end > np.arange(nodes))
