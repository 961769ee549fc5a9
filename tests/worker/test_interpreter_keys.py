"""Random streams: addressed by seed and place, never by timing."""

from __future__ import annotations

from typing import Any

from radixrt.api import ForkNode, TextNode


def _texts(h: Any, program: str = "p") -> dict[int, tuple[str, ...]]:
    return {node: tuple(s.text for s in event.samples) for node, event in h.nodes(program).items()}


def _program(gen: Any) -> list[Any]:
    return [
        TextNode(node=0, text="a"),
        gen(1, temperature=1.0),
        ForkNode(node=2, children=(1, 2)),
        gen(3, branch=1, temperature=1.0, n=2),
        gen(4, branch=2, temperature=1.0),
        gen(5, temperature=1.0),
    ]


def test_the_same_seed_repeats_and_another_does_not(make: Any, gen: Any) -> None:
    results = []
    for seed in (1, 1, 2):
        h = make()
        h.do(_program(gen), seed=seed)
        results.append(_texts(h))
    assert results[0] == results[1] != results[2]


def test_forks_samples_and_neighbours_differ(make: Any, gen: Any) -> None:
    h = make()
    h.do(
        [
            TextNode(node=0, text="a"),
            ForkNode(node=1, children=(1, 2, 3)),
            *(gen(10 + b, branch=b, temperature=1.0, max_tokens=8) for b in (1, 2, 3)),
        ]
    )
    assert len({event.samples[0].ids for event in h.nodes().values()}) == 3
    keys = [r.key for r in h.scheduler.requests]
    assert len(set(keys)) == 3
    assert all(0 <= key < 2**64 for key in keys)


def test_message_timing_and_node_ids_do_not_matter(make: Any, gen: Any) -> None:
    at_once = make()
    at_once.do(_program(gen), seed=5)
    piecemeal = make()
    piecemeal.open(seed=5, final=False)
    for node in _program(gen):
        piecemeal.extend([node])
        piecemeal.run()
    piecemeal.extend(final=True)
    piecemeal.run()
    assert _texts(at_once) == _texts(piecemeal)
    # Split and merged text is the same text, so it must not shift the streams either.
    split = make()
    split.do([TextNode(node=90, text=""), TextNode(node=91, text="a"), *_program(gen)[1:]], seed=5)
    assert _texts(split) == _texts(at_once)


def test_a_gen_with_its_own_seed_keeps_its_place(make: Any, gen: Any) -> None:
    keys = []
    for seed in (1, 2):
        h = make()
        h.do([TextNode(node=0, text="a"), gen(1, seed=9), gen(2, seed=9), gen(3)], seed=seed)
        keys.append([r.key for r in h.scheduler.requests])
    assert keys[0][:2] == keys[1][:2]
    assert keys[0][0] != keys[0][1]
    assert keys[0][2] != keys[1][2]
