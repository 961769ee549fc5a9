"""ECMAScript's dialect of regular expressions (``u`` mode), for JSON Schema's ``pattern``.

A parser with its own stack, producing ``regex_ast``. As browsers do, it takes lone ``]``, ``{`` and ``}`` literally
and lets a backslash stand before any punctuation; a backslash before a letter that means nothing is refused, since
dialects disagree about it. ``\\d`` and ``\\w`` are ASCII, ``\\s`` is ECMAScript's. Back-references, modifiers and
Unicode properties other than general categories are refused by name.
"""

from __future__ import annotations

import re
from typing import NoReturn

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.charsets import ECMA_NEWLINES, ECMA_SPACES, general_category
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex_ast import Alt, Anchor, Boundary, Chars, Look, Node, Repeat, Seq
from radixrt.grammar.utf8 import ALL_CHARACTERS, Range, complement, normalized, unite

__all__ = ["parse_ecma"]

_DIGITS: tuple[Range, ...] = ((0x30, 0x39),)
_WORD: tuple[Range, ...] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_CLASS_ESCAPES = {"d": _DIGITS, "w": _WORD, "s": ECMA_SPACES}
_CONTROL_ESCAPES = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_OPENERS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")
_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAME = re.compile(r"\(\?<([A-Za-z_$][A-Za-z0-9_$]*)>")
_PROPERTY = re.compile(r"\{(?:(?:General_Category|gc)=)?([A-Za-z_]+)\}")
_MAX_COUNT = 1 << 31


def parse_ecma(pattern: str, limits: GrammarLimits) -> Node:
    """The tree of a pattern; raises ``InvalidRequest`` or ``UnsupportedConstraint`` with param ``pattern``."""
    return _Parser(pattern, limits).parse()


class _Group:
    """A group that is being read: its options so far, and what it will become."""

    def __init__(self, opener: str, column: int) -> None:
        self.opener = opener
        self.column = column
        self.options: list[Node] = []
        self.parts: list[Node] = []

    def finished(self) -> Node:
        options = (*self.options, Seq(tuple(self.parts)))
        body = options[0] if len(options) == 1 else Alt(options)
        if self.opener in ("(?=", "(?!", "(?<=", "(?<!"):
            return Look(body, ahead="<" not in self.opener, negative="!" in self.opener)
        return body


class _Parser:
    def __init__(self, pattern: str, limits: GrammarLimits) -> None:
        self._text = pattern
        self._limits = limits
        self._at = 0

    def parse(self) -> Node:
        stack = [_Group("", 0)]
        while self._at < len(self._text):
            group, char, column = stack[-1], self._text[self._at], self._at
            if char == "(":
                if len(stack) > self._limits.nesting:
                    self._refuse("nesting", f"groups nested more than {self._limits.nesting} deep")
                stack.append(_Group(self._opener(), column))
            elif char == ")":
                if len(stack) == 1:
                    self._fail("unbalanced parenthesis")
                self._at += 1
                stack.pop()
                stack[-1].parts.append(self._quantified(group.finished()))
            elif char == "|":
                self._at += 1
                group.options.append(Seq(tuple(group.parts)))
                group.parts = []
            elif char in "*+?" or _COUNT.match(self._text, self._at):
                self._fail("nothing to repeat")
            else:
                group.parts.append(self._quantified(self._atom()))
        if len(stack) > 1:
            self._at = stack[-1].column
            self._fail("missing ), unterminated group")
        return stack[0].finished()

    def _opener(self) -> str:
        """Read the beginning of a group."""
        text = self._text
        for opener in _OPENERS:
            if text.startswith(opener, self._at):
                self._at += len(opener)
                return opener
        named = _NAME.match(text, self._at)
        if named:
            self._at = named.end()
            return "("
        if text.startswith("(?", self._at):
            self._refuse("group", "a group that ECMAScript does not have, or modifiers,")
        self._at += 1
        return "("

    def _quantified(self, node: Node) -> Node:
        text = self._text
        count = _COUNT.match(text, self._at)
        if count:
            low = int(count[1])
            high = low if not count[2] else int(count[3]) if count[3] else None
            if high is not None and high < low:
                self._fail("the bounds of a repetition are out of order")
            if max(low, high or 0) > _MAX_COUNT:
                self._refuse("repetition", "a repetition of more than 2147483648 times")
            self._at = count.end()
        elif text[self._at : self._at + 1] in ("*", "+", "?"):
            low = 1 if text[self._at] == "+" else 0
            high = 1 if text[self._at] == "?" else None
            self._at += 1
        else:
            return node
        if isinstance(node, Anchor | Boundary):
            self._fail("nothing to repeat")
        if text.startswith("?", self._at):
            self._at += 1
        return Repeat(node, low, high)

    def _atom(self) -> Node:
        char = self._text[self._at]
        if char == "\\":
            return self._escape()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            self._at += 1
            return Chars(complement(ECMA_NEWLINES))
        if char in "^$":
            self._at += 1
            return Anchor("start" if char == "^" else "end")
        return Chars(self._one(self._literal()))

    def _literal(self) -> int:
        """Read one character that stands for itself."""
        code = ord(self._text[self._at])
        if 0xD800 <= code <= 0xDFFF:
            self._refuse("surrogate", f"the surrogate U+{code:04X}")
        self._at += 1
        return code

    @staticmethod
    def _one(code: int) -> tuple[Range, ...]:
        return ((code, code),)

    # --- escapes -------------------------------------------------------------------------------------------------

    def _escape(self) -> Node:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in ("b", "B") and letter:
            self._at += 2
            return Boundary(_WORD, negative=letter == "B", empty=True)
        if letter == "k" or (letter in "123456789" and letter):
            self._refuse("back-reference", "a back-reference")
        ranges = self._class_escape()
        return Chars(ranges if ranges is not None else self._one(self._character_escape()))

    def _class_escape(self) -> tuple[Range, ...] | None:
        """Read an escape that stands for a set of characters, if there is one here."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter and letter.lower() in _CLASS_ESCAPES:
            self._at += 2
            ranges = _CLASS_ESCAPES[letter.lower()]
            return complement(ranges) if letter.isupper() else ranges
        if letter not in ("p", "P"):
            return None
        name = _PROPERTY.match(self._text, self._at + 2)
        found = self._property(name[1]) if name else None
        if name is None or found is None:
            self._refuse("property", "a Unicode property other than a general category")
        self._at = name.end()
        return complement(found) if letter == "P" else found

    @staticmethod
    def _property(name: str) -> tuple[Range, ...] | None:
        if name == "Any":
            return ALL_CHARACTERS
        if name == "ASCII":
            return ((0, 0x7F),)
        if name == "Assigned":
            return complement(general_category("Cn") or ())
        return general_category(name)

    def _character_escape(self) -> int:
        """Read an escape that stands for one character."""
        text, start = self._text, self._at
        letter = text[start + 1 : start + 2]
        if not letter:
            self._fail("a backslash at the end")
        if letter in _CONTROL_ESCAPES:
            self._at += 2
            return _CONTROL_ESCAPES[letter]
        if letter == "0" and not text[start + 2 : start + 3].isdigit():
            self._at += 2
            return 0
        if letter == "c" and re.match(r"[A-Za-z]", text[start + 2 : start + 3]):
            self._at += 3
            return ord(text[start + 2]) % 32
        if letter == "x":
            return self._hex(re.compile(r"\\x([0-9A-Fa-f]{2})"))
        if letter == "u":
            return self._unicode()
        if letter.isalnum() or ord(letter) > 0x7F or letter == "_":
            self._refuse("escape", f"the escape \\{letter}")
        self._at += 2
        return ord(letter)

    def _hex(self, spelling: re.Pattern[str]) -> int:
        found = spelling.match(self._text, self._at)
        if not found:
            self._fail("an incomplete escape")
        code = int(found[1], 16)
        if code > 0x10FFFF:
            self._fail("a code point above 10FFFF")
        self._at = found.end()
        return code

    def _unicode(self) -> int:
        start = self._at
        code = self._hex(re.compile(r"\\u\{?((?<=\{)[0-9A-Fa-f]{1,32}(?=\})|(?<!\{)[0-9A-Fa-f]{4})\}?"))
        if self._text[start + 2] != "{" and self._text[self._at - 1] == "}":
            self._at -= 1
        if 0xD800 <= code <= 0xDBFF:
            low = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})").match(self._text, self._at)
            if low:
                self._at = low.end()
                return 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
        if 0xD800 <= code <= 0xDFFF:
            self._at = start
            self._refuse("surrogate", f"the surrogate U+{code:04X}")
        return code

    # --- classes -------------------------------------------------------------------------------------------------

    def _class(self) -> tuple[Range, ...]:
        text, start = self._text, self._at
        self._at += 1
        negative = text.startswith("^", self._at)
        self._at += negative
        spans: list[Range] = []
        sets: list[tuple[Range, ...]] = []
        while True:
            if self._at >= len(text):
                self._at = start
                self._fail("unterminated character class")
            if text[self._at] == "]":
                self._at += 1
                break
            column = self._at
            first = self._member()
            if not isinstance(first, int):
                sets.append(first)
                continue
            if text.startswith("-", self._at) and text[self._at + 1 : self._at + 2] not in ("]", ""):
                after_dash = self._at
                self._at += 1
                last = self._member()
                if isinstance(last, int):
                    if last < first:
                        self._at = column
                        self._fail("a character range out of order")
                    spans.append((first, last))
                    continue
                self._at = after_dash  # [a-\d]: the dash is a dash
            spans.append((first, first))
        ranges = unite(normalized(spans), *sets)
        return complement(ranges) if negative else ranges

    def _member(self) -> int | tuple[Range, ...]:
        """Read one member of a class: a character or a set."""
        if self._text[self._at] != "\\":
            return self._literal()
        if self._text.startswith("\\b", self._at):
            self._at += 2
            return 0x08
        ranges = self._class_escape()
        return self._character_escape() if ranges is None else ranges

    # --- errors --------------------------------------------------------------------------------------------------

    def _fail(self, problem: str) -> NoReturn:
        raise InvalidRequest(f"not a regular expression: {problem} at column {self._at}", param="pattern")

    def _refuse(self, keyword: str, what: str) -> NoReturn:
        raise UnsupportedConstraint(
            f"{what} at column {self._at} is not supported in a pattern",
            keyword=keyword,
            location=str(self._at),
            param="pattern",
        )
