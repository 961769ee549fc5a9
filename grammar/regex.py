"""Regular expressions as terms: the meaning of the tree that both front ends produce.

``regex_term`` is full match in Python's dialect, ``ecma_search`` is JSON Schema's ``pattern``: a search in
ECMAScript's. Both return closed terms over UTF-8 bytes. Zero-width assertions keep their exact meaning: what lies
ahead is an intersection with the rest of the text, what lies behind is watched while reading. Most anchors stand
where they are trivially true, those cost nothing. This module does not know how patterns are spelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex_ast import (
    ANYTHING,
    Alt,
    Anchor,
    Boundary,
    Chars,
    Look,
    Node,
    Repeat,
    Seq,
    flat,
    is_zero_width,
)
from radixrt.grammar.regex_atomic import without_atomic_groups
from radixrt.grammar.regex_ecma import parse_ecma
from radixrt.grammar.regex_python import first_column, parse_python
from radixrt.grammar.rx import EMPTY, Pool, Rx

__all__ = ["ecma_search", "regex_term", "searching_term"]

_NEWLINE = ((10, 10),)
_SPELLINGS = {
    "atomic group": re.compile(r"\(\?>|[*+?}]\+"),
    "lookbehind": re.compile(r"\(\?<[=!]|\\[bB]|[\^$]"),
}
"""What begins, in a pattern, a construct that is refused once it is a tree."""


def regex_term(pool: Pool, pattern: str, limits: GrammarLimits | None = None) -> Rx:
    """The texts that ``re.fullmatch(pattern, text)`` matches.

    Raises ``InvalidRequest`` (param ``regex``) for what ``re`` does not take either, and ``UnsupportedConstraint``
    with keyword and column for back-references, conditionals and the like.
    """
    limits = limits or GrammarLimits()
    _check_length(pattern, limits, "regex")
    try:
        return _translated(pool, parse_python(pattern, limits))
    except UnsupportedConstraint as error:
        raise _located(error, pattern) from error.__cause__


def ecma_search(pool: Pool, pattern: str, limits: GrammarLimits | None = None) -> Rx:
    """The texts in which ECMAScript's ``new RegExp(pattern, "u").exec(text)`` finds a match.

    Raises as ``regex_term`` does, with param ``pattern``.
    """
    limits = limits or GrammarLimits()
    _check_length(pattern, limits, "pattern")
    try:
        return searching_term(pool, parse_ecma(pattern, limits))
    except UnsupportedConstraint as error:
        raise _located(error, pattern) from error.__cause__


def searching_term(pool: Pool, node: Node) -> Rx:
    """The texts in which a pattern that was read already is found somewhere."""
    return _translated(pool, _searching(node))


def _check_length(pattern: str, limits: GrammarLimits, param: str) -> None:
    """Refuse before parsing: what the parsers do is not charged as fuel."""
    if len(pattern) > limits.pattern_chars:
        raise UnsupportedConstraint(
            f"a regular expression of {len(pattern)} characters, the limit is {limits.pattern_chars}",
            keyword="pattern_chars",
            location=str(limits.pattern_chars),
            param=param,
        )


def _located(error: UnsupportedConstraint, pattern: str) -> UnsupportedConstraint:
    """The error with the first column where what it refuses is spelled; trees know no columns."""
    spelling = _SPELLINGS.get(error.keyword or "")
    if error.location is None and spelling is not None:
        column = first_column(pattern, spelling)
        error.location = None if column is None else str(column)
    return error


def _translated(pool: Pool, node: Node) -> Rx:
    translator = _Translator(pool)
    try:
        plain = without_atomic_groups(node, pool, lambda group: translator.translate(group, False, False))
        term = translator.translate(plain, first=True, last=True)
    except RecursionError as error:
        raise UnsupportedConstraint("the regular expression is nested too deeply", keyword="nesting") from error
    return pool.closed(term, translator.watched)


def _searching(node: Node) -> Node:
    """Anything, a match, anything; without the parts that anchors at the very ends rule out."""
    groups: dict[tuple[bool, bool], list[Node]] = {}
    for option in _options(node):
        parts = flat(option)
        edges = bool(parts) and parts[0] == Anchor("start"), bool(parts) and parts[-1] == Anchor("end")
        groups.setdefault(edges, []).append(option)
    found: list[Node] = []
    for (starts, ends), options in groups.items():
        before, after = () if starts else (ANYTHING,), () if ends else (ANYTHING,)
        found.append(Seq((*before, *(options if len(options) == 1 else [Alt(tuple(options))]), *after)))
    return found[0] if len(found) == 1 else Alt(tuple(found))


def _options(node: Node) -> Iterator[Node]:
    """The alternatives that a whole pattern is made of; groups are nested no deeper than the parser allows."""
    parts = flat(node)
    if len(parts) == 1 and isinstance(parts[0], Alt):
        for option in parts[0].options:
            yield from _options(option)
    else:
        yield node


class _Translator:
    """One pattern. ``watched`` collects the languages that lookbehinds ask about."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.watched: list[Rx] = []

    def translate(self, node: Node, first: bool, last: bool) -> Rx:
        """The term of a node. ``first``: surely nothing is read before it; ``last``: nothing is read after it."""
        pool = self._pool
        if isinstance(node, Chars):
            return pool.chars(node.ranges)
        if isinstance(node, Seq):
            return self._sequence(flat(node), first, last)
        if isinstance(node, Alt):
            return pool.alt(*(self.translate(option, first, last) for option in node.options))
        if isinstance(node, Repeat):
            return self._repeat(node, first, last)
        if isinstance(node, Look):
            return self._look(node, first)
        if isinstance(node, Anchor):
            return self._anchor(node, first, last)
        if isinstance(node, Boundary):
            return self._boundary(node)
        raise TypeError("an atomic group that was not rewritten")

    def _sequence(self, parts: tuple[Node, ...], first: bool, last: bool) -> Rx:
        pool = self._pool
        pool.spend(len(parts))
        firsts = []
        for part in parts:
            firsts.append(first)
            first = first and is_zero_width(part)
        if not last:
            return pool.concat(
                *(self.translate(part, first, False) for part, first in zip(parts, firsts, strict=True))
            )
        # All that follows is known here, so lookaheads become intersections at once.
        result, plain = EMPTY, list[Rx]()
        for part, first in zip(reversed(parts), reversed(firsts), strict=True):
            if isinstance(part, Chars):
                plain.append(pool.chars(part.ranges))
                continue
            term = self.translate(part, first, not plain and result == EMPTY)
            if pool.is_sensitive(term):
                result = pool.before_end(term, pool.concat(*reversed(plain), result))
                plain.clear()
            elif term != EMPTY:
                plain.append(term)
        return pool.concat(*reversed(plain), result)

    def _repeat(self, node: Repeat, first: bool, last: bool) -> Rx:
        once = node.high == 1
        body = self.translate(node.body, first and once, last and once)
        return self._pool.repeat(body, node.low, node.high)

    def _look(self, node: Look, first: bool) -> Rx:
        if not node.ahead:
            return self._look_behind(node)
        pool = self._pool
        rest = pool.concat(self.translate(node.body, first, False), pool.all)
        return pool.ahead(pool.not_(rest) if node.negative else rest)

    def _look_behind(self, node: Look) -> Rx:
        """Assertions at the end of a lookbehind speak of this place, so they are moved out of it."""
        parts = flat(node.body)
        end = len(parts)
        while end and is_zero_width(parts[end - 1]):
            end -= 1
        body, here = Seq(parts[:end]), Seq(parts[end:])
        if _looks_beyond(body):
            raise UnsupportedConstraint("an assertion about what follows inside a lookbehind", keyword="lookbehind")
        before = self.translate(body, False, False)
        behind = self._behind(self._pool.concat(self._pool.all, before), not node.negative)
        if not here.parts:
            return behind
        if node.negative:
            return self._pool.alt(behind, self._look(Look(here, ahead=True, negative=True), False))
        return self._pool.concat(behind, self.translate(here, False, False))

    def _behind(self, language: Rx, yes: bool) -> Rx:
        if language not in self.watched:
            self.watched.append(language)
        return self._pool.behind(self.watched.index(language), yes)

    def _anchor(self, node: Anchor, first: bool, last: bool) -> Rx:
        pool = self._pool
        newline = pool.chars(_NEWLINE)
        if node.kind in ("start", "line_start"):
            if first:
                return EMPTY
            before = EMPTY if node.kind == "start" else pool.alt(EMPTY, pool.concat(pool.all, newline))
            return self._behind(before, True)
        if last:
            return EMPTY
        rest = {
            "end": EMPTY,
            "end_or_newline": pool.opt(newline),
            "line_end": pool.opt(pool.concat(newline, pool.all)),
        }[node.kind]
        return pool.ahead(rest)

    def _boundary(self, node: Boundary) -> Rx:
        pool = self._pool
        word = pool.chars(node.word)
        word_ahead = pool.concat(word, pool.all)
        other_ahead = pool.not_(word_ahead)
        was_word, was_other = (self._behind(pool.concat(pool.all, word), yes) for yes in (True, False))
        if not node.negative:
            return pool.alt(
                pool.concat(was_word, pool.ahead(other_ahead)), pool.concat(was_other, pool.ahead(word_ahead))
            )
        inside = pool.concat(was_word, pool.ahead(word_ahead))
        outside = pool.concat(was_other, pool.ahead(other_ahead))
        if not node.empty:
            at_start, later = (self._behind(EMPTY, yes) for yes in (True, False))
            more = pool.ahead(pool.and_(other_ahead, pool.not_(EMPTY)))
            outside = pool.alt(pool.concat(later, outside), pool.concat(at_start, more))
        return pool.alt(inside, outside)


def _looks_beyond(node: Node) -> bool:
    """Whether a node may ask about what comes after its own end. A boundary looks one character ahead."""
    if isinstance(node, Seq):
        for i, part in enumerate(node.parts):
            inside = isinstance(part, Boundary) and any(map(_reads, node.parts[i + 1 :]))
            if not inside and _looks_beyond(part):
                return True
        return False
    if isinstance(node, Alt):
        return any(map(_looks_beyond, node.options))
    if isinstance(node, Repeat):
        return _looks_beyond(node.body)
    if isinstance(node, Anchor):
        return node.kind not in ("start", "line_start")
    if isinstance(node, Look):
        return node.ahead or _looks_beyond(node.body)
    return isinstance(node, Boundary)


def _reads(node: Node) -> bool:
    """Whether a node reads at least one character in any case."""
    if isinstance(node, Seq):
        return any(map(_reads, node.parts))
    if isinstance(node, Alt):
        return all(map(_reads, node.options))
    if isinstance(node, Repeat):
        return node.low > 0 and _reads(node.body)
    return isinstance(node, Chars)
