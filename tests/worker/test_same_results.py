"""No flag that only changes how work is done changes what comes out.

``forced_tokens`` is not among them: what the grammar determines is appended in canonical tokens, where a model left
alone may spell the same text in others.
"""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.api import Constraint, ForkNode, JoinNode, RoleNode, SelectNode, TextNode

FLAGS: list[dict[str, Any]] = [
    {"radix": "off"},
    {"radix": "force-miss"},
    {"radix": "table"},
    {"chunk": 7},
    {"force_retract_every": 5},
    {"max_running": 1},
    {"page_size": 16},
    {"policy": "fcfs"},
    {"policy": "dfs"},
    {"policy": "random"},
    {"eviction": "lru"},
    {"frontend_hint": "off"},
    {"frontend_parallelism": "off"},
    {"total_slots": 600},
]


def _nodes(gen: Any) -> list[Any]:
    number = Constraint(kind="regex", source="[0-9]{2}( world){2}-(yes|no)")
    nodes = [TextNode(node=0, text="hello wor"), gen(1, max_tokens=6), ForkNode(node=2, children=(1, 2, 3))]
    for b in (1, 2, 3):
        nodes += [
            TextNode(node=10 * b + 1, branch=b, text=f" and {b} he"),
            gen(10 * b + 2, branch=b, max_tokens=9, temperature=1.0, stop=("ll", " a")),
            SelectNode(node=10 * b + 3, branch=b, name="s", choices=("ll", "x", " world and")),
            ForkNode(node=10 * b + 4, branch=b, children=(100 + b,)),
            gen(10 * b + 5, branch=100 + b, max_tokens=40, constraint=number, temperature=1.5),
        ]
    return [*nodes, JoinNode(node=90, children=(1, 3), sep="\n"), gen(91, max_tokens=5, n=2, temperature=2.0)]


def _chat(gen: Any) -> list[Any]:
    return [
        RoleNode(node=0, role="user"),
        TextNode(node=1, text="hello world and hello"),
        RoleNode(node=2, role=None),
        ForkNode(node=3, children=(1, 2)),
        *(
            node
            for b in (1, 2)
            for node in (
                RoleNode(node=10 * b, branch=b, role="assistant"),
                TextNode(node=10 * b + 1, branch=b, text="he" * b),
                gen(10 * b + 2, branch=b, max_tokens=8, temperature=1.0),
                RoleNode(node=10 * b + 3, branch=b, role=None),
                RoleNode(node=10 * b + 4, branch=b, role="user"),
                gen(10 * b + 5, branch=b, max_tokens=3),
            )
        ),
    ]


def _results(make: Any, words: Any, gen: Any, flags: dict[str, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    h = make(tokenizer=words, **flags)
    h.open(_nodes(gen), program="text", seed=3)
    h.open(_chat(gen), program="chat", seed=4)
    h.run()
    for name in ("text", "chat"):
        assert h.end(name).outcome == "done"
        for node, event in h.nodes(name).items():
            assert event.error is None
            found[name, node] = (event.samples, event.choice)
            usage = event.usage
            assert usage.prompt_tokens == usage.cached_tokens + usage.computed_tokens
    assert h.interpreter.stats()["held_slots"] == 0
    return found


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_flags_change_no_result(make: Any, words: Any, gen: Any, flags: dict[str, Any]) -> None:
    assert _results(make, words, gen, flags) == _results(make, words, gen, {})
