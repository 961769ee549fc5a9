"""The trie walk: native and Python paths against trying every token, resumption, bounds."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from radixrt.kernels.cpu import native
from radixrt.kernels.cpu.trie_walk import NO_NODE, Tables, TokenTrie, TrieWalk, common_prefix, run_walks

Table = npt.NDArray[np.int32]


def random_tokens(rng: random.Random, count: int) -> list[bytes | None]:
    tokens: list[bytes | None] = [
        bytes(rng.choice(b"abcd") for _ in range(rng.randint(0, 7))) for _ in range(count)
    ]
    return [None if rng.random() < 0.1 else token for token in tokens]


def random_automaton(rng: random.Random) -> tuple[Table, npt.NDArray[np.uint8]]:
    states, classes = rng.randint(1, 8), rng.randint(1, 4)
    table = np.array([[rng.randint(-1, states - 1) for _ in range(classes)] for _ in range(states)], np.int32)
    class_of = np.array([rng.randrange(classes) for _ in range(256)], np.uint8)
    return table, class_of


def accepted(tokens: list[bytes | None], table: Table, class_of: npt.NDArray[np.uint8], start: int) -> set[int]:
    """By definition."""
    found = set()
    for i, token in enumerate(tokens):
        state = start
        for byte in token or b"":
            state = int(table[state, class_of[byte]])
            if state < 0:
                break
        if token and state >= 0:
            found.add(i)
    return found


def bits(row: npt.NDArray[np.uint32]) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


@pytest.fixture(params=["native", "python"])
def library(request: pytest.FixtureRequest) -> object:
    if request.param == "python":
        return None
    found = native()
    assert found is not None, "the native kernels were not built"
    return found


def tables_of(table: Table, class_of: npt.NDArray[np.uint8], accepting: set[int] | None = None) -> Tables:
    marks = np.array([state in (accepting or set()) for state in range(len(table))], np.uint8)
    return Tables(table, class_of, marks)


@pytest.mark.parametrize("seed", range(25))
def test_a_walk_finds_what_trying_every_token_finds(seed: int, library: object) -> None:
    rng = random.Random(seed)
    tokens = random_tokens(rng, rng.choice([1, 40, 300]))
    trie = TokenTrie(tokens)
    walks, automata, expected = [], [], []
    for _ in range(3):
        table, class_of = random_automaton(rng)
        start = rng.randrange(len(table))
        walks.append(TrieWalk(trie, np.zeros((len(tokens) + 31) // 32, np.uint32), [(-1, start)]))
        automata.append(tables_of(table, class_of))
        expected.append(accepted(tokens, table, class_of, start))
    assert run_walks(walks, automata, library=library) == 0
    for walk, ids in zip(walks, expected, strict=True):
        assert bits(walk.row) == ids
        assert 0 <= walk.visited <= trie.nodes


@pytest.mark.parametrize("seed", range(15))
def test_a_walk_stops_at_unknown_rows_and_goes_on(seed: int, library: object) -> None:
    rng = random.Random(seed)
    tokens = random_tokens(rng, 200)
    trie = TokenTrie(tokens)
    full, class_of = random_automaton(rng)
    start = rng.randrange(len(full))
    known = np.full_like(full, -2)
    walk = TrieWalk(trie, np.zeros(7, np.uint32), [(-1, start)])
    stops = []
    while run_walks([walk], [tables_of(known, class_of)], library=library):
        stops.append(walk.missing)
        known = known.copy()  # a grown table is another array
        known[walk.missing] = full[walk.missing]
    assert len(stops) == len(set(stops))
    assert bits(walk.row) == accepted(tokens, full, class_of, start)
    whole = TrieWalk(trie, np.zeros(7, np.uint32), [(-1, start)])
    run_walks([whole], [tables_of(full, class_of)], library=library)
    assert whole.visited == walk.visited


def test_a_walk_below_a_node_leaves_out_the_node(library: object) -> None:
    tokens: list[bytes | None] = [b"a", b"ab", b"abc", b"abd", b"b", b"ab", b"ac"]
    trie = TokenTrie(tokens)
    tables = tables_of(np.zeros((1, 1), np.int32), np.zeros(256, np.uint8))
    cases: list[tuple[list[bytes], set[int]]] = [
        ([b"ab"], {2, 3}),
        ([b"a"], {1, 2, 3, 5, 6}),
        ([b"abc"], set()),
        ([b"b"], set()),
        ([b"abd", b"ab"], {2, 3}),
        ([], set()),
    ]
    for data, expected in cases:
        walk = TrieWalk(trie, np.zeros(1, np.uint32), [(trie.find(d), 0) for d in data])
        run_walks([walk], [tables], library=library)
        assert bits(walk.row) == expected


@pytest.mark.parametrize("seed", range(25))
def test_a_walk_that_stops_at_accepting_states_can_be_taken_up_there(seed: int, library: object) -> None:
    """What it finds, plus a walk below the nodes it reports, is the whole; and it reports no node below another."""
    rng = random.Random(seed)
    tokens = random_tokens(rng, 300)
    trie = TokenTrie(tokens)
    table, class_of = random_automaton(rng)
    start = rng.randrange(len(table))
    accepting = set(rng.sample(range(len(table)), rng.randint(0, len(table))))
    tables = tables_of(table, class_of, accepting)
    walk = TrieWalk(trie, np.zeros(10, np.uint32), [(-1, start)], stop_at_accepting=True)
    assert run_walks([walk], [tables], library=library) == 0
    nodes, states = walk.found
    paths = [trie.path(node) for node in nodes.tolist()]
    assert all(trie.find(path) == node for path, node in zip(paths, nodes.tolist(), strict=True))
    assert not any(a != b and a.startswith(b) for a in paths for b in paths)
    for path, state in zip(paths, states.tolist(), strict=True):
        reached = start
        for i, byte in enumerate(path):
            assert i == 0 or reached not in accepting
            reached = int(table[reached, class_of[byte]])
        assert reached == state
        assert state in accepting
    rest = TrieWalk(trie, walk.row, list(zip(nodes.tolist(), states.tolist(), strict=True)))
    run_walks([rest], [tables], library=library)
    assert bits(rest.row) == accepted(tokens, table, class_of, start)


def test_the_trie_knows_its_nodes() -> None:
    tokens = random_tokens(random.Random(9), 300)
    trie = TokenTrie(tokens)
    prefixes = {t[:n] for t in tokens if t for n in range(1, len(t) + 1)}
    assert trie.nodes == len(prefixes)
    for prefix in prefixes:
        node = trie.find(prefix)
        assert sorted(trie.tokens_at(node)) == [i for i, t in enumerate(tokens) if t == prefix]
        assert trie.subtree_end[node] - node == sum(p.startswith(prefix) for p in prefixes)
    assert trie.find(b"zz") == NO_NODE
    assert trie.find(b"aaaaaaaaaaa") == NO_NODE


def test_an_empty_trie(library: object) -> None:
    trie = TokenTrie([None, b""])
    walk = TrieWalk(trie, np.zeros(1, np.uint32), [(-1, 0)])
    assert run_walks([walk], [tables_of(np.zeros((1, 1), np.int32), np.zeros(256, np.uint8))], library=library) == 0
    assert not walk.row.any()


def test_sizes_are_checked_before_native_code_sees_a_pointer() -> None:
    trie = TokenTrie([b"a"] * 40)
    good = np.zeros(2, np.uint32)
    for row in (np.zeros(1, np.uint32), np.zeros(2, np.int32), np.zeros(4, np.uint32)[::2]):
        with pytest.raises(ValueError, match="row"):
            TrieWalk(trie, row, [(-1, 0)])  # type: ignore[arg-type]
    for node in (5, -2):
        with pytest.raises(ValueError, match="node"):
            TrieWalk(trie, good, [(-1, 0), (node, 0)])
    walk = TrieWalk(trie, good, [(-1, 0)])
    table, class_of, marks = np.zeros((1, 1), np.int32), np.zeros(256, np.uint8), np.zeros(1, np.uint8)
    for arrays in (
        (table.astype(np.int64), class_of, marks),
        (table[0], class_of, marks),
        (table, class_of[:255], marks),
        (table, class_of, np.zeros(2, np.uint8)),
    ):
        with pytest.raises(ValueError, match="contiguous"):
            Tables(*arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as many"):
        run_walks([walk], [])


def test_common_prefix() -> None:
    cases = ((b"", b"a", 0), (b"ab", b"ab", 2), (b"abc", b"abd", 2), (b"ab", b"abc", 2))
    assert all(common_prefix(a, b) == n for a, b, n in cases)
