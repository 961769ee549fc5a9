"""Formats at the level of tokens: special tokens as begins, ends and triggers, and whatever tokens between them."""

from __future__ import annotations

from collections.abc import Iterable

from radixrt.grammar.cfg import Symbol
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.structural_fields import Fields, wrong
from radixrt.grammar.structural_pieces import NOTHING, Follow, Pieces
from radixrt.grammar.structural_tags import TagFormats, read_tags

__all__ = ["TokenFormats"]


class TokenFormats:
    """``token``, ``any_tokens``, ``token_triggered_tags`` and ``token_dispatch``."""

    def __init__(self, pieces: Pieces, tags: TagFormats) -> None:
        self._pieces = pieces
        self._builder = pieces.builder
        self._tags = tags
        pieces.formats.update(
            {
                "token": self._token,
                "any_tokens": self._any_tokens,
                "token_triggered_tags": self._token_triggered_tags,
                "token_dispatch": self._token_dispatch,
            }
        )

    def _token(self, fields: Fields, follow: Follow) -> Symbol:
        token = self._pieces.token_id(fields.raw("token"), fields.at("token"))
        return self._pieces.then(self._pieces.token(token, fields.at("token")), follow)

    def _any_tokens(self, fields: Fields, follow: Follow) -> Symbol:
        fields.refuse("max_tokens", "how many tokens a text makes is not part of a grammar")
        excluded = self._excluded(fields)
        return self._pieces.then(self._pieces.other_tokens(excluded, follow, fields.pointer), follow)

    def _token_triggered_tags(self, fields: Fields, follow: Follow) -> Symbol:
        builder = self._builder
        triggers = self._special(fields.items("trigger_tokens"))
        excluded = self._excluded(fields)
        opened = set()
        ways = []
        for tag in read_tags(fields):
            token, _ = self._pieces.token_of(tag.raw("begin"), tag.at("begin"))
            if token not in triggers:
                wrong(tag.at("begin"), "the token is not among the trigger_tokens")
            opened.add(token)
            ways.append(self._tags.tag(tag))
        if opened != set(triggers):
            wrong(fields.at("trigger_tokens"), "no tag begins with one of the tokens")
        at_once = builder.alt(*ways)
        text = self._pieces.other_tokens((*triggers, *excluded), follow, fields.pointer)
        tail = self._pieces.then(text, follow)
        return self._pieces.series(fields, at_once, builder.seq(text, at_once), tail, follow)

    def _token_dispatch(self, fields: Fields, follow: Follow) -> Symbol:
        builder, pieces = self._builder, self._pieces
        rules = pieces.rules(fields)
        triggers = self._special(trigger for trigger, _ in rules)
        excluded = self._excluded(fields)
        loop = fields.flag("loop", True)
        text = pieces.other_tokens((*triggers, *excluded), follow, fields.pointer)
        ways = []
        for token, ((_, pointer), (content, place)) in zip(triggers, rules, strict=True):
            body = pieces.format(content, place, NOTHING if loop else follow)
            ways.append(builder.seq(text, pieces.token(token, pointer), body))
        tail = pieces.then(text, follow)
        one = builder.alt(*ways)
        return builder.seq(builder.star(one), tail) if loop else builder.alt(one, tail)

    def _excluded(self, fields: Fields) -> list[int]:
        """The tokens that text must not hold. It holds none that ends texts: naming one changes nothing."""
        found = []
        for item, pointer in fields.items("exclude_tokens", ()):
            token = self._pieces.token_id(item, pointer)
            if not self._pieces.symbols.is_end(token):
                self._pieces.check_special(token, pointer)
                found.append(token)
        return found

    def _special(self, items: Iterable[tuple[JsonValue, str]]) -> list[int]:
        """Tokens that text between them must not hold, so that each has to be a special one."""
        found = []
        for item, pointer in items:
            token = self._pieces.token_id(item, pointer)
            self._pieces.check_special(token, pointer)
            found.append(token)
        return found
