"""What both regular expression front ends produce: a small tree over sets of code points.

Captures and names are gone, they do not change which texts match. Says nothing about bytes or terms.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from radixrt.grammar.utf8 import ALL_CHARACTERS, Range

__all__ = [
    "ANYTHING",
    "Alt",
    "Anchor",
    "Atomic",
    "Boundary",
    "Chars",
    "Look",
    "Node",
    "Repeat",
    "Seq",
    "flat",
    "is_zero_width",
]


class Chars(NamedTuple):
    """One character out of sorted, disjoint ranges."""

    ranges: tuple[Range, ...]


class Seq(NamedTuple):
    parts: tuple[Node, ...]


class Alt(NamedTuple):
    """One of them; the order matters in an atomic group only."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """``high`` None: unbounded. ``lazy``: the fewest rounds come first, which matters in an atomic group only."""

    body: Node
    low: int
    high: int | None
    lazy: bool = False


class Atomic(NamedTuple):
    """A group that never tries another way to match once it has matched. ``x*+`` is one around ``x*``."""

    body: Node


class Look(NamedTuple):
    """Lookahead or lookbehind."""

    body: Node
    ahead: bool
    negative: bool


class Anchor(NamedTuple):
    """Zero-width places. ``end_or_newline`` is also before a newline that ends the text."""

    kind: Literal["start", "line_start", "end", "end_or_newline", "line_end"]


class Boundary(NamedTuple):
    """Between a word character and something else (or, negated, not). ``empty``: holds in the empty text."""

    word: tuple[Range, ...]
    negative: bool
    empty: bool


Node: TypeAlias = Chars | Seq | Alt | Repeat | Atomic | Look | Anchor | Boundary

ANYTHING = Repeat(Chars(ALL_CHARACTERS), 0, None)
"""Every text."""


def flat(node: Node) -> tuple[Node, ...]:
    """The parts of a sequence, sequences in it resolved; another node is its own only part."""
    if isinstance(node, Seq):
        return tuple(part for child in node.parts for part in flat(child))
    return (node,)


def is_zero_width(node: Node) -> bool:
    """Whether a node surely reads nothing."""
    if isinstance(node, Seq):
        return all(map(is_zero_width, node.parts))
    return isinstance(node, Look | Anchor | Boundary)
