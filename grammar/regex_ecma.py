"""ECMAScript's dialect of regular expressions (``u`` mode), for JSON Schema's ``pattern``.

A parser with its own stack, producing ``regex_ast``. ``\\d`` and ``\\w`` are ASCII, ``\\s`` is ECMAScript's. Where
``u`` mode is stricter than what schemas in use rely on, the reading is the one that all common engines share: lone
``]``, ``{`` and ``}`` are literal, and a backslash may stand before any character that is no letter or digit. What
dialects read in different ways is refused by name: a backslash before a letter that means nothing, ``{,n}``, octal
escapes, flags that do not end with their group. So are back-references, and Unicode properties that Python does not
know exactly.
"""

from __future__ import annotations

import re
from typing import NoReturn

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.charsets import ECMA_NEWLINES, ECMA_SPACES
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex_ast import Alt, Anchor, Boundary, Chars, Look, Node, Repeat, Seq
from radixrt.grammar.unicode_properties import binary_property, case_variants, general_category
from radixrt.grammar.utf8 import ALL_CHARACTERS, Range, complement, intersect, normalized, unite

__all__ = ["parse_ecma"]

_DIGITS: tuple[Range, ...] = ((0x30, 0x39),)
_WORD: tuple[Range, ...] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_CLASS_ESCAPES = {"d": _DIGITS, "w": _WORD, "s": ECMA_SPACES}
_CONTROL_ESCAPES = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_OPENERS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")
_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_PLAIN = re.compile(r"[^\\^$.*+?()\[\]{}|]+")
_NO_LEAST = re.compile(r"\{,[0-9]+\}")
_FLAGS = re.compile(r"\(\?([a-z]*)(?:-([a-z]*))?:")
_NAME = re.compile(r"\(\?<([^\W\d$]|\$)[\w$]*>")
_PROPERTY = re.compile(r"\{((?:General_Category|gc)=)?([A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?)\}")
_X_ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})")
_U_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_BRACED_ESCAPE = re.compile(r"\\u\{0*([0-9A-Fa-f]{1,6})\}")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_MAX_COUNT = 1 << 31


def parse_ecma(pattern: str, limits: GrammarLimits) -> Node:
    """The tree of a pattern; raises ``InvalidRequest`` or ``UnsupportedConstraint`` with param ``pattern``."""
    return _Parser(pattern, limits).parse()


class _Group:
    """A group that is being read: its options so far, and what it will become."""

    def __init__(self, opener: str, column: int, flags: frozenset[str]) -> None:
        self.opener = opener
        self.column = column
        self.flags = flags
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
        self._flags: frozenset[str] = frozenset()
        self._literals: dict[tuple[int, bool], Chars] = {}

    def parse(self) -> Node:
        stack = [_Group("", 0, frozenset())]
        while self._at < len(self._text):
            group, char, column = stack[-1], self._text[self._at], self._at
            if char == "(":
                if len(stack) > self._limits.nesting:
                    self._refuse("nesting", f"groups nested more than {self._limits.nesting} deep")
                opener, flags = self._opener(group.flags)
                stack.append(_Group(opener, column, flags))
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
                self._flags = group.flags
                self._plain_text(group.parts)
                if self._at < len(self._text) and self._text[self._at] not in "()|":
                    group.parts.append(self._quantified(self._atom()))
        if len(stack) > 1:
            self._at = stack[-1].column
            self._fail("missing ), unterminated group")
        return stack[0].finished()

    def _plain_text(self, parts: list[Node]) -> None:
        """Read a run of characters that stand for themselves, but for the last one if it is repeated."""
        run = _PLAIN.match(self._text, self._at)
        if run is None:
            return
        end = run.end() - (self._text[run.end() : run.end() + 1] in tuple("*+?{"))
        for place in range(self._at, end):
            self._at = place + 1
            parts.append(self._one(ord(self._text[place])))

    def _opener(self, flags: frozenset[str]) -> tuple[str, frozenset[str]]:
        """Read the beginning of a group that stands under ``flags``: its kind, and the flags inside it."""
        text = self._text
        for opener in _OPENERS:
            if text.startswith(opener, self._at):
                self._at += len(opener)
                return opener, flags
        named = _NAME.match(text, self._at)
        if named:
            self._at = named.end()
            return "(", flags
        modified = _FLAGS.match(text, self._at)
        if modified:
            added, removed = modified[1], modified[2] or ""
            named_flags = set(added + removed)
            if not named_flags or named_flags - set("ims") or len(named_flags) < len(added + removed):
                self._fail("flags that are not i, m or s, each once,")
            self._at = modified.end()
            return "(?:", (flags | set(added)) - set(removed)
        if text.startswith("(?", self._at):
            self._refuse("group", "a group that ECMAScript does not have, or flags that do not end with a group,")
        self._at += 1
        return "(", flags

    def _quantified(self, node: Node) -> Node:
        text = self._text
        count = _COUNT.match(text, self._at)
        if count:
            low, high = self._bounds(count)
            self._at = count.end()
        elif _NO_LEAST.match(text, self._at):
            self._refuse("repetition", "{,n}, which is text in ECMAScript and a repetition elsewhere,")
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

    def _bounds(self, count: re.Match[str]) -> tuple[int, int | None]:
        if len(count[1]) > 20 or len(count[3] or "") > 20:
            self._refuse("repetition", "a repetition of more than 2147483648 times")
        low = int(count[1])
        high = low if not count[2] else int(count[3]) if count[3] else None
        if high is not None and high < low:
            self._fail("the bounds of a repetition are out of order")
        if max(low, high or 0) > _MAX_COUNT:
            self._refuse("repetition", "a repetition of more than 2147483648 times")
        return low, high

    def _chars(self, ranges: tuple[Range, ...]) -> Chars:
        return Chars(case_variants(ranges) if "i" in self._flags else ranges)

    def _line_end(self, char: str) -> Node:
        """``^`` or ``$`` under the flag m: at an end of the text, or beside a line terminator."""
        edge = Anchor("start" if char == "^" else "end")
        return Look(Alt((edge, Chars(ECMA_NEWLINES))), ahead=char == "$", negative=False)

    def _atom(self) -> Node:
        char = self._text[self._at]
        if char == "\\":
            return self._escape()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            self._at += 1
            return Chars(ALL_CHARACTERS if "s" in self._flags else complement(ECMA_NEWLINES))
        if char in "^$":
            self._at += 1
            if "m" in self._flags:
                return self._line_end(char)
            return Anchor("start" if char == "^" else "end")
        if _NO_LEAST.match(self._text, self._at):
            self._refuse("repetition", "{,n}, which is text in ECMAScript and a repetition elsewhere,")
        return self._one(self._literal())

    def _literal(self) -> int:
        """Read one character that stands for itself."""
        self._at += 1
        return ord(self._text[self._at - 1])

    def _one(self, code: int) -> Chars:
        known = self._literals.get((code, "i" in self._flags))
        if known is None:
            if 0xD800 <= code <= 0xDFFF:
                self._refuse("surrogate", f"the surrogate U+{code:04X} before this place")
            known = self._literals[code, "i" in self._flags] = self._chars(((code, code),))
        return known

    # --- escapes -------------------------------------------------------------------------------------------------

    def _escape(self) -> Node:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in ("b", "B"):
            self._at += 2
            word = case_variants(_WORD) if "i" in self._flags else _WORD
            return Boundary(word, negative=letter == "B", empty=True)
        if letter == "k" or (letter in "123456789" and letter):
            self._refuse("back-reference", "a back-reference")
        ranges = self._class_escape()
        return self._chars(ranges) if ranges is not None else self._one(self._character_escape())

    def _class_escape(self) -> tuple[Range, ...] | None:
        """Read an escape that stands for a set of characters, if there is one here."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter and letter.lower() in _CLASS_ESCAPES:
            self._at += 2
            ranges = _CLASS_ESCAPES[letter.lower()]
            if letter == "W" and "i" in self._flags:  # the word characters grow before they are complemented
                return complement(case_variants(ranges))
            return complement(ranges) if letter.isupper() else ranges
        if letter not in ("p", "P"):
            return None
        name = _PROPERTY.match(self._text, self._at + 2)
        if name is None:
            self._refuse("property", "a Unicode property without a name in braces")
        found = general_category(name[2])
        if found is None and not name[1]:
            found = binary_property(name[2])
        if found is None:
            self._refuse("property", f"the Unicode property {name[2][:60]}")
        self._at = name.end()
        return complement(found) if letter == "P" else found

    def _character_escape(self) -> int:
        """Read an escape that stands for one character."""
        text, start = self._text, self._at
        letter = text[start + 1 : start + 2]
        if not letter:
            self._fail("a backslash at the end")
        if letter in _CONTROL_ESCAPES:
            self._at += 2
            return _CONTROL_ESCAPES[letter]
        if letter == "0" and text[start + 2 : start + 3] not in tuple("0123456789"):
            self._at += 2
            return 0
        if letter == "c" and re.match(r"[A-Za-z]", text[start + 2 : start + 3]):
            self._at += 3
            return ord(text[start + 2]) % 32
        if letter == "x":
            return self._hex(_X_ESCAPE)
        if letter == "u":
            return self._unicode()
        if letter.isalnum() and letter.isascii():
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
        if self._text.startswith("{", self._at + 2):
            return self._hex(_BRACED_ESCAPE)
        code = self._hex(_U_ESCAPE)
        low = _LOW_SURROGATE.match(self._text, self._at) if 0xD800 <= code <= 0xDBFF else None
        if low:
            self._at = low.end()
            return 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
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
        if ranges and not negative and not intersect(ranges, ALL_CHARACTERS):
            # Meant as the halves of pairs, where engines see UTF-16. Beside other characters they just never occur.
            self._refuse("surrogate", "a class of surrogates before this place")
        ranges = self._chars(ranges).ranges
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
