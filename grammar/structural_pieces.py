"""What all formats of a structural tag share: what follows them, free text, tokens, series of tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.free_text import FreeText
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.structural_fields import Fields, wrong
from radixrt.grammar.token_symbols import BadSymbol, TokenSymbols

__all__ = ["NOTHING", "Follow", "Format", "Pieces"]


class Follow(NamedTuple):
    """What ends a format: one of some strings (``""``: nothing has to), or one of some tokens.

    The strings are part of what a format gives back, the tokens are not, nor is ``before``, the text that the next
    format begins with: it ends free text only where that excludes it. ``avoid`` are strings that end what is around
    the format, so that free text in it must not hold them.
    """

    ends: tuple[str, ...] = ("",)
    tokens: tuple[int, ...] = ()
    before: str = ""
    avoid: tuple[str, ...] = ()

    @property
    def finals(self) -> list[str]:
        """The ends that are no empty strings."""
        return [end for end in self.ends if end]

    @property
    def stops(self) -> list[str]:
        """The strings that free text has to look out for."""
        return [*self.avoid, *self.finals]

    def inside(self, before: str = "") -> Follow:
        """What a part of a format is followed by, if it is not its last."""
        return Follow(tokens=self.tokens, before=before, avoid=tuple(dict.fromkeys(self.stops)))


NOTHING: Final = Follow()
_FORMAT_WORK: Final = 40
"""What reading a format costs, in operations on terms."""

Format: TypeAlias = Callable[[Fields, Follow], Symbol]
"""Gives the symbol of a format and the end that follows it."""


class Pieces:
    """The tools of one compilation. ``formats`` are the formats by type; each module adds its own."""

    def __init__(self, builder: GrammarBuilder, limits: GrammarLimits, symbols: TokenSymbols) -> None:
        self.builder = builder
        self.pool = builder.pool
        self.limits = limits
        self.symbols = symbols
        self.formats: dict[str, Format] = {}
        self._free: dict[tuple[tuple[str, ...], Follow, int | None], Symbol] = {}

    def format(self, value: JsonValue, pointer: str, follow: Follow = NOTHING) -> Symbol:
        """Any format, with the end that follows it."""
        self.pool.spend(_FORMAT_WORK)
        fields = Fields(value, pointer)
        kind = fields.text("type")
        read = self.formats.get(kind)
        if read is None:
            raise UnsupportedConstraint(
                f"the format {kind!r} at {fields.at('type')} is not supported",
                keyword=kind,
                location=fields.at("type"),
                param="grammar",
            )
        symbol = read(fields, follow)
        fields.done()
        return symbol

    def then(self, symbol: Symbol, follow: Follow) -> Symbol:
        """A format that has an end of its own, and what follows it."""
        ends = self.pool.one_of([end.encode() for end in follow.ends])
        return self.builder.seq(symbol, self.builder.terminal(ends))

    def free(self, stops: Sequence[str], follow: Follow, max_chars: int | None = None) -> Symbol:
        """Free text without ``stops``: to the first of the ends that follow, or to anywhere if none has to."""
        key = (tuple(stops), follow, max_chars)
        if key not in self._free:
            self._free[key] = self._new_free(stops, follow, max_chars)
        return self._free[key]

    def _new_free(self, stops: Sequence[str], follow: Follow, max_chars: int | None) -> Symbol:
        text = FreeText(self.pool, (*stops, *follow.stops), max_chars)
        ways = [self.builder.terminal(text.up_to(follow.finals))] if follow.finals else []
        if "" in follow.ends:
            rest = text.before(follow.before) if follow.before in stops else text.rest
            ways.append(self.builder.terminal(rest))
        return self.builder.alt(*ways)

    def series(self, fields: Fields, at_once: Symbol, opened: Symbol, tail: Symbol, follow: Follow) -> Symbol:
        """Tags in free text as two flags want it. The first one that has to come comes without text before it.

        ``at_once`` is a tag, ``opened`` one with the text before it, ``tail`` the text behind all of them.
        """
        builder = self.builder
        first = fields.flag("at_least_one")
        if fields.flag("stop_after_first"):
            return self.then(at_once, follow) if first else builder.alt(tail, self.then(opened, follow))
        more = builder.seq(builder.star(opened), tail)
        return builder.seq(at_once, more) if first else more

    def rules(self, fields: Fields) -> list[tuple[tuple[JsonValue, str], tuple[JsonValue, str]]]:
        """Pairs of a pattern and a format, all with their pointers."""
        found = []
        for item, pointer in fields.items("rules"):
            if not isinstance(item, list) or len(item) != 2:
                wrong(pointer, "expected a pair of a pattern and a format")
            found.append(((item[0], f"{pointer}/0"), (item[1], f"{pointer}/1")))
        if not found:
            wrong(fields.at("rules"), "there must be at least one rule")
        return found

    # --- tokens --------------------------------------------------------------------------------------------------

    def token_id(self, value: JsonValue, pointer: str) -> int:
        """The token that an id or a spelling names."""
        if isinstance(value, str):
            try:
                return self.symbols.find(value)
            except BadSymbol as error:
                bad_symbol(error, pointer)
        if type(value) is not int:
            wrong(pointer, "expected a token: its id or its spelling")
        return value

    def token(self, token: int, pointer: str) -> Symbol:
        """The symbol of one token."""
        try:
            return self.builder.terminal(self.symbols.one(token))
        except BadSymbol as error:
            bad_symbol(error, pointer)

    def token_of(self, value: JsonValue, pointer: str) -> tuple[int, Symbol]:
        """A format that must be a token."""
        fields = Fields(value, pointer)
        if fields.text("type") != "token":
            wrong(fields.at("type"), "expected 'token'")
        token = self.token_id(fields.raw("token"), fields.at("token"))
        fields.done()
        return token, self.token(token, fields.at("token"))

    def check_special(self, token: int, pointer: str) -> None:
        """Refuse to leave out a token that is no special one."""
        self.token(token, pointer)
        try:
            self.symbols.check_special(token)
        except BadSymbol as error:
            bad_symbol(error, pointer)

    def other_tokens(self, tokens: Sequence[int], follow: Follow, pointer: str) -> Symbol:
        """Any number of tokens, text and special ones, but for some and for those that follow."""
        for token in (*tokens, *follow.tokens):
            self.token(token, pointer)
        try:
            term = self.symbols.none_of((token, token) for token in (*tokens, *follow.tokens))
        except BadSymbol as error:
            bad_symbol(error, pointer)
        return self.builder.terminal(self.pool.star(term))


def bad_symbol(error: BadSymbol, pointer: str) -> NoReturn:
    """Raise what is wrong with a token symbol."""
    if error.keyword:
        raise UnsupportedConstraint(
            f"{error.problem} (in the structural tag at {pointer})",
            keyword=error.keyword,
            location=pointer,
            param="grammar",
        ) from error
    wrong(pointer, error.problem)
