"""Python's dialect of regular expressions, read with the standard library's own parser.

The syntax, its errors and its character classes are therefore those of the running ``re``. Turns its parse tree
into ``regex_ast``; refuses by name and column what a regular language cannot express.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.charsets import ignoring_case, python_class
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex_ast import Alt, Anchor, Atomic, Boundary, Chars, Look, Node, Repeat, Seq
from radixrt.grammar.utf8 import ALL_CHARACTERS, Range, complement, unite

__all__ = ["first_column", "parse_python"]

# Plain integers: combining flags of ``re`` costs more than all else that is done for a literal.
_IGNORECASE, _MULTILINE, _DOTALL, _ASCII = int(re.IGNORECASE), int(re.MULTILINE), int(re.DOTALL), int(re.ASCII)
_CASE_FLAGS = _IGNORECASE | _ASCII
_TYPE_FLAGS = _ASCII | int(re.UNICODE) | int(re.LOCALE)
"""One of them says which characters are letters; a group that names one takes the outer one back."""
_WARNINGS_LOCK = threading.Lock()
_NOTHING = Chars(())
_CATEGORIES = {
    ops.CATEGORY_DIGIT: "d",
    ops.CATEGORY_NOT_DIGIT: "D",
    ops.CATEGORY_WORD: "w",
    ops.CATEGORY_NOT_WORD: "W",
    ops.CATEGORY_SPACE: "s",
    ops.CATEGORY_NOT_SPACE: "S",
}
_REFUSED = {
    ops.GROUPREF: ("back-reference", re.compile(r"\\[1-9]|\(\?P=")),
    ops.GROUPREF_EXISTS: ("conditional", re.compile(r"\(\?\(")),
}
_SURROGATES = re.compile(r"([\ud800-\udfff])|(\\(?:u|U0000)[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL)
_BOUNDS = re.compile(r"\{([0-9]*)(?:,([0-9]*))?\}")
_NO_COUNT = int(ops.MAXREPEAT)  # stands for "without end"; a written count from here on is an error of the parser
_EMPTY_TEXT_HAS_NO_BOUNDARY = re.fullmatch(r"\B", "") is None
"""Before Python 3.14 ``\\B`` does not match in the empty text."""


def parse_python(pattern: str, limits: GrammarLimits) -> Node:
    """The tree of a str pattern of ``re``."""
    _check_nesting(pattern, limits)
    try:
        # The parser warns about sets that may change meaning one day. Warning filters are global, hence the lock.
        with _WARNINGS_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _parser.parse(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at column {error.pos}"
        raise InvalidRequest(f"not a regular expression: {error.msg}{place}", param="regex") from error
    except (OverflowError, RecursionError, ValueError) as error:  # ValueError: a count of thousands of digits
        raise _too_large(pattern) from error
    return _Reader(pattern).sequence(tree, int(tree.state.flags))


class _Reader:
    """Turns one parse tree into nodes."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._literals: dict[tuple[int, int], Chars] = {}

    def sequence(self, tree: Any, flags: int) -> Node:
        return Seq(tuple(self._node(op, value, flags) for op, value in tree))

    def _node(self, op: Any, value: Any, flags: int) -> Node:
        if op is ops.LITERAL:
            return self._literal(value, flags & _CASE_FLAGS)
        if op is ops.NOT_LITERAL:
            return Chars(complement(self._set([(ops.LITERAL, value)], flags)))
        if op is ops.IN:
            negative = bool(value) and value[0][0] is ops.NEGATE
            ranges = self._set(value[1:] if negative else value, flags)
            return Chars(complement(ranges) if negative else ranges)
        if op is ops.ANY:
            return Chars(ALL_CHARACTERS if flags & _DOTALL else complement(((10, 10),)))
        if op is ops.BRANCH:
            return Alt(tuple(self.sequence(option, flags) for option in value[1]))
        if op is ops.SUBPATTERN:
            _, added, removed, body = value
            outer = flags & ~_TYPE_FLAGS if added & _TYPE_FLAGS else flags
            return self.sequence(body, (outer | int(added)) & ~int(removed))
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            low, high, body = value
            top = None if high is ops.MAXREPEAT else int(high)
            repeat = Repeat(self.sequence(body, flags), int(low), top, op is ops.MIN_REPEAT)
            return Atomic(repeat) if op is ops.POSSESSIVE_REPEAT else repeat
        if op is ops.ATOMIC_GROUP:
            return Atomic(self.sequence(value, flags))
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            return self._look(value[0] > 0, value[1], op is ops.ASSERT_NOT, flags)
        if op is ops.AT:
            return self._place(value, flags)
        if op is ops.FAILURE:
            return _NOTHING
        raise self._refusal(op)

    def _literal(self, code: int, flags: int) -> Chars:
        """Most of a long pattern are literals."""
        known = self._literals.get((code, flags))
        if known is None:
            known = self._literals[code, flags] = Chars(self._set([(ops.LITERAL, code)], flags))
        return known

    def _look(self, ahead: bool, body: Any, negative: bool, flags: int) -> Node:
        if not ahead:
            low, high = body.getwidth()
            if low != high:
                raise InvalidRequest(
                    "not a regular expression: look-behind requires fixed-width pattern", param="regex"
                )
        return Look(self.sequence(body, flags), ahead, negative)

    def _place(self, value: Any, flags: int) -> Node:
        lines = bool(flags & _MULTILINE)
        if value is ops.AT_BEGINNING:
            return Anchor("line_start" if lines else "start")
        if value is ops.AT_BEGINNING_STRING:
            return Anchor("start")
        if value is ops.AT_END:
            return Anchor("line_end" if lines else "end_or_newline")
        if value is ops.AT_END_STRING:
            return Anchor("end")
        word = python_class("w", bool(flags & _ASCII))
        if value is ops.AT_BOUNDARY:
            return Boundary(word, negative=False, empty=False)
        if value is ops.AT_NON_BOUNDARY:
            return Boundary(word, negative=True, empty=not _EMPTY_TEXT_HAS_NO_BOUNDARY)
        raise self._refusal(value)

    def _set(self, items: Any, flags: int) -> tuple[Range, ...]:
        ascii_only = bool(flags & _ASCII)
        spans: list[Range] = []
        classes: list[str] = []
        for op, value in items:
            if op is ops.LITERAL:
                self._check_character(value)
                spans.append((value, value))
            elif op is ops.RANGE:
                self._check_character(value[0])
                self._check_character(value[1])
                spans.append((value[0], value[1]))
            elif op is ops.CATEGORY and value in _CATEGORIES:
                classes.append(_CATEGORIES[value])
            else:
                raise self._refusal(op)
        if flags & _IGNORECASE:
            return ignoring_case(spans, classes, ascii_only)
        return unite(spans, *(python_class(letter, ascii_only) for letter in classes))

    def _check_character(self, code: int) -> None:
        if 0xD800 <= code <= 0xDFFF:
            column = next(found.start() for found in _SURROGATES.finditer(self._pattern) if found[1] or found[2])
            raise UnsupportedConstraint(
                f"the surrogate U+{code:04X} at column {column} cannot occur in text",
                keyword="surrogate",
                location=str(column),
                param="regex",
            )

    def _refusal(self, op: Any) -> UnsupportedConstraint:
        name, spelling = _REFUSED.get(op, (str(op).lower(), re.compile(r"(?!)")))
        column = first_column(self._pattern, spelling)
        place = "" if column is None else f" at column {column}"
        return UnsupportedConstraint(
            f"a {name}{place} is not something a regular language can express",
            keyword=name,
            location=None if column is None else str(column),
            param="regex",
        )


def _too_large(pattern: str) -> UnsupportedConstraint:
    """What the parser of ``re`` gave up on, in words that say where: it has no count beyond 32 bits."""
    for column in _outside_classes(pattern):
        count = _BOUNDS.match(pattern, column)
        if count and any(len(digits) > 1000 or int(digits) >= _NO_COUNT for digits in count.groups() if digits):
            return UnsupportedConstraint(
                f"a repetition of more than {_NO_COUNT - 1} times, or of too many digits, at column {column}",
                keyword="repetition",
                location=str(column),
                param="regex",
            )
    return UnsupportedConstraint(
        "the regular expression is too large", keyword="pattern", location="0", param="regex"
    )


def first_column(pattern: str, spelling: re.Pattern[str]) -> int | None:
    """The first place outside of classes and escapes where a construct is spelled so."""
    return next((i for i in _outside_classes(pattern) if spelling.match(pattern, i)), None)


def _outside_classes(pattern: str) -> Iterator[int]:
    """The positions in a pattern that are not inside a class and not the second half of an escape."""
    i, inside = 0, False
    while i < len(pattern):
        if not inside:
            yield i
        if pattern[i] == "\\":
            i += 1
        elif inside:
            inside = pattern[i] != "]"
        elif pattern[i] == "[":
            inside = True
            i += pattern.startswith("^", i + 1)
            i += pattern.startswith("]", i + 1)
        i += 1


def _check_nesting(pattern: str, limits: GrammarLimits) -> None:
    """Refuse deep nesting before the recursive parser of ``re`` sees it."""
    depth = 0
    for i in _outside_classes(pattern):
        if pattern[i] == "(":
            depth += 1
            if depth > limits.nesting:
                raise UnsupportedConstraint(
                    f"groups nested more than {limits.nesting} deep at column {i}",
                    keyword="nesting",
                    location=str(i),
                    param="regex",
                )
        elif pattern[i] == ")":
            depth = max(depth - 1, 0)
