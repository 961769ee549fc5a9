"""Reading grammars in Lark notation into the definitions of ``lark_syntax.py``.

Groups are read with an explicit stack. Names are not looked up: what they mean, templates included, is for
``lark.py`` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from radixrt.grammar.grammar_text import GrammarText
from radixrt.grammar.lark_scanner import END, Scanner, Word, described
from radixrt.grammar.lark_syntax import (
    And,
    Code,
    Definition,
    Json,
    LarkGrammar,
    LarkOp,
    Name,
    Not,
    Token,
    Use,
)
from radixrt.grammar.lark_terminals import COMMON, LAZY, Terminals
from radixrt.grammar.notation import Alt, Leaf, Seq, Times
from radixrt.grammar.token_symbols import BadSymbol, TokenSymbols

__all__ = ["parse_lark"]


_MAX_NESTED_ARGUMENTS: Final = 32
_MAX_COUNT: Final = 1 << 31
_MARKS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_REFUSED_ATTRIBUTES: Final = ("max_tokens", "temperature", "stop", "stop_capture", "min_tokens")
_REFUSED_DIRECTIVES: Final = ("%declare", "%override", "%extend", "%lark", "%grammar_options")
_HARMLESS_OPTIONS: Final = re.compile(r'\{\s*("no_forcing"\s*:\s*(true|false))?\s*\}')
"""Of llguidance: ``no_forcing`` changes how tokens are found, not which texts there are."""


def parse_lark(
    source: GrammarText, terminals: Terminals, symbols: TokenSymbols, spend: Callable[[int], None]
) -> LarkGrammar:
    """Read a whole grammar; raises ``InvalidRequest`` and ``UnsupportedConstraint`` with line:column.

    ``spend`` takes the fuel for it.
    """
    return _Parser(source, terminals, symbols, spend).parse()


class _Open:
    """A group, or the body of a definition, that is being read."""

    def __init__(self, closer: str, at: int, negations: Sequence[int] = ()) -> None:
        self.closer = closer
        self.at = at
        self.negations = negations
        self.options = 0
        self.conjuncts = 0
        self.parts = 0


class _Parser:
    def __init__(
        self, source: GrammarText, terminals: Terminals, symbols: TokenSymbols, spend: Callable[[int], None]
    ) -> None:
        self._source = source
        self._spend = spend
        self._words = Scanner(source, spend)
        self._terminals = terminals
        self._symbols = symbols
        self._code: list[LarkOp] = []
        self._found = LarkGrammar({}, {}, [])

    def parse(self) -> LarkGrammar:
        words = self._words
        words.skip_lines()
        while words.word.kind != END:
            word = words.word
            if word.kind.startswith("%"):
                self._statement(words.next())
            else:
                self._definition()
            words.skip_lines()
        return self._found

    # --- statements ----------------------------------------------------------------------------------------------

    def _statement(self, word: Word) -> None:
        if word.kind == "%ignore":
            self._found.ignored.append(self._body())
        elif word.kind == "%import":
            self._import(word)
        elif word.kind == "%llguidance":
            if not _HARMLESS_OPTIONS.fullmatch(word.text):
                self._source.refuse("%llguidance", "options of another engine are not known", word.at)
        elif word.kind in _REFUSED_DIRECTIVES:
            self._source.refuse(word.kind, f"{word.kind} is not supported", word.at)
        else:
            self._source.fail(f"expected a definition or a statement, not {word.kind!r}", word.at)

    def _import(self, directive: Word) -> None:
        words = self._words
        path = []
        if words.word.kind == ".":
            self._source.refuse("%import", "other files are not read", directive.at)
        while True:
            path.append(self._name("a name to import"))
            if not words.take("."):
                break
        if words.take("("):
            module, names = path, [self._name("a terminal")]
            while words.take(","):
                names.append(self._name("a terminal"))
            words.expect(")", "','  or ')'")
            aliases = names
        else:
            module, names = path[:-1], path[-1:]
            aliases = [self._name("a name")] if words.take("->") else names
        if [word.text for word in module] != ["common"]:
            self._source.refuse("%import", "there is no library but common", directive.at)
        for name, alias in zip(names, aliases, strict=True):
            if name.text in LAZY:
                why = f"{name.text} matches as much as lets the next part match: write the string out"
                self._source.refuse("lazy repetition", why, name.at)
            if name.text not in COMMON:
                self._source.fail(f"the library common has no terminal {name.text!r}", name.at)
            term = self._terminals.common(name.text)
            self._define(self._found.terminals, alias, Definition([Leaf(~term)], alias.at))
        self._end_of_line()

    def _name(self, what: str) -> Word:
        word = self._words.next()
        if word.kind not in ("rule", "terminal"):
            self._source.fail(f"expected {what}, not {described(word)}", word.at)
        return word

    # --- definitions ---------------------------------------------------------------------------------------------

    def _definition(self) -> None:
        words = self._words
        while words.take("!") or words.take("?"):  # they shape Lark's trees, nothing else
            pass
        name = self._name("a rule, a terminal or a statement")
        if words.word.kind == "::":
            self._source.refuse("parametric rule", "rules with parameters are not supported", name.at)
        parameters = self._parameters(name) if words.take("{") else ()
        if words.take("."):
            words.expect("number", "a priority")  # which of two readings a tree shows, not which texts there are
        is_lazy, suffix = self._attributes(name) if words.take("[") else (False, ())
        words.expect(":", "':'")
        home = self._found.rules if name.kind == "rule" else self._found.terminals
        self._define(home, name, Definition(self._body(), name.at, parameters, is_lazy, suffix))

    def _define(self, home: dict[str, Definition], name: Word, definition: Definition) -> None:
        self._spend(10)
        if name.text in home:
            self._source.fail(f"{name.text!r} is defined twice", name.at)
        home[name.text] = definition

    def _parameters(self, name: Word) -> tuple[str, ...]:
        if name.kind != "rule":
            self._source.refuse("template", "a template is a rule, not a terminal", name.at)
        found = [self._name("a parameter")]
        while self._words.take(","):
            found.append(self._name("a parameter"))
        self._words.expect("}", "',' or '}'")
        texts = tuple(word.text for word in found)
        if len(set(texts)) < len(texts):
            self._source.fail("a template names a parameter twice", name.at)
        return texts

    def _attributes(self, name: Word) -> tuple[bool, Code]:
        if name.kind != "rule":
            self._source.fail("terminals have no attributes", name.at)
        is_lazy = False
        suffix: Code = ()
        while True:
            key = self._words.expect("rule", "an attribute")
            if key.text in _REFUSED_ATTRIBUTES:
                self._source.refuse(key.text, f"the attribute {key.text} is not supported", key.at)
            if key.text == "lazy":
                is_lazy = True
            elif key.text == "suffix":
                self._words.expect("=", "'='")
                is_lazy, suffix = True, tuple(self._value(0))
            elif key.text == "capture":  # says what a reader keeps of the text, not which texts there are
                if self._words.take("="):
                    self._words.expect("string", "a name in quotes")
            else:
                self._source.fail(f"the attribute {key.text!r} is not known", key.at)
            if not self._words.take(","):
                break
        self._words.expect("]", "',' or ']'")
        return is_lazy, suffix

    # --- bodies --------------------------------------------------------------------------------------------------

    def _body(self) -> Code:
        """Read alternatives up to the end of the definition."""
        code: list[LarkOp] = []
        self._code = code
        words = self._words
        stack = [_Open("", words.word.at)]
        negations: list[int] = []
        while True:
            group, word = stack[-1], words.word
            if negations and word.kind in ("|", "&", "->", ")", "]", "newline", END):
                self._source.fail("'~' stands before what it excludes", negations[-1])
            if word.kind in ("|", "&"):
                words.next()
                end = self._end_option if word.kind == "|" else self._end_conjunct
                end(group)
                if group.closer:
                    words.skip_lines()
            elif word.kind == "->":
                words.next()
                self._name("an alias")
                if words.word.kind not in ("|", ")", "]", "newline", END):
                    self._source.fail("an alias stands at the end of an alternative", word.at)
            elif word.kind in ("(", "["):
                words.next()
                stack.append(_Open(")" if word.kind == "(" else "]", word.at, negations))
                negations = []
                words.skip_lines()
            elif word.kind in (")", "]"):
                if word.kind != group.closer:
                    self._source.fail(f"unbalanced {word.kind}", word.at)
                words.next()
                self._end_group(stack.pop())
                stack[-1].parts += 1
            elif word.kind in ("newline", END):
                if self._goes_on(group):
                    continue
                self._end_alternatives(group)
                return code
            elif word.kind == "~":
                negations.append(words.next().at)
            else:
                is_run = self._atom()
                code.extend(map(Not, negations))
                negations = []
                group.parts += 1
                self._repeated(is_run)

    def _goes_on(self, group: _Open) -> bool:
        """At the end of a line: whether the definition goes on in the next."""
        words = self._words
        at = words.word.at
        words.skip_lines()
        if words.word.kind == "|":
            return True
        if group.closer and words.word.kind == END:
            self._source.fail(f"missing {group.closer}", group.at)
        return bool(group.closer) and at != words.word.at

    def _end_conjunct(self, group: _Open) -> None:
        if group.parts != 1:
            self._code.append(Seq(group.parts))
        group.conjuncts += 1
        group.parts = 0

    def _end_option(self, group: _Open) -> None:
        self._end_conjunct(group)
        if group.conjuncts > 1:
            self._code.append(And(group.conjuncts, group.at))
        group.options += 1
        group.conjuncts = 0

    def _end_alternatives(self, group: _Open) -> None:
        self._end_option(group)
        if group.options > 1:
            self._code.append(Alt(group.options))

    def _end_group(self, group: _Open) -> None:
        self._end_alternatives(group)
        if group.closer == "]":
            self._code.append(Times(0, 1))
        self._code.extend(map(Not, group.negations))
        self._repeated(False)

    def _atom(self) -> bool:
        """Read one value. True if it is a token symbol that has to be repeated."""
        if self._words.word.kind != "symbol":
            self._code.extend(self._value(0))
            return False
        word = self._words.next()
        try:
            found = self._symbols.read(word.text, 0)
        except BadSymbol as error:
            if error.keyword:
                self._source.refuse(error.keyword, error.problem, word.at)
            self._source.fail(error.problem, word.at)
        self._code.append(Token(~found.term, word.at))
        return found.is_run

    def _value(self, depth: int) -> list[LarkOp]:
        """Read a string, a pattern, a range, a name, a template with arguments, or a schema."""
        words = self._words
        word = words.next()
        if word.kind == "string":
            if words.take(".."):
                last = words.expect("string", "the last character of a range")
                return [Leaf(~self._terminals.range(word, last))]
            return [Leaf(~self._terminals.string(word))]
        if word.kind == "regex":
            return [Leaf(~self._terminals.pattern(word))]
        if word.kind == "%regex":
            return [Leaf(~self._terminals.structured(word))]
        if word.kind == "%json":
            return [Json(word.text, word.at)]
        if word.kind == "reference":
            self._source.refuse("grammar reference", "a grammar stands alone", word.at)
        if word.kind in _REFUSED_DIRECTIVES:
            self._source.refuse(word.kind, f"{word.kind} is not supported", word.at)
        if word.kind not in ("rule", "terminal"):
            self._unexpected(word)
        if words.word.kind == "{" and words.second().kind not in (",", "number"):
            if word.kind != "rule":
                self._source.refuse("template", "a template is a rule, not a terminal", word.at)
            return [Use(word.text, self._arguments(word, depth), word.at)]
        return [Name(word.text, word.kind == "terminal", word.at)]

    def _arguments(self, name: Word, depth: int) -> tuple[Code, ...]:
        if depth >= _MAX_NESTED_ARGUMENTS:
            self._source.refuse("nesting", f"templates nested more than {depth} deep", name.at)
        self._words.expect("{", "'{'")
        found = [tuple(self._value(depth + 1))]
        while self._words.take(","):
            found.append(tuple(self._value(depth + 1)))
        self._words.expect("}", "',' or '}'")
        return tuple(found)

    def _repeated(self, is_run: bool) -> None:
        """Apply the repetition marks that follow. A run must be repeated without an upper bound first."""
        words = self._words
        while True:
            word = words.word
            low: int = 1
            high: int | None = 1
            if word.kind in _MARKS:
                words.next()
                low, high = _MARKS[word.kind]
            elif word.kind == "~" and words.second().kind == "number":
                words.next()
                low = high = self._count()
                if words.take(".."):
                    high = self._count()
            elif word.kind == "{":
                low, high = self._bounds()
            elif not is_run:
                return
            if is_run and (low > 1 or high is not None):
                self._source.refuse("token symbol", "any token but some must be repeated with * or +", word.at)
            if high is not None and high < low:
                self._source.fail("the bounds of a repetition are out of order", word.at)
            is_run = False
            self._code.append(Times(low, high))

    def _bounds(self) -> tuple[int, int | None]:
        words = self._words
        words.expect("{", "'{'")
        low = self._count() if words.word.kind == "number" else 0
        high: int | None = low
        if words.take(","):
            high = self._count() if words.word.kind == "number" else None
        words.expect("}", "'}'")
        return low, high

    def _count(self) -> int:
        word = self._words.expect("number", "a number")
        digits = word.text.lstrip("0") or "0"
        if not word.text.isdigit():
            self._source.fail(f"a repetition is counted from 0 to {_MAX_COUNT}", word.at)
        if len(digits) > len(str(_MAX_COUNT)) or int(digits) > _MAX_COUNT:
            self._source.refuse("repetition", f"a repetition is counted from 0 to {_MAX_COUNT}", word.at)
        return int(digits)

    def _end_of_line(self) -> None:
        word = self._words.word
        if word.kind not in ("newline", END):
            self._source.fail(f"expected the end of the line, not {described(word)}", word.at)

    def _unexpected(self, word: Word) -> NoReturn:
        self._source.fail(f"unexpected {described(word)}", word.at)
