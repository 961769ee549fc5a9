"""Atomic groups and possessive repetitions, rewritten into plain groups and lookaheads where that is exact.

A backtracking matcher tries the ways to match in an order, and an atomic group keeps the first one that works by
itself. That no earlier way matches can be said with a lookahead: ``(?>a|ab)`` is ``a|(?!a)ab``, and ``x*+`` is
``x*(?!x)``. Nothing has to be said of a group that from any place matches in one way at most. What is left over
(a repetition of something that matches in several ways, with more after it in the group) is refused by name.

Works on the tree of ``regex_ast``; knows terms only to ask whether a group is *decided*: whether no text of it is
the beginning of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.regex_ast import Alt, Atomic, Chars, Look, Node, Repeat, Seq, flat, is_zero_width
from radixrt.grammar.rx import Pool, Rx

__all__ = ["without_atomic_groups"]

_MOST_COUNTS: Final = 64  # of a bounded repetition with more after it in its group: each is written out


def without_atomic_groups(node: Node, pool: Pool, translate: Callable[[Node], Rx]) -> Node:
    """A tree that matches the same texts and has no ``Atomic``.

    Args:
        node: what to rewrite; itself if nothing is atomic in it.
        pool: where fuel is spent and languages are compared.
        translate: the language of a node without assertions.

    Raises:
        UnsupportedConstraint: ``atomic group``, for what cannot be said with lookaheads here.
    """
    return _Rewriter(pool, translate).plain(node)


class _Rewriter:
    def __init__(self, pool: Pool, translate: Callable[[Node], Rx]) -> None:
        self._pool = pool
        self._translate = translate

    def plain(self, node: Node) -> Node:
        """Rewrite a tree; groups are nested no deeper than the parser allows."""
        if isinstance(node, Seq):
            return Seq(tuple(map(self.plain, node.parts)))
        if isinstance(node, Alt):
            return Alt(tuple(map(self.plain, node.options)))
        if isinstance(node, Repeat | Look):
            return node._replace(body=self.plain(node.body))
        if isinstance(node, Atomic):
            return self._first_way(flat(self.plain(node.body)))
        return node

    def _first_way(self, parts: tuple[Node, ...]) -> Node:
        """The sequence as if it stood in an atomic group."""
        done: list[Node] = []
        for i, part in enumerate(parts):
            rest = parts[i + 1 :]
            self._pool.spend(1)
            if is_zero_width(part) or self._is_decided(part):
                done.append(part)
            elif isinstance(part, Alt):
                return Seq((*done, self._first_option(part, rest)))
            elif isinstance(part, Repeat) and (part.low, part.high) == (0, 1):
                ways = (Seq(()), part.body) if part.lazy else (part.body, Seq(()))
                return Seq((*done, self._first_option(Alt(ways), rest)))
            elif isinstance(part, Repeat) and not self._may_be_empty(part.body):
                self._pool.spend(4 * len(rest))
                counted = self._first_count(part, rest)
                if counted is None:
                    return Seq((*done, self._each_count(part, rest)))
                done.append(counted)
            else:
                _refuse()
        return Seq(tuple(done))

    def _first_option(self, part: Alt, rest: tuple[Node, ...]) -> Node:
        """The first option after which the rest of the group matches, and that rest."""
        options: list[Node] = []
        earlier: list[Node] = []
        for option in part.options:
            whole = (*flat(option), *rest)
            self._pool.spend(4 * (len(whole) + len(earlier)))
            way = self._first_way(whole)
            options.append(Seq((_not_ahead(Alt(tuple(earlier))), way)) if earlier else way)
            earlier.append(Seq(whole))
        return Alt(tuple(options))

    def _first_count(self, part: Repeat, rest: tuple[Node, ...]) -> Node | None:
        """The most rounds (lazily: the fewest) after which the rest matches; None if each count must be tried."""
        body, low, high = part.body, part.low, part.high
        rest_never_fails = all(map(_never_fails, rest))
        round_ = body
        if not self._is_decided(body):
            # Where nothing after it can fail, the first way of each round stands.
            if low > 1 or not rest_never_fails:
                _refuse()
            round_ = self._first_way(flat(body))
        if rest_never_fails and (part.lazy or low == high):
            return Repeat(round_, low, low)
        if part.lazy:
            another = Seq((_not_ahead(Seq(rest)), body))
            return Seq((Repeat(body, low, low), Repeat(another, 0, None if high is None else high - low)))
        if high is None:
            more = body if rest_never_fails else Seq((Repeat(body, 1, None), *rest))
            return Seq((Repeat(round_, low, None), _not_ahead(more)))
        if rest_never_fails:
            fewer = Seq((Repeat(round_, low, high - 1), _not_ahead(body)))
            return Alt((Repeat(round_, high, high), fewer))
        return None

    def _each_count(self, part: Repeat, rest: tuple[Node, ...]) -> Node:
        """A bounded repetition and the rest of the group, with each possible count written out."""
        body, low, high = part.body, part.low, part.high
        if high is None or high - low > _MOST_COUNTS:
            _refuse()
        tail = self._first_way(rest)
        counts: list[Node] = []
        for count in range(high, low - 1, -1):
            self._pool.spend(4 * len(rest))
            more = (_not_ahead(Seq((Repeat(body, 1, high - count), *rest))),) if count < high else ()
            counts.append(Seq((Repeat(body, count, count), *more, tail)))
        return Alt(tuple(counts))

    def _is_decided(self, node: Node) -> bool:
        """Whether no text of a node is the beginning of another one (assertions only leave texts out)."""
        if isinstance(node, Chars):
            return True
        pool, language = self._pool, self._translate(_without_assertions(node))
        return pool.is_empty(pool.and_(language, pool.concat(language, pool.plus(pool.any_byte))))

    def _may_be_empty(self, node: Node) -> bool:
        return self._pool.nullable(self._translate(_without_assertions(node)))


def _not_ahead(node: Node) -> Node:
    return Look(node, ahead=True, negative=True)


def _never_fails(node: Node) -> bool:
    """Whether a node surely matches everywhere, if only without reading anything."""
    if isinstance(node, Seq):
        return all(map(_never_fails, node.parts))
    if isinstance(node, Alt):
        return any(map(_never_fails, node.options))
    return isinstance(node, Repeat) and node.low == 0


def _without_assertions(node: Node) -> Node:
    if isinstance(node, Seq):
        return Seq(tuple(map(_without_assertions, node.parts)))
    if isinstance(node, Alt):
        return Alt(tuple(map(_without_assertions, node.options)))
    if isinstance(node, Repeat):
        return node._replace(body=_without_assertions(node.body))
    return Seq(()) if is_zero_width(node) else node


def _refuse() -> NoReturn:
    raise UnsupportedConstraint(
        "an atomic group or possessive repetition whose parts match in several ways",
        keyword="atomic group",
        param="regex",
    )
