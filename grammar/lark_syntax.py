"""What a grammar in Lark notation consists of: definitions by name, their bodies as postfix code.

The operations are those of ``notation.py`` and the ones here; names are as they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from radixrt.grammar.cfg import Symbol
from radixrt.grammar.notation import Alt, Leaf, Seq, Times

__all__ = ["And", "Code", "Definition", "Json", "LarkGrammar", "LarkOp", "Name", "Not", "Token", "Use"]


class Name(NamedTuple):
    """A rule or a terminal, or a parameter of the template this stands in."""

    name: str
    is_terminal: bool
    at: int


class Use(NamedTuple):
    """A template with its arguments, each the code of one value."""

    name: str
    arguments: tuple[Code, ...]
    at: int


class Token(NamedTuple):
    """A token symbol."""

    symbol: Symbol
    at: int


class Json(NamedTuple):
    """JSON text that is valid under a schema, given as JSON text."""

    schema: str
    at: int


class And(NamedTuple):
    """All of the last ``size``."""

    size: int
    at: int


class Not(NamedTuple):
    """All text but the last one."""

    at: int


LarkOp: TypeAlias = Leaf | Seq | Alt | Times | Name | Use | Token | Json | And | Not
Code: TypeAlias = Sequence[LarkOp]


class Definition(NamedTuple):
    """``parameters`` make a rule a template. ``suffix`` and ``is_lazy``: the shortest of body and suffix."""

    code: Code
    at: int
    parameters: tuple[str, ...] = ()
    is_lazy: bool = False
    suffix: Code = ()


class LarkGrammar(NamedTuple):
    """Definitions by name, and what may stand between terminals."""

    rules: dict[str, Definition]
    terminals: dict[str, Definition]
    ignored: list[Code]
