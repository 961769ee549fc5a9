"""Grammars in Lark notation, the dialect of llguidance included: exactly the texts that the rules produce.

    start: item ("," item)*          // comments like this, or with #
    item: NUMBER | "true"i | list{item} -> alias
    list{x}: "[" [x ("," x)*] "]"
    NUMBER: /[0-9]+/ & ~"0"
    %import common.WS
    %ignore WS

A text starts from the rule ``start``. Rules have lower-case names, terminals upper-case ones. Ignored text may
stand before and after every terminal of a rule. Aliases, priorities and the marks ``?`` and ``!`` before a rule
shape Lark's trees and mean nothing here. ``rule[lazy]`` is the shortest match of a body made of terminals,
``rule[suffix=X]`` the shortest that ends in X. ``%json {...}`` is JSON under a schema, ``<name>`` and ``<[ids]>``
are token symbols. The modules: ``lark_scanner`` (words), ``lark_parser`` (definitions), ``lark_terminals``
(literals); here names and templates get their meaning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from radixrt.errors import RadixrtError
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.grammar_text import GrammarText
from radixrt.grammar.lark_parser import parse_lark
from radixrt.grammar.lark_syntax import And, Code, Definition, Json, LarkGrammar, Name, Not, Token, Use
from radixrt.grammar.lark_terminals import Terminals, shortest
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.notation import Alt, Leaf, Op, Rule, Seq, Times, lower, rings
from radixrt.grammar.rules import term_of
from radixrt.grammar.rx import Rx
from radixrt.grammar.token_symbols import TokenSymbols

__all__ = ["lark_symbol"]

_START: Final = "start"
_MAX_INSTANCES: Final = 10_000
_Arguments = Mapping[str, Op]


def lark_symbol(builder: GrammarBuilder, text: str, limits: GrammarLimits, symbols: TokenSymbols) -> Symbol:
    """The symbol of the rule ``start`` of a grammar text.

    Raises ``InvalidRequest`` for errors in the text and ``UnsupportedConstraint`` for what is beyond the engine,
    both with param ``grammar`` and line:column.
    """
    source = GrammarText(text, limits)
    terminals = Terminals(builder.pool, source, limits)
    grammar = parse_lark(source, terminals, symbols, builder.pool.spend)
    return _Meaning(builder, source, terminals, grammar).start()


class _Meaning:
    """What the names of one grammar stand for."""

    def __init__(
        self, builder: GrammarBuilder, source: GrammarText, terminals: Terminals, grammar: LarkGrammar
    ) -> None:
        self._builder = builder
        self._pool = builder.pool
        self._source = source
        self._terminals = terminals
        self._grammar = grammar
        self._terms: dict[str, Rx] = {}
        self._rules: dict[str, list[Op]] = {}
        self._todo: deque[tuple[str, Code, _Arguments]] = deque()
        self._instances: dict[tuple[str, tuple[Op, ...]], str] = {}

    def start(self) -> Symbol:
        if _START not in self._grammar.rules:
            self._source.fail(f"there is no rule {_START!r}, which every grammar starts from", 0)
        self._need(Name(_START, False, self._grammar.rules[_START].at))
        while self._todo:
            name, code, arguments = self._todo.popleft()
            self._pool.spend(len(code) + 1)
            self._rules[name] = [self._resolved(op, arguments) for op in code]
        ignored = [self._term(code) for code in self._grammar.ignored]
        if not ignored:
            return lower(self._builder, self._rules, _START)
        gap = ~self._pool.star(self._pool.alt(*ignored))
        root = lower(self._builder, self._rules, _START, lambda symbol: (symbol, gap))
        return self._builder.seq(gap, root)

    # --- rules ---------------------------------------------------------------------------------------------------

    def _need(self, name: Name) -> Rule:
        """A rule that is used, on the list once."""
        definition = self._grammar.rules.get(name.name)
        if definition is None:
            self._source.fail(f"the rule {name.name!r} is used but not defined", name.at)
        if definition.parameters:
            self._source.fail(f"the template {name.name!r} needs arguments", name.at)
        if name.name not in self._rules:
            self._rules[name.name] = []
            self._todo.append((name.name, self._code_of(definition), {}))
        return Rule(name.name)

    def _code_of(self, definition: Definition) -> Code:
        """The body of a rule; of one with attributes, the terminal that it makes."""
        if not definition.is_lazy:
            return definition.code
        term = self._term(definition.code)
        if definition.suffix:
            term = self._pool.concat(term, self._term(definition.suffix))
        return [Leaf(~shortest(self._pool, term))]

    def _resolved(self, op: object, arguments: _Arguments) -> Op:
        if isinstance(op, Leaf | Seq | Alt | Times):
            return op
        if isinstance(op, Name):
            if op.name in arguments:
                return arguments[op.name]
            return Leaf(~self._terminal(op)) if op.is_terminal else self._need(op)
        if isinstance(op, Use):
            return self._instance(op, arguments)
        if isinstance(op, Token):
            return Leaf(op.symbol)
        if isinstance(op, Json):
            return Leaf(self._json(op))
        if isinstance(op, And | Not):
            self._source.fail("'&' and '~' belong in terminals, whose names are upper-case", op.at)
        raise TypeError(f"no operation: {op!r}")

    def _instance(self, use: Use, arguments: _Arguments) -> Rule:
        """The rule that a template with arguments stands for, made once."""
        template = self._grammar.rules.get(use.name)
        if template is None or not template.parameters:
            self._source.fail(f"there is no template {use.name!r}", use.at)
        if len(use.arguments) != len(template.parameters):
            wanted = len(template.parameters)
            self._source.fail(f"the template {use.name!r} takes {wanted} arguments", use.at)
        given = tuple(self._resolved(code[0], arguments) for code in use.arguments)
        name = self._instances.get((use.name, given))
        if name is None:
            if len(self._instances) >= _MAX_INSTANCES:
                self._source.refuse("template", f"more than {_MAX_INSTANCES} uses of templates", use.at)
            name = self._instances[use.name, given] = f"{use.name}{{{len(self._instances)}}}"
            self._rules[name] = []
            bound = dict(zip(template.parameters, given, strict=True))
            self._todo.append((name, self._code_of(template), bound))
        return Rule(name)

    def _json(self, op: Json) -> Symbol:
        from radixrt.grammar.json_schema import json_schema_symbol

        try:
            return json_schema_symbol(self._builder, op.schema)
        except RadixrtError as error:
            self._source.blame(error, op.at)

    # --- terminals -----------------------------------------------------------------------------------------------

    def _terminal(self, name: Name) -> Rx:
        """The term of a terminal, made once, after those it is made of."""
        self._check_terminal(name)
        if name.name not in self._terms:
            for [first, *_], is_cyclic in rings(self._terminals_of, name.name):
                definition = self._grammar.terminals[first]
                if is_cyclic:
                    self._source.fail(f"the terminal {first!r} is made of itself", definition.at)
                if first not in self._terms:
                    self._terms[first] = self._term(definition.code)
        return self._terms[name.name]

    def _terminals_of(self, name: str) -> list[str]:
        """The terminals that a terminal is made of, if it is not made yet."""
        if name in self._terms:
            return []
        parts = [op for op in self._grammar.terminals[name].code if isinstance(op, Name) and op.is_terminal]
        for part in parts:
            self._check_terminal(part)
        return [part.name for part in parts]

    def _check_terminal(self, name: Name) -> None:
        if name.name not in self._grammar.terminals:
            self._source.fail(f"the terminal {name.name!r} is used but not defined", name.at)

    def _term(self, code: Code) -> Rx:
        """The term of code in which terminals alone are named."""
        pool = self._pool
        pool.spend(len(code) + 1)
        stack: list[Rx] = []
        for op in code:
            if isinstance(op, Leaf):
                stack.append(term_of(op.symbol))
            elif isinstance(op, Name) and op.is_terminal:
                stack.append(self._terminal(op))
            elif isinstance(op, Not):
                stack.append(self._terminals.complement(stack.pop()))
            elif isinstance(op, Times):
                stack.append(pool.repeat(stack.pop(), op.low, op.high))
            elif isinstance(op, Seq | Alt | And):
                top = stack[len(stack) - op.size :]
                del stack[len(stack) - op.size :]
                join = pool.concat if isinstance(op, Seq) else pool.alt if isinstance(op, Alt) else pool.and_
                stack.append(join(*top))
            elif isinstance(op, Name | Use | Token | Json):
                self._source.fail("a terminal is made of strings, patterns and other terminals", op.at)
            else:
                raise TypeError(f"no operation: {op!r}")
        [term] = stack
        return term
