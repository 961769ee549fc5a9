"""Context-free grammars in GBNF notation (llama.cpp), which the EBNF of xgrammar shares.

    root  ::= "[" (item ("," item)*)? "]"    # a comment
    item  ::= [0-9]{1,3} | "\\"" [^"\\x00-\\x1F]* "\\"" | root | <|im_start|>

Rules are ``name ::= alternatives``; literals and classes know the escapes ``\\n \\r \\t \\\\ \\" \\' \\[ \\] \\-
\\^ \\xHH \\uHHHH \\UHHHHHHHH`` (``\\x`` is a code point too); ``.`` is any character; ``? * + {m} {m,} {m,n} {,n}``
repeat; a rule may go on over several lines. ``<name>`` and ``<[id]>`` are special tokens, ``!<name>*`` is all up to
one (see ``token_symbols.py``). Parsed with an explicit stack, so nesting is not limited. Every error says
``line:column``. What rules mean is ``notation.py``'s business.
"""

from __future__ import annotations

import re
from typing import NoReturn

from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.grammar_text import GrammarText
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.notation import Alt, Leaf, Op, Rule, Seq, Times, lower
from radixrt.grammar.token_symbols import BadSymbol, TokenSymbols
from radixrt.grammar.utf8 import ALL_CHARACTERS, Range, complement, normalized

__all__ = ["ebnf_symbol"]

_ROOT = "root"
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*+)*+")  # possessive: a row of # has but one way to be read
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*|[0-9][A-Za-z0-9_.-]*")
_HEAD = re.compile(rf"([A-Za-z0-9_][A-Za-z0-9_.-]*+){_SPACE.pattern}::=")
_COUNT = re.compile(r"\{[ \t]*(?:([0-9]+)[ \t]*(?:(,)[ \t]*([0-9]+)?[ \t]*)?|(,)[ \t]*([0-9]+)[ \t]*)\}")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", **{c: c for c in "\\\"'[]-^/."}}
_MAX_COUNT = 1 << 31
_MAX_DIGITS = 11  # one more than a count has
_MARKS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_MACROS = {
    "Token": "a token is written <[id]> or <name>",
    "ExcludeToken": "any token but some is written <[^id]>*",
    "TagDispatch": "structural tags have the formats triggered_tags and dispatch",
    "TokenTagDispatch": "structural tags have the formats token_triggered_tags and token_dispatch",
}
"""Calls that xgrammar's notation has, and what stands for them here."""


def ebnf_symbol(builder: GrammarBuilder, text: str, limits: GrammarLimits, symbols: TokenSymbols) -> Symbol:
    """The symbol of the rule ``root`` of a grammar text.

    Raises ``InvalidRequest`` for errors in the text and ``UnsupportedConstraint`` for what is beyond the engine,
    both with param ``grammar`` and line:column.
    """
    return lower(builder, _Parser(builder, GrammarText(text, limits), symbols).parse(), _ROOT)


def _number(digits: str) -> int:
    """The value, cut where it is beyond any count: thousands of digits are more than ``int`` takes."""
    return int(digits.lstrip("0")[:_MAX_DIGITS] or "0")


class _Open:
    """A group, or the body of a rule, that is being read: how many options and how many parts of the latest."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.options = 0
        self.parts = 0


class _Parser:
    def __init__(self, builder: GrammarBuilder, source: GrammarText, symbols: TokenSymbols) -> None:
        self._builder = builder
        self._pool = builder.pool
        self._symbols = symbols
        self._source = source
        self._text = source.text
        self._at = 0
        self._used_at: dict[str, int] = {}
        self._rules: dict[str, list[Op]] = {}
        self._code: list[Op] = []

    def parse(self) -> dict[str, list[Op]]:
        self._skip()
        while self._at < len(self._text):
            self._rule()
        for name, at in self._used_at.items():
            if name not in self._rules:
                self._fail(f"the rule {name!r} is used but not defined", at)
        if _ROOT not in self._rules:
            self._fail(f"there is no rule {_ROOT!r}, which every grammar starts from", 0)
        return self._rules

    def _rule(self) -> None:
        head = _HEAD.match(self._text, self._at)
        if not head:
            self._fail("expected a rule: name ::= ...")
        name = head[1]
        if name in self._rules:
            self._fail(f"the rule {name!r} is defined twice")
        self._at = head.end()
        self._skip()
        self._rules[name] = self._code = []
        self._body()

    def _body(self) -> None:
        """Read alternatives up to the next rule or the end."""
        text = self._text
        stack = [_Open(self._at)]
        while True:
            group = stack[-1]
            char = text[self._at : self._at + 1]
            if char == "|":
                self._at += 1
                self._end_option(group)
            elif char == "(":
                if text.startswith(("(?", "(="), self._at):
                    self._refuse("lookahead", "lookahead is not part of this notation")
                stack.append(_Open(self._at))
                self._at += 1
            elif char == ")":
                if len(stack) == 1:
                    self._fail("unbalanced )")
                self._at += 1
                self._end_group(stack.pop())
                stack[-1].parts += 1
                self._repeated()
            elif not char or _HEAD.match(text, self._at):
                if len(stack) > 1:
                    self._fail("missing )", group.at)
                self._end_group(group)
                return
            else:
                group.parts += 1
                self._repeated(self._atom(char))
            self._skip()

    def _end_option(self, group: _Open) -> None:
        if group.parts != 1:
            self._code.append(Seq(group.parts))
        group.options += 1
        group.parts = 0

    def _end_group(self, group: _Open) -> None:
        self._end_option(group)
        if group.options > 1:
            self._code.append(Alt(group.options))

    def _atom(self, char: str) -> bool:
        """Read one symbol. True if it is a token symbol that has to be repeated."""
        builder, pool = self._builder, self._pool
        if char in "<!":
            return self._token_symbol(char == "!")
        if char in "\"'":
            self._code.append(Leaf(builder.literal(self._literal(char))))
        elif char == "[":
            self._code.append(Leaf(builder.terminal(pool.chars(self._class()))))
        elif char == ".":
            self._at += 1
            self._code.append(Leaf(builder.terminal(pool.chars(ALL_CHARACTERS))))
        else:
            name = _NAME.match(self._text, self._at)
            if not name:
                self._fail(f"unexpected {char!r}")
            self._used_at.setdefault(name[0], self._at)
            self._at = name.end()
            if name[0] in _MACROS and self._text.startswith("(", self._at):
                self._check_macro(name[0], self._used_at[name[0]])
            self._code.append(Rule(name[0]))
        return False

    def _check_macro(self, name: str, at: int) -> None:
        """Refuse a call of xgrammar's notation; a rule may have the same name and a group behind it."""
        if not re.search(rf"(?<![A-Za-z0-9_.-]){name}{_SPACE.pattern}::=", self._text):
            self._refuse(name, f"{name}(...) is not part of this notation; {_MACROS[name]}", at)

    def _token_symbol(self, negated: bool) -> bool:
        try:
            found = self._symbols.read(self._text, self._at + negated, negated)
        except BadSymbol as error:
            if error.keyword:
                self._refuse(error.keyword, error.problem)
            self._fail(error.problem)
        self._at = found.end
        self._code.append(Leaf(self._builder.terminal(found.term)))
        return found.is_run

    def _repeated(self, is_run: bool = False) -> None:
        """Apply the repetition marks that follow. A run must be repeated without an upper bound first."""
        while True:
            self._skip()
            at = self._at
            char = self._text[at : at + 1]
            low: int = 1
            high: int | None = 1
            if char in ("*", "+", "?") and char:
                self._at += 1
                low, high = _MARKS[char]
            elif char == "{":
                low, high = self._count()
            if is_run and (low > 1 or high is not None):
                self._refuse("token symbol", "any token but some must be repeated with * or +", at)
            if self._at == at:
                return
            is_run = False
            self._code.append(Times(low, high))

    def _count(self) -> tuple[int, int | None]:
        found = _COUNT.match(self._text, self._at)
        if not found:
            self._fail("expected {m}, {m,}, {m,n} or {,n}")
        exact, comma, top, _, only_top = found.groups()
        low = _number(exact or "0")
        high: int | None = _number(only_top) if only_top else low if not comma else _number(top) if top else None
        if high is not None and high < low:
            self._fail("the bounds of a repetition are out of order")
        if max(low, high or 0) > _MAX_COUNT:
            self._refuse("repetition", f"a repetition of more than {_MAX_COUNT} times")
        self._at = found.end()
        return low, high

    # --- characters ----------------------------------------------------------------------------------------------

    def _literal(self, quote: str) -> str:
        start = self._at
        self._at += 1
        chars: list[str] = []
        while True:
            char = self._text[self._at : self._at + 1]
            if not char or char == "\n":
                self._fail("a literal that is not closed", start)
            if char == quote:
                self._at += 1
                return "".join(chars)
            chars.append(self._character())

    def _class(self) -> tuple[Range, ...]:
        start = self._at
        self._at += 1
        negative = self._text.startswith("^", self._at)
        self._at += negative
        ranges: list[Range] = []
        while not self._text.startswith("]", self._at):
            if self._at >= len(self._text) or self._text[self._at] == "\n":
                self._fail("a class that is not closed", start)
            first = last = ord(self._character())
            if self._text.startswith("-", self._at) and not self._text.startswith("]", self._at + 1):
                at = self._at
                self._at += 1
                if self._at >= len(self._text) or self._text[self._at] == "\n":
                    self._fail("a class that is not closed", start)
                last = ord(self._character())
                if last < first:
                    self._fail("a character range out of order", at)
            ranges.append((first, last))
        self._at += 1
        spans = normalized(ranges)
        return complement(spans) if negative else spans

    def _character(self) -> str:
        """Read one character, plain or escaped."""
        text, start = self._text, self._at
        if text[start] != "\\":
            self._at += 1
            return self._source.checked(text[start], start)
        letter = text[start + 1 : start + 2]
        if letter in _ESCAPES:
            self._at += 2
            return _ESCAPES[letter]
        digits = text[start + 2 : start + 2 + _HEX_ESCAPES.get(letter, 0)]
        if letter not in _HEX_ESCAPES or not re.fullmatch(r"[0-9A-Fa-f]+", digits):
            self._fail(f"the escape {text[start : start + 2]!r} is not known or not complete")
        if len(digits) < _HEX_ESCAPES[letter]:
            self._fail(f"\\{letter} takes {_HEX_ESCAPES[letter]} hexadecimal digits")
        code = int(digits, 16)
        if code > 0x10FFFF:
            self._fail("a code point above 10FFFF")
        self._at = start + 2 + len(digits)
        return self._source.checked(chr(code), start)

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        if found:
            self._at = found.end()

    def _fail(self, problem: str, at: int | None = None) -> NoReturn:
        self._source.fail(problem, self._at if at is None else at)

    def _refuse(self, keyword: str, problem: str, at: int | None = None) -> NoReturn:
        self._source.refuse(keyword, problem, self._at if at is None else at)
