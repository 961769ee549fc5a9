"""What both regular expression front ends produce: a small tree over sets of code points.

Captures, laziness and names are gone, they do not change which texts match. Says nothing about bytes or terms.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from radixrt.grammar.utf8 import ALL_CHARACTERS, Range

__all__ = ["ANYTHING", "Alt", "Anchor", "Atomic", "Boundary", "Chars", "Look", "Node", "Repeat", "Seq"]


class Chars(NamedTuple):
    """One character out of sorted, disjoint ranges."""

    ranges: tuple[Range, ...]


class Seq(NamedTuple):
    parts: tuple[Node, ...]


class Alt(NamedTuple):
    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """``high`` None: unbounded. ``possessive``: takes the most it can and never gives back."""

    body: Node
    low: int
    high: int | None
    possessive: bool = False


class Atomic(NamedTuple):
    """A group that never tries another way to match once it has matched."""

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
