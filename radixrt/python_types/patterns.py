"""Patterns of string fields, rewritten as the searched ECMA-262 patterns that JSON Schema speaks.

pydantic searches with Rust's ``regex`` crate, or with Python's ``re`` (a compiled pattern, or
``regex_engine="python-re"``). Both count all of Unicode as digits, letters and blanks, where ``\\d`` and ``\\w`` of
a JSON Schema mean ASCII ones (https://docs.rs/regex/latest/regex/#syntax,
https://docs.python.org/3/library/re.html). The result accepts what the original accepts, with two exceptions: ``$``
of Python is the very end here and not also before a last line break, and characters that a Unicode version
newer or older than the grammar's classes differently are kept out of both a class and its complement.

What the rewriting cannot carry over raises ``ValueError`` with the construct and its column. Whether a pattern is
well-formed is not checked here; pydantic did.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["ecma_pattern"]


@dataclass(frozen=True)
class _Class:
    """A class of characters as the inside of brackets: what is surely in it, and what may be."""

    surely: str
    maybe: str


# Alphabetic symbols and joiners are words to Rust. Unassigned characters may be anything in a newer Unicode.
_SYMBOLS: Final = r"\u200C\u200D\u24B6-\u24E9\u{1F130}-\u{1F149}\u{1F150}-\u{1F169}\u{1F170}-\u{1F189}"
_WORDS: Final = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}" + _SYMBOLS
_BLANKS: Final = r"\t-\r \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000"
_RUST: Final = MappingProxyType(
    {
        "d": _Class(r"\p{Nd}", r"\p{Nd}\p{Cn}"),
        "w": _Class(_WORDS, _WORDS + r"\p{Cn}"),
        "s": _Class(_BLANKS, _BLANKS),
    }
)
# str.isalnum() is also true of a few numbers that are letters by category; all of them are in L or N.
_PYTHON: Final = MappingProxyType(
    {
        "d": _Class(r"\p{Nd}", r"\p{Nd}"),
        "w": _Class(r"\p{L}\p{N}_", r"\p{L}\p{N}_"),
        "s": _Class(_BLANKS + r"\u001C-\u001F", _BLANKS + r"\u001C-\u001F"),
    }
)
_ASCII: Final = MappingProxyType(
    {
        "d": _Class("0-9", "0-9"),
        "w": _Class("A-Za-z0-9_", "A-Za-z0-9_"),
        "s": _Class(r"\t-\r ", r"\t-\r "),
    }
)
_CONTROLS: Final = MappingProxyType({"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"})
_SYNTAX: Final = frozenset(r"^$\.*+?()[]{}|/")
_ANY: Final = r"[\s\S]"
_CATEGORY: Final = re.compile(r"L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|Cc|Cf|Co")


def ecma_pattern(pattern: str | re.Pattern[str], *, python: bool = False) -> str:
    """The pattern in the dialect of JSON Schema. ``python``: ``re`` searches, as it does for a compiled one.

    Raises ``ValueError`` naming the construct that has no counterpart.
    """
    if isinstance(pattern, re.Pattern):
        known = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE | re.ASCII
        if pattern.flags & ~known:
            raise ValueError("a flag of the compiled pattern has no counterpart")
        flags = {name for name, flag in _FLAGS.items() if pattern.flags & flag}
        return _Rewriter(pattern.pattern, True, frozenset(flags)).whole()
    return _Rewriter(pattern, python, frozenset()).whole()


_FLAGS: Final = MappingProxyType(
    {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}
)


@dataclass
class _Items:
    """What stands between brackets: members as they are surely and maybe meant, and complements of classes."""

    surely: list[str] = field(default_factory=list)
    maybe: list[str] = field(default_factory=list)
    complements: list[_Class] = field(default_factory=list)


@dataclass
class _Group:
    """An open group: what holds again when it closes, where it starts in the output, how many groups it opened."""

    flags: frozenset[str]
    positive: bool
    start: int = 0
    closers: int = 1


class _Rewriter:
    """One pass over the pattern. ``positive`` is False inside an odd number of negative look-arounds."""

    def __init__(self, pattern: str, python: bool, flags: frozenset[str]) -> None:
        self._text = pattern
        self._at = 0
        self._python = python
        self._flags = flags
        self._positive = True
        self._groups: list[_Group] = []
        self._out: list[str] = []

    def whole(self) -> str:
        if "i" in self._flags:
            self._out.append("(?i:")
        root = _Group(self._flags, True, start=len(self._out), closers=len(self._out))
        self._groups.append(root)
        while self._at < len(self._text):
            self._step()
        return "".join(self._out) + ")" * root.closers

    # --- one construct ------------------------------------------------------------------------------------

    def _step(self) -> None:
        char = self._take()
        if "x" in self._flags and (char.isspace() or char == "#"):
            self._skip_comment(char)
        elif char == "\\":
            self._out.append(self._escape())
        elif char == "[":
            self._out.append(self._class())
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "^":
            self._out.append(r"(?:^|(?<=\n))" if "m" in self._flags else "^")
        elif char == "$":
            self._out.append(self._end())
        elif char == ".":
            self._out.append(_ANY if "s" in self._flags else r"[^\n]")
        elif char in "*+?{":
            self._count(char)
        else:
            self._out.append(char if char == "|" else _literal(char))

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _next_is(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _refuse(self, what: str) -> ValueError:
        return ValueError(f"{what} at column {self._at}")

    def _skip_comment(self, char: str) -> None:
        if char == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end + 1

    def _end(self) -> str:
        if "m" in self._flags:
            return r"(?=\n|$)"
        # Under a negation the narrower reading would accept more.
        return "$" if self._positive or not self._python else r"(?=\n?$)"

    def _count(self, char: str) -> None:
        count = char
        if char == "{":
            found = re.compile(r"([0-9]*)(,?)([0-9]*)\}").match(self._text, self._at)
            if found is None or found.group() in ("}", ",}"):
                self._out.append(r"\{")
                return
            self._at = found.end()
            count = f"{{{found[1] or '0'}{found[2]}{found[3]}}}"
        if self._next_is("+"):
            raise self._refuse("a possessive repetition")
        if self._next_is("?"):
            self._at += 1  # how eagerly it repeats does not change what matches
        self._out.append(count)

    # --- groups -------------------------------------------------------------------------------------------

    def _open(self) -> None:
        group = _Group(self._flags, self._positive)
        if not self._next_is("?"):
            self._enter(group, "(?:")
            return
        self._at += 1
        if self._next_is("#"):
            self._at = self._text.index(")", self._at) + 1
            return
        look = re.compile(r"<?[=!]").match(self._text, self._at)
        name = re.compile(r"P?<[^>=!][^>]*>").match(self._text, self._at)
        if look is not None:
            self._at = look.end()
            self._positive ^= look.group().endswith("!")
            self._enter(group, f"(?{look.group()}")
        elif name is not None:
            self._at = name.end()
            self._enter(group, "(?:")
        else:
            self._open_with_flags(group)

    def _enter(self, group: _Group, opening: str) -> None:
        self._out.append(opening)
        group.start = len(self._out)
        self._groups.append(group)

    def _open_with_flags(self, group: _Group) -> None:
        found = re.compile(r"([A-Za-z]*)(?:-([A-Za-z]+))?([:)])").match(self._text, self._at)
        if found is None:
            raise self._refuse(f"the group (?{self._text[self._at : self._at + 1]}")
        on, off = set(found[1]), set(found[2] or "")
        harmless = {"u", "L"} if self._python else {"u", "U"}
        for flag in sorted((on - harmless) | off):
            if flag not in ("imsxa" if self._python else "imsx"):
                raise self._refuse(f"the flag {flag}")
        self._at = found.end()
        before = self._flags
        self._flags = frozenset((before | (on & set(_FLAGS))) - off)
        opening = "(?i:" if "i" in self._flags - before else "(?-i:" if "i" in before - self._flags else ""
        if found[3] == ":":
            self._enter(group, opening or "(?:")
        elif opening:
            # It holds to the end of the group around it, alternatives included: a group of its own from the start.
            outer = self._groups[-1]
            if len(self._out) != outer.start:
                raise self._refuse("a change of case in the middle of a group")
            self._out.append(opening)
            outer.start = len(self._out)
            outer.closers += 1

    def _close(self) -> None:
        group = self._groups.pop()
        self._out.append(")" * group.closers)
        self._flags, self._positive = group.flags, group.positive

    # --- characters ---------------------------------------------------------------------------------------

    def _classes(self) -> MappingProxyType[str, _Class]:
        return _ASCII if "a" in self._flags else _PYTHON if self._python else _RUST

    def _escape(self) -> str:
        char = self._text[self._at]
        if char in "dws":
            self._at += 1
            found = self._classes()[char]
            return f"[{found.surely if self._positive else found.maybe}]"
        if char in "DWS":
            self._at += 1
            found = self._classes()[char.lower()]
            return f"[^{found.maybe if self._positive else found.surely}]"
        if char in "bB":
            self._at += 1
            return self._boundary(char == "b")
        if char == "A":
            self._at += 1
            return "^"
        if char in "zZ":
            self._at += 1
            return "$"
        if char in "pP" and not self._python:
            return self._property()
        return _literal(self._character())

    def _boundary(self, at_one: bool) -> str:
        word = self._classes()["w"]
        if not self._positive and word.surely != word.maybe:
            raise self._refuse("a word boundary under a negation")
        after, before = f"(?<=[{word.surely}])", f"(?=[{word.surely}])"
        not_after, not_before = f"(?<![{word.maybe}])", f"(?![{word.maybe}])"
        if at_one:
            return f"(?:{after}{not_before}|{not_after}{before})"
        return f"(?:{after}{before}|{not_after}{not_before})"

    def _property(self) -> str:
        negated = self._take() == "P"
        found = re.compile(r"\{([A-Za-z_]+)\}|([A-Z])").match(self._text, self._at)
        name = "" if found is None else found[1] or found[2]
        if found is None or not _CATEGORY.fullmatch(name):
            raise self._refuse("a Unicode property other than a general category")
        self._at = found.end()
        # An unassigned character of one version may have the category in another.
        return f"[^\\p{{{name}}}\\p{{Cn}}]" if negated else f"\\p{{{name}}}"

    def _character(self) -> str:
        """The one character of an escape whose backslash is read."""
        char = self._take()
        if char in _CONTROLS:
            return _CONTROLS[char]
        widths = {"x": 2, "u": 4, "U": 8}
        if char in widths:
            found = re.compile(rf"([0-9A-Fa-f]{{{widths[char]}}})|\{{([0-9A-Fa-f]+)\}}").match(self._text, self._at)
            if found is not None:
                self._at = found.end()
                return chr(int(found[1] or found[2], 16))
        if char == "0" and not self._text[self._at : self._at + 1].isdigit():
            return "\0"
        if char.isascii() and char.isalnum():
            raise self._refuse(f"a back-reference \\{char}" if char.isdigit() else f"the escape \\{char}")
        return char

    # --- classes ------------------------------------------------------------------------------------------

    def _class(self) -> str:
        negated = self._next_is("^")
        self._at += negated
        items = _Items()
        first = True
        while first or not self._next_is("]"):
            self._item(items)
            first = False
        self._at += 1
        return self._written(items, negated)

    def _item(self, items: _Items) -> None:
        char = self._text[self._at]
        if not self._python and (char == "[" or self._text[self._at : self._at + 2] in ("&&", "--", "~~")):
            raise self._refuse("an operation on classes")
        if "x" in self._flags and not self._python and char.isspace():
            self._at += 1
            return
        escaped = self._text[self._at + 1 : self._at + 2] if char == "\\" else ""
        if escaped and escaped in "dwsDWS":
            self._at += 2
            found = self._classes()[escaped.lower()]
            if escaped.islower():
                items.surely.append(found.surely)
                items.maybe.append(found.maybe)
            else:
                items.complements.append(found)
            return
        if escaped and escaped in "pP" and not self._python:
            self._at += 1
            name = self._property()
            if not name.startswith("\\p"):
                raise self._refuse("the complement of a property inside a class")
            items.surely.append(name)
            items.maybe.append(name + r"\p{Cn}")
            return
        member = _member(self._class_character())
        if self._next_is("-") and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            member += "-" + _member(self._class_character())
        items.surely.append(member)
        items.maybe.append(member)

    def _class_character(self) -> str:
        char = self._take()
        if char != "\\":
            return char
        if self._next_is("b"):
            self._at += 1
            return "\b"
        return self._character()

    def _written(self, items: _Items, negated: bool) -> str:
        """The class without the extremes of the versions: narrow where it accepts, wide where it refuses."""
        surely, maybe = "".join(items.surely), "".join(items.maybe)
        if not self._positive:
            surely, maybe = maybe, surely
        outside = [found.maybe if self._positive else found.surely for found in items.complements]
        inside = [found.surely if self._positive else found.maybe for found in items.complements]
        if not negated:
            choices = ([f"[{surely}]"] if surely else []) + [f"[^{found}]" for found in outside]
            return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"
        if not items.complements:
            return f"[^{maybe}]"
        excluded = f"(?![{maybe}])" if maybe else ""
        both = "".join(f"(?=[{found}])" for found in inside[1:])
        return f"(?:{excluded}{both}[{inside[0]}])"


def _literal(char: str) -> str:
    return "\\" + char if char in _SYNTAX else char


def _member(char: str) -> str:
    return "\\" + char if char in r"\]^-[" else char
